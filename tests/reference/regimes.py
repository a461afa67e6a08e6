"""Inputs of every kind: a head each."""

from __future__ import annotations

import torch
from torch import Tensor

from reference import FORMATS, cos_sin


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
