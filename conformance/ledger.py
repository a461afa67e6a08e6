"""The run's books: per requirement what was judged, how near to the bound, and what was found."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.contract import DECIDING_TIERS, Requirement, requirements
from conformance.finding import FAILURE, Finding, Judgement


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

    @property
    def decides(self) -> bool:
        return self.requirement.tier in DECIDING_TIERS

    @property
    def verdict(self) -> str:
        if self.failed:
            return "FAIL"
        if not self.cases:
            return "not run"
        return "warn" if self.warned else "pass"


class Ledger:
    """Entries by requirement id, in the order of the contract."""

    def __init__(self) -> None:
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
            book = entry.failed if finding.severity == FAILURE else entry.warned
            book.setdefault(case, Reported(case, finding, note))

    def not_run(self, *, strict: bool = False) -> list[str]:
        """Ids of deciding requirements that nothing was judged for: under `strict` all of them decide."""
        return [id for id, entry in self.entries.items() if (strict or entry.decides) and entry.verdict == "not run"]

    def decides_failure(self, judgement: Judgement, *, strict: bool) -> bool:
        """Whether a judgement fails the run: robustness findings do so under `strict` alone."""
        return any(
            finding.severity == FAILURE and (strict or self.entries[finding.requirement].decides)
            for finding in judgement.findings
        )
