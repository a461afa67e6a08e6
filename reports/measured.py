"""What was measured of many cases: by class, dtype and decade, pair by pair; and signed errors in ulps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from reports import lines
from reports.lines import Line
from reports.model import DTYPES, Cell, ClassResult

Scored = tuple[float, str]
"""A score, and the line of the case that has it."""


@dataclass
class _Class:
    """One accuracy class; see ClassResult."""

    cases: int = 0
    worst: float = 0.0
    beyond: int | None = None
    case: str = ""

    def look(self, entry: dict[str, Any], case: str) -> None:
        worst, beyond = lines.score(entry["worst"]), entry["beyond"]
        if (beyond is not None) != (worst > 1):
            raise ValueError(f"worst {worst} and beyond {beyond} contradict each other")
        self.add(1, worst, None if beyond is None else lines.count(beyond), case)

    def add(self, cases: int, worst: float, beyond: int | None, case: str) -> None:
        self.cases += cases
        self.worst = max(self.worst, worst)
        if beyond is not None and (self.beyond is None or beyond < self.beyond):
            self.beyond, self.case = beyond, case


@dataclass
class _Decade:
    """One class, dtype and decade; see Cell. pairs: for each its largest score and the case."""

    elements: int = 0
    uninformative: int = 0
    error: float = 0.0
    pairs: dict[int, Scored] = field(default_factory=dict)
    planned: Scored | None = None

    def look(self, entry: dict[str, Any], case: str, drawn: bool) -> None:
        elements, uninformative, error = entry["elements"], entry["uninformative"], lines.finite(entry["error"])
        if lines.count(uninformative) > lines.count(elements):
            raise ValueError(f"{uninformative} uninformative elements of {elements}")
        self.elements += elements
        self.uninformative += uninformative
        if error > self.error:
            self.error = error
        for pair, score in entry["raised"].items():
            scored = lines.score(score), case
            self._raise(lines.pair(pair), scored)
            if not drawn:
                self.planned = larger(self.planned, scored)

    def _raise(self, pair: int, scored: Scored) -> None:
        known = self.pairs.get(pair)
        if known is None or scored[0] > known[0]:
            self.pairs[pair] = scored

    def merge(self, other: _Decade) -> None:
        self.elements += other.elements
        self.uninformative += other.uninformative
        self.error = max(self.error, other.error)
        self.planned = larger(self.planned, other.planned)
        for pair, scored in other.pairs.items():
            self._raise(pair, scored)


class Measured:
    """The `measure` of all cases; classes: names, tightest first."""

    def __init__(self, classes: tuple[str, ...]) -> None:
        self._classes = {name: _Class() for name in classes}
        # Numbers stay the texts that they are in the record: each is made a number, and checked, once.
        self._decades: dict[tuple[str, str, str], _Decade] = {}
        self._ulps: dict[str, dict[str, int]] = {}

    def add(self, case: str, measure: Line, *, drawn: bool) -> None:
        """Book one case. Raises what the readers of `lines` do."""
        dtype = lines.dtype(measure["dtype"])
        for name, entry in measure["classes"].items():
            self._classes[name].look(entry, case)
        for name, decades in measure["decades"].items():
            for decade, entry in decades.items():
                cell = self._decades.get((name, dtype, decade)) or self._cell(name, dtype, decade)
                cell.look(entry, case, drawn)
        self._count_ulps(dtype, measure["ulps"])

    def _cell(self, name: str, dtype: str, decade: str) -> _Decade:
        if name not in self._classes:
            raise ValueError(f"{name!r} is no class of this run")
        lines.decade(decade)
        return self._decades.setdefault((name, dtype, decade), _Decade())

    def _count_ulps(self, dtype: str, counts: dict[str, int]) -> None:
        own = self._ulps.setdefault(dtype, {})
        for bucket, times in counts.items():
            if bucket not in own:
                lines.bucket(bucket)
                own[bucket] = 0
            own[bucket] += lines.count(times)

    def merge(self, other: Measured) -> None:
        """Add what another record of the same run measured."""
        for name, entry in other._classes.items():
            self._classes[name].add(entry.cases, entry.worst, entry.beyond, entry.case)
        for key, decade in other._decades.items():
            self._cell(*key).merge(decade)
        for dtype, counts in other._ulps.items():
            self._count_ulps(dtype, counts)

    def classes(self, decides: str) -> Iterator[ClassResult]:
        """How each class fared; decides: the one that does."""
        for name, entry in self._classes.items():
            kept = bool(entry.cases) and entry.beyond is None
            yield ClassResult(name, name == decides, kept, entry.worst, entry.beyond, entry.case)

    def cells(self) -> Iterator[Cell]:
        """The cells, sorted by class, dtype and decade."""
        classes = list(self._classes)
        for name, dtype, decade in sorted(
            self._decades, key=lambda key: (classes.index(key[0]), DTYPES.index(key[1]), int(key[2]))
        ):
            seen = self._decades[name, dtype, decade]
            yield Cell(
                accuracy=name,
                dtype=dtype,
                decade=int(decade),
                elements=seen.elements,
                uninformative=seen.uninformative,
                error=seen.error,
                worst=max((score for score, _ in seen.pairs.values()), default=0.0),
                planned=seen.planned,
                pairs=tuple(seen.pairs.get(pair) for pair in range(max(seen.pairs, default=-1) + 1)),
            )

    def ulps(self) -> dict[str, dict[int, int]]:
        """Counts by dtype, of those measured, and rising bucket."""
        return {
            dtype: dict(sorted((int(bucket), times) for bucket, times in self._ulps[dtype].items()))
            for dtype in DTYPES
            if dtype in self._ulps
        }


def larger(one: Scored | None, other: Scored | None) -> Scored | None:
    """The one with the larger score, the first of two as large."""
    if one is None or (other is not None and other[0] > one[0]):
        return other
    return one
