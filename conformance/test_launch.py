"""Launch plans: split and rect, every number of heads per thread, the published limits."""

from __future__ import annotations

import pytest

from conformance.case import Case
from conformance.scenarios import launch
from conformance.suite import Suite


@pytest.mark.requirement("ROT-Q", "ROT-K", "SLOT-K", "SLOT-V")
@pytest.mark.cases(scenario=launch.every_heads_per_thread)
def test_heads_per_thread(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROT-Q", "ROT-K", "SLOT-K", "SLOT-V")
@pytest.mark.cases(scenario=launch.published_limits)
def test_published_limits(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROT-Q", "ROT-K", "SLOT-K", "SLOT-V")
@pytest.mark.cases(scenario=launch.published_limits, planned=False)
def test_published_choice(suite: Suite, case: Case) -> None:
    suite.check(case)
