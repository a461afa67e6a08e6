"""Where the time of a run went."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reports.model import Finished

SHOWN = 12


@dataclass(frozen=True)
class FunctionTime:
    """The tests of one function: how many, their time, and the slowest of them."""

    name: str
    tests: int
    seconds: float
    share: float
    """Of the time of all tests."""
    slowest: Finished


@dataclass(frozen=True)
class Timings:
    """The slowest functions first; what is not shown is summed up."""

    seconds: float
    shown: tuple[FunctionTime, ...]
    others: int
    others_seconds: float


def timings(tests: Iterable[Finished]) -> Timings:
    """The time of each test function."""
    by_function: dict[str, list[Finished]] = {}
    for test in tests:
        by_function.setdefault(function_of(test.id), []).append(test)
    total = sum(test.seconds for own in by_function.values() for test in own)
    rows = sorted((_row(name, own, total) for name, own in by_function.items()), key=lambda row: -row.seconds)
    rest = rows[SHOWN:]
    return Timings(total, tuple(rows[:SHOWN]), len(rest), sum(row.seconds for row in rest))


def function_of(test: str) -> str:
    """The test function of a node id, without its file and its case."""
    return test.partition("[")[0].rpartition("::")[2]


def _row(name: str, tests: list[Finished], total: float) -> FunctionTime:
    seconds = sum(test.seconds for test in tests)
    slowest = max(tests, key=lambda test: test.seconds)
    return FunctionTime(name, len(tests), seconds, seconds / total if total else 0.0, slowest)
