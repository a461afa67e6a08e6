"""What the end of a run prints: the failures by requirement, then the table of verdicts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from conformance.accuracy import AccuracyBook, Cell
from conformance.ledger import Entry, Ledger, Reported
from conformance.measure import decade_name
from conformance.resume import Past
from kernel.targets import Behaviour
from reference.accuracy import OURS

SHOWN_PER_REQUIREMENT = 3
_HEADINGS = ("requirement", "tier", "cases", "worst", "verdict", "sentence")


def record(path: Path, past: Past | None, kept: Path | None) -> Iterator[str]:
    """What happened to the file at `path`, if anything: whose run goes on, or where one that was cut off is kept."""
    if past is not None and past.end is not None and past.finished:
        yield f"nothing left to run: the record {path} is finished (exit status {past.end['exit_status']})"
    elif past is not None:
        yield f"resumed: the record {path} holds {len(past.done)} finished tests"
    if kept is not None:
        yield f"{path} was no finished record: kept as {kept}; --resume would have continued a run that was cut off"


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


def first_failures(ledger: Ledger, announced: set[str]) -> Iterator[str]:
    """Two lines for each failing requirement that is not `announced` yet; they are from then on."""
    for id, entry in ledger.entries.items():
        if entry.failed and id not in announced:
            announced.add(id)
            [reported] = _telling(entry.failed.values())[:1]
            finding = reported.finding
            yield f"{'FAIL' if entry.decides else 'FINDING'} {id}  {finding.what}"
            yield f"     {finding.looks_like or finding.where or finding.extent}"


def deviations(ledger: Ledger, *, closely: bool = False) -> Iterator[str]:
    """The failures that are known, by entry of their list, with the cases that show them.

    closely: tell what the shortest case shows.
    """
    for number, known in ledger.deviations.lasting.items():
        seen = {id: entry for id, entry in ledger.entries.items() if number in entry.deviated}
        if not seen:
            continue
        yield f"KNOWN DEVIATION, until {known.expires}, listed in {ledger.deviations.file}"
        yield f"  {'reason':<14}{known.reason}"
        yield f"  {'issue':<14}{known.issue}"
        for id, entry in seen.items():
            book = entry.deviated[number]
            shortest = min(book.values(), key=lambda reported: len(reported.case))
            yield f"  {id:<14}{len(book)} of {len(entry.cases)} cases, such as {shortest.case}"
            yield from (f"    {line}" for line in shortest.finding.lines() if closely)
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
    return columns([_HEADINGS, *map(_row, ledger.entries.values())])


def _row(entry: Entry) -> tuple[str, ...]:
    worst = "" if entry.worst is None else _score(entry.worst)
    verdict = entry.verdict
    if verdict == "FAIL" and not entry.decides:
        verdict = "finding"
    requirement = entry.requirement
    return requirement.id, requirement.tier, str(len(entry.cases)), worst, verdict, requirement.sentence


def arithmetic(behaviour: Behaviour) -> str:
    """What the probes measured of the target, in a line."""
    words = {
        "float32 rounded {}": behaviour.rounding,
        "conversions {}": behaviour.narrowing,
        "products and sums {}": _word(behaviour.contraction, "fused", "not fused"),
        "subnormals {}": _word(behaviour.flushes, "flushed", "kept"),
        "half subnormals {}": _word(behaviour.flushes_half, "flushed", "kept"),
        "NaN and infinity {}": _word(behaviour.nonfinite, "honoured", "not honoured"),
    }
    told = [phrase.format(word) for phrase, word in words.items() if word]
    return ", ".join(told) or "not measured: rounding to nearest is expected, flushing of subnormals allowed"


def _word(answer: bool | None, yes: str, no: str) -> str | None:
    return None if answer is None else yes if answer else no


def accuracy(book: AccuracyBook) -> Iterator[str]:
    """How the error grows with the position, and which accuracy classes are kept."""
    dtypes = book.dtypes()
    if not dtypes:
        return
    cells_of = book.cells
    yield f"error by position: worst score under {book.told}, and largest error as a fraction of the pair's length"
    rows = [("position", *dtypes, "bound says nothing")]
    for decade in book.decades():
        cells = [cells_of.get((dtype, decade)) for dtype in dtypes]
        seen = [cell.seen for cell in cells if cell]
        silent = sum(s.uninformative for s in seen) / sum(s.elements for s in seen)
        rows.append(
            (decade_name(decade), *(_cell(cell) for cell in cells), f"{_percent(silent)} of elements" if silent else "")
        )
    yield from columns(rows)
    if book.uninformative:
        yield (
            f"on {_percent(book.uninformative)} of all elements, from positions {book.first_uninformative()} on, "
            f"the bound of {book.told} says nothing: a pass there is no evidence"
        )
    yield from classes(book)


def _cell(cell: Cell | None) -> str:
    if not cell:
        return ""
    # Tiny and huge pairs have scores, and no error that could be compared.
    error = f"{cell.seen.error:.1e}" if cell.seen.error or not cell.worst else "-"
    return f"{_score(cell.worst)} {error}"


def _score(worst: float) -> str:
    """Three places; or three digits, of a score that is far above 1."""
    return f"{worst:.3f}" if worst < 1000 else f"{worst:.3g}"


def _percent(share: float) -> str:
    return f"{share:.2%}" if share >= 0.0001 else "less than 0.01%"


def classes(book: AccuracyBook) -> Iterator[str]:
    """Which accuracy classes are kept, and from which position on one is left."""
    for entry in book.classes.values():
        if entry.beyond is None:
            yield f"{entry.name}: kept (worst score {entry.worst:.3f})"
        else:
            where = f"left from position {entry.beyond} on, the lowest seen (worst score {entry.worst:.3g})"
            yield f"{entry.name}: {where}; case {entry.case}"
    for accuracy in book.standard.classes:
        for term in accuracy.terms:
            if term.source == OURS and accuracy.name == book.told:
                yield f"{accuracy.name}: the bound of {term.reason}; {term.source}"
    if book.standard.tighter:
        yield f"tightest class kept: {book.tightest or 'none'}"


def columns(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """The rows as lines, each column as wide as its widest text."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def summary(
    ledger: Ledger,
    *,
    strict: bool = False,
    broken: int = 0,
    interrupted: bool = False,
    outdated: bool = False,
    profile: str = "",
) -> str:
    """The verdict in a line; only a run that judged every deciding requirement calls a kernel conforming.

    Args:
        broken: tests of the suite that ended in an error of their own.
        interrupted: whether the run was ended before its last test.
        outdated: whether the list of known deviations has entries that must go.
        profile: the one that ran.
    """
    failed = [e.requirement.id for e in ledger.entries.values() if e.failed and (e.decides or strict)]
    found = [e.requirement.id for e in ledger.entries.values() if e.failed and not (e.decides or strict)]
    missing = ledger.not_run(strict=strict)
    if failed:
        verdict = f"does not conform: {', '.join(failed)}"
    elif broken:
        verdict = f"no verdict: {broken} tests of the suite broke"
    elif interrupted:
        verdict = "no verdict: interrupted; nothing found so far"
    elif outdated:
        verdict = "no verdict: the list of known deviations is out of date"
    elif missing:
        verdict = f"no verdict: nothing found, {len(missing)} deciding requirements not run"
    else:
        verdict = "conforms"
    extra = f"; robustness findings: {', '.join(found)}" if found else ""
    elements = sum(entry.elements for entry in ledger.entries.values())
    tried = f"{len(ledger.cases):,} distinct cases, {elements:,} elements judged"
    return f"{verdict}{with_known(ledger)}{extra} ({tried}{f', profile {profile}' if profile else ''})"


def with_known(ledger: Ledger) -> str:
    """What follows a verdict where known deviations were seen."""
    known = [entry.requirement.id for entry in ledger.entries.values() if entry.deviated]
    return f", with known deviations: {', '.join(known)}" if known else ""
