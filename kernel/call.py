"""One call of rope_pool_fused: its arguments, and the checks that come before any launch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

FLOAT_DTYPES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}
INPUTS = ("q", "k", "v", "positions", "slots")
POOLS = ("k_pool", "v_pool")
ARGUMENTS = ("head_dim", "num_qo_heads", "num_kv_heads", "rope_base")


@dataclass(frozen=True)
class Call:
    """The arguments of one call.

    Shapes: q [num_tokens, num_qo_heads, head_dim]; k, v [num_tokens, num_kv_heads, head_dim];
    positions, slots [num_tokens] int32; k_pool, v_pool [pool_size, num_kv_heads, head_dim].
    donated: nobody else keeps the arrays, so that a framework which can reuse their memory may.
    """

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
    donated: bool = False

    def but(self, **changes: Any) -> Call:
        """This call with some arguments changed."""
        return dataclasses.replace(self, **changes)

    def arguments(self) -> dict[str, Any]:
        """The keyword arguments of the call."""
        return {name: getattr(self, name) for name in ARGUMENTS}

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """The seven arrays by name, in the order of the call."""
        return ((name, getattr(self, name)) for name in (*INPUTS, *POOLS))


def check(call: Call) -> None:
    """Refuse what the public call refuses.

    Raises:
        ValueError: one of the eleven documented errors, in their documented order.
        RuntimeError: what the native binding refuses: positions or slots that are not int32, an odd
            head_dim, a float dtype other than f16, bf16 and f32; and, here, slots past the pool and
            a rope_base that is no positive float32.
    """
    check_documented(call)
    _check_binding(call)


def check_documented(call: Call) -> None:
    """The eleven documented errors, in their order; of arrays of any framework, whose shapes print as it prints them.

    Raises:
        ValueError: the first that applies.
    """
    _check_ranks(call)
    _check_shapes(call)
    _check_dtypes(call)


def _check_ranks(call: Call) -> None:
    if any(t.ndim != 3 for t in (call.q, call.k, call.v)):
        raise ValueError("rope_pool_fused expects q/k/v to be 3-D")
    if call.positions.ndim != 1 or call.slots.ndim != 1:
        raise ValueError("rope_pool_fused expects positions/slots to be 1-D")
    if call.k_pool.ndim != 3 or call.v_pool.ndim != 3:
        raise ValueError("rope_pool_fused expects pool tensors to be 3-D")


def _check_shapes(call: Call) -> None:
    num_tokens = call.q.shape[0]
    q, k, v = call.q.shape, call.k.shape, call.v.shape
    k_pool, v_pool = call.k_pool.shape, call.v_pool.shape
    if q[1:] != (call.num_qo_heads, call.head_dim):
        raise ValueError(f"q shape must be [num_tokens, num_qo_heads, head_dim], got {q}")
    if k != (num_tokens, call.num_kv_heads, call.head_dim):
        raise ValueError(f"k shape must be [num_tokens, num_kv_heads, head_dim], got {k}")
    if v != k:
        raise ValueError(f"v shape must match k shape, got {v} vs {k}")
    if call.positions.shape[0] != num_tokens or call.slots.shape[0] != num_tokens:
        raise ValueError("positions/slots must have one entry per token")
    if k_pool[1:] != (call.num_kv_heads, call.head_dim):
        raise ValueError(f"k_pool has incompatible shape {k_pool}")
    if v_pool != k_pool:
        raise ValueError(f"v_pool shape must match k_pool shape, got {v_pool} vs {k_pool}")


def _check_dtypes(call: Call) -> None:
    if call.k.dtype != call.q.dtype or call.v.dtype != call.q.dtype:
        raise ValueError("q/k/v dtypes must match")
    if call.k_pool.dtype != call.q.dtype or call.v_pool.dtype != call.q.dtype:
        raise ValueError("pool dtypes must match q/k/v dtype")


def _check_binding(call: Call) -> None:
    if call.q.dtype not in FLOAT_DTYPES:
        raise RuntimeError(f"q/k/v must be float16, bfloat16 or float32, got {call.q.dtype}")
    if call.positions.dtype != torch.int32 or call.slots.dtype != torch.int32:
        raise RuntimeError(
            f"positions/slots must be int32, got {call.positions.dtype} and {call.slots.dtype}: "
            "convert with .to(torch.int32)"
        )
    if call.head_dim % 2:
        raise RuntimeError(f"head_dim must be even, got {call.head_dim}")
    if not 0 < torch.tensor(call.rope_base, dtype=torch.float32) < torch.inf:
        raise RuntimeError(f"rope_base must be a positive float32, got {call.rope_base}")
    past = (call.slots >= call.k_pool.shape[0]).nonzero()
    if len(past):
        token = int(past[0])
        raise RuntimeError(
            f"slots must be below pool_size {call.k_pool.shape[0]}, got {int(call.slots[token])} at token {token}"
        )
