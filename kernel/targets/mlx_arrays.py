"""MLX arrays from torch tensors and back, bit for bit, and a call through them.

Floats cross as integers of their width: no conversion can make a signalling NaN quiet or flush a subnormal.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernel.call import POOLS, Call
from kernel.memory import INTEGER, MARGIN_BYTES, Overwritten, bits, pattern
from kernel.targets.base import Answer, TargetError

INSTALL = "pip install mlx on a Mac with Apple silicon, pip install 'mlx[cpu]' on Linux"


def library() -> Any:
    """The module mlx.core; importing it starts no thread and touches no device, so that a fork survives it.

    Raises:
        TargetError: it is not installed, or does not load.
    """
    try:
        return importlib.import_module("mlx.core")
    except ImportError as error:
        raise TargetError(f"the MLX targets need mlx ({error}): {INSTALL}") from error


@dataclass(frozen=True)
class Held:
    """An MLX array with the values and strides of a tensor, in memory of its own that the caller keeps.

    Args:
        tensor: what the array was made from.
        memory: the integers [margin, whatever lies from the tensor's first element to its last, margin].
        array: the tensor's elements in `memory`, not evaluated.
    """

    tensor: Tensor
    memory: Any
    array: Any

    @classmethod
    def of(cls, mx: Any, tensor: Tensor) -> Held:
        memory = mx.array(_amid_margins(tensor))
        return cls(tensor, memory, _view(mx, memory, tensor))

    def seen(self) -> Tensor:
        """The memory as it is now, in place: integers."""
        return torch.from_numpy(np.array(self.memory, copy=False))

    def holds(self, other: Any) -> bool:
        """Whether `other` is a tensor that starts in this memory."""
        seen = self.seen()
        return isinstance(other, Tensor) and 0 <= other.data_ptr() - seen.data_ptr() < seen.nbytes

    def give_back(self) -> None:
        """Whatever was written to the array, written to the tensor too."""
        first = MARGIN_BYTES // self.tensor.element_size()
        span = _span(self.tensor)
        span.copy_(self.seen()[first : first + len(span)])

    def overwritten(self, name: str) -> Overwritten | None:
        """What was written to the margins, if anything."""
        margin = MARGIN_BYTES // self.tensor.element_size()
        outside = self.seen() != pattern(self.tensor.element_size())
        outside[margin : len(outside) - margin] = False
        where = outside.nonzero()
        return Overwritten(name, len(where), int(where[0]) - margin) if len(where) else None


def temporary(mx: Any, tensor: Tensor) -> Any:
    """An MLX array with the values and strides of `tensor` that nobody else holds: MLX may reuse its memory."""
    return _view(mx, mx.array(_amid_margins(tensor)), tensor)


def to_torch(mx: Any, array: Any) -> Any:
    """The tensor in the memory of an evaluated MLX array; what is no MLX array comes back as it is."""
    if not isinstance(array, mx.array):
        return array
    integers = array.view(getattr(mx, _name(INTEGER[array.itemsize])))
    return torch.from_numpy(np.array(integers, copy=False)).view(getattr(torch, str(array.dtype).rpartition(".")[2]))


def call_through(mx: Any, function: Callable[..., Any], call: Call) -> Answer:
    """Call `function` as the public call, with MLX arrays, and evaluate what it returns, once.

    The arrays are held while it runs; of a `donated` call they are temporaries. The pools come back in MLX's memory,
    fresh as far as the caller's tensors go. Whatever else was written to held arrays is written to the tensors too.
    Raises what `function` and the evaluation raise.
    """
    if call.donated:
        outputs = function(*(temporary(mx, tensor) for _, tensor in call.tensors()), **call.arguments())
        return Answer(_evaluated(mx, outputs))
    held = {name: Held.of(mx, tensor) for name, tensor in call.tensors()}
    returned: Any = None
    try:
        returned = _evaluated(mx, function(*(each.array for each in held.values()), **call.arguments()))
    finally:
        # MLX rebinds pools: a held one may be what comes back, or must be as it was.
        pools = returned[2:] if isinstance(returned, tuple) else ()
        rebound = [n for n, pool in zip(POOLS, pools, strict=False) if held[n].holds(pool)]
        for name, each in held.items():
            if name not in rebound:
                each.give_back()
    found = (each.overwritten(name) for name, each in held.items())
    return Answer(returned, tuple(one for one in found if one))


def _evaluated(mx: Any, outputs: Any) -> Any:
    mx.eval(outputs)
    return tuple(to_torch(mx, output) for output in outputs) if isinstance(outputs, tuple | list) else outputs


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _span(tensor: Tensor) -> Tensor:
    """The integers from the tensor's first element to its last, in place."""
    steps = ((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    length = 1 + sum(steps) if tensor.numel() else 0
    return bits(tensor).as_strided((length,), (1,), tensor.storage_offset())


def _amid_margins(tensor: Tensor) -> Any:
    size = tensor.element_size()
    margin = torch.full((MARGIN_BYTES // size,), pattern(size), dtype=INTEGER[size])
    return torch.cat((margin, _span(tensor), margin)).numpy()


def _view(mx: Any, memory: Any, tensor: Tensor) -> Any:
    # MLX has float64 on the CPU only; the call is to refuse it, not this.
    stream = mx.cpu if tensor.dtype == torch.float64 else None
    elements = mx.view(memory, getattr(mx, _name(tensor.dtype)), stream=stream)
    first = MARGIN_BYTES // tensor.element_size()
    return mx.as_strided(elements, tuple(tensor.shape), tensor.stride(), first, stream=stream)
