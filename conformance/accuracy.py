"""The run's book of accuracy: by dtype and position decade the worst error over bound, and which classes are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from conformance.measure import DECADES, Decade, Measure, decade_name
from conformance.standard import Standard


@dataclass
class Cell:
    """One dtype and decade: what was seen, and for each pair the case whose score is the worst."""

    seen: Decade = field(default_factory=Decade)
    cases: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    """Number of the worst case of each pair, int64 [pairs]; -1 where nothing was judged."""

    def add(self, other: Decade, case: int) -> None:
        before = self.seen.worst
        self.seen.add(other)
        missing = torch.full((len(self.seen.worst) - len(self.cases),), -1, dtype=torch.int64)
        self.cases = torch.cat((self.cases, missing))
        known = torch.cat((before, torch.full((len(missing),), -1.0, dtype=torch.float64)))
        self.cases[self.seen.worst > known] = case

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
        self.classes = {accuracy.name: ClassEntry(accuracy.name) for accuracy in standard.classes}
        self.measured = 0
        """Cases that were measured."""
        self._lines: list[str] = []

    def add(self, case: str, measure: Measure) -> None:
        """Book one case; `case` is the line that replays it."""
        self.measured += 1
        self._lines.append(case)
        for (name, decade), seen in measure.decades.items():
            self._cells.setdefault((name, measure.dtype, decade), Cell()).add(seen, len(self._lines) - 1)
        for name, kept in measure.classes.items():
            entry = self.classes[name]
            entry.worst = max(entry.worst, kept.worst)
            if kept.beyond is not None and (entry.beyond is None or kept.beyond < entry.beyond):
                entry.beyond, entry.case = kept.beyond, case

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

    def lines(self) -> Iterator[dict[str, Any]]:
        """One record line for each class, then one for each dtype and decade."""
        for entry in self.classes.values():
            yield {
                "kind": "class",
                "name": entry.name,
                "decides": entry.name == self.standard.accuracy.name,
                "kept": bool(self.measured) and entry.beyond is None,
                "worst": entry.worst,
                "beyond": entry.beyond,
                "case": entry.case,
            }
        for (dtype, decade), cell in sorted(self.cells.items()):
            numbers = sorted({number for number in cell.cases.tolist() if number >= 0})
            place = {number: index for index, number in enumerate(numbers)}
            yield {
                "kind": "accuracy",
                "class": self.told,
                "dtype": dtype,
                "decade": decade,
                "positions": decade_name(decade),
                "elements": cell.seen.elements,
                "uninformative": cell.seen.uninformative,
                "error": cell.seen.error,
                "worst": cell.worst,
                "cases": [self._lines[number] for number in numbers],
                "pairs": [
                    [round(score, 6), place[number]] if number >= 0 else None
                    for score, number in zip(cell.seen.worst.tolist(), cell.cases.tolist(), strict=True)
                ],
            }
