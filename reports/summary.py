"""One screen that says how a night went."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reports.compare import IMPROVEMENT, Change, Changes
from reports.digest import Digest
from reports.model import Run
from reports.numbers import duration
from reports.verdict import conclude

LINES, COLUMNS = 24, 110
_LABEL = 12
_STATUS = (
    "held",
    "a requirement failed",
    "regression",
    "no baseline yet: stored, and later nights are compared with it",
    "could not run",
)


@dataclass(frozen=True)
class Night:
    """One run of a night, what became of it, and how many held nights it was compared with."""

    run: Run
    digest: Digest
    changes: Changes
    compared_with: int
    status: int


def summary(nights: Sequence[Night], status: int, output: Path, again: str = "", notes: Sequence[str] = ()) -> str:
    """At most LINES lines of at most COLUMNS columns for one or two runs; the regressions come first.

    Args:
        status: the exit status of the night.
        output: where its files are.
        again: the command that makes it again.
        notes: what else is to be told, such as a step that was left out.
    """
    head = f"night of {nights[0].digest.started}: {_STATUS[status]} (exit code {status})"
    foot = [
        *(line for note in notes for line in _entry("note", note, 1)),
        *_entry("report", str(output / "index.html"), 2),
        *(_entry("again", again, 3) if again else []),
    ]
    room = (LINES - 1 - len(foot)) // len(nights)
    body = [line for night in nights for line in _of_one(night, room)]
    return "".join(f"{line}\n" for line in (head[:COLUMNS], *body, *foot))


def _of_one(night: Night, room: int) -> list[str]:
    digest = night.digest
    facts = [
        *_entry("target", _target(digest), 2),
        *_entry("run", _run(digest), 1),
        *_entry("verdict", _verdict(night), 3),
        *_entry("compared", _compared(night), 2),
    ]
    return [*facts, *_told(night.changes, max(1, room - len(facts)))]


def _target(digest: Digest) -> str:
    facts = dict(digest.identity)
    named = [digest.shader or facts.get("target", ""), facts.get("device", ""), facts.get("compiler", "")]
    kind = [f"accuracy {facts.get('accuracy', '')}", f"profile {facts.get('profile', '')}", facts.get("options", "")]
    return ", ".join(filter(None, [*named, *kind]))


def _run(digest: Digest) -> str:
    commit = f"commit {digest.commit}" if digest.commit else "no commit"
    amount = f"{digest.cases:,} cases, {len(digest.benchmarks)} benchmarks, {duration(digest.seconds)}"
    return f"{amount}, seed {digest.seed}, {commit}"


def _verdict(night: Night) -> str:
    if night.digest.outdated and not night.digest.failing:
        return "; ".join(night.digest.outdated)
    if night.digest.finished and not night.digest.failing and night.digest.state == "incomplete":
        return "nothing failed; a part of the suite gives no verdict on the target"
    verdict = conclude(night.run)
    blocking = [] if night.digest.finished else [notice.text for notice in verdict.notices if notice.blocks]
    return "; ".join([verdict.line, *blocking])


def _compared(night: Night) -> str:
    before = night.changes.baseline
    if before is None:
        return "no night of this target, device, versions and options has held so far"
    if not night.digest.finished:
        return "not at all: the run did not finish"
    commit = f", commit {before.commit}" if before.commit else ""
    return f"with {before.started}{commit}, {before.shader} (of {night.compared_with} that held)"


def _told(changes: Changes, room: int) -> list[str]:
    """The regressions, then all else; each on up to three lines, or on one where there is no room."""
    ordered = [*changes.regressions, *(change for change in changes.changes if not change.is_regression)]
    for most in (3, 2, 1):
        told = [_entry(_name(change), change.text, most) for change in ordered]
        if sum(map(len, told)) <= room:
            return [line for entry in told for line in entry]
    kept = [line for entry in told[: room - 1] for line in entry]
    return [*kept, *_entry("more", _counted(ordered[room - 1 :]), 1)]


def _name(change: Change) -> str:
    return "REGRESSION" if change.is_regression else "better" if change.severity == IMPROVEMENT else "other"


def _counted(rest: Sequence[Change]) -> str:
    regressions = sum(change.is_regression for change in rest)
    kinds = ", ".join(dict.fromkeys(change.kind for change in rest))
    return f"{regressions} regressions and {len(rest) - regressions} other changes are in the report: {kinds}"


def _entry(label: str, text: str, most: int) -> list[str]:
    """A labelled text on at most `most` lines; what does not fit is cut."""
    return textwrap.wrap(
        " ".join(text.split()) or "-",
        COLUMNS,
        initial_indent=label.ljust(_LABEL),
        subsequent_indent=" " * _LABEL,
        max_lines=most,
        placeholder=" ...",
        break_on_hyphens=False,
    )
