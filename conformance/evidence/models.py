"""Right kernels in float32, as tensor code: plain ones of each class, and ones that spend all that their class allows.

A float32 value is held in a float64 tensor, so that the product of two of them is exact and each rounding is explicit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE, FORMATS, Accuracy, Arithmetic, cos_sin
from reference.floats import FLOAT32, ulp

CosSin = Callable[[Tensor, float, int, Arithmetic], tuple[Tensor, Tensor]]
"""cos and sin [num_tokens, head_dim/2] at positions [num_tokens], for a base, a head_dim and an arithmetic."""

# As IEEE 754 has it: subnormals are kept, every rounding is to nearest.
IEEE = Arithmetic(flushes=False, flushes_half=False, honours_nonfinite=True)
FLUSHING = replace(IEEE, flushes=True, flushes_half=True)
TRUNCATING = replace(IEEE, toward_zero=True)
NARROWING = replace(IEEE, narrows_toward_zero=True)


def _not_beyond(near: Tensor, exact: Tensor) -> Tensor:
    """`near`, or its neighbour toward zero where it is farther from zero than `exact`."""
    return torch.where(near.abs().to(torch.float64) > exact.abs(), near.nextafter(torch.zeros_like(near)), near)


def rounded(exact: Tensor, arithmetic: Arithmetic) -> Tensor:
    """float64 values rounded to float32 and still held in float64.

    A sum that float64 has rounded up to a float32 is not truncated below it: more exact than true truncation.
    """
    near = exact.to(torch.float32)
    return (_not_beyond(near, exact) if arithmetic.toward_zero else near).to(torch.float64)


def narrowed(held: Tensor, dtype: torch.dtype, arithmetic: Arithmetic) -> Tensor:
    """float32 values, held in float64, converted to the output type."""
    near = held.to(torch.float32).to(dtype)
    return _not_beyond(near, held) if arithmetic.narrows_toward_zero else near


def flushed(held: Tensor, dtype: torch.dtype) -> Tensor:
    """Values that are subnormal in `dtype` set to zero."""
    return torch.where(held.abs() < FORMATS[dtype].smallest_normal, 0.0, held)


def pushed(exact: Tensor, ulps: Tensor | float, side: Tensor | float) -> Tensor:
    """The farthest float32 from `exact` within `ulps` float32 ulps of it, on the given side (-1, 0 or 1)."""
    reach = ulp(exact, FLOAT32) * ulps
    far = (exact + side * reach).to(torch.float32)
    beyond = (far.to(torch.float64) - exact).abs() > reach
    return torch.where(beyond, far.nextafter(exact.to(torch.float32)), far).to(torch.float64)


def _sides(shape: torch.Size) -> Tensor:
    """-1, 0 or 1 for each element."""
    generator = torch.Generator().manual_seed(7)
    return torch.randint(-1, 2, shape, generator=generator, dtype=torch.float64)


def exact_angle(positions: Tensor, base: float, head_dim: int, _: Arithmetic) -> tuple[Tensor, Tensor]:
    """The oracle's cos and sin, rounded to float32."""
    cos, sin = cos_sin(positions, base, head_dim)
    return rounded(cos, IEEE), rounded(sin, IEEE)


def exact_angle_worst(
    positions: Tensor, base: float, head_dim: int, _: Arithmetic, *, side: float
) -> tuple[Tensor, Tensor]:
    """The angle off by all that the class allows, to one side, and cos and sin by all that they may."""
    assert EXACT_ANGLE.angle_error is not None
    assert EXACT_ANGLE.trig_ulp is not None
    cos, sin = cos_sin(positions, base, head_dim)
    off = 0.998 * side * EXACT_ANGLE.angle_error
    turned = cos * math.cos(off) - sin * math.sin(off), sin * math.cos(off) + cos * math.sin(off)
    sides = _sides(cos.shape)
    return pushed(turned[0], EXACT_ANGLE.trig_ulp, sides), pushed(turned[1], EXACT_ANGLE.trig_ulp, -sides)


