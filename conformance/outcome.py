"""What one call was seen to do: its outputs or its error, and everything observed beside them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import torch
from torch import Tensor

from conformance.case import Case
from conformance.inputs import Inputs, build
from conformance.placement import Change, Placed
from kernel.memory import bits
from kernel.targets import Answer, DeviceLostError, Target

_REMEMBERED = 3
NOT_MADE = "was not made"
OUTPUTS = ("q_rot", "k_rot", "k_pool_new", "v_pool_new")


@dataclass(frozen=True)
class PoolAfter:
    """A returned pool, told by the rows in which it differs from the given one."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    in_place: bool
    """Whether it is the given pool, or lies in fresh memory."""
    rows: Tensor
    """[n] int64, rising; empty when the shapes differ."""
    data: Tensor
    """[n, num_kv_heads, head_dim]."""


@dataclass(frozen=True)
class Raised:
    """An exception: its type's name, whether it is a ValueError, its text."""

    type: str
    is_value_error: bool
    text: str


@dataclass(frozen=True)
class Outcome:
    """Exactly one of `outputs`, `raised`, `malformed` and `died` is set."""

    outputs: dict[str, Tensor] | None = None
    """q_rot and k_rot, dense copies."""
    pools: dict[str, PoolAfter] | None = None
    """k_pool and v_pool as returned; set when `outputs` is."""
    raised: Raised | None = None
    malformed: str = ""
    """What came back in place of four arrays."""
    died: str = ""
    """How the process ended: crash or hang."""
    changes: tuple[Change, ...] = ()
    """What the call changed in the buffers that it was given and in their surroundings."""
    aliases: tuple[str, ...] = ()
    """Pairs of arrays that share memory, q_rot or k_rot one of them."""
    disturbed: tuple[str, ...] = ()
    """Outputs of the last calls that this call changed."""

    @property
    def was_not_made(self) -> bool:
        """Whether the worker had given up on the target."""
        return self.died.startswith(NOT_MADE)


class Observer:
    """Makes calls of one target in this process and tells what each did, to earlier results too."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._earlier: deque[list[tuple[str, Tensor, Tensor]]] = deque(maxlen=_REMEMBERED)
        """Name, array and copy of what the last calls returned."""
        self._kept: dict[str, Placed] = {}
        """What the last call was given, by name."""

    def observe(self, case: Case) -> Outcome:
        """Make the call of `case`. What the target raises is in the Outcome; other errors are the suite's own."""
        inputs = self._in_kept_memory(build(case)) if case.memory == "kept" else build(case)
        self._kept = inputs.placed
        before = {name: placed.snapshot() for name, placed in inputs.placed.items()}
        arrays = {name: _identity(tensor) for name, tensor in inputs.call.tensors()}
        answer, raised = None, None
        try:
            answer = self._target.run(inputs.call, case.launch_plan)
        except DeviceLostError as lost:
            return Outcome(died=str(lost))
        except BaseException as error:
            raised = Raised(type(error).__name__, isinstance(error, ValueError), _text(error))
        changes = _changed_arrays(inputs, arrays)
        changes += [c for name, placed in inputs.placed.items() for c in placed.changes(name, before[name])]
        disturbed = self._disturbed()
        if answer is None:
            return Outcome(raised=raised, changes=tuple(changes), disturbed=disturbed)
        changes += [Change(o.buffer, o.where, o.count, o.first) for o in answer.overwritten]
        malformed = _malformed(answer)
        if malformed:
            return Outcome(malformed=malformed, changes=tuple(changes), disturbed=disturbed)
        returned = dict(zip(OUTPUTS, (t.detach() for t in answer.outputs), strict=True))
        outputs = {name: returned[name].contiguous().clone() for name in OUTPUTS[:2]}
        pools = {n: _pool_after(inputs.placed[n], before[n], returned[f"{n}_new"]) for n in ("k_pool", "v_pool")}
        aliases = _aliases(returned, {name: placed.tensor for name, placed in inputs.placed.items()})
        fresh = {f"{name}_new": returned[f"{name}_new"] for name, pool in pools.items() if not pool.in_place}
        copies = {**outputs, **{name: pool.contiguous().clone() for name, pool in fresh.items()}}
        self._earlier.append([(name, returned[name], copy) for name, copy in copies.items()])
        return Outcome(outputs, pools, changes=tuple(changes), aliases=aliases, disturbed=disturbed)

    def _in_kept_memory(self, inputs: Inputs) -> Inputs:
        """The same call with the arrays of the last one refilled, wherever shape and dtype allow."""
        placed = dict(inputs.placed)
        for name, new in inputs.placed.items():
            old = self._kept.get(name)
            if old and old.tensor.shape == new.tensor.shape and old.tensor.dtype == new.tensor.dtype:
                bits(old.tensor).copy_(bits(new.tensor))
                placed[name] = old
        return Inputs(inputs.call.but(**{name: p.tensor for name, p in placed.items()}), placed)

    def _disturbed(self) -> tuple[str, ...]:
        """Earlier outputs that have changed; each is told once."""
        found = []
        for outputs in self._earlier:
            for name, array, copy in outputs:
                if not torch.equal(bits(array), bits(copy)):
                    found.append(name)
                    bits(copy).copy_(bits(array))
        return tuple(found)


