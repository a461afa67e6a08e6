"""What the end of a run prints: the failures by requirement, then the table of verdicts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from conformance.ledger import Entry, Ledger, Reported

SHOWN_PER_REQUIREMENT = 3
_HEADINGS = ("requirement", "tier", "cases", "worst", "verdict", "sentence")


def findings(ledger: Ledger, options: str) -> Iterator[str]:
    """Each failing or warning requirement with its first few cases and how to replay them.

    Args:
        options: the target's options, for the replay command.
    """
    for entry in ledger.entries.values():
        for book, word in ((entry.failed, "FAIL" if entry.decides else "FINDING"), (entry.warned, "WARN")):
            if book:
                yield f"{word} {entry.requirement.id}  {entry.requirement.sentence}"
                yield f"     {len(book)} of {len(entry.cases)} cases"
                for reported in _telling(book.values()):
                    yield from (f"  {line}" for line in _shown(reported, options))
                yield ""


def _telling(book: Iterable[Reported]) -> list[Reported]:
    """Cases that differ in what they show first, then the shortest."""
    distinct: dict[str, Reported] = {}
    for reported in sorted(book, key=lambda r: (not r.finding.looks_like, len(r.case))):
        distinct.setdefault(f"{reported.finding.what} {reported.finding.looks_like}", reported)
    return list(distinct.values())[:SHOWN_PER_REQUIREMENT]


def _shown(reported: Reported, options: str) -> Iterator[str]:
    yield f"{'case':<11}{reported.case}"
    yield from reported.finding.lines()
    if reported.note:
        yield f"{'note':<11}{reported.note}"
    yield f"{'replay':<11}{replay_command(reported.case, options)}"
    yield ""


def replay_command(case: str, options: str) -> str:
    """The command that makes the calls of `case` again."""
    return f"python -m conformance replay {shlex.quote(case)} {options}".rstrip()


def table(ledger: Ledger) -> Iterator[str]:
    """A line per requirement: id, tier, cases, worst error as a fraction of its bound, verdict, sentence."""
    rows = [_HEADINGS, *map(_row, ledger.entries.values())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _row(entry: Entry) -> tuple[str, ...]:
    worst = "" if entry.worst is None else f"{entry.worst:.3f}"
    verdict = entry.verdict
    if verdict == "FAIL" and not entry.decides:
        verdict = "finding"
    requirement = entry.requirement
    return requirement.id, requirement.tier, str(len(entry.cases)), worst, verdict, requirement.sentence


def summary(ledger: Ledger, *, strict: bool = False, broken: int = 0, interrupted: bool = False) -> str:
    """The verdict in a line; only a run that judged every deciding requirement calls a kernel conforming.

    Args:
        broken: tests of the suite that ended in an error of their own.
        interrupted: whether the run was ended before its last test.
    """
    failed = [e.requirement.id for e in ledger.entries.values() if e.failed and (e.decides or strict)]
    found = [e.requirement.id for e in ledger.entries.values() if e.failed and not (e.decides or strict)]
    missing = ledger.not_run()
    if failed:
        verdict = f"does not conform: {', '.join(failed)}"
    elif broken:
        verdict = f"no verdict: {broken} tests of the suite broke"
    elif interrupted:
        verdict = "no verdict: interrupted; nothing found so far"
    elif missing:
        verdict = f"no verdict: nothing found, {len(missing)} deciding requirements not run"
    else:
        verdict = "conforms"
    extra = f"; robustness findings: {', '.join(found)}" if found else ""
    elements = sum(entry.elements for entry in ledger.entries.values())
    return f"{verdict}{extra} ({len(ledger.cases):,} distinct cases, {elements:,} elements judged)"
