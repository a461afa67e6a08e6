"""Right kernels of each accuracy class in float32, some of which spend all that their class allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE, FORMATS, Accuracy, cos_sin

F32 = np.float32
Array = NDArray[np.float32]
CosSin = Callable[[Tensor, float, int], tuple[Array, Array]]


def pushed(exact: NDArray[np.float64], ulps: NDArray[np.float64] | float, side: NDArray[np.float64] | float) -> Array:
    """The farthest float32 from `exact` within `ulps` float32 ulps of it, on the given side (-1, 0 or 1)."""
    size = np.maximum(np.abs(exact), 2.0**-126)
    unit = np.exp2(np.floor(np.log2(size)) - 23)
    far = (exact + side * ulps * unit).astype(F32)
    beyond = np.abs(far.astype(np.float64) - exact) > ulps * unit
    return np.where(beyond, np.nextafter(far, exact.astype(F32)), far).astype(F32)


def sides(shape: tuple[int, ...]) -> NDArray[np.float64]:
    return np.random.default_rng(7).choice([-1.0, 0.0, 1.0], size=shape)


def exact_angle(positions: Tensor, base: float, head_dim: int) -> tuple[Array, Array]:
    cos, sin = cos_sin(positions, base, head_dim)
    return cos.numpy().astype(F32), sin.numpy().astype(F32)


def exact_angle_worst(positions: Tensor, base: float, head_dim: int) -> tuple[Array, Array]:
    cos, sin = (t.numpy() for t in cos_sin(positions, base, head_dim))
    off = 0.998 * 2.0**-22
    shifted_cos, shifted_sin = cos * np.cos(off) - sin * np.sin(off), sin * np.cos(off) + cos * np.sin(off)
    return pushed(shifted_cos, 4.0, sides(cos.shape)), pushed(shifted_sin, 4.0, -sides(cos.shape))


def recipe_angle(positions: Tensor, base: float, head_dim: int, worst: Accuracy | None = None) -> Array:
    """float32(p) * exp2(-2i * (log2(base) / D)) in float32; `worst` spends log2 and exp2 in one direction."""
    exact_log2 = np.log2(np.asarray([base], dtype=F32).astype(np.float64))
    step = (pushed(exact_log2, 1.0, 1.0) if worst else exact_log2.astype(F32)) / F32(head_dim)
    exponent = (np.arange(head_dim // 2) * 2).astype(F32) * step
    exact_frequency = np.exp2(-exponent.astype(np.float64))
    if worst:
        ulps = worst.exp2_ulp + np.floor(worst.exp2_ulp_growth * exponent)
        ulps[0] = 0.0
        frequency = pushed(exact_frequency, ulps, -1.0)
    else:
        frequency = exact_frequency.astype(F32)
    return positions.numpy().astype(F32)[:, None] * frequency


def recipe(positions: Tensor, base: float, head_dim: int) -> tuple[Array, Array]:
    angle = recipe_angle(positions, base, head_dim).astype(np.float64)
    return np.cos(angle).astype(F32), np.sin(angle).astype(F32)


def recipe_worst(positions: Tensor, base: float, head_dim: int) -> tuple[Array, Array]:
    angle = recipe_angle(positions, base, head_dim, FLOAT32_ANGLE).astype(np.float64)
    side = sides(angle.shape)
    return pushed(np.cos(angle), 4.0, side), pushed(np.sin(angle), 4.0, -side)


def quarter_sine(turns: Array) -> Array:
    """Sine of a fraction of a turn by an odd polynomial of degree 5 in quarter turns, within 2^-13."""
    quarters = turns * F32(4)
    folded = np.where(quarters < 1, quarters, np.where(quarters < 3, F32(2) - quarters, quarters - F32(4)))
    square = folded * folded
    return folded * (F32(1.57062685) + square * (F32(-0.64322921) + square * F32(0.07271024)))


def fast_turns(positions: Tensor, base: float, head_dim: int) -> tuple[Array, Array]:
    turns = recipe_angle(positions, base, head_dim) * F32(1 / (2 * np.pi))
    shifted = turns + F32(0.25)
    return quarter_sine(shifted - np.floor(shifted)), quarter_sine(turns - np.floor(turns))


def fast_worst(positions: Tensor, base: float, head_dim: int) -> tuple[Array, Array]:
    angle = recipe_angle(positions, base, head_dim, FAST).astype(np.float64)
    reach = np.abs(angle)
    allowed = 0.999 * (FAST.trig_absolute + np.where(reach > np.pi, FAST.trig_slope * reach, 0.0))
    side, top = sides(angle.shape), 1 + FAST.trig_absolute
    cos, sin = np.cos(angle) + side * allowed, np.sin(angle) - side * allowed
    return np.clip(cos, -top, top).astype(F32), np.clip(sin, -top, top).astype(F32)


def flushed(values: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Subnormal values of the format of `dtype` set to zero."""
    return torch.where(values.abs() < FORMATS[dtype].smallest_normal, torch.zeros_like(values), values)


