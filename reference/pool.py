"""The pool write: rows moved by slot, as bits. A float conversion on the way may quiet a signalling NaN."""

from __future__ import annotations

import torch
from torch import Tensor

_SAME_SIZE_INTEGER = {2: torch.int16, 4: torch.int32}


def bits(values: Tensor) -> Tensor:
    """A view of float16 or bfloat16 as int16, of float32 as int32; for comparing and copying exactly."""
    return values.view(_SAME_SIZE_INTEGER[values.element_size()])


def write_rows(pool: Tensor, slots: Tensor, rows: Tensor) -> Tensor:
    """A fresh, dense copy of `pool` in which row slots[t] is rows[t]; a slot below 0 writes nothing.

    pool [pool_size, num_heads, head_dim], slots [num_tokens], rows [num_tokens, num_heads, head_dim]. Where
    tokens share a slot the last one wins; a kernel may let any of them win, see `candidates`.
    ValueError for a slot at or above pool_size and for rows that differ from the pool in shape or dtype.
    """
    if rows.dtype != pool.dtype or rows.shape[1:] != pool.shape[1:] or rows.shape[:1] != slots.shape:
        raise ValueError(
            f"rows {rows.dtype} {tuple(rows.shape)} do not fit slots {tuple(slots.shape)} and "
            f"pool {pool.dtype} {tuple(pool.shape)}"
        )
    index = slots.to(torch.int64)
    if bool((index >= pool.shape[0]).any()):
        raise ValueError(f"slot {int(index.max())} is outside a pool of {pool.shape[0]} rows")
    tokens = torch.arange(len(index))[index >= 0]
    winner = torch.full(pool.shape[:1], -1).scatter_reduce_(0, index[tokens], tokens, "amax")
    written = winner >= 0
    result = bits(pool).clone(memory_format=torch.contiguous_format)
    result[written] = bits(rows)[winner[written]]
    return result.view(pool.dtype)


def candidates(slots: Tensor) -> dict[int, list[int]]:
    """For each row named by a slot, the tokens that write it; any of them may win."""
    tokens: dict[int, list[int]] = {}
    for token, slot in enumerate(slots.tolist()):
        if slot >= 0:
            tokens.setdefault(slot, []).append(token)
    return tokens
