"""What became of the rows of a case's pools: a strip for each pool, a lane for each fate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from reports.model import PoolPicture, Ranges
from reports.plots.canvas import FAIL, FINDING, LINE, PASS, QUIET, TEXT, WARN, Picture, draw, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LANES = (("written", PASS), ("wrong", FAIL), ("stale", WARN), ("stray", FINDING))
"""Field of PoolPicture and colour; each fate has a lane with its name, so that no one has to tell colours apart."""
# In CSS pixels: the picture, a lane, the bar in it, its name to the left, a strip's title and its axis.
_WIDTH, _LANE, _BAR, _LEFT, _TITLE, _AXIS = 340, 16, 11, 56, 20, 22
_RIGHT = _WIDTH - 14
# A single row of a large pool is drawn so wide at least.
_LEAST = 2.0


def pool_picture(name: str, pools: Sequence[PoolPicture]) -> Picture:
    """The pools of one case, one above the other, and the tokens that were to be skipped."""
    told = " ".join(told_of(pool) for pool in pools)
    strips = [*map(_strip_of, pools), ("tokens", pools[0].tokens, [("skipped", QUIET, pools[0].skipped)])]
    height = sum(_TITLE + _LANE * len(lanes) + _AXIS for _, _, lanes in strips)

    def paint(figure: Figure) -> None:
        # Texts and bars placed by hand: matplotlib's own axes take ten times as long, and a page has many of these.
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, _WIDTH), ylim=(height, 0))
        axes.set_axis_off()
        top = 0.0
        for title, size, lanes in strips:
            axes.text(_LEFT, top + _TITLE / 2, printable(title), color=TEXT, va="center", fontsize=10.5)
            top += _TITLE
            for lane, colour, ranges in lanes:
                _bars(axes, top, lane, colour, ranges, size)
                top += _LANE
            _axis(axes, top, size)
            top += _AXIS

    return Picture(draw(name, "What became of the rows of the pools", told, (_WIDTH, height), paint, placed=True), told)


def told_of(pool: PoolPicture) -> str:
    """The picture in words."""
    counts = [f"{_count(getattr(pool, lane)):,} {lane}" for lane, _ in _LANES if getattr(pool, lane)]
    skipped = f"; {_count(pool.skipped):,} of {pool.tokens:,} tokens skipped" if pool.skipped else ""
    return f"{pool.pool}: of {pool.rows:,} rows {', '.join(counts) or 'none touched'}{skipped}."


def _count(ranges: Ranges) -> int:
    return sum(end - first for first, end in ranges)


def _strip_of(pool: PoolPicture) -> tuple[str, int, list[tuple[str, str, Ranges]]]:
    """Title, number of rows, and lanes: name, colour, rows."""
    return f"rows of {pool.pool}", pool.rows, [(lane, colour, getattr(pool, lane)) for lane, colour in _LANES]


def _place(row: int, size: int) -> float:
    return _LEFT + (_RIGHT - _LEFT) * row / max(1, size)


def _bars(axes: Axes, top: float, lane: str, colour: str, ranges: Ranges, size: int) -> None:
    middle = top + _LANE / 2
    axes.text(_LEFT - 6, middle, lane, color=QUIET, ha="right", va="center_baseline", fontsize=10)
    axes.plot((_LEFT, _RIGHT), (middle, middle), color=LINE, linewidth=0.6)
    spans = [(_place(first, size), max(_LEAST, _place(end, size) - _place(first, size))) for first, end in ranges]
    axes.broken_barh(spans, (middle - _BAR / 2, _BAR), facecolors=colour, linewidth=0, zorder=3)


def _axis(axes: Axes, top: float, size: int) -> None:
    """The first row, one in the middle, and the end."""
    axes.plot((_LEFT, _RIGHT), (top, top), color=QUIET, linewidth=0.8)
    for row in sorted({0, size // 2, size}):
        axes.text(_place(row, size), top + _AXIS / 2, f"{row:,}", color=QUIET, ha="center", va="center", fontsize=10)
