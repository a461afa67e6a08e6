"""What hides inside the bound of each element: a bias of the rounding, and a frequency that is a little off.

Both look at many elements at once, so they hold for independent values only, such as normal ones. Thresholds are
six standard deviations of what a right kernel of the class shows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from reference.accuracy import GRANTED, Accuracy, Arithmetic
from reference.angle import float32_base, frequency_table
from reference.bounds import Bound, turn_bound
from reference.floats import FLOAT32, FloatFormat, format_of, ulp

_SIGMAS = 6.0
_LEAST = 500
"""Fewer elements say nothing of a mean."""
_ANGLE_KNOWN = 0.3
"""A bound on the angle, in radians, beyond which a phase may have turned too far to tell which way."""
_TRIG_KNOWN = 2.0**-5
"""A bound on sine and cosine beyond which their errors no longer average out."""
_GRID_STEPS = 8
# Fast sine and cosine may scale to turns by the float32 nearest to 1 / (2 pi), alike for every pair.
_FLOAT32_TURN_ERROR = float(torch.tensor(0.5 / math.pi, dtype=torch.float32)) * 2 * math.pi - 1


@dataclass(frozen=True)
class Bias:
    """Mean error toward zero of an output, in its ulps, and how large it may be."""

    mean: float
    threshold: float
    elements: int


@dataclass(frozen=True)
class FrequencyError:
    """Relative error of the frequencies, as recovered from an output; each is 1 at six standard deviations.

    `common` is an error that all pairs share, `slope` one that grows as 2i / head_dim as that of a base does, `pair`
    that of the single pair `index`.
    """

    common: float
    slope: float
    pair: float
    index: int
    relative: float
    """The error that pairs share, as a fraction of the frequency."""
    pair_relative: float
    """That of the single pair."""

    @property
    def worst(self) -> float:
        return max(abs(self.common), abs(self.slope), abs(self.pair))


def output_bias(out: Tensor, bound: Bound) -> Bias | None:
    """The bias of out [num_tokens, num_heads, head_dim] toward zero; None where too few elements can tell.

    An element can tell if its error before the rounding is below 1/16 ulp, and if it is off by no more than a rounding
    and that error: what is farther off is no matter of rounding. Rounding to nearest is uniform on half an ulp either
    way: variance 1/12; to its mean the error before the rounding adds at most the mean of E.
    """
    fmt = format_of(out.dtype)
    unit, size = ulp(bound.exact, fmt), bound.exact.abs()
    # Twelve binades from the ends: neither a subnormal nor an overflow has a say.
    tells = (bound.error < unit / 16) & (size > fmt.smallest_normal * 2.0**12) & (size < fmt.largest / 4)
    tells &= (bound.exact - out.to(torch.float64)).abs() <= unit + bound.error
    elements = int(tells.sum())
    if elements < _LEAST:
        return None
    exact, value, unit = bound.exact[tells], out[tells].to(torch.float64), unit[tells]
    mean = float(((exact - value) * exact.sign() / unit).mean())
    return Bias(mean, float((bound.error[tells] / unit).mean()) + _SIGMAS / math.sqrt(12 * elements), elements)


def frequency_error(
    out: Tensor,
    x: Tensor,
    positions: Tensor,
    rope_base: float,
    accuracy: Accuracy,
    arithmetic: Arithmetic = GRANTED,
) -> FrequencyError | None:
    """The frequency error that out, rotated from x [num_tokens, num_heads, head_dim], shows; None if it can't tell.

    The phase by which each pair of each token is off, over its heads, is regressed on the angle. What the float32
    recipe is known to do to its exponent is not held against a kernel that may use the recipe; neither is the lack of
    it. exp2 is taken to be within 1 ulp and independent between pairs, which is more than any specification promises:
    for warnings only.
    """
    head_dim = x.shape[-1]
    if arithmetic.toward_zero:
        # Every rounding has the same sign then, and no variance tells how far they add up.
        return None
    turn = turn_bound(positions, rope_base, head_dim, accuracy, arithmetic)
    half = slice(0, head_dim // 2)
    cos, sin = turn.cos[:, 0, half], -turn.sin[:, 0, half]
    # Inputs lie on the output's grid: an angle too small to leave a point of it is no random rounding.
    leaves = torch.minimum(cos.abs(), sin.abs()) > _GRID_STEPS * format_of(out.dtype).unit
    known = (
        (turn.angle_error[:, 0, half] < _ANGLE_KNOWN)
        & (turn.cos_error[:, 0, half] < _TRIG_KNOWN)
        & leaves
        & _first_of_each(positions)[:, None]
    )
    if head_dim < 4 or int(known[:, 1:].sum()) < _LEAST:
        return None
    theta = positions.to(torch.float64)[:, None] * frequency_table(rope_base, head_dim).radians
    phase, variance = _phase(out, x, cos, sin)
    weight = known / (variance + _angle_variance(theta, accuracy))
    information = (weight * theta.square()).sum(0)
    recovered = (weight * phase * theta).sum(0) / information
    variance = 1 / information + _offset_variance(theta, weight, accuracy)
    found = [_against(recovered, variance, expected) for expected in _expected(rope_base, head_dim, accuracy)]
    return min(found, key=lambda error: error.worst)


def _first_of_each(positions: Tensor) -> Tensor:
    """The first token at each position but 0; tokens at one position share the rounding of their angle."""
    _, which = torch.unique(positions, return_inverse=True)
    tokens = torch.arange(len(positions))
    first = torch.full((int(which.max()) + 1,), len(positions)).scatter_reduce(0, which, tokens, "amin")
    return (first[which] == tokens) & (positions != 0)


def _phase(out: Tensor, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Error of the phase of each pair of each token and the variance of it: float64 [num_tokens, head_dim/2]."""
    fmt = format_of(out.dtype)
    x1, x2 = x.to(torch.float64).chunk(2, -1)
    o1, o2 = out.to(torch.float64).chunk(2, -1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    y1, y2 = x1 * cos - x2 * sin, x1 * sin + x2 * cos
    along, across = (o1 * y1 + o2 * y2).sum(1), (o2 * y1 - o1 * y2).sum(1)
    square = (x1.square() + x2.square()).sum(1)
    noise = (_rounding_variance(y1, fmt) * y2.square() + _rounding_variance(y2, fmt) * y1.square()).sum(1)
    return torch.atan2(across, along), noise / square.square()


def _rounding_variance(values: Tensor, fmt: FloatFormat) -> Tensor:
    """Variance of one rounding to nearest; float32 outputs carry the roundings of two products too."""
    return ulp(values, fmt).square() * ((3.0 if fmt == FLOAT32 else 1.0) / 12)


def _angle_variance(theta: Tensor, accuracy: Accuracy) -> Tensor:
    """Variance of the phase from the angle's last rounding and from sine and cosine."""
    variance = (theta * (FLOAT32.unit / 2)).square() / 3
    if accuracy.trig_ulp is not None:
        return variance + FLOAT32.unit**2
    return variance + accuracy.trig_absolute**2 / 2 + (theta * (accuracy.trig_slope / 2)).square() / 3


def _offset_variance(theta: Tensor, weight: Tensor, accuracy: Accuracy) -> Tensor:
    """What an error of sine and cosine does that stays, as the angle hardly moves: float64 [head_dim/2]."""
    known = weight > 0
    moves = torch.where(known, theta, -math.inf).amax(0) - torch.where(known, theta, math.inf).amin(0) > 2 * math.pi
    offset = FLOAT32.unit if accuracy.trig_ulp is not None else accuracy.trig_absolute
    seen = offset * (weight * theta).sum(0) / (weight * theta.square()).sum(0)
    return torch.where(moves, 0.0, seen.square())


@lru_cache(maxsize=64)
def _expected(rope_base: float, head_dim: int, accuracy: Accuracy) -> list[tuple[Tensor, float]]:
    """Relative frequency errors that a right kernel may show, with the variance around each: float64 [head_dim/2]."""
    exact = torch.zeros(head_dim // 2, dtype=torch.float64), 0.0
    if accuracy.angle_error is not None:
        return [exact]
    steps = 2.0 * torch.arange(head_dim // 2, dtype=torch.float64)
    log2_base = math.log2(float32_base(rope_base))
    log2, dim = torch.tensor(log2_base, dtype=torch.float32), torch.tensor(float(head_dim), dtype=torch.float32)
    variance = FLOAT32.unit**2 / 3
    # The exponent is 2i * (log2(base) / head_dim) or (2i * log2(base)) / head_dim.
    exponents = (steps.to(torch.float32) * (log2 / dim), steps.to(torch.float32) * log2 / dim)
    recipes = [-math.log(2.0) * (e.to(torch.float64) - steps * (log2_base / head_dim)) for e in exponents]
    turns = [] if accuracy.trig_ulp is not None else [recipe + _FLOAT32_TURN_ERROR for recipe in recipes]
    # A kernel may hold better frequencies than the recipe's, rounded to float32.
    return [(error, variance) for error in (exact[0], *recipes, *turns)]


def _against(recovered: Tensor, variance: Tensor, expected: tuple[Tensor, float]) -> FrequencyError:
    """The recovered errors, less the expected ones, as fractions of six standard deviations; pair 0 has frequency 1."""
    error = (recovered - expected[0])[1:]
    weight = 1 / (variance + expected[1])[1:]
    told = weight.isfinite() & (weight > 0)
    error, weight = torch.where(told, error, 0.0), torch.where(told, weight, 0.0)
    slope = torch.arange(1, len(error) + 1, dtype=torch.float64) / (len(error) + 1)
    pairs = error * weight.sqrt()
    index = int(pairs.abs().argmax())
    common = float((weight * error).sum() / weight.sum())
    inclined = float((weight * slope * error).sum() / (weight * slope.square()).sum().sqrt())
    return FrequencyError(
        common=common * math.sqrt(float(weight.sum())) / _SIGMAS,
        slope=inclined / _SIGMAS,
        pair=float(pairs[index]) / _SIGMAS,
        index=index + 1,
        relative=common,
        pair_relative=float(error[index]),
    )
