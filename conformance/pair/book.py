"""The run's book of a pair: how many cases were compared, what disagreed, and who was nearer."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.pair.difference import ENDING, FIRST, SECOND, Difference

MOST_TELLING = 5


@dataclass
class Tally:
    """All differences of one output and dtype."""

    cases: int = 0
    elements: int = 0
    nearer_first: int = 0
    nearer_second: int = 0
    largest_ulps: int | None = None

    def add(self, difference: Difference) -> None:
        """Count one; a call that ended otherwise, or an array of another shape, counts as one element."""
        self.cases += 1
        self.elements += difference.elements or 1
        self.nearer_first += difference.nearer_first if difference.elements else difference.nearer == FIRST
        self.nearer_second += difference.nearer_second if difference.elements else difference.nearer == SECOND
        if difference.largest_ulps is not None:
            self.largest_ulps = max(self.largest_ulps or 0, difference.largest_ulps)

    @property
    def undecided(self) -> int:
        return self.elements - self.nearer_first - self.nearer_second


class PairBook:
    """Every case that both targets made; one that is made again counts once."""

    def __init__(self) -> None:
        self.compared: set[str] = set()
        self.differing: dict[str, tuple[Difference, ...]] = {}
        """By the line of the case."""

    def add(self, line: str, differences: tuple[Difference, ...]) -> None:
        if line in self.compared:
            return
        self.compared.add(line)
        if differences:
            self.differing[line] = differences

    def tallies(self) -> dict[tuple[str, str], Tally]:
        """By output and dtype, in order; calls that ended otherwise first."""
        found: dict[tuple[str, str], Tally] = {}
        for differences in self.differing.values():
            for difference in differences:
                found.setdefault((difference.output, difference.dtype), Tally()).add(difference)
        return {key: found[key] for key in sorted(found, key=lambda key: (key[0] != ENDING, key))}

    def telling(self) -> list[tuple[str, Difference]]:
        """A few differences with the lines of their cases: of each output and dtype the one farthest apart."""
        best: dict[tuple[str, str], tuple[str, Difference]] = {}
        for line, differences in self.differing.items():
            for difference in differences:
                key = difference.output, difference.dtype
                if key not in best or _rank(line, difference) < _rank(*best[key]):
                    best[key] = line, difference
        # How a call ended matters more than a pool, and a pool may only hold what the rotation shows already.
        return sorted(best.values(), key=lambda told: (_ORDER[told[1].output], *_rank(*told)))[:MOST_TELLING]


_ORDER = {ENDING: 0, "q_rot": 1, "k_rot": 1, "v_pool_new": 2, "k_pool_new": 3}


def _rank(line: str, difference: Difference) -> tuple[int, int, str]:
    return -(difference.largest_ulps or 0), len(line), line
