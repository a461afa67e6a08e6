"""The public call as SGLang documents it: the eleven checks, then the native part, positional and with a float base."""

from __future__ import annotations

from typing import Any

from kernel.call import Call, check_documented

from . import _metal

_IMPORT_ERROR: Exception | None = None


def rope_pool_fused(
    q: Any,
    k: Any,
    v: Any,
    positions: Any,
    slots: Any,
    k_pool: Any,
    v_pool: Any,
    *,
    head_dim: int,
    num_qo_heads: int,
    num_kv_heads: int,
    rope_base: float,
) -> tuple[Any, Any, Any, Any]:
    arrays = (q, k, v, positions, slots, k_pool, v_pool)
    check_documented(Call(*arrays, head_dim, num_qo_heads, num_kv_heads, rope_base))
    return _metal.rope_pool_fused(*arrays, head_dim, num_qo_heads, num_kv_heads, float(rope_base))
