"""Runs the suite's own tests without pytest, in a shuffled order, until something is found."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import conformance
from conformance import selection
from conformance.case import Case
from conformance.profile import PROFILES, Profile
from conformance.record import Recorder
from conformance.suite import NonConformanceError, Settings, Suite
from kernel.targets import Target
from reference import FLOAT32_ANGLE, Accuracy

# So many cases that concern what is looked for are tried for each other one.
_FOR_EACH_OTHER = 8


@dataclass(frozen=True)
class _Plans:
    """What the selection of cases asks of a suite."""

    launch: str
    in_place: bool


@dataclass(frozen=True)
class Check:
    """One case of one test: the requirements that its test names, and the call on a suite."""

    requirements: frozenset[str]
    run: Callable[[Suite], None]

    def concerns(self, prefix: str) -> bool:
        return any(id.startswith(prefix) for id in self.requirements)


def _test_functions() -> Iterator[Callable[..., None]]:
    for path in sorted(Path(conformance.__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"conformance.{path.stem}")
        yield from (value for name, value in vars(module).items() if name.startswith("test_"))


@functools.cache
def checks(launch: str, sparse: bool, every: int = 1) -> list[Check]:
    """Each case, or each of number `every`, of each test of the default profile as a call on a suite.

    The tests take turns, so that each kind of case comes early.
    """
    profile = PROFILES["default"]
    by_test: list[list[Check]] = []
    for function in _test_functions():
        marks = {mark.name: mark for mark in getattr(function, "pytestmark", [])}
        for kind, select in (("cases", selection.cases), ("sequences", selection.sequences)):
            if kind in marks:
                ids = frozenset(marks["requirement"].args)
                drawn = select(_Plans(launch, sparse), profile, **marks[kind].kwargs)
                by_test.append([Check(ids, functools.partial(_call, function, case)) for case in drawn])
                random.Random(0).shuffle(by_test[-1])
                by_test[-1] = by_test[-1][::every]
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*by_test))
    return [check for check in in_turn if check is not None]


def planned_cases(profile: Profile, launch: str, *, sparse: bool) -> list[Case]:
    """The cases of every test of a profile, without those of its sequences."""
    marked = ((f, mark) for f in _test_functions() for mark in getattr(f, "pytestmark", []) if mark.name == "cases")
    return [case for _, mark in marked for case in selection.cases(_Plans(launch, sparse), profile, **mark.kwargs)]


def _call(function: Callable[..., None], case: Case | tuple[Case, ...], suite: Suite) -> None:
    function(suite, case)


def suite_for(target: Target, accuracy: Accuracy = FLOAT32_ANGLE) -> Suite:
    """A strict suite that records nothing."""
    return Suite(target, Settings(accuracy, strict=True), Recorder(None))


def first_finding(suite: Suite, *, first: str = "", every: int = 1) -> str:
    """What the first failing case says; empty when every case passes.

    Args:
        first: most cases are of tests that check a requirement whose id starts so, while there are any.
        every: of each test, try each case of this number only.
    """
    tried = checks(suite.launch, bool(suite.in_place), every)
    concerned = [check for check in tried if first and check.concerns(first)]
    others = [check for check in tried if not (first and check.concerns(first))]
    in_turn = itertools.zip_longest(*(concerned[n::_FOR_EACH_OTHER] for n in range(_FOR_EACH_OTHER)), others)
    for check in filter(None, itertools.chain.from_iterable(in_turn)):
        try:
            check.run(suite)
        except NonConformanceError as failure:
            return str(failure)
    return ""


def finds(suite: Suite, requirement: str) -> bool:
    """Whether a case of a test that checks `requirement` is seen to fail it, or to warn where it can only warn."""
    for check in checks(suite.launch, bool(suite.in_place)):
        if requirement in check.requirements:
            with contextlib.suppress(NonConformanceError):
                check.run(suite)
            entry = suite.ledger.entries[requirement]
            if entry.failed or (entry.warned and "(a warning)" in entry.requirement.sentence):
                return True
    return False
