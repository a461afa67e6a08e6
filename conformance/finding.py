"""What the judge answers: findings, and a count of what was looked at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from conformance.measure import Measure
from conformance.pair.difference import Difference

FAILURE, WARNING, DEVIATION = "failure", "warning", "deviation"


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
    """A failure that is listed as known is a deviation."""
    deviation: int = 0
    """Number of the known deviation; 0 for none."""

    def lines(self) -> list[str]:
        """The finding in lines, most telling first."""
        parts = (("what", self.what), ("where", self.where), ("extent", self.extent), ("looks like", self.looks_like))
        return [f"{label:<11}{text}" for label, text in parts if text]

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if value}


Ranges = list[list[int]]
"""Half-open ranges [first, end]."""


@dataclass(frozen=True)
class PoolPicture:
    """What became of the rows of one pool."""

    pool: str
    rows: int
    """Size of the pool."""
    written: Ranges
    """Rows that hold what they should."""
    wrong: Ranges
    """Rows named by a slot that were written, but not with what they should hold."""
    stale: Ranges
    """Rows named by a slot that hold what they held before."""
    stray: Ranges
    """Rows that changed though no slot names them."""
    tokens: int
    skipped: Ranges
    """Tokens with a negative slot."""


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
    pools: list[PoolPicture] = field(default_factory=list)
    """Where a finding is about the pools."""
    pair: tuple[Difference, ...] | None = None
    """Where a second target differs; None where none made the same calls."""

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> Judgement:
        """What a `case` line of a record tells; the pictures of its pools are left out."""
        judgement = cls([Finding(**finding) for finding in line["findings"]])
        for id, check in line["checks"].items():
            worst = None if check["worst"] is None else float(check["worst"])
            judgement.looked(id, check["elements"], worst)
        if "measure" in line:
            judgement.measured(Measure.from_json(line["measure"]))
        if "pair" in line:
            judgement.pair = tuple(Difference(**difference) for difference in line["pair"])
        return judgement

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

    @property
    def verdict(self) -> str:
        """`fail`, `warn` or `pass`; a known deviation is neither a failure nor a warning."""
        warned = any(finding.severity == WARNING for finding in self.findings)
        return "fail" if self.failed else "warn" if warned else "pass"

    def filed_under(self, requirement: str) -> Judgement:
        """The same, failures and counts under one requirement; warnings and memory faults keep their own."""
        findings = [f if _keeps_its_own(f) else replace(f, requirement=requirement) for f in self.findings]
        filed = Judgement(findings, measure=self.measure, pools=self.pools)
        for check in self.checks.values():
            filed.looked(requirement, check.elements, check.worst)
        return filed
