"""Judging an output: how much of the error allowance it needs, by the reals that round to it.

An output o of type T is right if some real within E of the exact y rounds to it. The reals that may round to
o run from half-way to its neighbour below to half-way to the one above, both ends counted; for an infinity
from the overflow threshold on; for a zero, which may be a flushed subnormal, to the smallest normal number.
Their distance from y, in units of E, is the score; at most 1 is right. Rounding is monotone, so this is exact
where ulp distances fail: at zero, under cancellation, for subnormals and on overflow.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from reference.bounds import Bound, token_blocks
from reference.floats import FloatFormat, binade, format_of, ulp

_ONE = torch.tensor(1.0, dtype=torch.float64)


def _may_flush(bound: Bound, fmt: FloatFormat) -> Tensor:
    """Where the value before the output rounding may be subnormal in the output type, and so flushed."""
    return bound.exact.abs() - bound.error <= fmt.smallest_normal


def _score_block(out: Tensor, bound: Bound, score: Tensor) -> None:
    """Write the score of `out` to `score`; rare cases are looked for before they cost."""
    fmt = format_of(out.dtype)
    # Infinity stands where the grid would go on: half-way to the largest finite value is the threshold.
    value = out.to(torch.float64).clamp_(-fmt.overflow_grid, fmt.overflow_grid)
    size = value.abs()
    outer_gap = binade(size).clamp_min_(fmt.smallest_normal).mul_(fmt.unit / 2)
    # Towards zero the grid is that of the binade just below: finer at a power of two.
    inner_gap = binade(size * (1.0 - 2.0**-30)).clamp_min_(fmt.smallest_normal).mul_(fmt.unit / 2)
    smallest, largest = size.aminmax()
    if not float(smallest) > 0.0:
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
        _score_block(out[block], Bound(bound.exact[block], bound.error[block]), result[block])
    return result


def _nearest(values: Tensor, fmt: FloatFormat, up: bool) -> Tensor:
    """float64 values rounded to the grid of `fmt`, half-way points all up or all down."""
    spacing = ulp(values, fmt).clamp_(max=fmt.overflow_grid)
    steps = values / spacing
    return (torch.floor(steps + 0.5) if up else torch.ceil(steps - 0.5)) * spacing


def allowed_interval(bound: Bound, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The smallest and the largest right output, in `dtype`; (-inf, inf) where the output is unspecified.

    Outputs between them are right too, but for those between a flushed zero and the rest.
    """
    fmt = format_of(dtype)
    low = _nearest(bound.exact - bound.error, fmt, up=False)
    high = _nearest(bound.exact + bound.error, fmt, up=True)
    flush = _may_flush(bound, fmt)
    low = torch.where(flush, low.clamp(max=0.0), low)
    high = torch.where(flush, high.clamp(min=0.0), high)
    return low.to(dtype), high.to(dtype)


def plain_error_bound(bound: Bound, dtype: torch.dtype) -> Tensor:
    """B with |out - exact| <= B for every right finite output: for messages; `score` is the sharper judge."""
    fmt = format_of(dtype)
    reach = bound.exact.abs() + bound.error
    plain = bound.error + ulp(reach, fmt) / 2
    return torch.where(_may_flush(bound, fmt), torch.maximum(plain, bound.exact.abs()), plain)
