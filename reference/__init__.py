"""The oracle of `rope_pool_fused`: what a right kernel answers, and how far off it may lie."""

from __future__ import annotations

import torch
from torch import Tensor

from reference.accuracy import ACCURACY_CLASSES, EXACT_ANGLE, FAST, FLOAT32_ANGLE, GRANTED, Accuracy, Arithmetic, Term
from reference.aggregate import Bias, FrequencyError, frequency_error, output_bias
from reference.angle import cos_sin, frequency_table
from reference.arguments import RULES, ArgumentError, Rule, Violation, check_arguments, first_violation
from reference.bounds import Bound, TurnBound, element_bound, error_bound, token_blocks, turn_bound
from reference.compare import allowed_interval, plain_error_bound, score
from reference.floats import FORMATS, FloatFormat, format_of, round_once, ulp
from reference.pool import bits, candidates, write_rows
from reference.rotation import rotate

__all__ = [
    "ACCURACY_CLASSES",
    "EXACT_ANGLE",
    "FAST",
    "FLOAT32_ANGLE",
    "FORMATS",
    "GRANTED",
    "RULES",
    "Accuracy",
    "ArgumentError",
    "Arithmetic",
    "Bias",
    "Bound",
    "FloatFormat",
    "FrequencyError",
    "Rule",
    "Term",
    "TurnBound",
    "Violation",
    "allowed_interval",
    "bits",
    "candidates",
    "check_arguments",
    "cos_sin",
    "element_bound",
    "error_bound",
    "first_violation",
    "format_of",
    "frequency_error",
    "frequency_table",
    "output_bias",
    "plain_error_bound",
    "rope_pool_fused",
    "rotate",
    "round_once",
    "score",
    "turn_bound",
    "ulp",
    "write_rows",
]


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
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The whole call: (q_rot, k_rot, k_pool_new, v_pool_new), all fresh and dense, the inputs untouched.

    q [num_tokens, num_qo_heads, head_dim], k and v [num_tokens, num_kv_heads, head_dim], both pools
    [pool_size, num_kv_heads, head_dim], all float16, bfloat16 or float32; positions and slots [num_tokens],
    integers. Rotated values are rounded once, to nearest even. Raises ArgumentError like `check_arguments`,
    and ValueError for an odd head_dim, another dtype, a base below 1 or a slot at or above pool_size.
    """
    check_arguments(
        q,
        k,
        v,
        positions,
        slots,
        k_pool,
        v_pool,
        head_dim=head_dim,
        num_qo_heads=num_qo_heads,
        num_kv_heads=num_kv_heads,
    )
    q_rot, k_rot = _rotated(q, positions, rope_base), _rotated(k, positions, rope_base)
    return q_rot, k_rot, write_rows(k_pool, slots, k_rot), write_rows(v_pool, slots, v)


def _rotated(x: Tensor, positions: Tensor, rope_base: float) -> Tensor:
    """x rotated and rounded once; block by block, so that no float64 copy of all of it is made."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    # An empty x is one block: its arguments are checked all the same.
    for block in token_blocks(x) if x.numel() else [slice(None)]:
        out[block] = round_once(rotate(x[block], positions[block], rope_base), x.dtype)
    return out