def fused(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a * b + c with the product unrounded; float64 holds the product of two float32 exactly."""
    return (a.double() * b.double() + c.double()).float()


@dataclass(frozen=True)
class Model:
    """A float32 kernel: its class, its cos and sin, and how it multiplies, adds and treats subnormals."""

    name: str
    accuracy: Accuracy
    trig: CosSin
    fma: bool = False
    flush: bool = False

    def rotate(self, x: Tensor, positions: Tensor, base: float) -> Tensor:
        """x [num_tokens, num_heads, head_dim] rotated in float32 and rounded to its dtype."""
        half = x.shape[-1] // 2
        cos, sin = (torch.from_numpy(t)[:, None, :] for t in self.trig(positions, base, 2 * half))
        arithmetic = flushed(x, x.dtype).float() if self.flush else x.float()
        x1, x2 = arithmetic[..., :half], arithmetic[..., half:]
        a, b, c, d = x1 * cos, x2 * sin, x1 * sin, x2 * cos
        if self.flush:
            a, b, c, d = flushed(a), flushed(b), flushed(c), flushed(d)
        pair = (fused(x1, cos, -b), fused(x1, sin, d)) if self.fma else (a - b, c + d)
        out = torch.cat(pair, -1)
        return flushed(flushed(out).to(x.dtype), x.dtype) if self.flush else out.to(x.dtype)


MODELS = (
    Model("exact", EXACT_ANGLE, exact_angle),
    Model("exact-fma", EXACT_ANGLE, exact_angle, fma=True),
    Model("exact-flush", EXACT_ANGLE, exact_angle, flush=True),
    Model("exact-worst", EXACT_ANGLE, exact_angle_worst),
    Model("recipe", FLOAT32_ANGLE, recipe),
    Model("recipe-fma", FLOAT32_ANGLE, recipe, fma=True),
    Model("recipe-flush", FLOAT32_ANGLE, recipe, flush=True),
    Model("recipe-worst", FLOAT32_ANGLE, recipe_worst),
    Model("fast-turns", FAST, fast_turns),
    Model("fast-recipe", FAST, recipe, fma=True, flush=True),
    Model("fast-worst", FAST, fast_worst),
)


def wide(generator: torch.Generator, shape: tuple[int, ...], low: float, high: float) -> Tensor:
    """Signed float64 values with log2 uniform in [low, high]."""
    exponent = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
    sign = torch.randint(0, 2, shape, generator=generator) * 2 - 1
    return torch.exp2(exponent) * sign


def regimes(seed: int, positions: Tensor, base: float, head_dim: int, dtype: torch.dtype) -> Tensor:
    """[num_tokens, 7, head_dim], a regime a head: normal, wide, y1 and y2 cancelling, zeros, tiny, huge."""
    fmt, half, num_tokens = FORMATS[dtype], head_dim // 2, len(positions)
    generator = torch.Generator().manual_seed(seed)
    cos, sin = cos_sin(positions, base, head_dim)
    x = torch.randn(num_tokens, 7, head_dim, generator=generator, dtype=torch.float64)
    x[:, 1] = wide(generator, (num_tokens, head_dim), -12, 10)
    radius = wide(generator, (num_tokens, half), -2, 3)
    x[:, 2] = torch.cat((sin * radius, cos * radius), -1)
    x[:, 3] = torch.cat((cos * radius, -sin * radius), -1)
    x[:, 4, :half] = 0.0
    x[::2, 4] = x[::2, 4].roll(half, -1)
    lowest = fmt.min_exponent + 1 - fmt.precision
    x[:, 5] = wide(generator, (num_tokens, head_dim), lowest, lowest + 26)
    top = fmt.max_exponent + 0.999
    x[:, 6] = wide(generator, (num_tokens, head_dim), top - 6, top)
    return x.to(dtype)
