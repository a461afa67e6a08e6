"""The formats' grids and the one rounding, against exact rationals and NumPy's conversions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from reference import FORMATS, format_of, round_once
from reference.floats import binade, ulp

DTYPES = tuple(FORMATS)


def awkward(dtype: torch.dtype) -> torch.Tensor:
    """Half-way points of the grid, a hair to each side of them, and the edges of the range; both signs."""
    fmt = FORMATS[dtype]
    generator = torch.Generator().manual_seed(3)
    exponents = torch.randint(fmt.min_exponent - fmt.precision, fmt.max_exponent + 1, (4000,), generator=generator)
    odd = torch.randint(2**fmt.precision, 2 ** (fmt.precision + 1), (4000,), generator=generator).double() + 0.0
    halfway = torch.ldexp(odd, exponents - fmt.precision)
    hairs = torch.tensor([0.0, 2.0**-40, -(2.0**-40)], dtype=torch.float64)
    values = (halfway[:, None] * (1 + hairs)).flatten()
    edges = [
        0.0,
        fmt.overflow,
        fmt.overflow * (1 - 2**-50),
        fmt.overflow_grid,
        4 * fmt.overflow_grid,
        math.inf,
    ]
    tiny = [fmt.smallest_normal * fmt.unit * part for part in (0.5, 0.5 + 2**-30, 0.25, 1.0, 1.5, 2.5)]
    values = torch.cat((values, torch.tensor(edges + tiny, dtype=torch.float64)))
    return torch.cat((values, -values))


def rounded_exactly(value: float, dtype: torch.dtype) -> float:
    """Round to nearest even in rational arithmetic."""
    fmt = FORMATS[dtype]
    if abs(value) >= fmt.overflow:
        return math.copysign(math.inf, value)
    exponent = max(math.frexp(value)[1] - 1, fmt.min_exponent) if value else fmt.min_exponent
    spacing = Fraction(2) ** (exponent - fmt.precision + 1)
    return math.copysign(float(round(Fraction(value) / spacing) * spacing), value)


@pytest.mark.parametrize("dtype", DTYPES)
def test_round_once_is_the_exact_rounding(dtype: torch.dtype) -> None:
    values = awkward(dtype)
    wanted = torch.tensor([rounded_exactly(v, dtype) for v in values.tolist()], dtype=torch.float64)
    got = round_once(values, dtype)
    assert got.dtype == dtype
    assert torch.equal(got.double(), wanted)
    assert torch.equal(got.signbit(), values.signbit())


@pytest.mark.parametrize(("dtype", "numpy_type"), [(torch.float16, np.float16), (torch.float32, np.float32)])
def test_round_once_is_numpy_s_rounding(dtype: torch.dtype, numpy_type: type) -> None:
    values = awkward(dtype)
    with np.errstate(over="ignore"):
        wanted = values.numpy().astype(numpy_type)
    assert np.array_equal(round_once(values, dtype).numpy(), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_torch_s_own_conversion_rounds_twice(dtype: torch.dtype) -> None:
    """The reason for `round_once`: a hair above half-way becomes half-way in float32."""
    values = awkward(dtype)
    assert not torch.equal(values.to(dtype), round_once(values, dtype))


def test_nan_stays_nan() -> None:
    assert all(round_once(torch.tensor([math.nan], dtype=torch.float64), dtype).isnan().all() for dtype in DTYPES)


def test_binade_and_ulp() -> None:
    values = torch.tensor([0.0, 1.0, -1.5, 2.0, 1 - 2.0**-53, 2.0**-30, math.inf], dtype=torch.float64)
    assert binade(values).tolist() == [0.0, 1.0, 1.0, 2.0, 0.5, 2.0**-30, math.inf]
    half = format_of(torch.float16)
    assert ulp(values, half).tolist() == [2.0**-24, 2.0**-10, 2.0**-10, 2.0**-9, 2.0**-11, 2.0**-24, math.inf]


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"torch\.float64 is no dtype of the kernel"):
        format_of(torch.float64)
