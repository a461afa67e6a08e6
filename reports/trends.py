"""What past nights show of one target on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reports.plots.canvas import Picture
from reports.plots.trend import Values, amounts, scores, sparkline, states

if TYPE_CHECKING:
    from reports.digest import Digest
    from reports.history import Trend

MOST_NIGHTS = 90
MOST_BENCHMARKS = 60
# A night is shown by its date alone; the table has the time.
_DATE = 10


@dataclass(frozen=True)
class BenchmarkRow:
    """One benchmark over the nights: its last times in seconds, its share of the copy ceiling, and a small line."""

    name: str
    p20: float
    p50: float
    p80: float
    share: float | None
    least: float
    most: float
    """Of the p50 of all nights."""
    line: Picture


@dataclass(frozen=True)
class TrendView:
    """The nights of one identity, drawn and in numbers, the last night first."""

    title: str
    identity: tuple[tuple[str, str], ...]
    nights: tuple[Digest, ...]
    hidden: int
    """Earlier nights that are not shown."""
    classes: tuple[str, ...]
    pictures: tuple[Picture, ...]
    benchmarks: tuple[BenchmarkRow, ...]
    hidden_benchmarks: int


def trend_view(trend: Trend, anchor: str) -> TrendView:
    """The view of one trend with at least one night.

    anchor: with which the ids of its pictures begin.
    """
    nights = trend.nights[-MOST_NIGHTS:]
    dates = [night.started[:_DATE] for night in nights]
    classes = tuple(dict.fromkeys(name for night in reversed(nights) for name in night.classes))
    names = tuple(dict.fromkeys(benchmark.name for night in reversed(nights) for benchmark in night.benchmarks))
    worst = {name: [_worst(night, name) for night in nights] for name in classes}
    identity = dict(trend.identity)
    return TrendView(
        title=", ".join(str(identity[key]) for key in ("target", "device") if identity.get(key)) or "nights",
        identity=trend.identity,
        nights=tuple(reversed(nights)),
        hidden=len(trend.nights) - len(nights),
        classes=classes,
        pictures=(
            states(f"{anchor}-states", dates, [night.state for night in nights]),
            *((scores(f"{anchor}-scores", dates, worst),) if classes else ()),
            amounts(f"{anchor}-cases", dates, "Cases", [float(night.cases) for night in nights]),
            amounts(f"{anchor}-seconds", dates, "Seconds", [night.seconds for night in nights]),
        ),
        benchmarks=tuple(
            _benchmark(f"{anchor}-benchmark-{place}", name, nights)
            for place, name in enumerate(names[:MOST_BENCHMARKS])
        ),
        hidden_benchmarks=max(0, len(names) - MOST_BENCHMARKS),
    )


def _worst(night: Digest, name: str) -> float | None:
    measured = night.classes.get(name)
    return measured.worst if measured else None


def _benchmark(anchor: str, name: str, nights: Sequence[Digest]) -> BenchmarkRow:
    own = [next((entry for entry in night.benchmarks if entry.name == name), None) for night in nights]
    known = [entry for entry in own if entry is not None]
    last, times = known[-1], [entry.p50 for entry in known]
    shares: Values = [entry.share if entry else None for entry in own]
    drawn: Values = shares if last.share is not None else [entry.p50 if entry else None for entry in own]
    what = "share of the copy ceiling" if last.share is not None else "median time"
    line = sparkline(anchor, f"{name}: {what}", drawn)
    return BenchmarkRow(name, last.p20, last.p50, last.p80, last.share, min(times), max(times), line)
