"""Everything that can be seen of one call of a kernel, in a form that compares bit by bit."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

import torch
from torch import Tensor

from tests.right.arguments import Call
from tests.right.probes import Probe
from tests.right.recipe import Kernel

Observation = tuple[Hashable, ...]


def arguments(call: Call) -> dict[str, Tensor]:
    return {name: x for name, x in vars(call).items() if isinstance(x, Tensor)}


def content(x: Tensor) -> Observation:
    return x.dtype, x.shape, x.contiguous().view(torch.uint8).numpy().tobytes()


def memory(x: Tensor) -> bytes:
    """The bytes of the whole piece of memory that x is a view of."""
    return torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage()).numpy().tobytes()


def owners(outputs: tuple[Tensor, ...], call: Call) -> Observation:
    """For each output the earlier outputs and the arguments whose memory it shares."""
    known = {name: x.untyped_storage().data_ptr() for name, x in arguments(call).items() if x.numel()}
    shared: list[Hashable] = []
    for number, x in enumerate(outputs):
        here = x.untyped_storage().data_ptr()
        shared.append(frozenset(name for name, there in known.items() if there == here))
        known |= {f"output {number}": here} if x.numel() else {}
    return tuple(shared)


def observe(kernel: Kernel, probes: Iterable[Probe]) -> Iterator[Observation]:
    """One observation a call.

    It holds what was raised or came back, whose memory that is, all arguments' memory afterwards, and the
    outputs of the call before as they are now.
    """
    before: tuple[Tensor, ...] = ()
    for probe in probes:
        call = probe()
        outputs: tuple[Tensor, ...] = ()
        raised = ""
        try:
            outputs = kernel(**vars(call))
        except Exception as error:
            raised = repr(error)
        yield (
            raised,
            tuple(map(content, outputs)),
            owners(outputs, call),
            tuple(map(memory, arguments(call).values())),
            tuple(map(content, before)),
        )
        before = outputs
