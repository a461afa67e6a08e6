"""The cases that are kept whole: for each requirement those that tell different stories, then the smallest."""

from __future__ import annotations

import re
from bisect import insort
from dataclasses import dataclass, field

from reports.model import Case, Finding

MOST_KEPT = 40
"""Cases kept for each requirement and severity; all are counted."""
_NUMBER = re.compile(r"\d[\d.,]*(?:e[+-]?\d+)?")

Story = tuple[str, str]


def story(finding: Finding) -> Story:
    """What a finding tells, whatever its numbers: "largest error 6.92" and "largest error 7.08" are one story."""
    return _NUMBER.sub("#", finding.what), _NUMBER.sub("#", finding.looks_like)


@dataclass(frozen=True, order=True, slots=True)
class _Ranked:
    """A case by its size; of two as large, the shorter and then the earlier one is first."""

    size: int
    length: int
    number: int
    case: Case = field(compare=False)


@dataclass
class _Book:
    """The cases of one requirement and severity."""

    first: dict[Story, _Ranked] = field(default_factory=dict)
    """The smallest case of each story."""
    others: list[_Ranked] = field(default_factory=list)
    """Other small cases, rising."""

    def add(self, told: Story, ranked: _Ranked) -> None:
        best = self.first.get(told)
        if best is None:
            if len(self.first) < MOST_KEPT:
                self.first[told] = ranked
                return
        elif ranked < best:
            self.first[told], ranked = ranked, best
        if len(self.others) < MOST_KEPT or ranked < self.others[-1]:
            insort(self.others, ranked)
            del self.others[MOST_KEPT:]

    def cases(self) -> list[_Ranked]:
        firsts = list(self.first.values())
        return firsts + self.others[: MOST_KEPT - len(firsts)]


class Kept:
    """At most MOST_KEPT cases for each requirement and severity."""

    def __init__(self) -> None:
        self._books: dict[tuple[str, str], _Book] = {}
        self._number = 0

    def add(self, case: Case) -> None:
        """Keep a case for each of the requirements it has findings on, if it is telling enough."""
        self._number += 1
        ranked = _Ranked(case.size, len(case.line), self._number, case)
        for (requirement, severity), told in _stories(case).items():
            self._books.setdefault((requirement, severity), _Book()).add(told, ranked)

    def merge(self, other: Kept) -> None:
        """Add the cases kept of another record."""
        for case in other.cases():
            self.add(case)

    def cases(self) -> tuple[Case, ...]:
        """The distinct cases kept, in the order of the record."""
        kept = sorted((r for book in self._books.values() for r in book.cases()), key=lambda ranked: ranked.number)
        # A test that was made again has its cases twice.
        return tuple({(r.case.line, r.case.findings): r.case for r in kept}.values())


def _stories(case: Case) -> dict[tuple[str, str], Story]:
    """What a case tells of each requirement: its first finding."""
    told: dict[tuple[str, str], Story] = {}
    for finding in case.findings:
        key = finding.requirement, finding.severity
        if key not in told:
            told[key] = story(finding)
    return told
