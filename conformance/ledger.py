"""The run's books: per requirement what was judged, how near to the bound, and what was found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from conformance.contract import DECIDING_TIERS, Requirement, requirements
from conformance.deviations import Deviation, Deviations, outdated
from conformance.finding import DEVIATION, FAILURE, Finding, Judgement


@dataclass(frozen=True)
class Reported:
    """A finding, the case that shows it, and what to know before replaying it."""

    case: str
    finding: Finding
    note: str = ""


@dataclass
class Entry:
    """One requirement's account."""

    requirement: Requirement
    cases: set[str] = field(default_factory=set)
    elements: int = 0
    worst: float | None = None
    failed: dict[str, Reported] = field(default_factory=dict)
    """First failure of each case."""
    warned: dict[str, Reported] = field(default_factory=dict)
    deviated: dict[int, dict[str, Reported]] = field(default_factory=dict)
    """By number of the known deviation."""

    @property
    def decides(self) -> bool:
        return self.requirement.tier in DECIDING_TIERS

    @property
    def verdict(self) -> str:
        if self.failed:
            return "FAIL"
        if not self.cases:
            return "not run"
        return "deviates" if self.deviated else "warn" if self.warned else "pass"

    def book(self, finding: Finding) -> dict[str, Reported]:
        """Where a finding is entered."""
        if finding.severity == DEVIATION:
            return self.deviated.setdefault(finding.deviation, {})
        return self.failed if finding.severity == FAILURE else self.warned


class Ledger:
    """Entries by requirement id, in the order of the contract."""

    def __init__(self, deviations: Deviations | None = None) -> None:
        self.deviations = deviations or Deviations()
        self.entries = {id: Entry(requirement) for id, requirement in requirements().items()}
        self.cases: set[str] = set()

    def add(self, case: str, judgement: Judgement, note: str = "") -> None:
        """Book one judgement. `case` is the line, or lines, that replay it."""
        self.cases.add(case)
        for id, check in judgement.checks.items():
            entry = self.entries[id]
            entry.cases.add(case)
            entry.elements += check.elements
            if check.worst is not None:
                entry.worst = check.worst if entry.worst is None else max(entry.worst, check.worst)
        for finding in judgement.findings:
            entry = self.entries[finding.requirement]
            entry.cases.add(case)
            entry.book(finding).setdefault(case, Reported(case, finding, note))

    def not_run(self, *, strict: bool = False) -> list[str]:
        """Ids of deciding requirements that nothing was judged for: under `strict` all of them decide.

        Those that a known deviation hides, which was seen, are left out.
        """
        hidden = {id for number, one in self.deviations.lasting.items() if self._seen(number) for id in one.hides}
        deciding = (id for id, entry in self.entries.items() if strict or entry.decides)
        return [id for id in deciding if self.entries[id].verdict == "not run" and id not in hidden]

    def _seen(self, number: int) -> bool:
        return any(number in entry.deviated for entry in self.entries.values())

    def outdated(self, *, whole: bool) -> list[str]:
        """What the list of known deviations says and is no longer so, a line each.

        whole: whether every case was judged that could show a deviation.
        """
        return outdated(self.deviations, list(self._gone()) if whole else [])

    def _gone(self) -> Iterator[tuple[Deviation, str]]:
        """Deviations that were not seen, each with its requirement."""
        for number, one in self.deviations.lasting.items():
            yield from ((one, id) for id in one.replay if number not in self.entries[id].deviated)

    def decides_failure(self, judgement: Judgement, *, strict: bool) -> bool:
        """Whether a judgement fails the run: robustness findings do so under `strict` alone."""
        return any(
            finding.severity == FAILURE and (strict or self.entries[finding.requirement].decides)
            for finding in judgement.findings
        )
