"""What the target was allowed, in words."""

from __future__ import annotations

from collections.abc import Iterator

from reports.model import Allowed, Term


def by_class(terms: tuple[Term, ...]) -> dict[str, list[Term]]:
    """The terms of each accuracy class, in the record's order."""
    classes: dict[str, list[Term]] = {}
    for term in terms:
        classes.setdefault(term.accuracy, []).append(term)
    return classes


def sentences(allowed: Allowed) -> Iterator[str]:
    """One sentence for each freedom of the target's arithmetic, granted or not."""
    rounding = "may round toward zero" if allowed.toward_zero else "must round to nearest"
    yield f"Float32 sums and products, and the conversion of an integer to float32, {rounding}."
    narrowing = "may round toward zero" if allowed.narrows_toward_zero else "must round to nearest even"
    yield f"The conversion of a result to float16 or bfloat16 {narrowing}."
    yield f"Float32 and bfloat16 subnormals {_flushing(allowed.flushes)}."
    yield f"Float16 subnormals {_flushing(allowed.flushes_half)}."
    if allowed.honours_nonfinite:
        yield "Inf and NaN must be treated as IEEE 754 does."
    else:
        yield "Inf and NaN need not be treated as IEEE 754 does: overflow is only a warning for the class fast."


def _flushing(flushes: bool) -> str:
    return "may become zero" if flushes else "must be kept"
