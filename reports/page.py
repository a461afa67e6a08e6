"""The report of one or several runs as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from reports import numbers
from reports.accuracy import Accuracy, accuracy
from reports.allowed import by_class, sentences
from reports.findings import sections
from reports.matrix import tiers
from reports.model import BROKEN, Part, Probe, Ranges, Run, Term
from reports.naming import Anchors, names
from reports.overview import Overview, overview
from reports.pair import PairView, pair_view
from reports.search import pack
from reports.timings import Timings, timings
from reports.trends import trend_view
from reports.verdict import CONFORMS, FAILS, INCOMPLETE, Notice

if TYPE_CHECKING:
    from reports.compare import Change, Changes
    from reports.history import Trend

SHOWN_BROKEN = 10
_SHOWN_RANGES = 24
_NAMED = 3
"""So many runs are named in the heading."""
_SHOWN_REGRESSIONS = 6
_TEMPLATES = Path(__file__).parent / "templates"
_WHAT = {"collection": "collection error", "internal": "internal error", "interrupted": "interrupted"}


@dataclass(frozen=True)
class _Broken:
    """An error of the suite's own."""

    what: str
    where: str
    text: str


@dataclass(frozen=True)
class _RunView:
    """All that the page tells of one run alone."""

    overview: Overview
    accuracy: Accuracy
    timings: Timings
    pair: PairView | None
    broken: tuple[_Broken, ...]
    more_broken: int
    """Errors that are not shown."""
    terms: dict[str, list[Term]]
    probes: tuple[Probe, ...]
    allowances: tuple[str, ...]
    parts: tuple[Part, ...]


def render(runs: Sequence[Run], *, changes: Sequence[Changes | None] = (), trends: Sequence[Trend] = ()) -> str:
    """The page. Every text of the records is escaped, and the page asks for nothing outside itself.

    Args:
        runs: at least one.
        changes: for each run what changed since an earlier one; None where there was none to compare with.
        trends: past nights, a trend for each target.
    """
    named, anchors = names(runs), Anchors()
    compared = (*changes, *[None] * len(runs))
    views = tuple(
        _view(run, name, f"run-{place}", compared[place])
        for place, (run, name) in enumerate(zip(runs, named, strict=True))
    )
    found = sections(runs, named, anchors)
    trend_views = tuple(trend_view(trend, f"trend-{place}") for place, trend in enumerate(trends) if trend.nights)
    script = _asset("report.js")
    broken, paired = any(view.broken for view in views), any(view.pair for view in views)
    first_found = {(group.run, group.requirement.id): group.anchor for s in reversed(found) for group in s.groups}
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            anchors=anchors,
            broken=broken,
            contents=[
                ("summary", "Summary"),
                *([("broken", "Suite errors")] if broken else []),
                ("requirements", "Requirements"),
                *([("findings", "Findings")] if found else []),
                ("accuracy", "Accuracy"),
                *([("trends", "Trends")] if trend_views else []),
                *([("pair", "Pair")] if paired else []),
                ("cases", "All cases"),
                ("timings", "Timings"),
                ("allowed", "Allowed"),
                ("tested", "Tested, limits"),
            ],
            heading=_heading(runs, views),
            notices=list(_notices(views)),
            paired=paired,
            packed=pack(runs, named),
            runs=views,
            script=Markup(script),
            script_hash=_hash(script),
            sections=found,
            state=_state(views),
            style=Markup(_asset("report.css")),
            tiers=tiers(runs, named, anchors, first_found),
            total_cases=sum(len(run.index.lines) for run in runs),
            trends=trend_views,
        )
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        duration=numbers.duration,
        fraction=numbers.fraction,
        positions=numbers.raised,
        ranges=_ranges,
        relative=numbers.relative,
    )
    environment.globals.update(quantity=numbers.quantity)
    return environment


def _asset(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """As a content security policy names the one script that may run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _view(run: Run, name: str, anchor: str, changes: Changes | None) -> _RunView:
    broken = tuple(_broken(run))
    return _RunView(
        overview=overview(run, name, anchor, changes),
        accuracy=accuracy(run, anchor),
        timings=timings(run.tests),
        pair=pair_view(run),
        broken=broken[:SHOWN_BROKEN],
        more_broken=max(0, len(broken) - SHOWN_BROKEN),
        terms=by_class(run.standard.terms),
        probes=run.standard.probes,
        allowances=tuple(sentences(run.standard.allowed)),
        parts=run.parts,
    )


def _broken(run: Run) -> Iterator[_Broken]:
    for trouble in run.troubles:
        yield _Broken(_WHAT.get(trouble.what, trouble.what), trouble.where, trouble.text)
    for test in run.tests:
        if test.outcome == BROKEN:
            yield _Broken("broken test", test.id, test.text)


def _heading(runs: Sequence[Run], views: Sequence[_RunView]) -> str:
    """The verdicts in a line, and how much got worse since the last run."""
    worse = len(list(_regressions(views)))
    return _verdicts(runs, views) + (f", with {worse} {'regression' if worse == 1 else 'regressions'}" if worse else "")


def _verdicts(runs: Sequence[Run], views: Sequence[_RunView]) -> str:
    shader = str(runs[0].facts.get("shader", "")).rpartition(" ")[0]
    if len(views) == 1 and shader:
        return f"{shader} on {views[0].overview.name} {views[0].overview.words}"
    if len(views) <= _NAMED:
        return "; ".join(f"{view.overview.name} {view.overview.words}" for view in views)
    states = [view.overview.verdict.state for view in views]
    told = ((CONFORMS, "conform"), (FAILS, "do not conform"), (INCOMPLETE, "give no verdict"))
    counts = [f"{states.count(state)} {words}" for state, words in told if state in states]
    return f"Of {len(views)} runs {', '.join(counts)}"


def _state(views: Sequence[_RunView]) -> str:
    """The worst state of all runs; a regression takes the green from one that conforms."""
    states = {view.overview.verdict.state for view in views}
    worst = next(state for state in (FAILS, INCOMPLETE, CONFORMS) if state in states)
    return INCOMPLETE if worst == CONFORMS and any(_regressions(views)) else worst


def _notices(views: Sequence[_RunView]) -> Iterator[tuple[str, Notice]]:
    """Every notice and every regression, with the name of its run where there are several."""
    for name, change in itertools.islice(_regressions(views), _SHOWN_REGRESSIONS):
        yield name, Notice(f"Regression, {change.kind}: {change.text}")
    for view in views:
        for notice in view.overview.verdict.notices:
            yield view.overview.name if len(views) > 1 else "", notice


def _regressions(views: Sequence[_RunView]) -> Iterator[tuple[str, Change]]:
    for view in views:
        if view.overview.changes is not None:
            for change in view.overview.changes.regressions:
                yield view.overview.name if len(views) > 1 else "", change


def _ranges(ranges: Ranges) -> str:
    """Half-open ranges as they are read: first to last."""
    told = [f"{first:,}" if end == first + 1 else f"{first:,} to {end - 1:,}" for first, end in ranges[:_SHOWN_RANGES]]
    more = len(ranges) - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")
