"""Lines over past nights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reports.plots.canvas import (
    DASHES,
    FAIL,
    MARKERS,
    PASS,
    QUIET,
    SERIES,
    TEXT,
    WARN,
    Picture,
    draw,
    legend,
    powers,
    printable,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = Sequence[float | None]
"""One for each night, oldest first; None where the night has none."""
_STATES = {"conforms": (PASS, "o"), "fails": (FAIL, "X"), "incomplete": (WARN, "^")}
_SIZE = (400, 240)


def scores(name: str, nights: Sequence[str], classes: Mapping[str, Values]) -> Picture:
    """The worst score of each accuracy class, night by night, against the bound at 1."""
    told = "The worst score of each accuracy class, night by night; above 1 its bound is broken."

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set_yscale("log")
        axes.axhline(1, color=TEXT, linewidth=1)
        for place, (accuracy, values) in enumerate(classes.items()):
            _line(axes, [value if value and value > 0 else None for value in values], place, accuracy)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0.1), max(high, 2))
        powers(axes)
        _dates(axes, nights)
        legend(figure, columns=2)

    return Picture(draw(name, "Worst error over bound, night by night", told, _SIZE, paint), told)


def amounts(name: str, nights: Sequence[str], what: str, values: Values) -> Picture:
    """One amount, night by night, from 0 up."""
    known = [value for value in values if value is not None]
    told = f"{what}, night by night; " + (
        f"last {known[-1]:,.4g}, least {min(known):,.4g}, most {max(known):,.4g}." if known else "none told."
    )

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        _line(axes, values, 0, what)
        axes.set_ylim(0, 1.15 * max(known, default=0) or 1)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.4g}")
        _dates(axes, nights)

    return Picture(draw(name, f"{what}, night by night", told, (400, 170), paint), told)


def states(name: str, nights: Sequence[str], state: Sequence[str]) -> Picture:
    """How each night ended: one mark for each, of a shape of its own."""
    counts = {word: state.count(word) for word in dict.fromkeys(state)}
    told = "How each night ended: " + ", ".join(f"{count} {word}" for word, count in counts.items()) + "."

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        for height, word in enumerate(reversed(_STATES)):
            colour, marker = _STATES[word]
            own = [place for place, ended in enumerate(state) if ended == word]
            axes.plot(own, [height] * len(own), marker, color=colour, linestyle="none", markersize=5)
        axes.set_yticks(range(len(_STATES)), list(reversed(_STATES)))
        axes.set_ylim(-0.6, len(_STATES) - 0.4)
        axes.tick_params(axis="y", length=0)
        _dates(axes, nights)

    return Picture(draw(name, "How each night ended", told, (400, 120), paint), told)


def sparkline(name: str, title: str, values: Values) -> Picture:
    """A small line without axes, from 0 up, its last value marked; the table that holds it has the numbers."""

    def paint(figure: Figure) -> None:
        axes = figure.add_axes((0, 0, 1, 1))
        known = [(night, value) for night, value in enumerate(values) if value is not None]
        axes.plot(*zip(*known, strict=True), color=SERIES[0]) if known else None
        axes.plot(*known[-1], "o", color=TEXT, markersize=4) if known else None
        axes.set_ylim(0, 1.1 * max((value for _, value in known), default=0) or 1)
        axes.set_xlim(-0.5, len(values))
        axes.set_axis_off()

    return Picture(
        draw(name, title, "From the oldest night to the last, from 0 up.", (150, 32), paint, placed=True), ""
    )


def _line(axes: Axes, values: Values, place: int, label: str) -> None:
    known = [(night, value) for night, value in enumerate(values) if value is not None]
    if not known:
        return
    axes.plot(
        *zip(*known, strict=True),
        color=SERIES[place % 3],
        linestyle=DASHES[place % 3],
        marker=MARKERS[place % 3],
        markersize=3.5,
        label=printable(label),
    )


def _dates(axes: Axes, nights: Sequence[str]) -> None:
    last = len(nights) - 1
    places = sorted({0, last // 2, last}) if last > 1 else list(range(len(nights)))
    axes.set_xticks(places, [printable(nights[place]) for place in places])
    axes.set_xlim(-0.5, last + 0.5)
    axes.grid(False, axis="x")
    labels = axes.get_xticklabels()
    if len(labels) > 1:
        labels[0].set_horizontalalignment("left")
        labels[-1].set_horizontalalignment("right")
    axes.tick_params(axis="x", color=QUIET)
