"""What a record holds, as data: its judgements, what was measured and allowed, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FAILURE, WARNING, DEVIATION = SEVERITIES = ("failure", "warning", "deviation")
PASS, FAIL, WARN, NOT_RUN, DEVIATES = VERDICTS = ("pass", "FAIL", "warn", "not run", "deviates")
PASSED, FAILED, BROKEN = OUTCOMES = ("passed", "failed", "broken")
DTYPES = ("float16", "bfloat16", "float32")
OUTPUTS = ("ending", "q_rot", "k_rot", "k_pool_new", "v_pool_new")
"""What two targets may differ in: how a call ended, or one of its arrays."""
SIDES = ("first", "second", "neither")
UNKNOWN_TIER = "unknown"
"""The tier of a requirement that cases name and the contract of the record does not."""
# How the source of a term begins that no specification grants.
_OURS = "ours"

Ranges = tuple[tuple[int, int], ...]
"""Half-open ranges of rows or tokens."""


@dataclass(frozen=True)
class Finding:
    """One way in which a call broke a requirement; the texts are those of the judge."""

    requirement: str
    what: str
    where: str
    extent: str
    looks_like: str
    severity: str
    """One of SEVERITIES; a failure that was known is a deviation."""
    deviation: int = 0
    """Number of the known deviation; 0 for none."""


@dataclass(frozen=True)
class Deviation:
    """A failure of the target that is listed as known."""

    number: int
    reason: str
    issue: str
    expires: str
    """The last day that it is known for."""
    hides: tuple[str, ...]
    """Requirements for which nothing can be judged while it lasts."""
    seen: Mapping[str, int]
    """Distinct cases that show it, by each requirement that it is listed for."""

    @property
    def lasts(self) -> bool:
        return any(self.seen.values())


@dataclass(frozen=True)
class Check:
    """How many elements a case showed for a requirement; worst: largest error as a fraction of its bound."""

    elements: int
    worst: float | None


@dataclass(frozen=True)
class PoolPicture:
    """What became of the rows of one pool, and which tokens were to be skipped."""

    pool: str
    rows: int
    written: Ranges
    wrong: Ranges
    stale: Ranges
    stray: Ranges
    tokens: int
    skipped: Ranges


@dataclass(frozen=True)
class Case:
    """One judgement with findings."""

    test: str
    line: str
    """What replays the case; ` ; ` joins the calls of one process."""
    size: int
    """Elements of q, k and v over all its calls."""
    findings: tuple[Finding, ...]
    note: str
    pools: tuple[PoolPicture, ...]


@dataclass(frozen=True)
class CaseIndex:
    """Every distinct case, in the order of the record; the tuples are parallel."""

    lines: tuple[str, ...]
    tests: tuple[str, ...]
    """Name of the test function, without the case."""
    verdicts: tuple[str, ...]
    """`pass`, `warn` or `fail`."""
    worst: tuple[float | None, ...]
    """Largest score of the case."""
    drawn: tuple[bool, ...]
    """Whether it was generated, and not planned."""


@dataclass(frozen=True)
class ClassResult:
    """How one accuracy class fared over the run; a score is an error as a fraction of its bound."""

    name: str
    decides: bool
    kept: bool
    """Whether it was measured and no score is above 1."""
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
    """0 for position 0, n for |position| from 10^(n-1) to 10^n - 1."""
    elements: int
    uninformative: int
    """Elements on which the class's bound says nothing."""
    error: float
    """Largest error as a fraction of the length of its pair; of pairs of ordinary length."""
    worst: float
    """Largest score."""
    planned: tuple[float, str] | None
    """Largest score of the planned cases, and its case."""
    pairs: tuple[tuple[float, str] | None, ...]
    """For each pair its largest score and the line of its case; None where nothing was judged."""

    @property
    def positions(self) -> str:
        """The decade in words: `0`, `1-9`, `10^1-10^2`, ..., `10^9-2^31`."""
        if self.decade < 2:
            return ("0", "1-9")[self.decade]
        return f"10^{self.decade - 1}-{f'10^{self.decade}' if self.decade < 10 else '2^31'}"


@dataclass(frozen=True)
class Envelope:
    """The error that one accuracy class allows, as a fraction of the pair's length, at growing positions."""

    accuracy: str
    rope_base: float
    head_dim: int
    positions: tuple[int, ...]
    error: tuple[float, ...]


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
    """One sentence of the contract and what the cases showed of it; cases, failed and warned count distinct cases."""

    id: str
    tier: str
    sentence: str
    source: str
    trigger: str
    """Of a documented error: what raises it; empty for other requirements, as are `common` and `cure`."""
    common: str
    cure: str
    cases: int
    elements: int
    worst: float | None
    worst_case: str
    """Line of the case with the largest score; empty where nothing is measured."""
    planned: tuple[float, str] | None
    """Largest score of the planned cases, which are the same in every run, and its case."""
    failed: int
    warned: int
    deviated: int = 0
    """Cases with a failure that is known."""

    @property
    def verdict(self) -> str:
        """One of VERDICTS."""
        if self.failed:
            return FAIL
        if not self.cases:
            return NOT_RUN
        return DEVIATES if self.deviated else WARN if self.warned else PASS


