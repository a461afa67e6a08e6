"""What a record entitles one to say of the target, and where it contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from reports.model import FAIL, FAILURE, NOT_RUN, End, Record

DECIDING_TIERS = ("documented", "numeric", "memory")
CONFORMS, FAILS, INCOMPLETE = "conforms", "fails", "incomplete"
# pytest's exit statuses past 1 (some tests failed), from the pytest manual, "Exit codes".
_BROKEN = {2: "it was interrupted", 3: "pytest met an internal error", 4: "pytest was misused", 5: "no test ran"}


@dataclass(frozen=True)
class Notice:
    """Something to know before the verdict is believed."""

    text: str
    blocks: bool = True
    """Whether it keeps the target from being called conforming."""


@dataclass(frozen=True)
class Verdict:
    """state: `conforms`, `fails` or `incomplete`; failing, robustness: ids of requirements with failures."""

    state: str
    failing: tuple[str, ...]
    robustness: tuple[str, ...]
    notices: tuple[Notice, ...]

    @property
    def line(self) -> str:
        """The verdict in one line."""
        return {
            CONFORMS: "conforms",
            FAILS: f"does not conform: {', '.join(self.failing)}",
            INCOMPLETE: "incomplete: this record supports no verdict",
        }[self.state]


def conclude(record: Record) -> Verdict:
    """The verdict on a run, after its record has been checked against itself."""
    failing, robustness = _failed(record)
    notices = tuple(_notices(record, bool(failing)))
    blocked = any(notice.blocks for notice in notices)
    return Verdict(FAILS if failing else INCOMPLETE if blocked else CONFORMS, failing, robustness, notices)


def deciding(record: Record) -> set[str]:
    """Ids of the requirements that decide this run: robustness does so under `strict` alone."""
    strict = record.run.get("strict") is True
    return {entry.id for entry in record.requirements if strict or entry.tier in DECIDING_TIERS}


def failing_cases(record: Record) -> dict[str, set[str]]:
    """Per requirement id, the lines of the cases that failed it."""
    failed: dict[str, set[str]] = {}
    for case in record.cases:
        for finding in case.findings:
            if finding.severity == FAILURE:
                failed.setdefault(finding.requirement, set()).add(case.line)
    return failed


def _failed(record: Record) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids with a failure, by the verdicts or by the cases: those that decide, and the others of the contract."""
    decide, by_cases = deciding(record), failing_cases(record)
    ids = [entry.id for entry in record.requirements if entry.verdict == FAIL or entry.id in by_cases]
    return tuple(id for id in ids if id in decide), tuple(id for id in ids if id not in decide)


def _notices(record: Record, failed: bool) -> Iterator[Notice]:
    if record.end is None:
        cut = "its last line is cut off" if record.torn else "it has no end line"
        failures = len(set().union(*failing_cases(record).values()))
        yield Notice(
            f"The record is incomplete: {cut}; the run died. It holds {_count(record)}, {failures:,} with failures."
        )
    else:
        yield from _end_notices(record, record.end, failed)
    yield from _disagreements(record)
    yield from _not_run(record)


def _end_notices(record: Record, end: End, failed: bool) -> Iterator[Notice]:
    if end.exit_status in _BROKEN:
        yield Notice(f"The suite itself broke: exit status {end.exit_status}, {_BROKEN[end.exit_status]}.")
    elif end.exit_status != 0 and not failed:
        yield Notice(f"The suite itself broke: exit status {end.exit_status}, though no deciding requirement failed.")
    elif end.exit_status == 0 and failed:
        yield Notice("The record contradicts itself: exit status 0, though a deciding requirement failed.")
    if record.torn:
        yield Notice("The record is damaged: something follows its end line.")
    if end.tests_collected == 0:
        yield Notice("No test was collected: nothing was tested.")
    if unexplained := end.tests_failed - _tests_with_failures(record):
        yield Notice(
            f"{end.tests_failed:,} tests failed, and the cases explain {end.tests_failed - unexplained:,}: "
            + ("a test broke without judging its case." if unexplained > 0 else "the failures were not all counted.")
        )
    if end.cases != record.distinct_cases:
        yield Notice(f"The run counted {end.cases:,} distinct cases; the record holds {_count(record)}.")


def _tests_with_failures(record: Record) -> int:
    decide = deciding(record)
    return len(
        {
            case.test
            for case in record.cases
            for finding in case.findings
            if finding.severity == FAILURE and finding.requirement in decide
        }
    )


def _disagreements(record: Record) -> Iterator[Notice]:
    """Verdicts that the cases do not bear out; a run that died may have given none."""
    by_cases = failing_cases(record)
    for entry in record.requirements:
        found = len(by_cases.pop(entry.id, ()))
        if found != entry.failed or (entry.verdict == FAIL) != (found > 0):
            yield Notice(
                f"{entry.id} has the verdict {entry.verdict!r} with {entry.failed:,} failing cases; "
                f"the record's cases show {found:,}."
            )
    if record.end is not None:
        for id in by_cases:
            yield Notice(f"Cases failed {id}, and the record gives no verdict on it.")


def _not_run(record: Record) -> Iterator[Notice]:
    if record.end is not None and not record.requirements:
        yield Notice("The record gives no verdict on any requirement.")
    idle = [entry.id for entry in record.requirements if entry.verdict == NOT_RUN]
    decide = deciding(record)
    if ids := [id for id in idle if id in decide]:
        yield Notice(f"Not run: {', '.join(ids)}. Without these nothing is called conforming.")
    if ids := [id for id in idle if id not in decide]:
        yield Notice(f"Not run: {', '.join(ids)}. This does not decide.", blocks=False)


def _count(record: Record) -> str:
    return f"{record.distinct_cases:,} distinct {'case' if record.distinct_cases == 1 else 'cases'}"
