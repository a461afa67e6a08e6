"""Sweeps: every position, every bit pattern, every pair at cancellation; as far as the profile goes."""

from __future__ import annotations

import pytest

from conformance.case import Case
from conformance.scenarios import sweeps
from conformance.suite import Suite


@pytest.mark.requirement("SLOT-V")
@pytest.mark.cases(scenario=sweeps.patterns)
def test_every_pattern_through_v(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROT-Q", "ROT-K", "ROT-FREQ")
@pytest.mark.cases(scenario=sweeps.every_position, planned=False)
def test_every_position(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROT-Q", "ROT-K")
@pytest.mark.cases(scenario=sweeps.cancellation)
def test_cancellation(suite: Suite, case: Case) -> None:
    suite.check(case)
