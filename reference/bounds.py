"""How far a right kernel's float32 result may lie from the exact rotation: a forward error bound.

With c, s the exact cosine and sine, d the angle error and y1 = x1 c - x2 s, y2 = x1 s + x2 c the exact pair,
the float32 value from which the kernel rounds its output lies within E of y1, where

    E = |y2| d + |y1| d^2 / 2                    one angle error turns the pair; at most |y1| + hypot(x1, x2)
      + |x1| eps_c + |x2| eps_s                  cos and sin of the kernel's own angle
      + r (ulp(|x1| c_max) + ulp(|x2| s_max))    the two products; an FMA only drops one rounding
      + r ulp(|y1| + E)                          their sum; for float32 that is the output rounding itself
      + 2^-126 per operation, and |x| c_max or |x| s_max for subnormal x     where the target may flush
      + 2^-50 (|x1| + |x2|)                      this oracle's own error

and likewise for y2. c_max = min(1, |c| + d) + eps_c bounds the kernel's cosine, s_max its sine; r is 1/2 where
arithmetic rounds to nearest and 1 where it may round toward zero.

Unspecified, E = inf: both elements of a pair that holds an infinity or a NaN, as fast math assumes neither
occurs; and, of finite input, each element for which a float32 product or sum may overflow, as the kernel may
then meet inf - inf. Only float32 and bfloat16 inputs within a few binades of the float32 maximum get there; a
finite float32 that overflows in the conversion to the output type must become an infinity and is judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from reference.accuracy import GRANTED, Accuracy, Arithmetic
from reference.angle import cos_sin_of, float32_base, position_column, signed_table
from reference.floats import FLOAT32, FloatFormat, binade, format_of
from reference.rotation import triple_views, with_partner

_TINY = FLOAT32.smallest_normal
_ULP = FLOAT32.unit
_ORACLE_ERROR = 2.0**-50
# Three subnormal results may be flushed: two products and their sum.
_FLUSHED = torch.tensor(3 * _TINY, dtype=torch.float64)
_KEPT = torch.tensor(0.0, dtype=torch.float64)
# Below this no product and no sum comes near the float32 maximum: c_max < 3.01 and |y| + E < 12 max |x|.
_NO_OVERFLOW = 2.0**123
# Elements per block: a float64 block and its few temporaries stay in the second-level cache.
_BLOCK = 1 << 14


@dataclass(frozen=True)
class Bound:
    """The exact rotation and the error allowed before the output rounding, each float64 of the input's shape.

    Where the output is unspecified, `error` is inf and `exact` is 0. `arithmetic` is what the output rounding may do.
    """

    exact: Tensor
    error: Tensor
    arithmetic: Arithmetic = GRANTED

    def at(self, index: Any) -> Bound:
        """The bound of the elements that `index`, a tensor's, selects."""
        return Bound(self.exact[index], self.error[index], self.arithmetic)


class TurnBound(NamedTuple):
    """What the bound needs of each token and element, all heads alike: float64 [num_tokens, 1, head_dim].

    cos is (c, c) and sin (-s, s) over the two halves. cos_error and sin_error hold the oracle's error too.
    """

    cos: Tensor
    sin: Tensor
    angle_error: Tensor
    half_square: Tensor
    cos_error: Tensor
    sin_error: Tensor
    cos_max: Tensor
    sin_max: Tensor


class _RecipeError(NamedTuple):
    """Error of the recipe's angle, float64 [head_dim]: per position, per unit of error in float(position),
    and the unit roundoff of the last product, which is exact for i = 0, whose frequency is 1."""

    per_position: Tensor
    per_position_error: Tensor
    product_roundoff: Tensor


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _ulp_of(value: float) -> float:
    exponent = math.frexp(value)[1] - 1 if value else FLOAT32.min_exponent
    return math.ldexp(_ULP, max(exponent, FLOAT32.min_exponent))


