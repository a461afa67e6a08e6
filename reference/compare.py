"""Judging an output: how much of the error allowance it needs, by the reals that round to it.

An output o of type T is right if some real within E of the exact y rounds to it. The reals that may round to
o run from half-way to its neighbour below to half-way to the one above, both ends counted; away from zero to
the neighbour itself where the output rounding may be toward zero; for an infinity from the overflow threshold
on; for a zero that may be a flushed subnormal, to the smallest normal number.
Their distance from y, in units of E, is the score; at most 1 is right. Rounding is monotone, so this is exact
where ulp distances fail: at zero, under cancellation, for subnormals and on overflow.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reference.bounds import Bound, may_flush, token_blocks
from reference.floats import FLOAT32, FloatFormat, binade, format_of, ulp

_ONE = torch.tensor(1.0, dtype=torch.float64)


def _flushed(bound: Bound, fmt: FloatFormat) -> Tensor:
    """Where the value before the output rounding may be subnormal in the output type, and so flushed."""
    subnormal = bound.exact.abs() - bound.error <= fmt.smallest_normal
    return subnormal if may_flush(fmt, bound.arithmetic) else torch.zeros_like(subnormal)


def _truncates(bound: Bound, fmt: FloatFormat) -> bool:
    """Whether the output rounding may be toward zero; the last float32 sum is the output rounding of float32."""
    return bound.arithmetic.toward_zero if fmt == FLOAT32 else bound.arithmetic.narrows_toward_zero


def _score_block(out: Tensor, bound: Bound, score: Tensor) -> None:
    """Write the score of `out` to `score`; rare cases are looked for before they cost."""
    fmt = format_of(out.dtype)
    # Infinity stands where the grid would go on: half-way to the largest finite value is the threshold.
    value = out.to(torch.float64).clamp_(-fmt.overflow_grid, fmt.overflow_grid)
    size = value.abs()
    outer_gap = binade(size).clamp_min_(fmt.smallest_normal).mul_(fmt.unit / 2)
    # Towards zero the grid is that of the binade just below: finer at a power of two.
    inner_gap = binade(size * (1.0 - 2.0**-30)).clamp_min_(fmt.smallest_normal).mul_(fmt.unit / 2)
    if _truncates(bound, fmt):
        outer_gap.mul_(2.0).masked_fill_(size == fmt.largest, math.inf)
    smallest, largest = size.aminmax()
    if may_flush(fmt, bound.arithmetic) and not float(smallest) > 0.0:
        # A zero may be a flushed subnormal; a NaN hides the smallest value.
        flushed = (size == 0.0) * torch.tensor(fmt.smallest_normal, dtype=torch.float64)
        outer_gap, inner_gap = torch.maximum(outer_gap, flushed), torch.maximum(inner_gap, flushed)
    finite = float(largest) < fmt.overflow_grid
    if not finite:
        outer_gap.masked_fill_(size == fmt.overflow_grid, math.inf)
    outward = torch.copysign(_ONE, value).mul_(bound.exact - value)
    need = torch.maximum(outward - outer_gap, (outward + inner_gap).neg_()).clamp_min_(0.0)
    torch.div(need, bound.error, out=score)
    if not finite:
        score.nan_to_num_(nan=math.inf, posinf=math.inf).masked_fill_(bound.error.isinf(), 0.0)


def score(out: Tensor, bound: Bound) -> Tensor:
    """The share of its error allowance that each output needs, float64 of out's shape; at most 1 is right.

    out [num_tokens, num_heads, head_dim] has the shape and the dtype of the input that the bound is of. NaN
    scores inf; an unspecified element scores 0 whatever it is. ValueError for another shape than the bound's
    and for a dtype other than float16, bfloat16 and float32.
    """
    if out.shape != bound.exact.shape:
        raise ValueError(f"out {tuple(out.shape)} and bound {tuple(bound.exact.shape)} differ in shape")
    result = torch.empty(out.shape, dtype=torch.float64)
    for block in token_blocks(out):
        _score_block(out[block], bound.at(block), result[block])
    return result


def _farthest(values: Tensor, fmt: FloatFormat, truncates: bool) -> Tensor:
    """The largest of the outputs that float64 values may be rounded to; half-way points go up.

    A negative value that may be truncated goes up to the next point of the grid.
    """
    spacing = ulp(values, fmt).clamp_(max=fmt.overflow_grid)
    steps = values / spacing
    reach = torch.where(steps < 0, 1.0, 0.5) if truncates else 0.5
    return torch.floor(steps + reach) * spacing


def allowed_interval(bound: Bound, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The smallest and the largest right output, in `dtype`; (-inf, inf) where the output is unspecified.

    Outputs between them are right too, but for those between a flushed zero and the rest.
    """
    fmt = format_of(dtype)
    truncates = _truncates(bound, fmt)
    low = _farthest(bound.error - bound.exact, fmt, truncates).neg_()
    high = _farthest(bound.exact + bound.error, fmt, truncates)
    flush = _flushed(bound, fmt)
    low = torch.where(flush, low.clamp(max=0.0), low)
    high = torch.where(flush, high.clamp(min=0.0), high)
    return low.to(dtype), high.to(dtype)


def plain_error_bound(bound: Bound, dtype: torch.dtype) -> Tensor:
    """B with |out - exact| <= B for every right finite output: for messages; `score` is the sharper judge.

    Not for a value past the largest finite one, of which that one may be the truncation.
    """
    fmt = format_of(dtype)
    reach = bound.exact.abs() + bound.error
    plain = bound.error + ulp(reach, fmt) * (1.0 if _truncates(bound, fmt) else 0.5)
    return torch.where(_flushed(bound, fmt), torch.maximum(plain, bound.exact.abs()), plain)