def _identity(t: Tensor) -> tuple[object, ...]:
    return t.data_ptr(), tuple(t.shape), t.stride(), t.dtype, t.requires_grad


def _changed_arrays(inputs: Inputs, before: dict[str, tuple[object, ...]]) -> list[Change]:
    """Arrays that are not what they were: another shape, other strides, other memory."""
    return [Change(n, "itself", 1, 0) for n, tensor in inputs.call.tensors() if _identity(tensor) != before[n]]


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:
        return f"(its text cannot be had: {type(broken).__name__})"


def _aliases(returned: dict[str, Tensor], given: dict[str, Tensor]) -> tuple[str, ...]:
    """q_rot and k_rot against every other array: `q_rot and q`, ..."""
    others = {**given, **returned}
    pairs = [(name, other) for name in OUTPUTS[:2] for other in others if other != name]
    overlapping = (f"{a} and {b}" for a, b in pairs if _overlap(returned[a], others[b]))
    return tuple(overlapping)


def _overlap(a: Tensor, b: Tensor) -> bool:
    """Whether two arrays have a byte in common; by address, as an array may come back through another library."""
    (a_first, a_end), (b_first, b_end) = _span(a), _span(b)
    first, end = max(a_first, b_first), min(a_end, b_end)
    if first >= end:
        return False
    marks = torch.zeros(max(a_end, b_end) - min(a_first, b_first), dtype=torch.bool)
    views = [_bytes(marks, t, min(a_first, b_first)) for t in (a, b)]
    views[0].fill_(True)
    return bool(views[1].any())


def _span(t: Tensor) -> tuple[int, int]:
    """First address of an array's elements, and the one past the last."""
    if not t.numel():
        return 0, 0
    elements = 1 + sum((size - 1) * stride for size, stride in zip(t.shape, t.stride(), strict=True))
    return t.data_ptr(), t.data_ptr() + elements * t.element_size()


def _bytes(memory: Tensor, t: Tensor, first: int) -> Tensor:
    """The bytes of `t` in `memory`, whose first element stands for the address `first`."""
    size = t.element_size()
    return memory.as_strided((*t.shape, size), (*(size * stride for stride in t.stride()), 1), t.data_ptr() - first)


def _pool_after(given: Placed, before: Tensor, pool: Tensor) -> PoolAfter:
    first = given.storage.data_ptr()
    in_place = first <= pool.data_ptr() < first + given.storage.numel() * given.storage.element_size()
    comparable = pool.shape == given.tensor.shape and pool.dtype == given.tensor.dtype and pool.ndim == 3
    rows = given.changed_rows(pool, before) if comparable else torch.empty(0, dtype=torch.int64)
    data = pool[rows].contiguous() if comparable else torch.empty(0)
    return PoolAfter(tuple(pool.shape), pool.dtype, in_place, rows, data)


def _malformed(answer: Answer) -> str:
    outputs = answer.outputs
    if not isinstance(outputs, tuple | list) or len(outputs) != len(OUTPUTS):
        length = f" of {len(outputs)}" if isinstance(outputs, tuple | list) else ""
        return f"{type(outputs).__name__}{length} in place of (q_rot, k_rot, k_pool_new, v_pool_new)"
    for name, output in zip(OUTPUTS, outputs, strict=True):
        if not isinstance(output, torch.Tensor):
            return f"{name} is a {type(output).__name__}, not a tensor"
        if output.layout != torch.strided or output.device.type != "cpu" or output.element_size() > 8:
            return f"{name} is a {output.layout} {output.dtype} tensor on {output.device}, not a dense one on the CPU"
    return ""
