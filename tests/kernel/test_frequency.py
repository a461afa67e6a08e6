"""The table of frequencies against mpmath at 300 bits."""

from __future__ import annotations

from collections.abc import Sequence

import mpmath
import numpy as np
import pytest

from kernel import frequency
from kernel.frequency import frequency_table

TURN = 2**64
SMALLEST = 2.0**-149
BASES = (1.0, 1.5, 100.75, 1e4, 5e5, 1000000.1, 8e6, 1e9, 3e38, 0.5, 1e-3, 1e-38, SMALLEST)
HEAD_DIMS = (2, 4, 6, 64, 66, 80, 128, 256, 576)


def largest_error(table: Sequence[int], base: float, head_dim: int) -> float:
    """In units of 2^-64 turn, round the turn."""
    assert len(table) == head_dim // 2
    errors = []
    with mpmath.workprec(300):
        for i, entry in enumerate(table):
            turns = mpmath.power(float(np.float32(base)), mpmath.mpf(-2 * i) / head_dim) / (2 * mpmath.pi)
            difference = (turns * TURN - entry) % TURN
            errors.append(float(min(difference, TURN - difference)))
    return max(errors)


@pytest.mark.parametrize("base", BASES)
def test_each_entry_is_the_nearest_integer(base: float) -> None:
    for head_dim in HEAD_DIMS:
        table = frequency_table(base, head_dim)
        assert all(0 <= entry < TURN for entry in table)
        assert largest_error(table, base, head_dim) <= 0.5


def test_the_comparison_notices_one_unit_and_too_few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *rest = frequency_table(1e4, 128)
    assert largest_error((first + 1, *rest), 1e4, 128) > 0.5
    assert largest_error(frequency_table(1e4, 128), np.nextafter(np.float32(1e4), np.float32(2e4)), 128) > 0.5
    monkeypatch.setattr(frequency, "_DIGITS", 19)
    assert largest_error(frequency_table.__wrapped__(1e4, 128), 1e4, 128) > 0.5


def test_the_first_pair_turns_by_one_radian_whatever_the_base() -> None:
    assert len({frequency_table(base, 128)[0] for base in BASES}) == 1


def test_the_base_is_a_float32() -> None:
    assert frequency_table(10000.0001, 64) == frequency_table(10000.0, 64)


@pytest.mark.parametrize("base", [0.0, -1.0, SMALLEST / 4, 1e39, float("inf"), float("nan")])
def test_a_base_that_is_no_positive_float32_is_refused(base: float) -> None:
    with pytest.raises(ValueError, match="rope_base must be a positive float32"):
        frequency_table(base, 64)


@pytest.mark.parametrize("head_dim", [-2, 0, 1, 63])
def test_a_head_dim_without_pairs_is_refused(head_dim: int) -> None:
    with pytest.raises(ValueError, match="head_dim must be even and positive"):
        frequency_table(1e4, head_dim)