def recipe_frequency(
    base: float, head_dim: int, arithmetic: Arithmetic, worst: Accuracy | None = None, side: float = 0.0
) -> Tensor:
    """exp2(-2i * (log2(base) / head_dim)) in float32, [head_dim/2].

    log2 and exp2 are right but for their rounding, or err to `side` by all that the class `worst` allows.
    """
    log2_base = torch.tensor(base, dtype=torch.float32).to(torch.float64).log2()
    # The host takes the logarithm and divides, to nearest whatever the kernel does.
    step = rounded(pushed(log2_base, worst.log2_ulp if worst else 0.5, -side) / head_dim, IEEE)
    exponent = rounded(2.0 * torch.arange(head_dim // 2, dtype=torch.float64) * step, arithmetic)
    frequency = torch.exp2(-exponent)
    if worst is None:
        return rounded(frequency, IEEE)
    ulps = worst.exp2_ulp + torch.floor(worst.exp2_ulp_growth * exponent)
    return torch.where(exponent == 0, 1.0, pushed(frequency, ulps, side))


def recipe_angle(
    positions: Tensor,
    base: float,
    head_dim: int,
    arithmetic: Arithmetic,
    worst: Accuracy | None = None,
    side: float = 0,
) -> Tensor:
    """float32(position) * frequency in float32, [num_tokens, head_dim/2]."""
    distance = rounded(positions.to(torch.float64), arithmetic)[:, None]
    return rounded(distance * recipe_frequency(base, head_dim, arithmetic, worst, side), arithmetic)


def recipe(positions: Tensor, base: float, head_dim: int, arithmetic: Arithmetic) -> tuple[Tensor, Tensor]:
    """The float32 recipe, cos and sin right but for their rounding."""
    angle = recipe_angle(positions, base, head_dim, arithmetic)
    return rounded(angle.cos(), IEEE), rounded(angle.sin(), IEEE)


def recipe_worst(
    positions: Tensor, base: float, head_dim: int, arithmetic: Arithmetic, *, side: float
) -> tuple[Tensor, Tensor]:
    """The recipe with log2, exp2, cos and sin off by all that they may."""
    assert FLOAT32_ANGLE.trig_ulp is not None
    angle = recipe_angle(positions, base, head_dim, arithmetic, FLOAT32_ANGLE, side)
    sides = _sides(angle.shape)
    return pushed(angle.cos(), FLOAT32_ANGLE.trig_ulp, sides), pushed(angle.sin(), FLOAT32_ANGLE.trig_ulp, -sides)


def sine_of_quarters(quarters: Tensor) -> Tensor:
    """sin(pi/2 * quarters) for quarters in [0, 4), by an odd quintic of error 1.1e-4, just within 2^-13."""
    folded = torch.where(quarters < 1, quarters, torch.where(quarters < 3, 2 - quarters, quarters - 4))
    square = folded * folded
    return rounded(folded * (1.57062685 + square * (-0.64322921 + square * 0.07271024)), IEEE)


def turns_trig(angle: Tensor, arithmetic: Arithmetic) -> tuple[Tensor, Tensor]:
    """Fast cos and sin as Mesa's compiler lowers them for Apple's GPUs: scaled to turns, plus 1/4, fraction, sine."""
    turns = rounded(angle * _INVERSE_TURN, arithmetic)
    shifted = rounded(turns + 0.25, arithmetic)
    return sine_of_quarters(4 * (shifted - shifted.floor())), sine_of_quarters(4 * (turns - turns.floor()))


def fast_turns(positions: Tensor, base: float, head_dim: int, arithmetic: Arithmetic) -> tuple[Tensor, Tensor]:
    """The recipe with the fast cos and sin of Apple's GPUs."""
    return turns_trig(recipe_angle(positions, base, head_dim, arithmetic), arithmetic)


def fast_cody_waite(positions: Tensor, base: float, head_dim: int, arithmetic: Arithmetic) -> tuple[Tensor, Tensor]:
    """The recipe with fast cos and sin that subtract quarter turns, pi/2 held in two float32."""
    angle = recipe_angle(positions, base, head_dim, arithmetic)
    count = rounded(angle * _INVERSE_QUARTER, arithmetic).round()
    left = rounded(angle - rounded(count * _QUARTER_HIGH, arithmetic), arithmetic)
    left = rounded(left - rounded(count * _QUARTER_LOW, arithmetic), arithmetic)
    part = rounded(left * _INVERSE_QUARTER, arithmetic).clamp(-1.0, 1.0)
    quarters = part + count.remainder(4)
    return sine_of_quarters((quarters + 1).remainder(4)), sine_of_quarters(quarters.remainder(4))


def fast_worst(
    positions: Tensor, base: float, head_dim: int, arithmetic: Arithmetic, *, side: float
) -> tuple[Tensor, Tensor]:
    """The recipe with log2, exp2 and fast cos and sin off by all that they may."""
    angle = recipe_angle(positions, base, head_dim, arithmetic, FAST, side)
    slope = FAST.trig_slope * 2 * arithmetic.ulps
    allowed = 0.999 * (FAST.trig_absolute + torch.where(angle.abs() > math.pi, slope * angle.abs(), 0.0))
    sides, top = _sides(angle.shape), 1 + FAST.trig_absolute
    pair = angle.cos() + sides * allowed, angle.sin() - sides * allowed
    return rounded(pair[0].clamp(-top, top), IEEE), rounded(pair[1].clamp(-top, top), IEEE)


def _float32(value: float) -> float:
    return torch.tensor(value, dtype=torch.float32).item()


_INVERSE_TURN = _float32(0.5 / math.pi)
_INVERSE_QUARTER = _float32(2 / math.pi)
_QUARTER_HIGH = _float32(math.pi / 2)
_QUARTER_LOW = _float32(math.pi / 2 - _QUARTER_HIGH)


@dataclass(frozen=True)
class Model:
    """A float32 kernel: its class, its cos and sin, whether it fuses, and what its arithmetic does."""

    name: str
    accuracy: Accuracy
    trig: CosSin
    arithmetic: Arithmetic = IEEE
    fma: bool = False

    errs_on_purpose: bool = False
    """Whether it spends all that its class allows, in one direction."""

    def rotate(self, x: Tensor, positions: Tensor, rope_base: float) -> Tensor:
        """x [num_tokens, num_heads, head_dim] rotated in float32 and rounded to its dtype."""
        cos, sin = self.trig(positions, rope_base, x.shape[-1], self.arithmetic)
        return rotated(x, cos, sin, self.arithmetic, fma=self.fma)


def rotated(x: Tensor, cos: Tensor, sin: Tensor, arithmetic: Arithmetic, *, fma: bool = False) -> Tensor:
    """x [num_tokens, num_heads, head_dim] turned by cos and sin [num_tokens, head_dim/2], rounded to its dtype."""
    flushes = arithmetic.flushes_half if x.dtype == torch.float16 else arithmetic.flushes

    def result(exact: Tensor) -> Tensor:
        value = rounded(exact, arithmetic)
        return flushed(value, torch.float32) if arithmetic.flushes else value

    cos, sin, held = cos[:, None, :], sin[:, None, :], x.to(torch.float64)
    x1, x2 = (flushed(held, x.dtype) if flushes else held).chunk(2, -1)
    first, second = x1 * cos, x1 * sin
    if not fma:
        first, second = result(first), result(second)
    out = narrowed(result(torch.cat((first - result(x2 * sin), second + result(x2 * cos)), -1)), x.dtype, arithmetic)
    return flushed(out, x.dtype) if flushes else out


def _variants(name: str, accuracy: Accuracy, trig: CosSin) -> tuple[Model, ...]:
    """One kernel under each arithmetic."""
    return (
        Model(name, accuracy, trig),
        Model(f"{name}, FMA", accuracy, trig, fma=True),
        Model(f"{name}, flushing", accuracy, trig, FLUSHING),
        Model(f"{name}, toward zero", accuracy, trig, TRUNCATING),
        Model(f"{name}, FMA, narrowing toward zero", accuracy, trig, NARROWING, fma=True),
    )


def _worst(name: str, accuracy: Accuracy, trig: Callable[..., tuple[Tensor, Tensor]]) -> tuple[Model, ...]:
    """An adversary: its angle off to either side, and truncating."""
    return (
        Model(f"{name}, worst below", accuracy, partial(trig, side=-1.0), errs_on_purpose=True),
        Model(f"{name}, worst above", accuracy, partial(trig, side=1.0), errs_on_purpose=True),
        Model(f"{name}, worst, toward zero", accuracy, partial(trig, side=-1.0), TRUNCATING, errs_on_purpose=True),
    )


MODELS = (
    *_variants("exact angle", EXACT_ANGLE, exact_angle),
    *_worst("exact angle", EXACT_ANGLE, exact_angle_worst),
    *_variants("float32 recipe", FLOAT32_ANGLE, recipe),
    *_worst("float32 recipe", FLOAT32_ANGLE, recipe_worst),
    *_variants("fast turns", FAST, fast_turns),
    Model("fast Cody-Waite", FAST, fast_cody_waite),
    Model("fast Cody-Waite, toward zero", FAST, fast_cody_waite, TRUNCATING),
    Model("float32 recipe as fast", FAST, recipe, FLUSHING, fma=True),
    *_worst("fast", FAST, fast_worst),
)
