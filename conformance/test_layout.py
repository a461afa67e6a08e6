"""Layout: views give the results of their dense copies."""

from __future__ import annotations

import pytest

from conformance.case import Case
from conformance.scenarios import layout
from conformance.suite import Suite


@pytest.mark.requirement("ROB-LAYOUT")
@pytest.mark.cases(scenario=layout.operands)
def test_each_operand(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROB-LAYOUT")
@pytest.mark.cases(scenario=layout.length_one_axes)
def test_axes_of_length_one(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROB-LAYOUT")
@pytest.mark.cases(scenario=layout.together)
def test_operands_together(suite: Suite, case: Case) -> None:
    suite.check(case)
