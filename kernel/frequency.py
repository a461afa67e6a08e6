"""How fast each pair turns, as fixed-point fractions of a turn, for kernels that reduce the angle in integers."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import lru_cache
from math import isfinite

import torch

# The smallest float32 base, 2^-149, gives up to 2^211 units of 2^-64 turn, 64 digits; the rest hold their fraction.
_DIGITS = 100
_TWO_PI = Decimal(
    "6.2831853071795864769252867665590057683943387987502116419498891846156328125724179972560696506842341359"
    "64296173026564613294187689219101164463450718816256962235"
)
_UNITS_PER_TURN = 2**64


@lru_cache(maxsize=1024)
def frequency_table(rope_base: float, head_dim: int) -> tuple[int, ...]:
    """rope_base^(-2i / head_dim) / (2 pi), the turns per position of pair i, for i < head_dim/2.

    In units of 2^-64 turn, each the integer nearest to the exact value, whole turns dropped: below 2^64. The base is
    rounded to float32 first. Raises ValueError for an odd or non-positive head_dim, and for a base that is not a
    positive finite float32.
    """
    base = torch.tensor(rope_base, dtype=torch.float32).item()
    if not (isfinite(base) and base > 0):
        raise ValueError(f"rope_base must be a positive float32, got {rope_base}")
    if head_dim < 2 or head_dim % 2:
        raise ValueError(f"head_dim must be even and positive, got {head_dim}")
    table = []
    with localcontext(Context(prec=_DIGITS, rounding=ROUND_HALF_EVEN)):
        units = _UNITS_PER_TURN / _TWO_PI
        ratio = Decimal(base) ** (Decimal(-2) / head_dim)
        for _ in range(head_dim // 2):
            table.append(int(units.to_integral_value()) % _UNITS_PER_TURN)
            units *= ratio
    return tuple(table)
