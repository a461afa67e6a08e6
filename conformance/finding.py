"""What the judge answers: findings, and a count of what was looked at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from conformance.measure import Measure

FAILURE, WARNING = "failure", "warning"


@dataclass(frozen=True)
class Finding:
    """One way in which an outcome breaks a requirement."""

    requirement: str
    what: str
    """The fault in a sentence."""
    where: str = ""
    """First offending place: token, head, element; got, wanted, bound."""
    extent: str = ""
    """How many elements, and the pattern that they form."""
    looks_like: str = ""
    """The mistake that would give exactly these numbers, when one is known."""
    severity: str = FAILURE

    def lines(self) -> list[str]:
        """The finding in lines, most telling first."""
        parts = (("what", self.what), ("where", self.where), ("extent", self.extent), ("looks like", self.looks_like))
        return [f"{label:<11}{text}" for label, text in parts if text]

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if value}


@dataclass
class Check:
    """How much one requirement looked at in a case, and how near to its bound it came."""

    elements: int = 0
    worst: float | None = None
    """Largest score, a fraction of the bound; None where nothing is measured."""

    def add(self, elements: int, worst: float | None = None) -> None:
        self.elements += elements
        if worst is not None:
            self.worst = worst if self.worst is None else max(self.worst, worst)


def _keeps_its_own(finding: Finding) -> bool:
    # A stray write is no matter of taste, whatever the layout or the position that provoked it.
    return finding.severity == WARNING or finding.requirement.startswith("MEM-")


@dataclass
class Judgement:
    """All that one case, or one relation between cases, had to say."""

    findings: list[Finding] = field(default_factory=list)
    checks: dict[str, Check] = field(default_factory=dict)
    measure: Measure | None = None
    """How near to its bound the rotation came; None where none was judged."""

    def measured(self, measure: Measure) -> None:
        """Add what was measured of one output."""
        if self.measure is None:
            self.measure = measure
        else:
            self.measure.add(measure)

    def looked(self, requirement: str, elements: int, worst: float | None = None) -> None:
        """Count `elements` under `requirement`; a check that looked at nothing is none."""
        if elements:
            self.checks.setdefault(requirement, Check()).add(elements, worst)

    def found(self, finding: Finding) -> None:
        self.findings.append(finding)

    @property
    def failed(self) -> bool:
        return any(finding.severity == FAILURE for finding in self.findings)

    def filed_under(self, requirement: str) -> Judgement:
        """The same, failures and counts under one requirement; warnings and memory faults keep their own."""
        findings = [f if _keeps_its_own(f) else replace(f, requirement=requirement) for f in self.findings]
        filed = Judgement(findings, measure=self.measure)
        for check in self.checks.values():
            filed.looked(requirement, check.elements, check.worst)
        return filed
