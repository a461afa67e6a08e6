"""Small planted faults in otherwise right kernels are flagged, where common tolerances see nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from float32_models import Array, recipe_angle
from torch import Tensor

from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE, FORMATS, Accuracy, cos_sin, error_bound, score

BASE, HEAD_DIM, NUM_TOKENS, NUM_HEADS = 1e4, 128, 64, 8
DTYPES = tuple(FORMATS)
Trig = Callable[[Tensor], tuple[Tensor, Tensor]]


def trig(angle: Array) -> tuple[Tensor, Tensor]:
    wide = torch.from_numpy(angle.astype(np.float64))
    return wide.cos().float(), wide.sin().float()


def right(positions: Tensor) -> tuple[Tensor, Tensor]:
    return trig(recipe_angle(positions, BASE, HEAD_DIM))


def half_exponent(positions: Tensor) -> tuple[Tensor, Tensor]:
    """i / D for 2 i / D."""
    return trig(recipe_angle(positions, BASE**0.5, HEAD_DIM))


def rounded_angle(dtype: torch.dtype) -> Trig:
    return lambda p: trig(torch.from_numpy(recipe_angle(p, BASE, HEAD_DIM)).to(dtype).float().numpy())


def rounded_trig(dtype: torch.dtype) -> Trig:
    return lambda p: tuple(t.to(dtype).float() for t in right(p))  # type: ignore[return-value]


FAULTS: dict[str, Trig] = {
    "position + 1": lambda p: right(p + 1),
    "position to bfloat16": lambda p: right(p.bfloat16().int()),
    "base off by 1e-3 of it": lambda p: trig(recipe_angle(p, BASE * (1 + 1e-3), HEAD_DIM)),
    "i/D for 2i/D": half_exponent,
    "angle in bfloat16": rounded_angle(torch.bfloat16),
    "angle in float16": rounded_angle(torch.float16),
    "cos and sin in bfloat16": rounded_trig(torch.bfloat16),
    "sin negated": lambda p: (right(p)[0], -right(p)[1]),
    "cos and sin swapped": lambda p: right(p)[::-1],
}


def random_case(seed: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    positions = torch.randint(0, 131072, (NUM_TOKENS,), generator=generator, dtype=torch.int32)
    return torch.randn(NUM_TOKENS, NUM_HEADS, HEAD_DIM, generator=generator).to(dtype), positions


def float32_rotation(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    x1, x2 = x.float().chunk(2, -1)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return torch.cat((x1 * cos - x2 * sin, x1 * sin + x2 * cos), -1)


def flagged(out: Tensor, x: Tensor, positions: Tensor, accuracy: Accuracy) -> float:
    """The share of elements with a score above 1."""
    return float((score(out, error_bound(x, positions, BASE, accuracy)) > 1).double().mean())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("accuracy", [FLOAT32_ANGLE, FAST], ids=lambda accuracy: accuracy.name)
@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_angles_are_flagged(fault: str, accuracy: Accuracy, dtype: torch.dtype) -> None:
    for seed in range(3):
        x, positions = random_case(seed, dtype)
        sound = float32_rotation(x, *right(positions)).to(dtype)
        assert flagged(sound, x, positions, accuracy) == 0
        out = float32_rotation(x, *FAULTS[fault](positions)).to(dtype)
        assert flagged(out, x, positions, accuracy) > 0.05


@pytest.mark.parametrize("accuracy", [EXACT_ANGLE, FLOAT32_ANGLE, FAST], ids=lambda accuracy: accuracy.name)
def test_truncation_to_bfloat16_is_flagged(accuracy: Accuracy) -> None:
    x, positions = random_case(5, torch.bfloat16)
    exact = [t.float() for t in cos_sin(positions, BASE, HEAD_DIM)]
    result = float32_rotation(x, *exact)
    truncated = (result.view(torch.int32) & -65536).view(torch.float32).bfloat16()
    assert flagged(result.bfloat16(), x, positions, accuracy) == 0
    assert flagged(truncated, x, positions, accuracy) > 0.15


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_exact_class_refuses_the_float32_recipe_far_out(dtype: torch.dtype) -> None:
    x, positions = random_case(6, dtype)
    out = float32_rotation(x, *right(positions)).to(dtype)
    assert flagged(out, x, positions, EXACT_ANGLE) > 0.01


@pytest.mark.parametrize("dtype", DTYPES)
def test_interleaved_pairs_and_swapped_halves_are_flagged(dtype: torch.dtype) -> None:
    x, positions = random_case(7, dtype)
    cos, sin = right(positions)
    interleaved = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    wrong = float32_rotation(interleaved, cos, sin).unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
    rolled = float32_rotation(x, cos, sin).roll(HEAD_DIM // 2, -1)
    for out in (wrong, rolled):
        assert flagged(out.to(dtype), x, positions, FAST) > 0.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_wrong_element_is_found_where_it_is(dtype: torch.dtype) -> None:
    x, positions = random_case(8, dtype)
    out = float32_rotation(x, *right(positions)).to(dtype)
    out[17, 3, 101] *= 1.05
    scores = score(out, error_bound(x, positions, BASE, FAST))
    assert (scores > 1).nonzero().tolist() == [[17, 3, 101]]
