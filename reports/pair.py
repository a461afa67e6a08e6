"""A second target on the same cases: where it disagreed with the first, and which of the two was nearer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from reports.model import Difference, PairCount, PairResult, Run
from reports.replay import replay_command

MOST_TELLING = 5
_ENDING = "ending"
# How a call ended matters more than a pool, and a pool may only hold what the rotation shows already.
_ORDER = {_ENDING: 0, "q_rot": 1, "k_rot": 1, "v_pool_new": 2, "k_pool_new": 3}
_HUGE = 10**6

Key = tuple[str, str]
"""Output and dtype."""


class _Counts(NamedTuple):
    """One difference of one case, as it is counted."""

    key: Key
    elements: int
    nearer_first: int
    nearer_second: int
    largest_ulps: int | None


class _Told(NamedTuple):
    """A difference by what it tells: the farthest apart, then the shortest case, is first."""

    nearness: int
    length: int
    line: str
    difference: Difference


@dataclass
class PairFold:
    """What the case lines tell of a pair; a case that was made again counts once."""

    cases: dict[str, tuple[_Counts, ...]] = field(default_factory=dict)
    """By line, its differences."""
    best: dict[Key, _Told] = field(default_factory=dict)

    def add(self, line: str, differences: tuple[Difference, ...]) -> None:
        """One case that both targets made."""
        if line in self.cases:
            return
        self.cases[line] = tuple(map(_counts, differences))
        for difference in differences:
            self._tell(_Told(-(difference.largest_ulps or 0), len(line), line, difference))

    def _tell(self, told: _Told) -> None:
        key = told.difference.output, told.difference.dtype
        if key not in self.best or told[:3] < self.best[key][:3]:
            self.best[key] = told

    def merge(self, other: PairFold) -> None:
        """Add what another record of the same run tells."""
        for line, counts in other.cases.items():
            self.cases.setdefault(line, counts)
        for told in other.best.values():
            self._tell(told)

    def result(self) -> PairResult:
        telling = sorted(self.best.values(), key=lambda told: (_ORDER[told.difference.output], *told[:3]))
        return PairResult(
            compared=len(self.cases),
            disagreeing=sum(map(bool, self.cases.values())),
            counts=tuple(self._summed()),
            telling=tuple((told.line, told.difference) for told in telling[:MOST_TELLING]),
        )

    def _summed(self) -> Iterator[PairCount]:
        """A count for each output and dtype; calls that ended otherwise first."""
        found: dict[Key, list[_Counts]] = {}
        for counts in self.cases.values():
            for each in counts:
                found.setdefault(each.key, []).append(each)
        for output, dtype in sorted(found, key=lambda key: (key[0] != _ENDING, key)):
            own = found[output, dtype]
            yield PairCount(
                output=output,
                dtype=dtype,
                cases=len(own),
                elements=sum(each.elements for each in own),
                nearer_first=sum(each.nearer_first for each in own),
                nearer_second=sum(each.nearer_second for each in own),
                largest_ulps=max((each.largest_ulps for each in own if each.largest_ulps is not None), default=None),
            )


def _counts(difference: Difference) -> _Counts:
    """A call that ended otherwise, and an array of another shape, counts as one element."""
    key = difference.output, difference.dtype
    if not difference.elements:
        return _Counts(key, 1, difference.nearer == "first", difference.nearer == "second", None)
    return _Counts(key, difference.elements, difference.nearer_first, difference.nearer_second, difference.largest_ulps)


@dataclass(frozen=True)
class ShownDifference:
    """A difference as the page tells it."""

    case: str
    replay: str
    lines: tuple[tuple[str, str], ...]
    """Label and text."""


@dataclass(frozen=True)
class PairView:
    """What the page tells of a pair."""

    first: str
    second: str
    result: PairResult
    rows: tuple[tuple[str, ...], ...]
    """Output, dtype, cases, elements, nearer to the first, to the second, to neither, farthest apart."""
    shown: tuple[ShownDifference, ...]


def pair_view(run: Run) -> PairView | None:
    """None for a run of one target."""
    if run.pair is None:
        return None
    first, second = _names(run.facts, run.facts["pair"])
    return PairView(
        first,
        second,
        run.pair,
        tuple(map(_row, run.pair.counts)),
        tuple(
            ShownDifference(line, replay_command(line, run.facts, pair=True), tuple(_lines(told, first, second)))
            for line, told in run.pair.telling
        ),
    )


def _names(first: dict[str, Any], second: dict[str, Any]) -> tuple[str, str]:
    """By target and, where that is the same, by shader and its math model."""
    one, other = first["target"], second["target"]
    for fact in ("shader", "math"):
        if one == other:
            one, other = (f"{one} {facts[fact]}" if fact in facts else one for facts in (first, second))
    return (one, other) if one != other else (f"the first {first['target']}", f"the second {second['target']}")


def _row(count: PairCount) -> tuple[str, ...]:
    output = "how it ended" if count.output == _ENDING else count.output
    numbers = (count.cases, count.elements, count.nearer_first, count.nearer_second, count.undecided)
    return output, count.dtype, *(f"{number:,}" for number in numbers), _ulps(count.largest_ulps)


def _ulps(count: int | None) -> str:
    """A distance in words; from one side of zero to the other it can be huge."""
    if count is None:
        return ""
    return f"{count:,} ulp{'' if count == 1 else 's'}" if count < _HUGE else f"{count:.1e} ulps"


def _lines(told: Difference, first: str, second: str) -> Iterator[tuple[str, str]]:
    call = f"call {told.call + 1}: " if told.call else ""
    if told.elements:
        apart = f", at most {_ulps(told.largest_ulps)} apart" if told.largest_ulps is not None else ""
        yield "what", f"{call}{told.output}: {told.elements:,} of {told.size:,} elements differ{apart}"
        undecided = told.elements - told.nearer_first - told.nearer_second
        yield "nearer", f"{first} {told.nearer_first:,}, {second} {told.nearer_second:,}, neither {undecided:,}"
    else:
        yield "what", f"{call}{'how the call ended' if told.output == _ENDING else told.output}"
    place = f"{told.where}: " if told.where else ""
    apart = f", {_ulps(told.ulps)} apart" if told.ulps is not None else ""
    yield "where", f"{place}{first} {told.first}; {second} {told.second}{apart}"
    if told.wanted:
        nearer = {"first": f"{first} is nearer", "second": f"{second} is nearer"}.get(told.nearer, "neither is nearer")
        yield "oracle", f"{told.wanted}: {nearer}"
