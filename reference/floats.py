"""The three float formats of the kernel and the arithmetic of their grids, done in float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# A tensor, as torch is quicker with it than with a Python integer.
_EXPONENT_BITS = torch.tensor(0x7FF0_0000_0000_0000)


@dataclass(frozen=True)
class FloatFormat:
    """A binary format: bits of significand (the hidden one counted), exponents of its normal binades."""

    precision: int
    min_exponent: int
    max_exponent: int

    @property
    def smallest_normal(self) -> float:
        return 2.0**self.min_exponent

    @property
    def largest_subnormal(self) -> float:
        return self.smallest_normal * (1.0 - self.unit)

    @property
    def unit(self) -> float:
        """One ulp of 1."""
        return 2.0 ** (1 - self.precision)

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return self.overflow_grid * (1.0 - self.unit / 2)

    @property
    def overflow_grid(self) -> float:
        """The power of two that would follow the largest finite value if exponents went on."""
        return 2.0 ** (self.max_exponent + 1)

    @property
    def overflow(self) -> float:
        """The smallest magnitude that rounds to infinity (IEEE 754, round to nearest even)."""
        return self.overflow_grid * (1.0 - self.unit / 4)


FLOAT32 = FloatFormat(24, -126, 127)
FORMATS = {
    torch.float16: FloatFormat(11, -14, 15),
    torch.bfloat16: FloatFormat(8, -126, 127),
    torch.float32: FLOAT32,
}


def format_of(dtype: torch.dtype) -> FloatFormat:
    """The format of a torch dtype; ValueError for anything but float16, bfloat16 and float32."""
    if dtype not in FORMATS:
        raise ValueError(f"{dtype} is no dtype of the kernel; use torch.float16, bfloat16 or float32")
    return FORMATS[dtype]


def binade(values: Tensor) -> Tensor:
    """2 ** floor(log2 |v|) of float64 values, read off the exponent bits; 0 at 0, inf at inf and NaN."""
    return (values.view(torch.int64) & _EXPONENT_BITS).view(torch.float64)


def ulp(values: Tensor, fmt: FloatFormat) -> Tensor:
    """The spacing of `fmt` at float64 values; below the smallest normal that of the subnormals."""
    return binade(values).clamp_(min=fmt.smallest_normal).mul_(fmt.unit)


def round_once(values: Tensor, dtype: torch.dtype) -> Tensor:
    """float64 values rounded to `dtype`, to nearest even and in one step.

    torch's own conversion to a 16-bit type goes through float32 and so rounds twice. Dividing by a power of
    two is exact, so rounding the quotient to an integer is the only rounding here.
    """
    fmt = format_of(dtype)
    spacing = ulp(values, fmt).clamp_(max=fmt.overflow_grid)
    return torch.round(values / spacing).mul_(spacing).to(dtype)
