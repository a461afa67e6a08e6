"""What changed since the nights before: what got worse, what got better, what is new."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reports.digest import Benchmark, CellKey, CellNight, Digest, Peak, pooled
from reports.model import DEVIATES, FAIL, NOT_RUN
from reports.numbers import duration, fraction

REGRESSION, IMPROVEMENT, NEUTRAL = "regression", "improvement", "neutral"
REQUIREMENT_FAILED = "requirement failed"
# Planned cases are the same calls every night, so their errors are equal to the last bits of the oracle's float64;
# another CPU's C library may still round a sine otherwise. A lost bit is a growth by 2.
ERROR_MARGIN = 1.01
# A growth by less than a thousandth of the bound is none that matters.
ERROR_FLOOR = 1e-3
# Generated cases differ every night: with fewer nights than this nobody knows how much the largest error scatters.
SCATTER_NIGHTS = 3
# A time that grew by less is within what two measurements of one binary differ by on a busy machine.
TIME_MARGIN = 1.10
# On another machine only the share of the copy ceiling can be compared, which depends on its caches too.
SHARE_MARGIN = 1.25


@dataclass(frozen=True)
class Change:
    """One difference from the nights before, as a sentence with its figures."""

    kind: str
    text: str
    severity: str
    """REGRESSION, IMPROVEMENT or NEUTRAL."""
    subject: str = ""
    """What it is about: a requirement, an accuracy class, a benchmark; the same every night."""

    @property
    def is_regression(self) -> bool:
        return self.severity == REGRESSION


@dataclass(frozen=True)
class Changes:
    """What a night is compared with and what differs; no baseline: nothing of its identity has held so far."""

    baseline: Digest | None
    changes: tuple[Change, ...] = ()

    @property
    def regressions(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.is_regression)


@dataclass(frozen=True)
class Rerun:
    """Suspected benchmarks measured again on one machine: base and head in turn, so that both meet the same load.

    base, head: by name, one measurement a round. why: why there is none; empty where they were measured.
    """

    base: Mapping[str, tuple[Benchmark, ...]] = field(default_factory=dict)
    head: Mapping[str, tuple[Benchmark, ...]] = field(default_factory=dict)
    why: str = "not measured again"


def compare(past: Sequence[Digest], now: Digest, rerun: Rerun | None = None) -> Changes:
    """What changed from the last of the nights that held, oldest first, to `now`.

    A run that did not finish is not compared: what it has not come to would seem to have vanished.
    """
    if not past or not now.finished:
        return Changes(past[-1] if past else None)
    before = past[-1]
    return Changes(
        before,
        (
            *_requirements(before, now),
            *_cases(before, now),
            *_errors(before, now),
            *_generated(past, now),
            *_classes(before, now),
            *_benchmarks(past, now, rerun or Rerun()),
        ),
    )


def suspects(past: Sequence[Digest], now: Digest) -> tuple[str, ...]:
    """Names of the kernel's benchmarks that seem slower than on the last night that timed them.

    One is suspected when its p20 is above the p80 of that night and its median grew by TIME_MARGIN; if the machine is
    another one, when its share of the copy ceiling fell by SHARE_MARGIN. That is a reason to measure again, no more.
    """
    before = _timed(past)
    if before is None:
        return ()
    known = _by_name(before)
    return tuple(
        one.name
        for one in now.benchmarks
        if one.name in known and _seems_slower(known[one.name], one, same_machine=before.machine == now.machine)
    )


def confirmed(base: Sequence[Benchmark], head: Sequence[Benchmark]) -> bool:
    """Whether head is slower than base beyond noise.

    Over all rounds the p20 of head is above the p80 of base, so that the load of the machine, which scatters the
    rounds too, does not explain it; the median grew by TIME_MARGIN; and head was slower in each single round, which
    equal code is once in 2^rounds.
    """
    before, after = pooled(base), pooled(head)
    return (
        after.p20 > before.p80
        and after.p50 > TIME_MARGIN * before.p50
        and all(h.p50 > b.p50 for b, h in zip(base, head, strict=True))
    )


def _requirements(before: Digest, now: Digest) -> Iterator[Change]:
    for id, entry in before.requirements.items():
        if id not in now.requirements:
            yield Change("requirement vanished", f"{id} is no longer in the contract", REGRESSION, id)
        elif entry.cases and not now.requirements[id].cases:
            text = f"{id} is no longer looked at: {_cases_text(entry.cases)} before, none now"
            yield Change("requirement vanished", text, REGRESSION, id)
    for id in now.requirements:
        if id not in before.requirements:
            yield Change("requirement new", f"{id} is new in the contract", NEUTRAL, id)
        elif now.requirements[id].cases and not before.requirements[id].cases:
            yield Change("requirement new", f"{id} is looked at for the first time", NEUTRAL, id)
        else:
            yield from _verdict(id, before.requirements[id].verdict, now.requirements[id].verdict, id in now.failing)


def _verdict(id: str, before: str, now: str, decides: bool) -> Iterator[Change]:
    if now == FAIL != before:
        severity = REGRESSION if decides else NEUTRAL
        yield Change(REQUIREMENT_FAILED, f"{id} fails; it was {before!r} before", severity, id)
    elif now == DEVIATES != before:
        yield Change("deviation new", f"{id} deviates, which is listed as known; it was {before!r} before", NEUTRAL, id)
    elif before == DEVIATES and now not in (DEVIATES, NOT_RUN):
        yield Change("deviation gone", f"{id} no longer deviates as it was known to; it is {now!r}", IMPROVEMENT, id)
    elif before == FAIL and now not in (FAIL, NOT_RUN):
        yield Change("requirement mended", f"{id} no longer fails", IMPROVEMENT, id)
    elif before != now and NOT_RUN not in (before, now):
        yield Change("requirement changed", f"{id} was {before!r} and is {now!r}", NEUTRAL, id)


def _cases(before: Digest, now: Digest) -> Iterator[Change]:
    if gone := before.planned - now.planned:
        text = f"{_cases_text(len(gone))} of {len(before.planned):,} planned vanished, such as {min(gone)}"
        yield Change("cases vanished", text, REGRESSION)
    if new := now.planned - before.planned:
        yield Change("cases new", f"{_cases_text(len(new))} more planned, such as {min(new)}", NEUTRAL)


def _errors(before: Digest, now: Digest) -> Iterator[Change]:
    """Errors over bound of the planned cases, by requirement and by cell; of classes that were kept before.

    Any growth beyond ERROR_MARGIN is a regression where both nights made the case that shows it. A larger error in a
    case that is new says nothing of the kernel before, and is told without being one.
    """
    if before.standard != now.standard:
        yield Change("bounds changed", "The accuracy classes' bounds changed: errors are not compared", NEUTRAL)
        return
    for id, entry in now.requirements.items():
        if id in before.requirements:
            yield from _moved(id, [_Pair(id, before.requirements[id].planned, entry.planned)], before)
    for name, was in before.classes.items():
        if was.kept:
            yield from _moved(name, [*_cells(name, before.cells, now.cells)], before)


@dataclass(frozen=True)
class _Pair:
    """One score on two nights."""

    where: str
    before: Peak | None
    now: Peak | None

    @property
    def ratio(self) -> float:
        assert self.before is not None
        assert self.now is not None
        return math.inf if self.before.score == 0 else self.now.score / self.before.score


def _cells(name: str, before: Mapping[CellKey, CellNight], now: Mapping[CellKey, CellNight]) -> Iterator[_Pair]:
    for key in before.keys() & now.keys():
        accuracy, dtype, _ = key
        if accuracy == name:
            place = f"{dtype} at positions {now[key].positions}"
            yield _Pair(place, before[key].planned, now[key].planned)


def _moved(name: str, pairs: Sequence[_Pair], before: Digest) -> Iterator[Change]:
    both = [pair for pair in pairs if pair.before is not None and pair.now is not None]
    grown = [pair for pair in both if _grew(pair.before, pair.now)]
    known = [pair for pair in grown if pair.now is not None and pair.now.case in before.planned]
    if known:
        yield Change("error over bound", _moved_text(name, known, len(both), max), REGRESSION, name)
    elif grown:
        text = f"{_moved_text(name, grown, len(both), max)}; the case is new, so nothing is known of it before"
        yield Change("error in a new case", text, NEUTRAL, name)
    if fallen := [pair for pair in both if _grew(pair.now, pair.before)]:
        yield Change("smaller error", _moved_text(name, fallen, len(both), min), IMPROVEMENT, name)


def _grew(before: Peak | None, now: Peak | None) -> bool:
    assert before is not None
    assert now is not None
    return now.score > max(ERROR_MARGIN * before.score, before.score + ERROR_FLOOR)


def _moved_text(name: str, moved: Sequence[_Pair], of: int, most: Callable[..., _Pair]) -> str:
    pair = most(moved, key=lambda each: each.ratio)
    assert pair.before is not None
    assert pair.now is not None
    where = "" if pair.where == name else f" for {pair.where}"
    others = "" if of == 1 else f" ({len(moved)} of {of} cells)"
    scores = f"{fraction(pair.before.score)} -> {fraction(pair.now.score)}"
    return f"{name}: error over bound {scores}{where}{others}, at {pair.now.case}"


def _generated(past: Sequence[Digest], now: Digest) -> Iterator[Change]:
    """Errors over bound of generated cases, which no night draws twice, by requirement.

    The largest score of a night's draws is an extreme value: it scatters, and by how much only past nights tell.
    It is a regression when it is above the largest of the past nights by more than one bit (a factor of 2) and by more
    than their own scatter (largest over smallest), of at least SCATTER_NIGHTS nights. Finer losses are found by the
    planned cases, whose errors do not scatter.
    """
    alike = [night for night in past if night.standard == now.standard]
    for id, entry in now.requirements.items():
        scores = [worst for night in alike if (worst := _worst(night, id)) is not None]
        if entry.worst is None or len(scores) < SCATTER_NIGHTS or entry.planned is None:
            continue
        scatter = max(scores) / min(scores) if min(scores) > 0 else math.inf
        if entry.worst > entry.planned.score and entry.worst > max(scores) * max(2.0, scatter) + ERROR_FLOOR:
            text = (
                f"{id}: error over bound {fraction(entry.worst)} in a generated case; "
                f"at most {fraction(max(scores))} on {len(scores)} past nights"
            )
            yield Change("error over bound", text, REGRESSION, id)


def _worst(night: Digest, id: str) -> float | None:
    return night.requirements[id].worst if id in night.requirements else None


def _classes(before: Digest, now: Digest) -> Iterator[Change]:
    for name, was in before.classes.items():
        if name not in now.classes:
            yield Change("class lost", f"{name} is no longer measured", REGRESSION, name)
        elif was.kept and not now.classes[name].kept:
            after = now.classes[name]
            where = "" if after.beyond is None else f", from position {after.beyond:,} on"
            text = f"{name} is no longer kept: worst score {fraction(was.worst)} -> {fraction(after.worst)}{where}"
            yield Change("class lost", text, REGRESSION, name)
        elif now.classes[name].kept and not was.kept:
            yield Change("class gained", f"{name} is kept now", IMPROVEMENT, name)


def _benchmarks(past: Sequence[Digest], now: Digest, rerun: Rerun) -> Iterator[Change]:
    before = _timed(past)
    if before is None:
        return
    if not now.benchmarks:
        yield Change("not timed", "No benchmark was run: nothing is said of the speed", NEUTRAL)
        return
    known, timed = _by_name(before), _by_name(now)
    for name in known:
        if name not in timed:
            yield Change("benchmark vanished", f"{name} is no longer timed", REGRESSION, name)
    for name in timed:
        if name not in known:
            yield Change("benchmark new", f"{name} is timed for the first time", NEUTRAL, name)
    slower = suspects(past, now)
    for name in slower:
        yield _slower(name, known[name], timed[name], rerun)
    for name in known.keys() & timed.keys() - set(slower):
        if before.machine == now.machine and _seems_slower(timed[name], known[name], same_machine=True):
            ratio = known[name].p50 / timed[name].p50
            text = f"{name}: {_times(known[name], timed[name])} ({ratio:.2f} times as fast)"
            yield Change("faster", text, IMPROVEMENT, name)


def _slower(name: str, before: Benchmark, now: Benchmark, rerun: Rerun) -> Change:
    base, head = rerun.base.get(name, ()), rerun.head.get(name, ())
    if not base or len(base) != len(head):
        text = f"{name}: {_times(before, now)} ({now.p50 / before.p50:.2f} times); {rerun.why}"
        return Change("slower, not confirmed", text, NEUTRAL, name)
    was, is_now = pooled(base), pooled(head)
    text = f"{name}: {_times(was, is_now)} ({is_now.p50 / was.p50:.2f} times) in {len(base)} rounds against the base"
    if confirmed(base, head):
        return Change("slower", text, REGRESSION, name)
    return Change("slower, not confirmed", f"{text}: within the noise", NEUTRAL, name)


def _times(before: Benchmark, now: Benchmark) -> str:
    return f"median {duration(before.p50)} -> {duration(now.p50)}"


def _timed(past: Sequence[Digest]) -> Digest | None:
    """The last night with benchmarks: a short night without them must not hide what follows."""
    return next((night for night in reversed(past) if night.benchmarks), None)


def _by_name(night: Digest) -> dict[str, Benchmark]:
    """The benchmarks of the kernel; the oracle's speed is no property of the target."""
    return {one.name: one for one in night.benchmarks if one.share is not None}


def _seems_slower(before: Benchmark, now: Benchmark, *, same_machine: bool) -> bool:
    if same_machine:
        return now.p20 > before.p80 and now.p50 > TIME_MARGIN * before.p50
    return before.share is not None and now.share is not None and before.share > SHARE_MARGIN * now.share


def _cases_text(count: int) -> str:
    return f"{count:,} {'case' if count == 1 else 'cases'}"
