"""One way in which two targets answered a call differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

FIRST, SECOND, NEITHER = SIDES = ("first", "second", "neither")
_HUGE = 10**6
ENDING = "ending"
"""Stands for an output where one call returned and the other did not, or both raised differently."""


@dataclass(frozen=True)
class Difference:
    """How two targets differ in one output of a call, or in how the call ended; told of the first place."""

    output: str
    """`q_rot`, `k_rot`, `k_pool_new`, `v_pool_new` or ENDING."""
    first: str
    """What the first target has there, or did."""
    second: str
    wanted: str = ""
    """What the oracle says; empty where it says nothing."""
    nearer: str = NEITHER
    """One of SIDES."""
    dtype: str = ""
    where: str = ""
    ulps: int | None = None
    """Between the two; None where a NaN or raw bits are compared."""
    elements: int = 0
    """Elements that differ."""
    size: int = 0
    """Elements that were compared."""
    nearer_first: int = 0
    """Elements in which the first target is nearer to the oracle."""
    nearer_second: int = 0
    largest_ulps: int | None = None
    """Between the two, over all elements."""
    call: int = 0
    """Which call it is of a sequence."""

    @property
    def undecided(self) -> int:
        """Elements in which neither target is nearer."""
        return self.elements - self.nearer_first - self.nearer_second

    def of_call(self, call: int) -> Difference:
        """The same, of a call of a sequence."""
        return replace(self, call=call)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self, names: tuple[str, str]) -> Iterator[str]:
        """The difference in lines; names: of the two targets."""
        call = f"call {self.call + 1}: " if self.call else ""
        if self.elements:
            apart = "" if self.largest_ulps is None else f", at most {ulps(self.largest_ulps)} apart"
            counts = f"{names[0]} {self.nearer_first}, {names[1]} {self.nearer_second}, neither {self.undecided}"
            yield f"{'what':<11}{call}{self.output}: {self.elements} of {self.size} elements differ{apart}"
            yield f"{'nearer':<11}{counts}"
        else:
            yield f"{'what':<11}{call}{'how the call ended' if self.output == ENDING else self.output}"
        place = f"{self.where}: " if self.where else ""
        apart = "" if self.ulps is None else f", {ulps(self.ulps)} apart"
        yield f"{'where':<11}{place}{names[0]} {self.first}; {names[1]} {self.second}{apart}"
        if self.wanted:
            side = {FIRST: f"{names[0]} is nearer", SECOND: f"{names[1]} is nearer", NEITHER: "neither is nearer"}
            yield f"{'oracle':<11}{self.wanted}: {side[self.nearer]}"


def ulps(count: int) -> str:
    """A distance in words; from one side of zero to the other it can be huge."""
    return f"{count:,} ulp{'' if count == 1 else 's'}" if count < _HUGE else f"{count:.1e} ulps"
