"""Figures are printed as they are read, and rounding never changes what they say."""

from __future__ import annotations

import pytest

from reports.numbers import fraction, quantity, relative, share


def test_fractions_do_not_round_onto_the_bound() -> None:
    values = (None, 0.0, 0.25294, 0.99997, 1.0, 1.0000001, 1.12e15, float("inf"))
    assert [fraction(value) for value in values] == ["", "0", "0.253", "<1", "1", ">1", "1.12e+15", "inf"]


def test_relative_errors() -> None:
    assert [relative(error) for error in (0.0, 1.54e-7, 2.0)] == ["0", "1.5e-07", "2.0e+00"]


def test_shares_do_not_round_to_none_or_all() -> None:
    parts = ((0, 0), (0, 9), (1, 10**6), (983, 10**5), (1, 8), (10**6 - 1, 10**6), (9, 9))
    assert [share(*of) for of in parts] == ["", "", "<0.1%", "1.0%", "12.5%", ">99.9%", "100%"]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (4.0, "ulp", "4 ulp"),
        (0.0, "rad", "0 rad"),
        (0.5, "ulp", "0.5 ulp"),
        (2.0**-22, "rad", "2^-22 rad"),
        (2.0**-13, "1", "2^-13"),
        (3 * 2.0**-24, "1 per rad", "3 * 2^-24 per rad"),
        (0.1, "ulp", "0.1 ulp"),
    ],
)
def test_quantities(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text
