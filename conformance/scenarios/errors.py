"""Calls that break the contract: every cause of every documented error, and every two causes at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.case import Case
from conformance.fault import shaped
from conformance.profile import Profile
from conformance.situations import SITUATIONS

BASE = Case(num_tokens=4, num_qo_heads=4, num_kv_heads=2, head_dim=8, pool_size=6, values="normal", slots="holes")
SHAPES = {
    "q": (4, 4, 8),
    "k": (4, 2, 8),
    "v": (4, 2, 8),
    "positions": (4,),
    "slots": (4,),
    "k_pool": (6, 2, 8),
    "v_pool": (6, 2, 8),
}
RANKS = range(6)


@dataclass(frozen=True)
class Cause:
    """One way to break the call: a rank, a longer or shorter axis, a dtype, or an argument."""

    tensor: str = ""
    rank: int = -1
    axis: int = -1
    delta: int = 0
    dtype: str = ""
    argument: str = ""

    @property
    def overrides_shape(self) -> bool:
        return self.rank >= 0 or self.axis >= 0


def _of_rank(shape: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """The same elements in `rank` axes: merged from the right, or with axes of length 1 in front."""
    if rank == 0:
        return ()
    if rank < len(shape):
        return (*shape[: rank - 1], math.prod(shape[rank - 1 :]))
    return (1,) * (rank - len(shape)) + shape


def _shape(tensor: str, causes: list[Cause]) -> tuple[int, ...]:
    shape = list(SHAPES[tensor])
    for cause in causes:
        if cause.rank >= 0:
            return _of_rank(SHAPES[tensor], cause.rank)
        if cause.axis >= 0:
            shape[cause.axis] += cause.delta
    return tuple(shape)


def fault(*causes: Cause) -> str:
    """The overrides of these causes together; empty when they cannot occur together."""
    words = []
    for tensor in SHAPES:
        own = [cause for cause in causes if cause.tensor == tensor]
        reshaping = [cause for cause in own if cause.overrides_shape]
        if len(reshaping) > 1 and any(cause.rank >= 0 for cause in reshaping):
            return ""
        if len({cause.axis for cause in reshaping}) < len(reshaping):
            return ""
        if len([cause for cause in own if cause.dtype]) > 1:
            return ""
        if reshaping:
            words.append(shaped(tensor, _shape(tensor, reshaping)))
        words += [f"{tensor}@{cause.dtype}" for cause in own if cause.dtype]
    arguments = [cause for cause in causes if cause.argument]
    if len({cause.argument for cause in arguments}) < len(arguments):
        return ""
    words += [f"{cause.argument}={getattr(BASE, cause.argument) + cause.delta}" for cause in arguments]
    return "+".join(words)


def _axis_causes(deltas: tuple[int, ...]) -> Iterator[Cause]:
    free = {("q", 0), ("k_pool", 0)}
    for tensor, shape in SHAPES.items():
        for axis, delta in itertools.product(range(len(shape)), deltas):
            if (tensor, axis) not in free:
                yield Cause(tensor, axis=axis, delta=delta)


def _argument_causes() -> Iterator[Cause]:
    for argument in ("head_dim", "num_qo_heads", "num_kv_heads"):
        yield Cause(argument=argument, delta=2)


def _dtype_causes(dtypes: tuple[str, ...]) -> Iterator[Cause]:
    for tensor, dtype in itertools.product(("q", "k", "v", "k_pool", "v_pool"), dtypes):
        yield Cause(tensor, dtype=dtype)


def _rank_causes(ranks: range) -> Iterator[Cause]:
    for tensor, shape in SHAPES.items():
        yield from (Cause(tensor, rank=rank) for rank in ranks if rank != len(shape))


def ranks(_: Profile) -> Iterator[Case]:
    """Every array in every rank from 0 to 5 but its own, also with the extra axis behind."""
    for cause in _rank_causes(RANKS):
        yield BASE.but(fault=fault(cause))
    for tensor, shape in SHAPES.items():
        yield BASE.but(fault=shaped(tensor, (*shape, 1)))


def axes(_: Profile) -> Iterator[Case]:
    """Every axis one shorter, one longer, and empty; arguments that differ from the arrays."""
    for cause in _axis_causes((-1, 1)):
        yield BASE.but(fault=fault(cause))
    for tensor, shape in SHAPES.items():
        for axis in range(len(shape)):
            if (tensor, axis) not in {("q", 0), ("k_pool", 0)}:
                yield BASE.but(fault=fault(Cause(tensor, axis=axis, delta=-shape[axis])))
    for cause in _argument_causes():
        for delta in (-cause.delta // 2, cause.delta):
            yield BASE.but(fault=fault(Cause(argument=cause.argument, delta=delta)))
    for swapped in ("q:4x8x4", "k:4x8x2", "v:4x8x2", "k_pool:6x8x2", "v_pool:6x8x2", "q:1x16x8", "k:2x4x8"):
        yield BASE.but(fault=swapped)


def dtypes(_: Profile) -> Iterator[Case]:
    """Every float array in every dtype but the call's, for calls of every dtype."""
    for own in ("f16", "bf16", "f32"):
        others = tuple(other for other in ("f16", "bf16", "f32") if other != own)
        for cause in _dtype_causes((*others, "f64", "i32")):
            yield BASE.but(dtype=own, fault=fault(cause))


def pair_causes() -> list[Cause]:
    """One cause for each array and each way in which it can be wrong."""
    return [
        *(Cause(tensor, rank=len(shape) + 1) for tensor, shape in SHAPES.items()),
        *_axis_causes((1,)),
        *_argument_causes(),
        *_dtype_causes(("f32",)),
    ]


def pairs(_: Profile) -> Iterator[Case]:
    """Every two causes that can occur at once."""
    for one, other in itertools.combinations(pair_causes(), 2):
        both = fault(one, other)
        if both:
            yield BASE.but(fault=both)


def on_empty_batch(_: Profile) -> Iterator[Case]:
    """An empty batch is checked as any other."""
    empty = BASE.but(num_tokens=0)
    for broken in ("q:0x3x8", "k:0x2x9", "v:1x2x8", "positions:1", "slots:1", "k_pool:6x2x9", "v_pool:5x2x8", "k@f32"):
        yield empty.but(fault=broken)


SITUATION_BASE = BASE.but(num_tokens=6, positions="rise:5", pool_size=8)


def situations(_: Profile) -> Iterator[Case]:
    """Each documented situation, and the same call after its documented cure."""
    for name in SITUATIONS:
        for dtype in ("f16", "bf16"):
            base = SITUATION_BASE.but(dtype=dtype)
            yield base.but(situation=name)
            yield base.but(situation=f"{name}/cured")


def refusals(_: Profile) -> Iterator[Case]:
    """What the native binding refuses."""
    for head_dim in (1, 7, 65):
        yield BASE.but(head_dim=head_dim)
    yield BASE.but(fault="+".join(f"{name}@f64" for name in ("q", "k", "v", "k_pool", "v_pool")))


def index_dtypes(_: Profile) -> Iterator[Case]:
    """positions and slots of other integer types, one and both."""
    for dtype in ("i64", "u32", "i16", "f32"):
        for broken in (f"positions@{dtype}", f"slots@{dtype}", f"positions@{dtype}+slots@{dtype}"):
            # No negative slot: unsigned integers have none.
            yield BASE.but(positions="rise:1", slots="permuted", fault=broken)
