"""The system under test: the public call, its launch plans, and the targets that run it."""

from __future__ import annotations

import functools

from torch import Tensor

from kernel.call import Call
from kernel.launch import LaunchPlan
from kernel.targets import HostTarget, Outputs

__all__ = ["Call", "LaunchPlan", "rope_pool_fused"]


@functools.cache
def _host() -> HostTarget:
    return HostTarget.compile()


def rope_pool_fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    positions: Tensor,
    slots: Tensor,
    k_pool: Tensor,
    v_pool: Tensor,
    *,
    head_dim: int,
    num_qo_heads: int,
    num_kv_heads: int,
    rope_base: float,
) -> Outputs:
    """Rotate q and k (NeoX) and write rotated k and raw v to the pools' rows `slots`.

    Runs `shaders/rope_pool_fused.metal` on this machine's CPU with the launch plan that the published
    binding would take. The pools are written in place; `slots[t] < 0` writes nothing.

    Args:
        q: [num_tokens, num_qo_heads, head_dim], f16, bf16 or f32; k, v and the pools have its dtype.
        k, v: [num_tokens, num_kv_heads, head_dim].
        positions, slots: [num_tokens], int32.
        k_pool, v_pool: [pool_size, num_kv_heads, head_dim].

    Returns:
        `(q_rot, k_rot, k_pool, v_pool)`.

    Raises:
        ValueError: one of the eleven documented errors.
        RuntimeError: what the native binding refuses, slots past the pool among them.
    """
    call = Call(q, k, v, positions, slots, k_pool, v_pool, head_dim, num_qo_heads, num_kv_heads, rope_base)
    return _host().run(call).outputs
