"""What the page shows of accuracy: the classes kept, the error by position, the worst pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from reports.chart import Chart, draw
from reports.model import Cell, ClassResult, Record
from reports.numbers import share
from reports.replay import replay_command

SHOWN_PAIRS = 10
_DTYPES = ("float16", "bfloat16", "float32")


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


@dataclass(frozen=True)
class CellRow:
    """A dtype and decade, and the case of its worst score; empty where every score is 0."""

    cell: Cell
    silent: str
    """Share of the elements on which the bound says nothing."""
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
class Accuracy:
    """All that the record tells of accuracy."""

    asked: str
    decides: str
    """The class that decides; empty if the record does not tell."""
    told: str
    """The class whose scores are shown: the suite takes the tightest one kept, or the one that decides."""
    classes: tuple[ClassRow, ...]
    silent: str
    """Share of all elements on which the bound says nothing; empty for none."""
    silent_from: str
    """The lowest positions at which it does."""
    by_dtype: tuple[tuple[str, tuple[CellRow, ...]], ...]
    pairs: tuple[PairRow, ...]
    chart: Chart | None

    @property
    def tightest(self) -> str:
        """The tightest class kept; empty if none is."""
        return next((row.result.name for row in self.classes if row.result.kept), "")


def accuracy(record: Record) -> Accuracy:
    """What `record` tells of accuracy; empty parts where it tells nothing."""
    cells = sorted(record.cells, key=lambda cell: (_rank(cell.dtype), cell.decade))
    silent = [cell for cell in cells if cell.uninformative]
    return Accuracy(
        asked=str(record.run.get("accuracy", "")),
        decides=next((result.name for result in record.classes if result.decides), ""),
        told=cells[0].accuracy if cells else "",
        classes=tuple(_class_row(record, result) for result in record.classes),
        silent=share(sum(cell.uninformative for cell in silent), sum(cell.elements for cell in cells)),
        silent_from=min(silent, key=lambda cell: cell.decade).positions if silent else "",
        by_dtype=tuple(
            (dtype, tuple(_cell_row(record, cell) for cell in group))
            for dtype, group in groupby(cells, key=lambda cell: cell.dtype)
        ),
        pairs=tuple(_worst_pairs(record, cells)),
        chart=draw(cells) if cells else None,
    )


def _class_row(record: Record, result: ClassResult) -> ClassRow:
    # The run may have been held to a looser class, under which this case is right.
    return ClassRow(result, replay_command(result.case, record.run, result.name) if result.case else "")


def _cell_row(record: Record, cell: Cell) -> CellRow:
    score, place = max((pair for pair in cell.pairs if pair), default=(0.0, 0))
    case = cell.cases[place] if score else ""
    replay = replay_command(case, record.run, cell.accuracy) if case else ""
    return CellRow(cell, share(cell.uninformative, cell.elements), case, replay)


def _rank(dtype: str) -> tuple[int, str]:
    """The order in which a run prints dtypes: narrow ones first."""
    return (_DTYPES.index(dtype) if dtype in _DTYPES else len(_DTYPES)), dtype


def _worst_pairs(record: Record, cells: list[Cell]) -> Iterator[PairRow]:
    """The pairs with the largest scores, each once: else the ten worst would all be of one dtype and decade."""
    worst: dict[int, tuple[float, int, Cell]] = {}
    for cell in cells:
        for pair, found in enumerate(cell.pairs):
            if found and found[0] > 0 and (pair not in worst or found[0] > worst[pair][0]):
                worst[pair] = (*found, cell)
    for pair, (score, place, cell) in sorted(worst.items(), key=lambda item: -item[1][0])[:SHOWN_PAIRS]:
        case = cell.cases[place]
        yield PairRow(cell, pair, score, case, replay_command(case, record.run, cell.accuracy))
