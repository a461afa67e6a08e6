"""The arguments of one `rope_pool_fused` call and the checks that refuse a bad one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

FLOAT_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class Call:
    """q [T, Hq, D]; k, v [T, Hkv, D]; positions, slots [T] int32; k_pool, v_pool [P, Hkv, D]."""

    q: Tensor
    k: Tensor
    v: Tensor
    positions: Tensor
    slots: Tensor
    k_pool: Tensor
    v_pool: Tensor
    head_dim: int
    num_qo_heads: int
    num_kv_heads: int
    rope_base: float


@dataclass(frozen=True)
class Refusal:
    """One check: when it fails, what the error then says, and the error's type."""

    fails: Callable[[Call], bool]
    text: Callable[[Call], str]
    error: type[Exception] = ValueError


# In the order in which sgl_kernel.metal.rope_pool_fused checks them.
VALUE_ERRORS: tuple[Refusal, ...] = (
    Refusal(
        lambda c: any(x.ndim != 3 for x in (c.q, c.k, c.v)),
        lambda _: "rope_pool_fused expects q/k/v to be 3-D",
    ),
    Refusal(
        lambda c: c.positions.ndim != 1 or c.slots.ndim != 1,
        lambda _: "rope_pool_fused expects positions/slots to be 1-D",
    ),
    Refusal(
        lambda c: c.k_pool.ndim != 3 or c.v_pool.ndim != 3,
        lambda _: "rope_pool_fused expects pool tensors to be 3-D",
    ),
    Refusal(
        lambda c: c.q.shape[1:] != (c.num_qo_heads, c.head_dim),
        lambda c: f"q shape must be [num_tokens, num_qo_heads, head_dim], got {c.q.shape}",
    ),
    Refusal(
        lambda c: c.k.shape != (c.q.shape[0], c.num_kv_heads, c.head_dim),
        lambda c: f"k shape must be [num_tokens, num_kv_heads, head_dim], got {c.k.shape}",
    ),
    Refusal(
        lambda c: c.v.shape != c.k.shape,
        lambda c: f"v shape must match k shape, got {c.v.shape} vs {c.k.shape}",
    ),
    Refusal(
        lambda c: c.positions.shape != (c.q.shape[0],) or c.slots.shape != (c.q.shape[0],),
        lambda _: "positions/slots must have one entry per token",
    ),
    Refusal(
        lambda c: c.k_pool.shape[1:] != (c.num_kv_heads, c.head_dim),
        lambda c: f"k_pool has incompatible shape {c.k_pool.shape}",
    ),
    Refusal(
        lambda c: c.v_pool.shape != c.k_pool.shape,
        lambda c: f"v_pool shape must match k_pool shape, got {c.v_pool.shape} vs {c.k_pool.shape}",
    ),
    Refusal(
        lambda c: c.k.dtype != c.q.dtype or c.v.dtype != c.q.dtype,
        lambda _: "q/k/v dtypes must match",
    ),
    Refusal(
        lambda c: c.k_pool.dtype != c.q.dtype or c.v_pool.dtype != c.q.dtype,
        lambda _: "pool dtypes must match q/k/v dtype",
    ),
)

# What the native binding refuses beyond them, and slots that lie past the pool.
RUNTIME_ERRORS: tuple[Refusal, ...] = (
    Refusal(
        lambda c: c.positions.dtype != torch.int32 or c.slots.dtype != torch.int32,
        lambda c: f"positions and slots must be int32, got {c.positions.dtype} and {c.slots.dtype}",
        RuntimeError,
    ),
    Refusal(
        lambda c: c.head_dim % 2 != 0,
        lambda c: f"head_dim must be even, got {c.head_dim}",
        RuntimeError,
    ),
    Refusal(
        lambda c: c.q.dtype not in FLOAT_DTYPES,
        lambda c: f"q must be float16, bfloat16 or float32, got {c.q.dtype}",
        RuntimeError,
    ),
    Refusal(
        lambda c: bool((c.slots >= c.k_pool.shape[0]).any()),
        lambda c: f"slots must be below pool_size {c.k_pool.shape[0]}, got {int(c.slots.max())}",
        RuntimeError,
    ),
)


def check(call: Call, refusals: tuple[Refusal, ...]) -> None:
    """Raises the error of the first check that fails."""
    for refusal in refusals:
        if refusal.fails(call):
            raise refusal.error(refusal.text(call))
