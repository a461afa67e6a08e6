"""What a reviewer with one minute reads of a run: verdict, counts, what was not shown, what changed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reports.model import DEVIATES, FAIL, NOT_RUN, PASS, WARN, Run
from reports.numbers import duration
from reports.verdict import CONFORMS, FAILS, INCOMPLETE, OUTDATED, Verdict, conclude, deciding

if TYPE_CHECKING:
    from reports.compare import Change, Changes

WORDS = {
    CONFORMS: "conforms",
    FAILS: "does not conform",
    INCOMPLETE: "gives no verdict",
}
_TOLD_ELSEWHERE = ("kind", "format", "limits", "terms", "probes", "allowed", "classes", "decides", "run", "accuracy")
# What identifies a run at a glance.
_FIRST = (
    "target",
    "device",
    "compiler",
    "shader",
    "shader path",
    "math",
    "profile",
    "versions",
    "machine",
    "commit",
    "started",
)
_TITLE = re.compile(r"(.{1,60}?)[.:](?:\s|$)", re.DOTALL)


@dataclass(frozen=True)
class TierCount:
    """How the requirements of a tier fared; findings: cases with one that is not known, for each requirement."""

    name: str
    decides: bool
    verdicts: Mapping[str, int]
    findings: int

    @property
    def total(self) -> int:
        return sum(self.verdicts.values())


@dataclass(frozen=True)
class Overview:
    """The summary of one run."""

    name: str
    anchor: str
    verdict: Verdict
    first: tuple[tuple[str, str], ...]
    """The facts that identify the run."""
    facts: tuple[tuple[str, str], ...]
    counts: tuple[tuple[str, str], ...]
    tiers: tuple[TierCount, ...]
    limits: tuple[str, ...]
    """What the target cannot show."""
    limit_titles: tuple[str, ...]
    changes: Changes | None

    @property
    def sorted_changes(self) -> list[Change]:
        """Regressions first."""
        changes = self.changes.changes if self.changes else ()
        return sorted(changes, key=lambda change: change.severity != "regression")

    @property
    def words(self) -> str:
        """The verdict, and why there is none."""
        words = WORDS[self.verdict.state]
        if self.verdict.state != INCOMPLETE:
            return f"{words}, with known deviations" if self.verdict.known else words
        if any(notice.weight == OUTDATED for notice in self.verdict.notices):
            return f"{words}: the list of known deviations is out of date"
        return f"{words}: {'not all that decides ran' if self.verdict.finished else 'the record is incomplete'}"


def overview(run: Run, name: str, anchor: str, changes: Changes | None) -> Overview:
    facts = tuple(_facts(run))
    limits = _listed(run.facts.get("limits", []))
    return Overview(
        name=name,
        anchor=anchor,
        verdict=conclude(run),
        first=tuple(sorted((pair for pair in facts if pair[0] in _FIRST), key=lambda pair: _FIRST.index(pair[0]))),
        facts=facts,
        counts=tuple(_counts(run)),
        tiers=tuple(_tiers(run)),
        limits=limits,
        limit_titles=tuple(_title(limit) for limit in limits),
        changes=changes,
    )


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    for name, value in run.facts.items():
        if name not in _TOLD_ELSEWHERE and value != "":
            yield name, _told(value)


def _told(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_told(entry)}" for name, entry in value.items())
    return ", ".join(map(_told, value)) if isinstance(value, list) else str(value)


def _listed(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _title(limit: str) -> str:
    """The first words of a limit, up to its first full stop."""
    found = _TITLE.match(limit)
    return found[1] if found else f"{limit[:60]}…" if len(limit) > 60 else limit


def _counts(run: Run) -> Iterator[tuple[str, str]]:
    drawn = sum(run.index.drawn)
    yield "cases", f"{len(run.index.lines):,}" + (f", {drawn:,} of them generated" if drawn else "")
    yield "judgements", f"{run.judgements:,}"
    yield "elements judged", f"{sum(requirement.elements for requirement in run.requirements):,}"
    yield "tests finished", f"{sum(part.tests for part in run.parts):,}"
    ends = [part.end for part in run.parts if part.end is not None]
    if ends:
        yield "time", duration(sum(end.seconds for end in ends))


def _tiers(run: Run) -> Iterator[TierCount]:
    decide = deciding(run)
    for tier in dict.fromkeys(requirement.tier for requirement in run.requirements):
        own = [requirement for requirement in run.requirements if requirement.tier == tier]
        counts = {word: sum(entry.verdict == word for entry in own) for word in (PASS, FAIL, WARN, NOT_RUN, DEVIATES)}
        findings = sum(entry.failed + entry.warned for entry in own)
        yield TierCount(tier, own[0].id in decide, counts, findings)
