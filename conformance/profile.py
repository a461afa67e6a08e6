"""How much a run tries: `smoke` answers while you wait, `default` gates, `nightly` searches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from hypothesis import HealthCheck, Phase, Verbosity
from hypothesis import settings as hypothesis_settings

Drawn = TypeVar("Drawn")


@dataclass(frozen=True)
class Profile:
    """A named amount of work.

    Attributes:
        cases_per_test: at most this many of a test's cases, evenly spread; None for all.
        seeds: how many draws of each numeric case.
        examples: generated cases per property.
        derandomised: whether generated cases are the same in every run.
    """

    name: str
    cases_per_test: int | None
    seeds: int
    examples: int
    derandomised: bool

    def select(self, cases: Iterable[Drawn]) -> list[Drawn]:
        """The distinct cases, or sequences of cases, of one test that this profile runs."""
        distinct = list(dict.fromkeys(cases))
        if self.cases_per_test is None or len(distinct) <= self.cases_per_test:
            return distinct
        return [distinct[i * len(distinct) // self.cases_per_test] for i in range(self.cases_per_test)]

    def hypothesis(self) -> hypothesis_settings:
        """Every field set: nothing is left to the environment or to the CI detection of hypothesis."""
        return hypothesis_settings(
            max_examples=self.examples,
            derandomize=self.derandomised,
            database=None,
            verbosity=Verbosity.normal,
            phases=(Phase.explicit, Phase.generate, Phase.target, Phase.shrink),
            stateful_step_count=1,
            report_multiple_bugs=False,
            # A case with a large prefill takes a second; drawing a case filters nothing.
            suppress_health_check=(HealthCheck.too_slow,),
            deadline=None,
            print_blob=False,
            backend="hypothesis",
        )


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("smoke", cases_per_test=7, seeds=1, examples=15, derandomised=True),
        Profile("default", cases_per_test=None, seeds=1, examples=120, derandomised=True),
        Profile("nightly", cases_per_test=None, seeds=4, examples=2000, derandomised=False),
    )
}
