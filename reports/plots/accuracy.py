"""Error against position, scores by pair and position, and histograms of errors in ulps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from reports.model import Cell, Envelope
from reports.numbers import fraction, raised, relative, share, ulps
from reports.plots.canvas import (
    DASHES,
    FAIL,
    HEAT,
    QUIET,
    SERIES,
    TEXT,
    Picture,
    draw,
    legend,
    power_of_ten,
    powers,
    printable,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Unit roundoff of the output type: what rounding alone may cost, as a fraction of the pair's length.
_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24}
_SIZE = (340, 290)
_LAST_POSITION = math.log10(2**31)
# Position 0 has no logarithm; it stands to the left of 1.
_ZERO = -0.8
_SMALLEST_ERROR = 1e-11
_MOST_COLUMNS = 48
SCORE_STEPS = (0.03, 0.1, 0.3, 0.6, 1.0)
"""Upper ends of the steps of the heat map; above the last the bound is broken."""
LARGEST_BUCKET = 12


def error_by_position(name: str, dtype: str, cells: Sequence[Cell], envelopes: Sequence[Envelope]) -> Picture:
    """The largest measured error of each decade, between what the accuracy classes allow; cells of one dtype."""
    measured = [cell for cell in cells if cell.error > 0]
    largest = max(measured, key=lambda cell: cell.error, default=None)
    told = (
        f"The largest measured error is {relative(largest.error)} of the pair's length, "
        f"at positions {raised(largest.positions)}."
        if largest
        else "No error was measured."
    )

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set_yscale("log")
        for place, (accuracy, (positions, errors)) in enumerate(_envelopes(envelopes).items()):
            label = f"{printable(accuracy)} allows"
            axes.plot(positions, errors, color=SERIES[place % 3], linestyle=DASHES[place % 3], label=label)
        if dtype in _ROUNDOFF:
            axes.axhline(
                _ROUNDOFF[dtype], color=QUIET, linewidth=1, linestyle=(0, (1, 3)), label="rounding of the output"
            )
        ends = [_ends(cell.decade) for cell in measured]
        axes.hlines([cell.error for cell in measured], *zip(*ends, strict=True) if ends else ((), ()), color=TEXT)
        centres = [sum(pair) / 2 for pair in ends]
        axes.plot(centres, [cell.error for cell in measured], "D", color=TEXT, markersize=4.5, label="measured")
        axes.set_xlabel("position, without its sign")
        axes.set_ylabel("error / length of the pair")
        _positions(axes, vertical=False)
        powers(axes)
        legend(figure, columns=2)

    title = f"{dtype}: largest error against position, with what each accuracy class allows"
    return Picture(draw(name, title, told, _SIZE, paint), f"{dtype}. {told}")


def _envelopes(envelopes: Sequence[Envelope]) -> dict[str, tuple[list[float], list[float]]]:
    """For each class the largest error that it allows to any base and head_dim, and where."""
    allowed: dict[str, dict[int, float]] = {}
    for envelope in envelopes:
        own = allowed.setdefault(envelope.accuracy, {})
        for position, error in zip(envelope.positions, envelope.error, strict=True):
            own[position] = max(error, own.get(position, 0.0))
    lines = {}
    for accuracy, own in allowed.items():
        shown = sorted((position, error) for position, error in own.items() if error >= _SMALLEST_ERROR)
        lines[accuracy] = ([_place(position) for position, _ in shown], [error for _, error in shown])
    return lines


def _place(position: int) -> float:
    return math.log10(position) if position >= 1 else _ZERO


def _ends(decade: int) -> tuple[float, float]:
    """Where a decade of positions begins and ends along the axis."""
    return (decade - 1.0, min(decade, _LAST_POSITION)) if decade else (_ZERO - 0.15, _ZERO + 0.15)


def _positions(axes: Axes, *, vertical: bool) -> None:
    places = [_ZERO, *range(0, 10, 3)]
    labels = ["0", *(power_of_ten(10.0**power) for power in range(0, 10, 3))]
    if vertical:
        axes.set_yticks(places, labels)
        axes.set_ylim(_ZERO - 0.3, _LAST_POSITION + 0.1)
    else:
        axes.set_xticks(places, labels)
        axes.set_xlim(_ZERO - 0.3, _LAST_POSITION + 0.1)


def heat_map(name: str, dtype: str, cells: Sequence[Cell]) -> Picture:
    """The worst score of each pair at each decade of positions; cells of one dtype and class, at least one pair."""
    pairs = max(len(cell.pairs) for cell in cells)
    width = -(-pairs // _MOST_COLUMNS)
    worst = max(cells, key=lambda cell: cell.worst)
    broken = sum(pair is not None and pair[0] > 1 for cell in cells for pair in cell.pairs)
    told = f"The worst score is {fraction(worst.worst)}, at positions {raised(worst.positions)}; " + (
        f"{broken:,} of the cells are above the bound." if broken else "no cell is above the bound."
    )

    def paint(figure: Figure) -> None:
        from matplotlib.patches import Patch

        axes = figure.add_subplot()
        over: list[tuple[float, float]] = []
        for cell in cells:
            low, high = _ends(cell.decade)
            scores = binned(cell, width)
            for step, first, end in _stretches(scores):
                span = [(first * width, (end - first) * width)]
                axes.broken_barh(span, (low + 0.04, high - low - 0.08), facecolors=HEAT[step], linewidth=0)
            middle = (low + high) / 2
            over += [((place + 0.5) * width, middle) for place, score in enumerate(scores) if score and score > 1]
        if over:
            axes.plot(*zip(*over, strict=True), "x", color=FAIL, markersize=3.5, markeredgewidth=1.2, linestyle="none")
        axes.set_xlim(0, -(-pairs // width) * width)
        axes.set_xlabel("pair" if width == 1 else f"pair, {width} to a column")
        axes.set_ylabel("position, without its sign")
        axes.grid(False)
        _positions(axes, vertical=True)
        names = [f"to {step:g}" for step in SCORE_STEPS] + ["× above 1"]
        legend(figure, columns=3, handles=[Patch(color=c, label=n) for c, n in zip(HEAT, names, strict=True)])

    title = f"{dtype}: worst error over bound, by pair and position"
    return Picture(draw(name, title, told, _SIZE, paint), f"{dtype}. {told}")


def binned(cell: Cell, width: int) -> list[float | None]:
    """The largest score of each `width` pairs that follow each other; None where nothing was judged."""
    scores = [pair[0] if pair else None for pair in cell.pairs]
    bins = (scores[first : first + width] for first in range(0, len(scores), width))
    return [max((score for score in some if score is not None), default=None) for some in bins]


def _stretches(scores: Sequence[float | None]) -> list[tuple[int, int, int]]:
    """Step, first and end of each stretch of columns on one step."""
    stretches: list[tuple[int, int, int]] = []
    for place, score in enumerate(scores):
        if score is None:
            continue
        step = sum(score > end for end in SCORE_STEPS)
        if stretches and stretches[-1][0] == step and stretches[-1][2] == place:
            stretches[-1] = (step, stretches[-1][1], place + 1)
        else:
            stretches.append((step, place, place + 1))
    return stretches


def ulp_histogram(name: str, dtype: str, counts: Mapping[int, int]) -> Picture:
    """How many elements are off by how many ulps of the output type, and in which direction."""
    total = sum(counts.values())
    low, high = (
        sum(n for bucket, n in counts.items() if bucket < 0),
        sum(n for bucket, n in counts.items() if bucket > 0),
    )
    nearest = share(counts.get(0, 0), total) or "None"
    far = max(counts, key=abs, default=0)
    told = f"{nearest} of {total:,} elements are the nearest value; {low:,} lie below it, {high:,} above"
    told += f", the farthest by {ulps(abs(far))}." if far else "."
    reach = max(3, abs(far))

    def paint(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.set_yscale("log")
        for sign, colour, hatch in ((-1, SERIES[0], "///"), (0, QUIET, ""), (1, SERIES[1], "")):
            own = {bucket: n for bucket, n in counts.items() if n and (bucket > 0) - (bucket < 0) == sign}
            axes.bar(
                list(own), list(own.values()), 0.8, color=colour if sign >= 0 else "none", edgecolor=colour, hatch=hatch
            )
        axes.set_xlim(-reach - 0.6, reach + 0.6)
        axes.set_ylim(0.5, max(10, 2 * max(counts.values(), default=1)))
        step = 1 if reach < 5 else 2 if reach < 8 else 3
        ticks = [tick for tick in range(-LARGEST_BUCKET, LARGEST_BUCKET + 1) if abs(tick) <= reach and tick % step == 0]
        axes.set_xticks(ticks, [_signed(tick) for tick in ticks])
        axes.set_xlabel("error in ulps, up to")
        axes.set_ylabel("elements")
        axes.grid(False, axis="x")
        powers(axes)

    title = f"{dtype}: signed error in ulps of the output"
    return Picture(draw(name, title, told, (340, 240), paint), f"{dtype}. {told}")


def _signed(bucket: int) -> str:
    sign = "−" if bucket < 0 else "+" if bucket else ""
    if abs(bucket) >= LARGEST_BUCKET:
        return f"{sign}…"
    return f"{sign}{abs(bucket) if abs(bucket) < 3 else 2 ** (abs(bucket) - 1)}"
