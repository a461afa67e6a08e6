"""What many case lines come to: counts per requirement, the distinct cases, and the few that are kept whole."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from reports import lines
from reports.kept import Kept
from reports.lines import Line
from reports.measured import Measured, Scored, larger
from reports.model import DEVIATION, FAILURE, UNKNOWN_TIER, WARNING, Case, CaseIndex, Deviation, Finding, Requirement
from reports.pair import PairFold

VERDICTS = ("pass", "warn", "fail")
"""Of a case, mildest first."""


@dataclass
class Tally:
    """What was counted of one requirement; bit: what stands for it in a mask."""

    bit: int
    elements: int = 0
    worst: Scored | None = None
    planned: Scored | None = None
    """The worst of the planned cases."""

    def merge(self, other: Tally) -> None:
        self.elements += other.elements
        self.worst, self.planned = larger(self.worst, other.worst), larger(self.planned, other.planned)


@dataclass
class Distinct:
    """The distinct cases: for each line, in the order of the record, what is known of it; masks tell requirements."""

    places: dict[str, int] = field(default_factory=dict)
    tests: list[str] = field(default_factory=list)
    counted: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    warned: list[int] = field(default_factory=list)
    deviated: list[int] = field(default_factory=list)
    """Masks of known deviations, each of one requirement."""
    worst: list[float | None] = field(default_factory=list)
    drawn: list[bool] = field(default_factory=list)

    def add(
        self,
        line: str,
        test: str,
        counted: int,
        failed: int,
        warned: int,
        deviated: int,
        worst: float | None,
        drawn: bool,
    ) -> None:
        """A judgement of a case; `counted` holds what failed, warned and deviated too."""
        place = self.places.setdefault(line, len(self.places))
        if place == len(self.tests):
            self.tests.append(test)
            self.counted.append(counted)
            self.failed.append(failed)
            self.warned.append(warned)
            self.deviated.append(deviated)
            self.worst.append(worst)
            self.drawn.append(drawn)
            return
        self.counted[place] |= counted
        self.failed[place] |= failed
        self.warned[place] |= warned
        self.deviated[place] |= deviated
        self.worst[place] = _larger(self.worst[place], worst)
        # What a test planned was not only drawn.
        self.drawn[place] &= drawn

    def merge(self, other: Distinct) -> None:
        rows = zip(
            other.places,
            other.tests,
            other.counted,
            other.failed,
            other.warned,
            other.deviated,
            other.worst,
            other.drawn,
            strict=True,
        )
        for row in rows:
            self.add(*row)

    def index(self) -> CaseIndex:
        return CaseIndex(
            lines=tuple(self.places),
            tests=tuple(self.tests),
            verdicts=tuple(
                VERDICTS[2 if failed else 1 if warned else 0]
                for failed, warned in zip(self.failed, self.warned, strict=True)
            ),
            worst=tuple(self.worst),
            drawn=tuple(self.drawn),
        )


class Fold:
    """The case lines of one record, or of several of one run.

    Args:
        bits: what stands for a requirement in a mask, by id; shared by all that is merged.
        classes: names of the accuracy classes, tightest first.
    """

    def __init__(self, bits: dict[str, int], classes: tuple[str, ...]) -> None:
        self._bits = bits
        self._tallies: dict[str, Tally] = {}
        self._known: dict[tuple[int, str], int] = {}
        """What stands for a known deviation of a requirement in a mask."""
        self.distinct = Distinct()
        self.judgements = 0
        self.kept = Kept()
        self.measured = Measured(classes)
        self.pair = PairFold()
        self.planned: set[str] = set()
        """Tests that made a planned case."""
        self.failed_by: dict[str, int] = {}
        """For each test whose cases failed anything, the mask of what they failed."""

    def add(self, line: Line) -> None:
        """One `case` line. Raises what the readers of `lines` do."""
        case, test, drawn = lines.text(line["line"]), sys.intern(lines.text(line["test"])), lines.flag(line["drawn"])
        counted, worst = self._look(case, line["checks"], drawn)
        findings = tuple(map(lines.finding, line["findings"]))
        found = self._mask(findings)
        failed = self._mask(finding for finding in findings if finding.severity == FAILURE)
        warned = self._mask(finding for finding in findings if finding.severity == WARNING)
        deviated = self._known_mask((f.deviation, f.requirement) for f in findings if f.severity == DEVIATION)
        verdict = VERDICTS[2 if failed else 1 if warned else 0]
        if line["verdict"] != verdict:
            raise ValueError(f"the verdict {line['verdict']!r} of a case with {len(findings)} findings")
        self.distinct.add(case, function_of(test), counted | found, failed, warned, deviated, worst, drawn)
        self.judgements += 1
        if findings:
            self._find(line, test, case, findings)
        if failed:
            self.failed_by[test] = self.failed_by.get(test, 0) | failed
        if not drawn:
            self.planned.add(test)
        measure = line.get("measure")
        if measure is not None:
            self.measured.add(case, measure, drawn=drawn)
        if "pair" in line:
            self.pair.add(case, lines.differences(line["pair"]))

    def _look(self, case: str, checks: Line, drawn: bool) -> tuple[int, float | None]:
        """The mask of the requirements looked at, and the largest score."""
        counted, largest = 0, None
        for id, check in checks.items():
            tally = self._tallies.get(id) or self._tally(id)
            counted |= tally.bit
            tally.elements += lines.count(check["elements"])
            if check["worst"] is None:
                continue
            worst = lines.score(check["worst"])
            if largest is None or worst > largest:
                largest = worst
            if tally.worst is None or worst > tally.worst[0]:
                tally.worst = worst, case
            if not drawn and (tally.planned is None or worst > tally.planned[0]):
                tally.planned = worst, case
        return counted, largest

    def _tally(self, id: str) -> Tally:
        return self._tallies.setdefault(id, Tally(self._bits.setdefault(id, 1 << len(self._bits))))

    def _mask(self, findings: Iterable[Finding]) -> int:
        mask = 0
        for finding in findings:
            mask |= self._tally(finding.requirement).bit
        return mask

    def _known_mask(self, shown: Iterable[tuple[int, str]]) -> int:
        mask = 0
        for number, id in shown:
            # Shared by all that is merged; no id begins so.
            bit = self._bits.setdefault(f"{number} {id}", 1 << len(self._bits))
            mask |= self._known.setdefault((number, id), bit)
        return mask

    def _find(self, line: Line, test: str, case: str, findings: tuple[Finding, ...]) -> None:
        pools = tuple(map(lines.pool, line.get("pools", ())))
        self.kept.add(Case(test, case, lines.size(line["cases"]), findings, lines.clipped(line["note"]), pools))

    def merge(self, other: Fold) -> None:
        """Add what another record of the same run came to, but for what is told of its tests."""
        for id, tally in other._tallies.items():
            self._tally(id).merge(tally)
        self._known_mask(other._known)
        self.distinct.merge(other.distinct)
        self.judgements += other.judgements
        self.kept.merge(other.kept)
        self.measured.merge(other.measured)
        self.pair.merge(other.pair)

    def requirements(self, contract: tuple[Requirement, ...]) -> tuple[Requirement, ...]:
        """The requirements of the contract, counted; then those that the cases alone know."""
        counted, failed, warned = (
            self._count(masks) for masks in (self.distinct.counted, self.distinct.failed, self.distinct.warned)
        )
        deviated = self._count_deviated()
        known = {entry.id for entry in contract}
        unknown = tuple(_unknown(id) for id in self._tallies if id not in known)
        return tuple(self._counted(entry, counted, failed, warned, deviated) for entry in (*contract, *unknown))

    def _count(self, masks: list[int]) -> Counter[str]:
        """How many of the masks hold each requirement."""
        counts: Counter[str] = Counter()
        for mask, times in Counter(masks).items():
            for id in self.named(mask):
                counts[id] += times
        return counts

    def _count_deviated(self) -> Counter[str]:
        """How many distinct cases show a known deviation of each requirement, whichever one."""
        counts: Counter[str] = Counter()
        for mask, times in Counter(self.distinct.deviated).items():
            for id in {id for (_, id), bit in self._known.items() if mask & bit}:
                counts[id] += times
        return counts

    def deviations(self, listed: Iterable[Deviation]) -> tuple[Deviation, ...]:
        """The known deviations, with the cases that show them."""
        masks = Counter(self.distinct.deviated)
        return tuple(
            replace(one, seen={id: self._shown(masks, self._known.get((one.number, id), 0)) for id in one.seen})
            for one in listed
        )

    @staticmethod
    def _shown(masks: Counter[int], bit: int) -> int:
        return sum(times for mask, times in masks.items() if mask & bit)

    def _counted(
        self,
        entry: Requirement,
        counted: Counter[str],
        failed: Counter[str],
        warned: Counter[str],
        deviated: Counter[str],
    ) -> Requirement:
        tally = self._tallies.get(entry.id, Tally(0))
        return replace(
            entry,
            cases=counted[entry.id],
            elements=tally.elements,
            worst=tally.worst[0] if tally.worst else None,
            worst_case=tally.worst[1] if tally.worst else "",
            planned=tally.planned,
            failed=failed[entry.id],
            warned=warned[entry.id],
            deviated=deviated[entry.id],
        )

    def named(self, mask: int) -> Iterator[str]:
        """Ids of the requirements in a mask."""
        return (id for id, tally in self._tallies.items() if mask & tally.bit)


def function_of(test: str) -> str:
    """Name of a test's function: `a/test_b.py::test_c[x]` is of `test_c`."""
    return sys.intern(_FUNCTION.sub("", test.partition("[")[0]))


def _unknown(id: str) -> Requirement:
    return Requirement(id, UNKNOWN_TIER, "", "", "", "", "", 0, 0, None, "", None, 0, 0)


def _larger(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


_FUNCTION = re.compile(".*::", re.DOTALL)
