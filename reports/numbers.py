"""Figures as the page prints them."""

from __future__ import annotations

import re

# A value this fine is told as a power of two; coarser ones read better as decimals.
_FINE = 16
_SMALL_MULTIPLE = 100
# The last bucket of ulps holds all that is larger.
_LAST_BUCKET = 12
_POWER = re.compile(r"\^(\d+)")
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def fraction(worst: float | None) -> str:
    """An error as a fraction of its bound; rounding never moves it onto the bound."""
    if worst is None:
        return ""
    text = f"{worst:.3g}"
    if text == "1" and worst != 1:
        return "<1" if worst < 1 else ">1"
    return text


def relative(error: float) -> str:
    """A relative error, to two digits: 1.5×10⁻⁷."""
    if not error:
        return "0"
    mantissa, exponent = f"{error:.1e}".split("e")
    return f"{mantissa}×10{str(int(exponent)).translate(_SUPERSCRIPTS)}" if int(exponent) else mantissa


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


def ulps(bucket: int) -> str:
    """What a bucket of a histogram of ulps holds, by its size: `nearest`, `1 ulp`, `3 to 4 ulps`."""
    if bucket == 0:
        return "nearest"
    if bucket < 3:
        return f"{bucket} ulp{'s' if bucket > 1 else ''}"
    if bucket >= _LAST_BUCKET:
        return f"more than {2 ** (_LAST_BUCKET - 2):,} ulps"
    return f"{2 ** (bucket - 2) + 1:,} to {2 ** (bucket - 1):,} ulps"


def duration(seconds: float) -> str:
    """A time as one reads it: `340 µs`, `12 ms`, `4.2 s`, `3 min 5 s`, `2 h 4 min`."""
    if seconds < 0.9995e-3:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def raised(text: str) -> str:
    """`text` with its powers of ten and two as one writes them: `10^2-10^3` has raised exponents."""
    return _POWER.sub(lambda found: found[1].translate(_SUPERSCRIPTS), text).replace("-", "–")
