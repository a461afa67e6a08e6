"""Kernels that are right but for one defect, and the inputs on which judges are compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from conformance.evidence.models import IEEE, NARROWING, recipe_frequency, rotated, rounded, turns_trig
from reference import EXACT_ANGLE, FAST, Accuracy, cos_sin, frequency_table

BASE, HEAD_DIM, NUM_TOKENS, NUM_HEADS = 1e4, 128, 64, 8
ALL_POSITIONS = 1 << 17
SEQUENTIAL = 0
"""A limit that stands for the positions 0, 1, 2, ..., as most tests have them."""

Shift = Callable[[Tensor, Tensor], Tensor]
"""What is added to the angle, in radians: float64 of positions [num_tokens, 1] and frequency [head_dim/2]."""


@dataclass(frozen=True)
class Defect:
    """One mistake; without any the kernel is right."""

    shift: Shift | None = None
    trig: Callable[[Tensor], Tensor] | None = None
    """What becomes of cos and sin, float64 [2, num_tokens, head_dim/2]."""
    truncates: bool = False
    """Whether the output is rounded toward zero."""


RIGHT = Defect()


def _frequency(relative: Callable[[Tensor], Tensor]) -> Defect:
    """Frequencies off by `relative` [head_dim/2] of themselves, a function of 2i / head_dim."""
    exponent = 2.0 * torch.arange(HEAD_DIM // 2, dtype=torch.float64) / HEAD_DIM
    error = relative(exponent)
    return Defect(lambda positions, frequency: positions * (frequency * error))


def _base(size: float) -> Defect:
    return _frequency(lambda exponent: torch.expm1(-exponent * math.log1p(size)))


def _random_signs(size: float) -> Defect:
    def trig(pair: Tensor) -> Tensor:
        signs = torch.randint(0, 2, pair.shape, generator=torch.Generator().manual_seed(99)) * 2 - 1
        return pair + size * signs

    return Defect(trig=trig)


def _rounded_position(dtype: torch.dtype) -> Defect:
    return Defect(lambda positions, frequency: (_through(positions, dtype) - positions) * frequency)


def _rounded_angle(dtype: torch.dtype) -> Defect:
    return Defect(lambda positions, frequency: _through(positions * frequency, dtype) - positions * frequency)


def _through(values: Tensor, dtype: torch.dtype) -> Tensor:
    """float64 values rounded to `dtype` and back; infinite where they overflow it."""
    return values.to(dtype).to(torch.float64)


SIZED: dict[str, Callable[[float], Defect]] = {
    "inv_freq rel., all i": lambda size: _frequency(lambda exponent: torch.full_like(exponent, size)),
    "inv_freq rel., i >= 1": lambda size: _frequency(lambda exponent: size * (exponent > 0)),
    "cos, sin + 2^-k": lambda size: Defect(trig=lambda pair: pair + size),
    "cos, sin +- 2^-k": _random_signs,
    "base rel.": _base,
}
"""Defects of a size, by name."""
OF_FREQUENCY = ("inv_freq rel., all i", "inv_freq rel., i >= 1", "base rel.")

GROSS: dict[str, Defect] = {
    "base + 1e-3": _base(1e-3),
    "position + 1": Defect(lambda _, frequency: frequency),
    "position to f16": _rounded_position(torch.float16),
    "position to bf16": _rounded_position(torch.bfloat16),
    "i/D for 2i/D": Defect(lambda positions, frequency: positions * (frequency.sqrt() - frequency)),
    "angle in f16": _rounded_angle(torch.float16),
    "angle in bf16": _rounded_angle(torch.bfloat16),
    "cos, sin to bf16": Defect(trig=lambda pair: _through(pair, torch.bfloat16)),
    "cos, sin to f16": Defect(trig=lambda pair: _through(pair, torch.float16)),
    "truncation": Defect(truncates=True),
}
"""Defects that are there or not, by name."""


@dataclass(frozen=True, eq=False)
class Sample:
    """x [NUM_TOKENS, NUM_HEADS, HEAD_DIM], normal, and positions [NUM_TOKENS]."""

    x: Tensor
    positions: Tensor


@lru_cache(maxsize=256)
def sample(dtype: torch.dtype, seed: int, limit: int) -> Sample:
    """Positions log-uniform from 1 up to `limit`, exclusive; or SEQUENTIAL."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.rand(NUM_TOKENS, generator=generator, dtype=torch.float64)
    x = torch.randn(NUM_TOKENS, NUM_HEADS, HEAD_DIM, generator=generator, dtype=torch.float64).to(dtype)
    positions = torch.arange(NUM_TOKENS) if limit == SEQUENTIAL else torch.exp(drawn * math.log(limit)).floor()
    return Sample(x, positions.to(torch.int32))


def output(accuracy: Accuracy, given: Sample, defect: Defect = RIGHT) -> Tensor:
    """What a kernel of that class, right but for the defect, makes of a sample.

    Exact angle: the oracle's cos and sin rounded to float32. Float32 angle: the recipe, all else right but for its
    rounding. Fast: the recipe with cos and sin as on Apple's GPUs.
    """
    positions = given.positions.to(torch.float64)[:, None]
    shift = defect.shift(positions, frequency_table(BASE, HEAD_DIM).radians) if defect.shift else torch.zeros(())
    if accuracy == EXACT_ANGLE:
        pair = _turned(*cos_sin(given.positions, BASE, HEAD_DIM), shift)
    else:
        angle = rounded(positions * recipe_frequency(BASE, HEAD_DIM, IEEE) + shift, IEEE)
        pair = turns_trig(angle, IEEE) if accuracy == FAST else (angle.cos(), angle.sin())
    both = rounded(torch.stack(pair), IEEE)
    cos, sin = rounded(defect.trig(both), IEEE) if defect.trig else both
    return rotated(given.x, cos, sin, NARROWING if defect.truncates else IEEE)


def _turned(cos: Tensor, sin: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of an angle moved by `shift`."""
    along, across = shift.cos(), shift.sin()
    return cos * along - sin * across, sin * along + cos * across
