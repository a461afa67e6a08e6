"""Figures as the page prints them."""

from __future__ import annotations

import re

# A value this fine is told as a power of two; coarser ones read better as decimals.
_FINE = 16
_SMALL_MULTIPLE = 100


def fraction(worst: float | None) -> str:
    """An error as a fraction of its bound; rounding never moves it onto the bound."""
    if worst is None:
        return ""
    text = f"{worst:.3g}"
    if text == "1" and worst != 1:
        return "<1" if worst < 1 else ">1"
    return text


def relative(error: float) -> str:
    """A relative error, to two digits."""
    return f"{error:.1e}" if error else "0"


def share(part: int, whole: int) -> str:
    """Part of a whole in percent; rounding never makes it none or all. Empty for none."""
    if not part:
        return ""
    if part == whole:
        return "100%"
    tenths = round(1000 * part / whole)
    return "<0.1%" if tenths == 0 else ">99.9%" if tenths == 1000 else f"{tenths / 10}%"


def quantity(value: float, unit: str) -> str:
    """A value with its unit, a 1 in which is not told: `4 ulp`, `2^-22 rad`, `3 * 2^-24`, `2^-22 per rad`."""
    numerator, denominator = value.as_integer_ratio()
    text = f"{value:g}"
    if denominator >= _FINE and numerator < _SMALL_MULTIPLE:
        power = f"2^-{denominator.bit_length() - 1}"
        text = power if numerator == 1 else f"{numerator} * {power}"
    return f"{text} {re.sub(r'^1( |$)', '', unit)}".rstrip()
