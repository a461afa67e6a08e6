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
        calls_refused: likewise for the tests of refused calls, which cost little.
        prefill_tokens: tokens of a chunk of prefill at the head shapes of models in use.
        seeds: how many draws of each numeric case.
        swept_positions: sweeps try every position below this.
        examples: generated cases per property.
        derandomised: whether generated cases are the same in every run.
    """

    name: str
    cases_per_test: int | None
    calls_refused: int | None
    prefill_tokens: int
    seeds: int
    swept_positions: int
    examples: int
    derandomised: bool

    def select(self, cases: Iterable[Drawn], *, refused: bool = False) -> list[Drawn]:
        """The distinct cases, or sequences of cases, of one test that this profile runs."""
        distinct = list(dict.fromkeys(cases))
        most = self.calls_refused if refused else self.cases_per_test
        if most is None or len(distinct) <= most:
            return distinct
        return [distinct[i * len(distinct) // most] for i in range(most)]

    def hypothesis(self) -> hypothesis_settings:
        """Every field set: nothing is left to the environment or to the CI detection of hypothesis."""
        return hypothesis_settings(
            max_examples=self.examples,
            derandomize=self.derandomised,
            database=None,
            verbosity=Verbosity.normal,
            # Cases are judged one by one already; a kernel that hangs would hang at each step of a shrink.
            # Only a run with a random seed has failures to reuse.
            phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target),
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
        Profile("smoke", 4, 40, prefill_tokens=32, seeds=1, swept_positions=512, examples=15, derandomised=True),
        Profile(
            "default", None, None, prefill_tokens=32, seeds=1, swept_positions=2048, examples=120, derandomised=True
        ),
        Profile(
            "nightly",
            None,
            None,
            prefill_tokens=512,
            seeds=4,
            swept_positions=2**20 + 1,
            examples=2000,
            derandomised=False,
        ),
    )
}