@dataclass(frozen=True)
class Difference:
    """How two targets differ in one output of a call, or in how the call ended; texts are of the first place."""

    output: str
    """One of OUTPUTS."""
    first: str
    second: str
    wanted: str
    """What the oracle says; empty where it says nothing."""
    nearer: str
    """One of SIDES."""
    dtype: str
    where: str
    ulps: int | None
    elements: int
    """Elements that differ, of `size`; 0 where it is no element that differs."""
    size: int
    nearer_first: int
    nearer_second: int
    largest_ulps: int | None
    call: int
    """Which call it is of a sequence."""


@dataclass(frozen=True)
class PairCount:
    """All differences of one output and dtype; cases are distinct, each of the others counts elements."""

    output: str
    dtype: str
    cases: int
    elements: int
    nearer_first: int
    nearer_second: int
    largest_ulps: int | None

    @property
    def undecided(self) -> int:
        return self.elements - self.nearer_first - self.nearer_second


@dataclass(frozen=True)
class PairResult:
    """How a second target fared beside the first."""

    compared: int
    """Distinct cases that both made."""
    disagreeing: int
    counts: tuple[PairCount, ...]
    telling: tuple[tuple[str, Difference], ...]
    """A few differences, each with the line of its case."""


@dataclass(frozen=True)
class Verdict:
    """What the run itself said of a requirement at its end."""

    id: str
    cases: int
    elements: int
    worst: float | None
    failed: int
    warned: int
    verdict: str
    deviated: int = 0


@dataclass(frozen=True)
class Plan:
    """What the run was to do: tests, planned cases, the largest number of generated cases, and whether that is all."""

    tests: int
    cases: int
    examples: int
    whole: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """One finished test; text: the traceback of one that broke."""

    id: str
    outcome: str
    """One of OUTCOMES."""
    seconds: float
    text: str
    failed: tuple[str, ...]
    """Ids of the requirements that its cases failed, those that do not decide too."""
    part: int
    """Index of its part: a test stands once for every part that made it."""


@dataclass(frozen=True)
class Trouble:
    """What befell the run itself: `collection`, `internal` or `interrupted`."""

    what: str
    where: str
    text: str


@dataclass(frozen=True)
class End:
    """How the run ended: pytest's exit status and counts."""

    exit_status: int
    cases: int
    tests_failed: int
    tests_collected: int
    seconds: float
    outdated: tuple[str, ...] = ()
    """What the list of known deviations says and is no longer so."""


@dataclass(frozen=True)
class Part:
    """One record file of a run: what tells whether it is whole and agrees with itself."""

    path: str
    facts: dict[str, Any]
    """Its `run` line."""
    run_id: str
    started: str
    seed: str
    plan: Plan | None
    """None where the run died before its tests were known."""
    resumed: int
    """How often the run was continued after it had died."""
    distinct_cases: int
    failed_cases: int
    """Distinct cases that failed a requirement."""
    planned_cases: int
    """Planned cases that were made, not generated ones: a test with a parameter makes one, a sequence is one."""
    tests: int
    """Distinct tests that finished."""
    verdicts: tuple[Verdict, ...]
    counted: tuple[Requirement, ...]
    """What this part's cases show, to hold against its own verdicts."""
    end: End | None
    """None for a run that died."""
    torn: bool
    """Whether the last line is cut off."""


@dataclass(frozen=True)
class Run:
    """All that was recorded of one target under one standard, by one record or by several parts of it."""

    facts: dict[str, Any]
    """The `run` line of the first part."""
    parts: tuple[Part, ...]
    standard: Standard
    requirements: tuple[Requirement, ...]
    """In the order of the contract; then those that the cases alone know, of an unknown tier."""
    index: CaseIndex
    judgements: int
    found: tuple[Case, ...]
    """The cases with findings."""
    classes: tuple[ClassResult, ...]
    """Tightest first."""
    cells: tuple[Cell, ...]
    """Of every class measured, sorted by class (tightest first), dtype (float16, bfloat16, float32) and decade."""
    envelopes: tuple[Envelope, ...]
    ulps: dict[str, dict[int, int]]
    """Count of elements by dtype and signed bucket of ulps: 0, +-1, +-2, then +-k: above 2^(k-2), up to 2^(k-1)."""
    tests: tuple[Finished, ...]
    troubles: tuple[Trouble, ...]
    pair: PairResult | None = None
    """None for a run of one target."""
    deviations: tuple[Deviation, ...] = ()
    """The failures that are known, seen or not."""

    @property
    def decides(self) -> str:
        """The accuracy class that decides."""
        return next((result.name for result in self.classes if result.decides), "")

    @property
    def tightest(self) -> str:
        """The tightest class kept; empty if none is."""
        return next((result.name for result in self.classes if result.kept), "")
