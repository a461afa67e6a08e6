"""The findings of the runs: each kind once, by its smallest case, with a picture of its pools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from reports.kept import Story, story
from reports.matrix import FINDING, css
from reports.model import (
    DEVIATES,
    DEVIATION,
    FAIL,
    SEVERITIES,
    WARN,
    WARNING,
    Case,
    Deviation,
    Finding,
    Requirement,
    Run,
)
from reports.naming import Anchors
from reports.plots.canvas import Picture
from reports.plots.pool import pool_picture
from reports.replay import replay_command
from reports.verdict import deciding

SHOWN_PER_REQUIREMENT = 8
MOST_PICTURES = 40
# The tier whose failures are told of and do not decide.
_OPEN_TIER = "robustness"


@dataclass(frozen=True)
class Shown:
    """A kind of finding, and the smallest case that shows it."""

    case: Case
    finding: Finding
    replay: str
    picture: Picture | None
    """None where the case has no pools to show, and where the picture stands further up."""
    anchor: str
    """Id of the picture; empty without one."""

    @property
    def test(self) -> str:
        """The test function; its parameter is the case."""
        return self.case.test.partition("[")[0]


@dataclass(frozen=True)
class Group:
    """The findings of one requirement in one run, and how many distinct cases have them."""

    requirement: Requirement
    run: int
    """Place of the run."""
    name: str
    """Of the run."""
    anchor: str
    word: str
    """The verdict that the findings give."""
    cases: int
    shown: tuple[Shown, ...]
    hidden: int
    """Kinds of findings that the record of the run tells of and that are not shown."""
    known: tuple[Deviation, ...] = ()
    """What the list of known deviations says of them."""

    @property
    def css(self) -> str:
        return css(self.word)


@dataclass(frozen=True)
class Section:
    """Findings that carry the same weight."""

    title: str
    css: str
    explanation: str
    groups: tuple[Group, ...]


class _Pictures:
    """The pictures of a page: of each case one, and not too many."""

    def __init__(self, anchors: Anchors) -> None:
        self._anchors, self._drawn = anchors, set[str]()

    def of(self, run: int, case: Case) -> tuple[Picture | None, str]:
        """The picture, unless it stands further up, and its id; neither for the cases past the limit."""
        anchor = self._anchors.of("pools", str(run), case.line)
        if not case.pools or (anchor not in self._drawn and len(self._drawn) >= MOST_PICTURES):
            return None, ""
        if anchor in self._drawn:
            return None, anchor
        self._drawn.add(anchor)
        return pool_picture(f"{anchor}-drawing", case.pools), anchor


def sections(runs: Sequence[Run], names: Sequence[str], anchors: Anchors) -> tuple[Section, ...]:
    """The findings of all runs, those that decide first; no section is empty."""
    pictures = _Pictures(anchors)
    groups: dict[str, list[Group]] = {title: [] for title in _WEIGHTS}
    found = [_by_requirement(run) for run in runs]
    decide = [deciding(run) for run in runs]
    contract = list({requirement.id: requirement for run in runs for requirement in run.requirements})
    for severity, id, place in product(SEVERITIES, contract, range(len(runs))):
        own = found[place].get((severity, id))
        if own:
            requirement = next(entry for entry in runs[place].requirements if entry.id == id)
            weight, word = _weight(severity, requirement.tier, id in decide[place])
            group = _group(runs[place], place, names[place], requirement, word, own, anchors, pictures)
            groups[weight].append(group)
    return tuple(Section(title, *_WEIGHTS[title], tuple(own)) for title, own in groups.items() if own)


_WEIGHTS = {
    "Failures": ("fail", "These decide: the target does not conform."),
    "Failures of unknown weight": ("fail", "The contract of the record does not tell of these requirements."),
    "Robustness findings": (
        "finding",
        "These do not decide: the contract leaves such calls open, and users meet them.",
    ),
    "Warnings": ("warn", "These do not decide."),
    "Known deviations": ("deviates", "The target's list of known deviations names these: they do not decide."),
}
"""By title the CSS class and the explanation of a section."""


def _weight(severity: str, tier: str, decides: bool) -> tuple[str, str]:
    """Title of the section that a finding belongs to, and the verdict that it gives."""
    if severity == WARNING:
        return "Warnings", WARN
    if severity == DEVIATION:
        return "Known deviations", DEVIATES
    if decides:
        return "Failures", FAIL
    return ("Robustness findings", FINDING) if tier == _OPEN_TIER else ("Failures of unknown weight", FAIL)


def _by_requirement(run: Run) -> dict[tuple[str, str], list[tuple[Case, Finding]]]:
    """By severity and requirement."""
    found: dict[tuple[str, str], list[tuple[Case, Finding]]] = {}
    for case in run.found:
        for finding in case.findings:
            found.setdefault((finding.severity, finding.requirement), []).append((case, finding))
    return found


def _group(
    run: Run,
    place: int,
    name: str,
    requirement: Requirement,
    word: str,
    found: Sequence[tuple[Case, Finding]],
    anchors: Anchors,
    pictures: _Pictures,
) -> Group:
    kinds = _kinds(found)
    shown = tuple(
        Shown(case, finding, replay_command(case.line, run.facts), *pictures.of(place, case))
        for case, finding in kinds[:SHOWN_PER_REQUIREMENT]
    )
    anchor = anchors.of("found", str(place), requirement.id, word)
    cases = {WARN: requirement.warned, DEVIATES: requirement.deviated}.get(word, requirement.failed)
    numbers = {finding.deviation for _, finding in found}
    known = tuple(one for one in run.deviations if one.number in numbers)
    return Group(requirement, place, name, anchor, word, cases, shown, len(kinds) - len(shown), known)


def _kinds(found: Iterable[tuple[Case, Finding]]) -> list[tuple[Case, Finding]]:
    """Of the findings that tell one story, the one of the smallest case; the smallest cases first."""
    ordered = sorted(found, key=lambda pair: (pair[0].size, len(pair[0].line), pair[0].line))
    kinds: dict[Story, tuple[Case, Finding]] = {}
    for case, finding in ordered:
        kinds.setdefault(story(finding), (case, finding))
    return list(kinds.values())
