"""The worst score by position decade as a small line chart, in the units of its SVG view box."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reports.model import Cell
from reports.numbers import fraction

WIDTH, HEIGHT = 480, 270
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 470, 30, 226
# Powers of ten: scores are drawn from this one, those below it on the lower edge, but for 0.
_LOWEST = -3
_HIGHEST_AT_LEAST = 1
_MOST_TICKS = 10


@dataclass(frozen=True)
class Point:
    """One score; the text says it in words."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Line:
    """The scores of one dtype, by growing position."""

    dtype: str
    points: tuple[Point, ...]

    @property
    def path(self) -> str:
        return " ".join(f"{point.x:.1f},{point.y:.1f}" for point in self.points)


@dataclass(frozen=True)
class Tick:
    """A label on an axis, and where it stands along it."""

    at: float
    label: str


@dataclass(frozen=True)
class Chart:
    """Lines over positions, from left to right, and powers of ten of the score, upwards."""

    lines: tuple[Line, ...]
    positions: tuple[Tick, ...]
    scores: tuple[Tick, ...]
    limit: float
    """Height of the score 1."""
    left: int = _LEFT
    right: int = _RIGHT
    bottom: int = _BOTTOM
    width: int = WIDTH
    height: int = HEIGHT


def draw(cells: Sequence[Cell]) -> Chart:
    """The chart of one cell or more, sorted by dtype and decade."""
    top = _top(cells)
    names = {cell.decade: cell.positions for cell in sorted(cells, key=lambda cell: cell.decade)}
    step = (_RIGHT - _LEFT) / len(names)
    places = {decade: _LEFT + step * (index + 0.5) for index, decade in enumerate(names)}
    return Chart(
        lines=tuple(_lines(cells, places, top)),
        # The first position of a decade names it: there is no room for more.
        positions=tuple(Tick(places[decade], name.partition("-")[0]) for decade, name in names.items()),
        scores=tuple(_score_ticks(top)),
        limit=_height(1.0, top),
    )


def _top(cells: Sequence[Cell]) -> int:
    """The power of ten of the upper edge, one above all finite scores where some are not finite."""
    finite = [math.log10(cell.worst) for cell in cells if 0 < cell.worst < math.inf]
    top = max(_HIGHEST_AT_LEAST, math.ceil(max(finite, default=0.0)))
    return top + any(math.isinf(cell.worst) for cell in cells)


def _height(score: float, top: int) -> float:
    power = math.log10(score) if score > 0 else -math.inf
    return _BOTTOM - (_BOTTOM - _TOP) * (min(max(power, _LOWEST), top) - _LOWEST) / (top - _LOWEST)


def _lines(cells: Sequence[Cell], places: dict[int, float], top: int) -> Iterator[Line]:
    for dtype in dict.fromkeys(cell.dtype for cell in cells):
        # A score of 0 has no place on an axis of powers.
        own = [cell for cell in cells if cell.dtype == dtype and cell.worst > 0]
        yield Line(
            dtype,
            tuple(
                Point(
                    places[cell.decade],
                    _height(cell.worst, top),
                    f"{dtype}, positions {cell.positions}: {fraction(cell.worst)}",
                )
                for cell in own
            ),
        )


def _score_ticks(top: int) -> Iterator[Tick]:
    step = math.ceil((top - _LOWEST + 1) / _MOST_TICKS)
    for power in range(_LOWEST, top + 1):
        if power % step == 0:
            yield Tick(_height(10.0**power, top), f"10^{power}" if power else "1")
