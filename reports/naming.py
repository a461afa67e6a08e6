"""What runs are called where a page shows several, and how the places of the page are called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from reports.model import Run

# What tells runs of one target apart, the plainest first.
_TELLING = ("device", "shader", "math", "accuracy", "compiler", "launch", "profile", "selection", "seed", "started")
_PLAIN = re.compile(r"[A-Za-z0-9-]+")


def names(runs: Sequence[Run]) -> tuple[str, ...]:
    """A name for each run, none twice: the target, with what else tells it apart, with a number in the last resort."""
    named = [str(run.facts.get("target", "unnamed target")) for run in runs]
    for fact in _TELLING:
        values = [str(run.facts.get(fact, "")) for run in runs]
        twice = {name for name, count in Counter(named).items() if count > 1}
        for name in twice:
            same = [place for place, other in enumerate(named) if other == name]
            if len({values[place] for place in same}) > 1:
                for place in same:
                    named[place] = f"{name}, {fact} {values[place] or 'not told'}"
    counts = Counter(named)
    return tuple(
        f"{name}, run {named[: place + 1].count(name)}" if counts[name] > 1 else name
        for place, name in enumerate(named)
    )


class Anchors:
    """Ids for the places of one page: readable where the text allows, never the same twice."""

    def __init__(self) -> None:
        self._ids: dict[tuple[str, ...], str] = {}

    def of(self, *place: str) -> str:
        """The id of a place, the same whenever it is asked for."""
        if place not in self._ids:
            plain = all(_PLAIN.fullmatch(part) for part in place)
            # A dot is in no plain part, so that a numbered id is never that of another place.
            self._ids[place] = ".".join(place) if plain else f"{place[0]}..{len(self._ids)}"
        return self._ids[place]
