"""Accuracy where it tells most, before anything else: many tokens, normal values, positions as models reach them."""

from __future__ import annotations

import pytest

from conformance.case import Case
from conformance.scenarios import rotation
from conformance.suite import Suite


@pytest.mark.requirement("ROT-Q", "ROT-K", "ROT-BIAS", "ROT-FREQ")
@pytest.mark.cases(scenario=rotation.many_tokens)
def test_many_tokens(suite: Suite, case: Case) -> None:
    suite.check(case)
