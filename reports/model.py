"""What a record holds, as data: its judgements, what was measured and allowed, its verdicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FAILURE, WARNING = SEVERITIES = ("failure", "warning")
PASS, FAIL, WARN, NOT_RUN = VERDICTS = ("pass", "FAIL", "warn", "not run")
# How the source of a term begins that no specification grants.
_OURS = "ours"


@dataclass(frozen=True)
class Finding:
    """One way in which a call broke a requirement; the texts are those of the judge."""

    requirement: str
    what: str
    where: str
    extent: str
    looks_like: str
    severity: str
    """One of SEVERITIES."""


@dataclass(frozen=True)
class Check:
    """How many elements a case showed for a requirement; worst: largest error as a fraction of its bound."""

    elements: int
    worst: float | None


@dataclass(frozen=True)
class Case:
    """One judgement."""

    test: str
    line: str
    """What replays the case; ` ; ` joins the calls of one process."""
    checks: dict[str, Check]
    findings: tuple[Finding, ...]
    note: str


@dataclass(frozen=True)
class ClassResult:
    """How one accuracy class fared over the run; a score is an error as a fraction of its bound."""

    name: str
    decides: bool
    kept: bool
    worst: float
    beyond: int | None
    """Smallest |position| with a score above 1; None if the class is kept, or nothing was measured."""
    case: str
    """The case that shows it."""


@dataclass(frozen=True)
class Cell:
    """What was measured of one dtype at the positions of one decade, under one accuracy class."""

    accuracy: str
    dtype: str
    decade: int
    positions: str
    elements: int
    uninformative: int
    """Elements on which the class's bound says nothing."""
    error: float
    """Largest error as a fraction of the length of its pair; of pairs of ordinary length."""
    worst: float
    """Largest score."""
    cases: tuple[str, ...]
    pairs: tuple[tuple[float, int] | None, ...]
    """For each pair its largest score and the index in `cases`; None where nothing was judged."""


@dataclass(frozen=True)
class Term:
    """One allowance of an accuracy class."""

    accuracy: str
    name: str
    value: float
    unit: str
    source: str
    reason: str

    @property
    def ours(self) -> bool:
        """Whether no specification grants it."""
        return self.source.startswith(_OURS)


@dataclass(frozen=True)
class Probe:
    """One measurement of how the target computes, and what its control showed."""

    name: str
    measured: str
    control: str


@dataclass(frozen=True)
class Allowed:
    """What the target's arithmetic may do to any result."""

    toward_zero: bool
    narrows_toward_zero: bool
    flushes: bool
    flushes_half: bool
    honours_nonfinite: bool


@dataclass(frozen=True)
class Standard:
    """What rotations were held to."""

    terms: tuple[Term, ...]
    probes: tuple[Probe, ...]
    """Empty where nothing was measured."""
    allowed: Allowed


@dataclass(frozen=True)
class Requirement:
    """The run's verdict on one requirement; cases, failed and warned count distinct case lines."""

    id: str
    tier: str
    sentence: str
    source: str
    cases: int
    elements: int
    worst: float | None
    failed: int
    warned: int
    verdict: str
    """One of VERDICTS."""


@dataclass(frozen=True)
class End:
    """How the run ended: pytest's exit status and counts."""

    exit_status: int
    cases: int
    tests_failed: int
    tests_collected: int
    seconds: float


@dataclass(frozen=True)
class Record:
    """All that a run left behind. `end` is None, and `torn` may be true, for a run that died."""

    run: dict[str, Any]
    standard: Standard | None
    """None in records of older suites, which do not tell it."""
    cases: tuple[Case, ...]
    classes: tuple[ClassResult, ...]
    """Tightest first."""
    cells: tuple[Cell, ...]
    requirements: tuple[Requirement, ...]
    end: End | None
    torn: bool
    """Whether the last line is cut off."""

    @property
    def distinct_cases(self) -> int:
        return len({case.line for case in self.cases})
