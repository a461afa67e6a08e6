"""Faults that show only when an argument is not dense, or not of the type it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from tests.planted.fault import Fault, plant
from tests.right.arguments import RUNTIME_ERRORS, VALUE_ERRORS, Call
from tests.right.recipe import Outputs, Recipe

Condition = Callable[[Tensor], bool]


def storage(x: Tensor) -> Tensor:
    """All elements of the memory that x is a view of."""
    return torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())


def as_if_dense(x: Tensor) -> Tensor:
    """What a kernel reads that ignores strides; reads past the memory's end start over."""
    memory = storage(x)
    if not memory.numel() or not x.numel():
        return x
    index = (x.storage_offset() + torch.arange(prod(x.shape))) % memory.numel()
    return memory[index].view(x.shape)


def without_offset(x: Tensor) -> Tensor:
    """What a kernel reads that starts at the buffer's first byte."""
    return x.as_strided(x.shape, x.stride(), 0)


def is_transposed(x: Tensor) -> bool:
    return list(x.stride()) != sorted(x.stride(), reverse=True)


def is_broadcast(x: Tensor) -> bool:
    return 0 in x.stride() and x.numel() > 1


def has_one_head(x: Tensor) -> bool:
    return x.shape[1] == 1


def pitched_by_head(x: Tensor) -> Tensor:
    """A token pitch taken from the head axis, whose stride means nothing when there is one head."""
    memory = storage(x)
    if x.shape[1] != 1 or not x.numel():
        return x
    tokens = torch.arange(x.shape[0])[:, None, None] * x.stride(1)
    elements = torch.arange(x.shape[2]) * x.stride(2)
    return memory[(x.storage_offset() + tokens + elements) % memory.numel()]


def reads_dense(name: str, what: str, arguments: str, when: Condition = lambda _: True) -> Fault:
    """A kernel that ignores the strides of the named arguments under a condition on each."""

    def read(_: Recipe, call: Call) -> Call:
        given = {argument: getattr(call, argument) for argument in arguments.split()}
        seen: dict[str, Any] = {a: as_if_dense(x) if when(x) else x for a, x in given.items()}
        return replace(call, **seen)

    return plant(name, what, read=read)


def ignores_offsets(_: Recipe, call: Call) -> Call:
    return replace(call, q=without_offset(call.q), k=without_offset(call.k), v=without_offset(call.v))


class PoolOffsetIgnored(Recipe):
    """Writes from the first byte of the pools' memory on, and returns the given pools."""

    def fuse(self, call: Call) -> Outputs:
        moved = replace(call, k_pool=without_offset(call.k_pool), v_pool=without_offset(call.v_pool))
        q_rot, k_rot, _, _ = super().fuse(moved)
        return q_rot, k_rot, call.k_pool, call.v_pool


class StridedPoolWrittenToCopy(Recipe):
    """Makes the pools contiguous first, so that a strided pool's own memory is never written nor returned."""

    def fuse(self, call: Call) -> Outputs:
        copied = replace(call, k_pool=call.k_pool.contiguous(), v_pool=call.v_pool.contiguous())
        q_rot, k_rot, _, _ = super().fuse(copied)
        return q_rot, k_rot, call.k_pool, call.v_pool


def assigned(r: Recipe, call: Call, k_rot: Tensor, k_pool: Tensor, v_pool: Tensor) -> None:
    slots, tokens = r.rows(call)
    k_pool[slots] = k_rot[tokens]
    v_pool[slots] = call.v[tokens]


def reinterpreted(argument: str, dtype: torch.dtype) -> Fault:
    """The bits of one argument read as int32 rather than refused."""

    def as_int32(call: Call) -> Call:
        given = getattr(call, argument)
        seen = given.contiguous().view(torch.int32)[: len(given)] if given.dtype == dtype else given
        changes: dict[str, Any] = {argument: seen}
        return replace(call, **changes)

    wrong_dtype, *others = RUNTIME_ERRORS
    accepting = replace(wrong_dtype, fails=lambda call: wrong_dtype.fails(as_int32(call)))
    name = str(dtype).removeprefix("torch.")
    return plant(
        f"{name}_{argument}_reinterpreted",
        f"{argument.capitalize()} given as {name} are read bit by bit as int32.",
        refusals=(*VALUE_ERRORS, accepting, *others),
        read=lambda _, call: as_int32(call),
    )


FAULTS: list[Fault] = [
    reads_dense("strides_of_q_ignored", "q is read as if it were dense.", "q"),
    reads_dense("strides_of_k_ignored", "k is read as if it were dense.", "k"),
    reads_dense("strides_of_v_ignored", "v is read as if it were dense.", "v"),
    reads_dense("stride_of_positions_ignored", "positions is read as if it were dense.", "positions"),
    reads_dense("stride_of_slots_ignored", "slots is read as if it were dense.", "slots"),
    reads_dense(
        "transposed_read_as_dense",
        "A transposed q, k or v is read as if it were dense.",
        "q k v",
        is_transposed,
    ),
    reads_dense("broadcast_read_as_dense", "A broadcast q, k or v is read as if it were dense.", "q k v", is_broadcast),
    reads_dense(
        "one_head_read_as_dense",
        "With one head q, k or v is read as if it were dense, so the token stride is lost.",
        "q k v",
        has_one_head,
    ),
    plant(
        "unit_axis_stride_taken_as_pitch",
        "With one KV head the tokens of k and v are read at the stride of the head axis, which can be any.",
        read=lambda _, call: replace(call, k=pitched_by_head(call.k), v=pitched_by_head(call.v)),
    ),
    plant(
        "storage_offset_ignored",
        "q, k and v are read from the first byte of their memory.",
        read=ignores_offsets,
    ),
    plant(
        "pool_offset_ignored",
        "The pools are written from the first byte of their memory.",
        on=PoolOffsetIgnored,
    ),
    plant(
        "strided_pool_written_to_copy",
        "A strided pool is copied first and the copy is written.",
        on=StridedPoolWrittenToCopy,
    ),
    reinterpreted("positions", torch.int64),
    reinterpreted("slots", torch.int64),
    reinterpreted("positions", torch.float32),
    plant(
        "float64_accepted",
        "float64 is computed in float32 rather than refused.",
        refusals=VALUE_ERRORS + RUNTIME_ERRORS[:2] + RUNTIME_ERRORS[3:],
        store=assigned,
    ),
    plant(
        "odd_head_dim_accepted",
        "An odd head_dim is not refused and its last element is dropped.",
        refusals=VALUE_ERRORS + RUNTIME_ERRORS[:1] + RUNTIME_ERRORS[2:],
        read=lambda _, call: replace(call, head_dim=call.head_dim // 2 * 2),
        rotate=lambda r, x, *cs: Recipe.rotate(r, x[..., : x.shape[-1] // 2 * 2], *cs),
        k_stored=lambda _, call, k_rot: torch.cat((k_rot, call.k[..., k_rot.shape[-1] :]), dim=-1),
    ),
]
