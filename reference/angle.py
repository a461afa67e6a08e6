"""cos and sin of position * rope_base ** (-2 i / head_dim), to 2^-52 for every int32 position.

The angle is reduced by a multiple k of pi/2 in three chunks, cut so that float64 holds every product of the
first two exactly (|p| <= 2^31, 0 < w <= 1, |k| < 2^30.4):

    w    = w0 + w1 + w2   w0 on the grid 2^-22, w1 on 2^-43 with |w1| <= 2^-23, w2 the rest
    pi/2 = h0 + h1 + h2   h0 on the grid 2^-21, h1 on 2^-43 with |h1| <= 2^-22, h2 the rest
    p*w0 - k*h0           on the grid 2^-22, below 2^10                       exact
    p*w1 - k*h1           on the grid 2^-43, below 2^9.4                      exact
    high = their sum      on the grid 2^-43, below 1                          exact
    low  = p*w2 - k*h2    both products below 2^-13                           error below 2^-64
    high + low            below 1                                             error below 2^-54
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isfinite

import mpmath
import torch
from torch import Tensor

_PRECISION = 300
_INT32_SAFE = {torch.int8, torch.int16, torch.int32, torch.uint8, torch.uint16}
_INT32_CHECKED = {torch.int64, torch.uint32, torch.uint64}
_QUARTER_COS = torch.tensor([1.0, 0.0, -1.0, 0.0], dtype=torch.float64)
_QUARTER_SIN = torch.tensor([0.0, 1.0, 0.0, -1.0], dtype=torch.float64)
# Angles per block: its float64 temporaries stay in the second-level cache.
_BLOCK = 1 << 14


@dataclass(frozen=True)
class FrequencyTable:
    """Radians per position of some elements and their three chunks; float64 [n], not to be written to."""

    radians: Tensor
    quarter_turns: Tensor
    chunk0: Tensor
    chunk1: Tensor
    chunk2: Tensor


def _chunks(value: mpmath.mpf, first_grid: int) -> tuple[float, float, float]:
    """`value` as the sum of a multiple of 2^-first_grid, a multiple of 2^-43 and the rest."""
    chunk0 = mpmath.ldexp(mpmath.nint(mpmath.ldexp(value, first_grid)), -first_grid)
    chunk1 = mpmath.ldexp(mpmath.nint(mpmath.ldexp(value - chunk0, 43)), -43)
    return float(chunk0), float(chunk1), float(value - chunk0 - chunk1)


with mpmath.workprec(_PRECISION):
    HALF_PI = _chunks(mpmath.pi / 2, 21)


def float32_base(rope_base: float) -> float:
    """The base as the kernel sees it, rounded to float32; ValueError unless finite and at least 1."""
    rounded = torch.tensor(rope_base, dtype=torch.float32).item()
    if not (isfinite(rounded) and rounded >= 1.0):
        raise ValueError(f"rope_base must be a finite float32 of at least 1, got {rope_base}")
    return rounded


@lru_cache(maxsize=1024)
def frequency_table(rope_base: float, head_dim: int) -> FrequencyTable:
    """w = rope_base ** (-2 i / head_dim) for i < head_dim/2, the base rounded to float32 first.

    ValueError for an odd or non-positive head_dim and for a base that `float32_base` refuses.
    """
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"head_dim must be even and positive, got {head_dim}")
    rows = []
    with mpmath.workprec(_PRECISION):
        ratio = mpmath.power(float32_base(rope_base), mpmath.mpf(-2) / head_dim)
        frequency = mpmath.mpf(1)
        for _ in range(head_dim // 2):
            rows.append((float(frequency), float(frequency * 2 / mpmath.pi), *_chunks(frequency, 22)))
            frequency *= ratio
    return FrequencyTable(*torch.tensor(rows, dtype=torch.float64).t().contiguous())


@lru_cache(maxsize=1024)
def signed_table(rope_base: float, head_dim: int) -> FrequencyTable:
    """The table over all head_dim elements, negated in the first half.

    With it cos is (c, c) and sin is (-s, s), so that rotated = x * cos + partner * sin for every element.
    """
    half = frequency_table(rope_base, head_dim)
    return FrequencyTable(*(torch.cat((-column, column)) for column in vars(half).values()))


def position_column(positions: Tensor) -> Tensor:
    """Positions [num_tokens] of any integer dtype as float64 [num_tokens, 1].

    ValueError for a dtype that is no integer and for a position outside int32.
    """
    column = positions.to(torch.float64).reshape(-1, 1)
    if positions.dtype in _INT32_SAFE:
        return column
    if positions.dtype not in _INT32_CHECKED:
        raise ValueError(f"positions must be integers, got {positions.dtype}")
    if bool(((column < -(2.0**31)) | (column >= 2.0**31)).any()):
        raise ValueError("positions must fit int32")
    return column


def cos_sin_of(column: Tensor, table: FrequencyTable) -> tuple[Tensor, Tensor]:
    """cos and sin of column * table.radians: float64 [..., 1] and [n] give [..., n].

    Worked out a block of rows at a time: beside its results it needs the memory of a few blocks.
    """
    width = len(table.radians)
    step = max(1, _BLOCK // width)
    if column.numel() <= step:
        return _cos_sin_block(column, table)
    rows = column.reshape(-1, 1)
    shape = (*column.shape[:-1], width)
    cos, sin = torch.empty(shape, dtype=torch.float64), torch.empty(shape, dtype=torch.float64)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        cos.view(len(rows), -1)[part], sin.view(len(rows), -1)[part] = _cos_sin_block(rows[part], table)
    return cos, sin


def _cos_sin_block(column: Tensor, table: FrequencyTable) -> tuple[Tensor, Tensor]:
    turns = torch.round(column * table.quarter_turns)
    high = torch.sub(column * table.chunk0, turns, alpha=HALF_PI[0])
    high.add_(torch.sub(column * table.chunk1, turns, alpha=HALF_PI[1]))
    low = torch.sub(column * table.chunk2, turns, alpha=HALF_PI[2])
    angle = high.add_(low)
    cos, sin = torch.cos(angle), torch.sin(angle)
    quadrant = turns.to(torch.int64).bitwise_and_(3)
    turn_cos, turn_sin = _QUARTER_COS.take(quadrant), _QUARTER_SIN.take(quadrant)
    return (cos * turn_cos).addcmul_(sin, turn_sin, value=-1.0), (sin * turn_cos).addcmul_(cos, turn_sin)


def cos_sin(positions: Tensor, rope_base: float, head_dim: int) -> tuple[Tensor, Tensor]:
    """cos and sin of position * rope_base ** (-2 i / head_dim), float64 [num_tokens, head_dim/2].

    Absolute error below 2^-52: 2^-54 to round the reduced angle, and 2^-53 for torch's cos and sin, which are
    within 1 ulp.
    Raises what `frequency_table` and `position_column` raise.
    """
    return cos_sin_of(position_column(positions), frequency_table(rope_base, head_dim))
