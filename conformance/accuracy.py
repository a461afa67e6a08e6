"""The run's book of accuracy: by dtype and position decade the worst error over bound, and which classes are kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from conformance.measure import DECADES, Decade, Measure, Raised, decade_name, rounded_up
from conformance.standard import Standard


@dataclass
class Cell:
    """One dtype and decade: what was seen, and for each pair the case whose score is the worst."""

    seen: Decade = field(default_factory=Decade)
    cases: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """Number of the worst case of each pair, int64 [pairs]; -1 where nothing was judged."""

    def add(self, other: Decade, case: int) -> dict[int, float]:
        """Book one case; the pairs whose score is larger than any before, with that score.

        Scores and errors are kept as a record tells them, so that a run made from its record is the same.
        """
        seen = self.seen
        seen.elements += other.elements
        seen.uninformative += other.uninformative
        if other.error > seen.error:
            seen.error = rounded_up(other.error)
        if (missing := len(other.worst) - len(self.cases)) > 0:
            seen.worst = torch.cat((seen.worst, seen.worst.new_full((missing,), -1)))
            self.cases = torch.cat((self.cases, self.cases.new_full((missing,), -1)))
        raised = (other.worst > seen.worst[: len(other.worst)]).nonzero().flatten()
        scores = dict(zip(raised.tolist(), map(rounded_up, other.worst[raised].tolist()), strict=True))
        if scores:
            seen.worst[raised] = torch.tensor(list(scores.values()), dtype=torch.float64)
            self.cases[raised] = case
        return scores

    @property
    def worst(self) -> float:
        return float(self.seen.worst.max()) if len(self.seen.worst) else 0.0


@dataclass
class ClassEntry:
    """How one accuracy class fared over the run."""

    name: str
    worst: float = 0.0
    beyond: int | None = None
    """Smallest |position| with an element beyond the bound of this class; None if it is kept."""
    case: str = ""
    """The case that shows it."""


class AccuracyBook:
    """What was measured of all rotations of a run, passes too."""

    def __init__(self, standard: Standard) -> None:
        self.standard = standard
        self._cells: dict[tuple[str, str, int], Cell] = {}
        self._kinds: dict[tuple[str, str, int, bool], Cell] = {}
        """The same of drawn and of planned cases apart."""
        self.classes = {accuracy.name: ClassEntry(accuracy.name) for accuracy in standard.classes}
        self.measured = 0
        """Cases that were measured."""
        self._lines: list[str] = []

    def add(self, case: str, measure: Measure, *, drawn: bool = False) -> Raised:
        """Book one case, `case` being the line that replays it; the scores that are larger than any before of its kind.

        drawn: whether hypothesis made it. A drawn case must not hide a planned one, whose scores are the same in
        every run and are compared from night to night.
        """
        self.measured += 1
        self._lines.append(case)
        raised = {}
        for (name, decade), seen in measure.decades.items():
            cell = self._cells.setdefault((name, measure.dtype, decade), Cell())
            cell.add(seen, len(self._lines) - 1)
            kind = self._kinds.setdefault((name, measure.dtype, decade, drawn), Cell())
            raised[name, decade] = kind.add(seen, len(self._lines) - 1)
        for name, kept in measure.classes.items():
            entry = self.classes[name]
            entry.worst = max(entry.worst, kept.worst)
            if kept.beyond is not None and (entry.beyond is None or kept.beyond < entry.beyond):
                entry.beyond, entry.case = kept.beyond, case
        return raised

    @property
    def tightest(self) -> str:
        """The tightest class that every case kept; empty when none is, or nothing was measured."""
        return next((e.name for e in self.classes.values() if self.measured and e.beyond is None), "")

    @property
    def told(self) -> str:
        """The class whose scores are told: the tightest one kept, or the one that decides."""
        return self.tightest or self.standard.accuracy.name

    @property
    def cells(self) -> dict[tuple[str, int], Cell]:
        """The cells of the class that is told, by dtype and decade."""
        return {(dtype, n): cell for (name, dtype, n), cell in self._cells.items() if name == self.told}

    @property
    def uninformative(self) -> float:
        """Share of the elements on which the bound of the class that is told says nothing."""
        elements = sum(cell.seen.elements for cell in self.cells.values())
        return sum(cell.seen.uninformative for cell in self.cells.values()) / max(1, elements)

    def first_uninformative(self) -> str:
        """The lowest decade in which some bound says nothing, by name; empty if there is none."""
        decades = [decade for (_, decade), cell in self.cells.items() if cell.seen.uninformative]
        return decade_name(min(decades)) if decades else ""

    def dtypes(self) -> list[str]:
        return sorted({dtype for dtype, _ in self.cells}, key=["float16", "bfloat16", "float32"].index)

    def decades(self) -> list[int]:
        seen = {decade for _, decade in self.cells}
        return [decade for decade in range(DECADES) if decade in seen]
