"""A call as a device runs it: launches, their buffers, and copies of the arrays between margins."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from kernel.call import FLOAT_DTYPES, Call
from kernel.frequency import frequency_table
from kernel.launch import FREQUENCIES, Extent, Launch, LaunchPlan, launches, published_plan
from kernel.memory import Margined, Overwritten, bits

WRITTEN = ("q_out", "k_out", "k_pool", "v_pool")


@dataclass(frozen=True)
class Staged:
    """What one call needs on a device.

    launches: each entry point, with its dtype's suffix, and its dispatch.
    buffers: for each entry point, the names of its buffers in index order.
    arrays: every buffer that is not left out, as a dense copy between margins, by name.
    """

    plan: LaunchPlan
    launches: tuple[tuple[str, Launch], ...]
    buffers: Mapping[str, tuple[str, ...]]
    arrays: Mapping[str, Margined]


def stage(
    call: Call, plan: LaunchPlan | None, num_buffers: Mapping[str, int], left_out: Collection[str] = ()
) -> Staged:
    """Prepare a call that `kernel.call.check` lets pass.

    plan: None for the one that the published binding would take.
    num_buffers: of each entry point.
    left_out: names of arrays that the caller brings to the device itself.
    """
    dtype = FLOAT_DTYPES[call.q.dtype]
    extent = Extent(call.q.shape[0], call.num_qo_heads, call.num_kv_heads, call.head_dim)
    plan = plan or published_plan(dtype, extent)
    planned = tuple((f"{launch.entry}_{dtype}", launch) for launch in launches(plan, extent))
    buffers = {entry: launch.buffers[: num_buffers[entry]] for entry, launch in planned}
    arrays = {name: Margined.copy_of(tensor) for name, tensor in call.tensors() if name not in left_out}
    arrays["q_out"] = Margined.empty(call.q.shape, call.q.dtype)
    arrays["k_out"] = Margined.empty(call.k.shape, call.k.dtype)
    if any(FREQUENCIES in names for names in buffers.values()):
        arrays[FREQUENCIES] = _frequencies(call.rope_base, call.head_dim)
    return Staged(plan, planned, buffers, arrays)


def stray(name: str, before: Margined, after: Tensor) -> Iterator[Overwritten]:
    """What a kernel wrote of an array and may not: outside it, and inside one that it is given to read.

    after: the storage as it came back from the device.
    """
    changed = after != before.storage
    start = int(before.tensor.storage_offset() - before.storage.storage_offset())
    inside = changed[start : start + before.tensor.numel()]
    if name not in WRITTEN and bool(inside.any()):
        yield Overwritten(name, int(inside.sum()), int(inside.nonzero()[0]), "inside")
    inside.fill_(False)
    if bool(changed.any()):
        where = changed.nonzero()
        yield Overwritten(name, len(where), int(where[0]) - start)


def take(after: Tensor, like: Margined) -> Tensor:
    """The array in a storage that came back from the device, laid out as the one that was sent."""
    start = int(like.tensor.storage_offset() - like.storage.storage_offset())
    return after[start : start + like.tensor.numel()].view(like.tensor.dtype).view(like.tensor.shape)


def without_margins(array: Margined) -> Margined:
    """The same array as the whole of its storage."""
    return Margined(bits(array.tensor).flatten(), array.tensor)


@lru_cache(maxsize=256)
def _frequencies(rope_base: float, head_dim: int) -> Margined:
    table = torch.tensor(frequency_table(rope_base, head_dim), dtype=torch.uint64)
    return Margined.copy_of(table.view(torch.int64))
