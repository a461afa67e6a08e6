"""Small planted faults in otherwise right kernels are flagged; tests/conformance/test_evidence.py has more."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from conformance.evidence.models import IEEE, recipe, rotated
from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE, FORMATS, Accuracy, error_bound, score

BASE, HEAD_DIM, NUM_TOKENS, NUM_HEADS = 1e4, 128, 64, 8
DTYPES = tuple(FORMATS)
Pair = tuple[Tensor, Tensor]

FAULTS: dict[str, Callable[[Tensor, Tensor], Pair]] = {
    "sin negated": lambda cos, sin: (cos, -sin),
    "cos and sin swapped": lambda cos, sin: (sin, cos),
}


def right(positions: Tensor) -> Pair:
    return recipe(positions, BASE, HEAD_DIM, IEEE)


def random_case(seed: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    positions = torch.randint(0, 131072, (NUM_TOKENS,), generator=generator, dtype=torch.int32)
    return torch.randn(NUM_TOKENS, NUM_HEADS, HEAD_DIM, generator=generator).to(dtype), positions


def flagged(out: Tensor, x: Tensor, positions: Tensor, accuracy: Accuracy) -> float:
    """The share of elements with a score above 1."""
    return float((score(out, error_bound(x, positions, BASE, accuracy)) > 1).double().mean())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("accuracy", [FLOAT32_ANGLE, FAST], ids=lambda accuracy: accuracy.name)
@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_signs_and_places_are_flagged(fault: str, accuracy: Accuracy, dtype: torch.dtype) -> None:
    x, positions = random_case(0, dtype)
    assert flagged(rotated(x, *right(positions), IEEE), x, positions, accuracy) == 0
    assert flagged(rotated(x, *FAULTS[fault](*right(positions)), IEEE), x, positions, accuracy) > 0.05


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_exact_class_refuses_the_float32_recipe_far_out(dtype: torch.dtype) -> None:
    x, positions = random_case(6, dtype)
    assert flagged(rotated(x, *right(positions), IEEE), x, positions, EXACT_ANGLE) > 0.01


@pytest.mark.parametrize("dtype", DTYPES)
def test_interleaved_pairs_and_swapped_halves_are_flagged(dtype: torch.dtype) -> None:
    x, positions = random_case(7, dtype)
    cos, sin = right(positions)
    interleaved = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    wrong = rotated(interleaved, cos, sin, IEEE).unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
    rolled = rotated(x, cos, sin, IEEE).roll(HEAD_DIM // 2, -1)
    for out in (wrong, rolled):
        assert flagged(out, x, positions, FAST) > 0.5


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_wrong_element_is_found_where_it_is(dtype: torch.dtype) -> None:
    x, positions = random_case(8, dtype)
    out = rotated(x, *right(positions), IEEE)
    out[17, 3, 101] *= 1.05
    scores = score(out, error_bound(x, positions, BASE, FAST))
    assert (scores > 1).nonzero().tolist() == [[17, 3, 101]]