def _relative_frequency_error(
    index: int, rope_base: float, head_dim: int, accuracy: Accuracy, arithmetic: Arithmetic
) -> float:
    """Relative error of the float32 frequency exp2(-2i * (log2(rope_base) / head_dim)) of pair `index`."""
    if index == 0:
        return 0.0
    log2_base = math.log2(rope_base)
    log2_error = accuracy.log2_ulp * _ulp_of(log2_base * (1 + 2.0**-20))
    step = log2_base / head_dim
    step_error = log2_error / head_dim
    if not _is_power_of_two(head_dim):
        # The host divides, to nearest whatever the kernel does.
        step_error += _ulp_of(step + step_error) / 2
    exponent, exponent_error = 2 * index * step, 2 * index * step_error
    if not _is_power_of_two(2 * index):
        exponent_error += arithmetic.ulps * _ulp_of(exponent + exponent_error)
    ulps = accuracy.exp2_ulp + math.floor(accuracy.exp2_ulp_growth * (exponent + exponent_error))
    frequency = math.exp2(-exponent)
    exp2_error = ulps * _ulp_of(frequency * math.exp2(exponent_error) * (1 + 2.0**-40)) / frequency
    return math.expm1(math.log(2) * exponent_error) + exp2_error


@lru_cache(maxsize=1024)
def _recipe_error(rope_base: float, head_dim: int, accuracy: Accuracy, arithmetic: Arithmetic) -> _RecipeError:
    base = float32_base(rope_base)
    half = [_relative_frequency_error(i, base, head_dim, accuracy, arithmetic) for i in range(head_dim // 2)]
    relative = torch.tensor(half + half, dtype=torch.float64)
    frequency = signed_table(rope_base, head_dim).radians.abs()
    # A flushed frequency or angle is off by at most 2^-126 each, times |position| for the first.
    per_position = frequency * relative + 2 * _TINY
    product_roundoff = (relative > 0) * torch.tensor(arithmetic.ulps * _ULP, dtype=torch.float64)
    return _RecipeError(per_position, frequency * (1 + relative), product_roundoff)


def _roundoff(result: Tensor, arithmetic: Arithmetic) -> Tensor:
    """Largest rounding error of a float32 operation whose result is near `result`, float64."""
    return binade(result).clamp_min_(_TINY).mul_(arithmetic.ulps * _ULP)


def _recipe_angle_error(distance: Tensor, theta: Tensor, recipe: _RecipeError, arithmetic: Arithmetic) -> Tensor:
    """Error of the recipe's angle at |position| [num_tokens, 1, 1] and |angle| [num_tokens, 1, head_dim]."""
    error = distance * recipe.per_position
    if distance.numel() and float(distance.amax()) > 2.0**FLOAT32.precision:
        rounded = torch.where(distance.to(torch.float32) == distance, 0.0, _roundoff(distance, arithmetic))
        error.addcmul_(rounded, recipe.per_position_error)
    return error.addcmul_(binade(theta + error), recipe.product_roundoff)


def _trig_error(size: Tensor, trig_ulp: float) -> Tensor:
    """Error of a precise cos or sin of at most `size`; no less than what flushing it may cost."""
    return binade(size).mul_(trig_ulp * _ULP).clamp_min_(_TINY)


def _envelope(reach: Tensor, accuracy: Accuracy, arithmetic: Arithmetic) -> Tensor:
    """Error of the fast cos and sin of angles up to `reach`; no more than their range allows."""
    inside = accuracy.trig_absolute
    # The slope counts roundings to nearest.
    beyond = (reach * (accuracy.trig_slope * 2 * arithmetic.ulps)).add_(inside).clamp_max_(2.0 + inside)
    return torch.where(reach > math.pi, beyond, inside)


def turn_bound(
    positions: Tensor, rope_base: float, head_dim: int, accuracy: Accuracy, arithmetic: Arithmetic = GRANTED
) -> TurnBound:
    """cos, sin and the errors of a kernel of class `accuracy` at positions [num_tokens]; for q and k alike.

    Raises what `reference.angle.cos_sin` raises.
    """
    table = signed_table(rope_base, head_dim)
    column = position_column(positions).unsqueeze(1)
    cos, sin = cos_sin_of(column, table)
    theta = (column * table.radians).abs_()
    if accuracy.angle_error is not None:
        angle_error = torch.full_like(theta, accuracy.angle_error)
    else:
        recipe = _recipe_error(rope_base, head_dim, accuracy, arithmetic)
        angle_error = _recipe_angle_error(column.abs(), theta, recipe, arithmetic)
    cos_max = cos.abs().add_(angle_error).clamp_max_(1.0)
    sin_max = sin.abs().add_(angle_error).clamp_max_(1.0)
    if accuracy.trig_ulp is not None:
        cos_error, sin_error = (_trig_error(largest, accuracy.trig_ulp) for largest in (cos_max, sin_max))
    else:
        cos_error = sin_error = _envelope(theta + angle_error, accuracy, arithmetic)
    return TurnBound(
        cos,
        sin,
        angle_error,
        half_square=angle_error.square().mul_(0.5),
        cos_error=cos_error + _ORACLE_ERROR,
        sin_error=sin_error + _ORACLE_ERROR,
        cos_max=cos_max.add_(cos_error),
        sin_max=sin_max.add_(sin_error),
    )


def _unspecified(size: Tensor, own: Tensor, partner: Tensor, turn: TurnBound) -> Tensor:
    """Where a product or the sum may overflow float32 or is NaN; size is |y| + E, own and partner are |x|."""
    limit = FLOAT32.overflow
    specified = (own * turn.cos_max < limit) & (partner * turn.sin_max < limit) & (size < limit)
    return specified.logical_not_()


def may_flush(fmt: FloatFormat, arithmetic: Arithmetic) -> bool:
    """Whether subnormal values of this format may become zero."""
    return arithmetic.flushes if fmt.min_exponent == FLOAT32.min_exponent else arithmetic.flushes_half


def _bound_block(x: Tensor, turn: TurnBound, arithmetic: Arithmetic, exact: Tensor, error: Tensor) -> None:
    """Write the bound of x [num_tokens, num_heads, head_dim] to `exact` and `error`, of that shape."""
    fmt = format_of(x.dtype)
    flushed = _FLUSHED if arithmetic.flushes else _KEPT
    triple, own, partner = with_partner(x)
    torch.mul(own, turn.cos, out=exact).addcmul_(partner, turn.sin)
    _, size, partner_size = with_partner(exact.abs())
    torch.addcmul(flushed, partner_size, turn.angle_error, out=error).addcmul_(size, turn.half_square)
    if float(turn.angle_error.amax()) > 1.0:
        torch.minimum(error, torch.hypot(own, partner).add_(size).add_(flushed), out=error)
    triple.abs_()
    error.addcmul_(own, turn.cos_error).addcmul_(partner, turn.sin_error)
    error.add_(_roundoff(own * turn.cos_max, arithmetic)).add_(_roundoff(partner * turn.sin_max, arithmetic))
    if may_flush(fmt, arithmetic):
        own_flushed, partner_flushed = triple_views(triple - torch.threshold(triple, fmt.largest_subnormal, 0.0))
        error.addcmul_(own_flushed, turn.cos_max).addcmul_(partner_flushed, turn.sin_max)
    if fmt != FLOAT32:
        error.add_(_roundoff(size + error, arithmetic))
    if not float(triple.amax()) < _NO_OVERFLOW:
        unspecified = _unspecified(size + error, own, partner, turn)
        exact.masked_fill_(unspecified, 0.0)
        error.masked_fill_(unspecified, math.inf)


def token_blocks(x: Tensor) -> Iterator[slice]:
    """Slices of the first axis of x that are small enough for the cache; none if x is empty."""
    step = max(1, _BLOCK * len(x) // max(1, x.numel()))
    for start in range(0, len(x) if x.numel() else 0, step):
        yield slice(start, start + step)


def element_bound(x: Tensor, turn: TurnBound, arithmetic: Arithmetic = GRANTED) -> Bound:
    """The bound of x [num_tokens, num_heads, head_dim], of the dtype that the kernel is given and returns.

    `arithmetic` is the one that `turn` was made for.

    ValueError for a dtype other than float16, bfloat16 and float32.
    """
    exact = torch.empty(x.shape, dtype=torch.float64)
    error = torch.empty(x.shape, dtype=torch.float64)
    for block in token_blocks(x):
        rows = TurnBound(*(plane[block] for plane in turn))
        _bound_block(x[block], rows, arithmetic, exact[block], error[block])
    return Bound(exact, error, arithmetic)


def error_bound(
    x: Tensor, positions: Tensor, rope_base: float, accuracy: Accuracy, arithmetic: Arithmetic = GRANTED
) -> Bound:
    """The bound of x [num_tokens, num_heads, head_dim] rotated by positions [num_tokens], for x's dtype.

    Raises what `turn_bound` and `element_bound` raise. For q and k of one call, which share positions, take
    one `turn_bound` and two `element_bound`.
    """
    return element_bound(x, turn_bound(positions, rope_base, x.shape[-1], accuracy, arithmetic), arithmetic)
