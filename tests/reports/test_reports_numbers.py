"""Figures are printed as they are read, and rounding never changes what they say."""

from __future__ import annotations

import pytest

from reports.numbers import duration, fraction, quantity, raised, relative, share, ulps


def test_fractions_do_not_round_onto_the_bound() -> None:
    values = (None, 0.0, 0.25294, 0.99997, 1.0, 1.0000001, 1.12e15, float("inf"))
    assert [fraction(value) for value in values] == ["", "0", "0.253", "<1", "1", ">1", "1.12e+15", "inf"]


def test_relative_errors() -> None:
    assert [relative(error) for error in (0.0, 1.54e-7, 0.999, 2.0, 31.0)] == ["0", "1.5×10⁻⁷", "1.0", "2.0", "3.1×10¹"]


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


def test_buckets_of_ulps() -> None:
    told = ["nearest", "1 ulp", "2 ulps", "3 to 4 ulps", "5 to 8 ulps", "513 to 1,024 ulps", "more than 1,024 ulps"]
    assert [ulps(bucket) for bucket in (0, 1, 2, 3, 4, 11, 12)] == told


def test_durations() -> None:
    seconds = (0.0, 2.34e-5, 0.0121, 0.9999, 4.25, 59.96, 60.4, 185.0, 7440.0)
    told = ["0 µs", "23.4 µs", "12.1 ms", "1 s", "4.25 s", "1 min 0 s", "1 min 0 s", "3 min 5 s", "2 h 4 min"]
    assert [duration(each) for each in seconds] == told


def test_powers_are_raised() -> None:
    assert [raised(text) for text in ("0", "1-9", "10^1-10^2", "10^9-2^31")] == ["0", "1–9", "10¹–10²", "10⁹–2³¹"]
