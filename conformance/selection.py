"""Which cases of a scenario a run makes: as many as its profile says, under the launch plans that the target has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from conformance.case import Case
from conformance.profile import Profile
from conformance.scenarios.launch import PLANS, under_plans


class Run(Protocol):
    """What the selection asks of a suite."""

    @property
    def launch(self) -> str: ...

    @property
    def in_place(self) -> bool | None: ...


Scenario = Callable[[Profile], Iterable[Case]]
Sequences = Callable[[Profile], Iterable[tuple[Case, ...]]]


def cases(run: Run, profile: Profile, scenario: Scenario, *, planned: bool = True) -> list[Case]:
    """The cases of one test.

    Args:
        planned: whether each case is tried under each launch plan, where the target has them.
    """
    selected = profile.select(scenario(profile), refused=not planned)
    if not run.launch:
        selected = list(dict.fromkeys(case.but(plan="") for case in selected))
    elif planned:
        selected = [each for case in selected for each in under_plans(case, run.launch)]
    # A pool larger than memory can be written in place, not returned fresh.
    return [case for case in selected if case.memory != "sparse" or run.in_place]


def sequences(run: Run, profile: Profile, scenario: Sequences) -> list[tuple[Case, ...]]:
    """The sequences of one test, each under each launch plan, where the target has them."""
    drawn = profile.select(scenario(profile))
    if not run.launch:
        return drawn
    kinds = PLANS if run.launch == "all" else (run.launch,)
    return [tuple(next(iter(under_plans(case, kind))) for case in calls) for calls in drawn for kind in kinds]
