"""What hides inside the bound of each element: found where it is, and not where it is not."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from conformance.evidence.models import MODELS, Model, recipe, rotated
from reference import (
    EXACT_ANGLE,
    FAST,
    FLOAT32_ANGLE,
    FORMATS,
    GRANTED,
    Accuracy,
    Arithmetic,
    cos_sin,
    error_bound,
    frequency_error,
    output_bias,
    score,
)

RIGHT = [model for model in MODELS if not model.errs_on_purpose]
NARROWS = Arithmetic(narrows_toward_zero=True)


def sample(seed: int, dtype: torch.dtype, num_tokens: int = 64, num_heads: int = 8) -> tuple[Tensor, Tensor]:
    """Normal values and positions log-uniform up to 131,071."""
    generator = torch.Generator().manual_seed(seed)
    positions = torch.rand(num_tokens, generator=generator, dtype=torch.float64).mul(math.log(131072)).exp()
    return torch.randn(num_tokens, num_heads, 128, generator=generator).to(dtype), positions.to(torch.int64)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("model", RIGHT, ids=lambda model: model.name)
def test_right_kernels_raise_no_alarm(model: Model, dtype: torch.dtype) -> None:
    looked = 0
    for seed, base in enumerate((1e4, 5e5, 12345.5, 1e6)):
        x, positions = sample(seed, dtype)
        out = model.rotate(x, positions, base)
        accuracy, arithmetic = model.accuracy, model.arithmetic
        bias = output_bias(out, error_bound(x, positions, base, accuracy, arithmetic))
        if bias is not None and not arithmetic.narrows_toward_zero:
            assert abs(bias.mean) <= bias.threshold
            looked += 1
        frequency = frequency_error(out, x, positions, base, accuracy, arithmetic)
        if frequency is not None:
            assert frequency.worst <= 1
            looked += 1
    # Arithmetic toward zero shows no frequency, and float32 no bias.
    assert looked or model.arithmetic.toward_zero


@pytest.mark.parametrize("accuracy", [EXACT_ANGLE, FLOAT32_ANGLE, FAST], ids=lambda accuracy: accuracy.name)
def test_truncation_that_is_within_the_bound_of_each_element_shows_in_the_mean(accuracy: Accuracy) -> None:
    x, positions = sample(5, torch.bfloat16)
    cos, sin = cos_sin(positions, 1e4, 128)
    out = rotated(x, cos.float().double(), sin.float().double(), NARROWS)
    bound = error_bound(x, positions, 1e4, accuracy, NARROWS)
    assert bool((score(out, bound) <= 1).all())
    bias = output_bias(out, bound)
    assert bias is not None
    assert bias.mean == pytest.approx(0.5, abs=0.02)
    assert bias.mean > 5 * bias.threshold


@pytest.mark.parametrize("dtype", FORMATS)
def test_a_frequency_off_by_2_to_the_minus_22_shows_though_no_element_is_beyond_its_bound(dtype: torch.dtype) -> None:
    x, positions = sample(6, dtype)
    cos, sin = recipe(positions, 1e4, 128, GRANTED)
    assert bool((score(rotated(x, cos, sin, GRANTED), error_bound(x, positions, 1e4, FLOAT32_ANGLE)) <= 1).all())
    scaled = positions.double()[:, None] * _float32_frequency() * torch.where(torch.arange(64) > 0, 1 - 2.0**-22, 1.0)
    off = rotated(x, scaled.float().double().cos(), scaled.float().double().sin(), GRANTED)
    assert bool((score(off, error_bound(x, positions, 1e4, FLOAT32_ANGLE)) <= 1).all())
    error = frequency_error(off, x, positions, 1e4, FLOAT32_ANGLE)
    assert error is not None
    assert error.worst > 1
    # Part of it may be what the recipe itself is known to err by.
    assert error.relative == pytest.approx(-(2.0**-22), rel=0.5)


def _float32_frequency() -> Tensor:
    step = torch.tensor(math.log2(1e4)).float() / 128
    return torch.exp2(-(2 * torch.arange(64).float() * step)).double()


def test_too_little_says_nothing() -> None:
    x, positions = sample(7, torch.float32, num_tokens=4, num_heads=1)
    assert output_bias(x, error_bound(x, positions, 1e4, EXACT_ANGLE)) is None
    assert frequency_error(x, x, positions, 1e4, EXACT_ANGLE) is None


def test_equal_positions_say_nothing_of_a_frequency() -> None:
    x, positions = sample(8, torch.float32)
    assert frequency_error(x, x, torch.full_like(positions, 1000), 1e4, EXACT_ANGLE) is None


def test_arithmetic_that_rounds_toward_zero_says_nothing_of_a_frequency() -> None:
    x, positions = sample(9, torch.float32)
    assert frequency_error(x, x, positions, 1e4, FLOAT32_ANGLE) is not None
    assert frequency_error(x, x, positions, 1e4, FLOAT32_ANGLE, Arithmetic(toward_zero=True)) is None
