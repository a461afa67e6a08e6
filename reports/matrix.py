"""The requirements and what each run shows of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from reports.model import FAIL, Requirement, Run
from reports.naming import Anchors
from reports.replay import replay_command
from reports.verdict import deciding

FINDING = "finding"
"""The word for a failure that does not decide."""
_NOT_EVIDENCED = re.compile(r"Not evidenced: ([A-Z0-9*, -]+)")


@dataclass(frozen=True)
class Cell:
    """What one run shows of a requirement."""

    name: str
    """Of the run."""
    requirement: Requirement
    word: str
    found: str
    """Id of the requirement's findings; empty without any."""
    replay: str
    """Command of the case with the worst score; empty where nothing is measured."""
    evidenced: bool
    """Whether a run on this target says something of it."""

    @property
    def css(self) -> str:
        return css(self.word)


@dataclass(frozen=True)
class Row:
    """A requirement, and a cell for each run; None where a run does not know it."""

    requirement: Requirement
    anchor: str
    cells: tuple[Cell | None, ...]

    @property
    def words(self) -> str:
        """The verdicts of all runs, as the filter compares them."""
        return "|".join(dict.fromkeys(cell.css for cell in self.cells if cell))

    @property
    def targets(self) -> str:
        """The places of the runs that know it, as the filter compares them."""
        return "|".join(str(place) for place, cell in enumerate(self.cells) if cell)


@dataclass(frozen=True)
class Tier:
    """The requirements of one tier."""

    name: str
    decides: bool
    rows: tuple[Row, ...]


def css(word: str) -> str:
    """A verdict as a CSS class."""
    return word.lower().replace(" ", "-")


def tiers(runs: Sequence[Run], names: Sequence[str], anchors: Anchors, found: dict[tuple[int, str], str]) -> list[Tier]:
    """The matrix, by tier.

    found: ids of the findings, by place of the run and id of the requirement.
    """
    known = [{requirement.id: requirement for requirement in run.requirements} for run in runs]
    decide = [deciding(run) for run in runs]
    rows: dict[str, list[Row]] = {}
    decides: dict[str, bool] = {}
    # Runs of one suite share one contract; of two suites, the later may know more.
    for requirement in {id: entry for own in reversed(known) for id, entry in own.items()}.values():
        cells = tuple(
            _cell(runs[place], names[place], own[requirement.id], decide[place], found.get((place, requirement.id), ""))
            if requirement.id in own
            else None
            for place, own in enumerate(known)
        )
        decides[requirement.tier] = any(requirement.id in some for some in decide)
        row = Row(requirement, anchors.of("requirement", requirement.id), cells)
        rows.setdefault(requirement.tier, []).append(row)
    return [Tier(name, decides[name], tuple(own)) for name, own in rows.items()]


def _cell(run: Run, name: str, requirement: Requirement, decide: set[str], found: str) -> Cell:
    word = requirement.verdict
    if word == FAIL and requirement.id not in decide:
        word = FINDING
    case = requirement.worst_case
    replay = replay_command(case, run.facts) if case else ""
    return Cell(name, requirement, word, found, replay, not _is_beyond(requirement.id, run))


def _is_beyond(id: str, run: Run) -> bool:
    """Whether a limit of the target names the requirement: `Not evidenced: ERR-0*, MEM-READ.`"""
    named = (found for limit in run.facts.get("limits", []) for found in _NOT_EVIDENCED.findall(str(limit)))
    return any(fnmatchcase(id, pattern.strip()) for ids in named for pattern in ids.split(","))
