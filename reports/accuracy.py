"""What the page shows of accuracy: the classes kept, the error by position, the worst pairs, the ulps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from reports import numbers
from reports.model import Cell, ClassResult, Run
from reports.plots.accuracy import error_by_position, heat_map, ulp_histogram
from reports.plots.canvas import Picture
from reports.replay import replay_command

SHOWN_PAIRS = 10


@dataclass(frozen=True)
class ClassRow:
    """How a class fared; the command shows where it was left, empty where it was not."""

    result: ClassResult
    replay: str

    @property
    def state(self) -> str:
        if self.result.beyond is not None:
            return f"left from position {self.result.beyond:,} on"
        return "kept" if self.result.kept else "not measured"

    @property
    def word(self) -> str:
        """The state in a word or two."""
        return "left" if self.result.beyond is not None else self.state


@dataclass(frozen=True)
class CellRow:
    """A dtype and decade; pair and case are those of its worst score, None and empty where every score is 0."""

    cell: Cell
    silent: str
    """Share of the elements on which the bound says nothing."""
    pair: int | None
    case: str
    replay: str


@dataclass(frozen=True)
class PairRow:
    """A pair of elements, at the dtype and decade where it fared worst."""

    cell: Cell
    pair: int
    score: float
    case: str
    replay: str


@dataclass(frozen=True)
class UlpRow:
    """A bucket of the histogram, below and above the nearest value."""

    words: str
    below: int
    above: int


@dataclass(frozen=True)
class DtypeView:
    """What was measured of one dtype, drawn and in numbers."""

    dtype: str
    rows: tuple[CellRow, ...]
    error: Picture | None
    heat: Picture | None
    ulps: Picture | None
    nearest: int
    """Elements that are the value nearest to the exact one."""
    ulp_rows: tuple[UlpRow, ...]


@dataclass(frozen=True)
class Accuracy:
    """All that a run tells of accuracy."""

    asked: str
    decides: str
    """The class that decides; empty if the record does not tell."""
    told: str
    """The class whose scores are shown: the one that decides if it is left, or the tightest one kept."""
    tightest: str
    """The tightest class kept; empty if none is."""
    classes: tuple[ClassRow, ...]
    silent: str
    """Share of all elements on which the bound says nothing; empty for none."""
    silent_from: str
    """The lowest positions at which it does."""
    dtypes: tuple[DtypeView, ...]
    pairs: tuple[PairRow, ...]


def accuracy(run: Run, anchor: str) -> Accuracy:
    """What `run` tells of accuracy; empty parts where it tells nothing.

    anchor: with which the ids of its pictures begin.
    """
    told = _told(run)
    cells = [cell for cell in run.cells if cell.accuracy == told]
    silent = [cell for cell in cells if cell.uninformative]
    measured = {dtype: list(own) for dtype, own in groupby(cells, key=lambda cell: cell.dtype)}
    dtypes = dict.fromkeys((*measured, *run.ulps))
    return Accuracy(
        asked=str(run.facts.get("accuracy", "")),
        decides=run.decides,
        told=told,
        tightest=run.tightest,
        classes=tuple(_class_row(run, result) for result in run.classes),
        silent=numbers.share(sum(cell.uninformative for cell in silent), sum(cell.elements for cell in cells)),
        silent_from=min(silent, key=lambda cell: cell.decade).positions if silent else "",
        dtypes=tuple(
            _dtype(run, f"{anchor}-{place}", dtype, measured.get(dtype, [])) for place, dtype in enumerate(dtypes)
        ),
        pairs=tuple(_worst_pairs(run, cells)),
    )


def _told(run: Run) -> str:
    # Where the class that decides is left, its scores show where; else the tightest one kept says most.
    left = any(result.decides and not result.kept for result in run.classes)
    return run.decides if left else run.tightest


def _class_row(run: Run, result: ClassResult) -> ClassRow:
    # The run may have been held to a looser class, under which this case is right.
    return ClassRow(result, replay_command(result.case, run.facts, result.name) if result.case else "")


def _dtype(run: Run, anchor: str, dtype: str, cells: Sequence[Cell]) -> DtypeView:
    counts = run.ulps.get(dtype, {})
    sizes = range(1, max(map(abs, counts), default=0) + 1)
    judged = any(pair for cell in cells for pair in cell.pairs)
    return DtypeView(
        dtype=dtype,
        rows=tuple(_cell_row(run, cell) for cell in cells),
        error=error_by_position(f"error-{anchor}", dtype, cells, run.envelopes) if cells else None,
        heat=heat_map(f"heat-{anchor}", dtype, cells) if judged else None,
        ulps=ulp_histogram(f"ulps-{anchor}", dtype, counts) if any(counts.values()) else None,
        nearest=counts.get(0, 0),
        ulp_rows=tuple(UlpRow(numbers.ulps(size), counts.get(-size, 0), counts.get(size, 0)) for size in sizes),
    )


def _cell_row(run: Run, cell: Cell) -> CellRow:
    scores = ((pair[0], place, pair[1]) for place, pair in enumerate(cell.pairs) if pair)
    score, place, case = max(scores, key=lambda entry: entry[0], default=(0.0, 0, ""))
    silent = numbers.share(cell.uninformative, cell.elements)
    if not score:
        return CellRow(cell, silent, None, "", "")
    return CellRow(cell, silent, place, case, replay_command(case, run.facts, cell.accuracy))


def _worst_pairs(run: Run, cells: Sequence[Cell]) -> Iterator[PairRow]:
    """The pairs with the largest scores, each once: else the ten worst would all be of one dtype and decade."""
    worst: dict[int, tuple[float, str, Cell]] = {}
    for cell in cells:
        for pair, found in enumerate(cell.pairs):
            if found and found[0] > 0 and (pair not in worst or found[0] > worst[pair][0]):
                worst[pair] = (*found, cell)
    for pair, (score, case, cell) in sorted(worst.items(), key=lambda item: -item[1][0])[:SHOWN_PAIRS]:
        yield PairRow(cell, pair, score, case, replay_command(case, run.facts, cell.accuracy))
