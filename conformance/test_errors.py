"""The eleven documented ValueErrors: causes, order, texts, cures, guards."""

from __future__ import annotations

import pytest

from conformance.case import Case
from conformance.scenarios import errors
from conformance.suite import Suite

SHAPE_ERRORS = [f"ERR-{number:02d}" for number in range(1, 10)]


@pytest.mark.requirement("ERR-01", "ERR-02", "ERR-03", "ERR-INTACT", "ERR-GUARD")
@pytest.mark.cases(scenario=errors.ranks, planned=False)
def test_ranks(suite: Suite, case: Case) -> None:
    suite.check(case, guards=True)


@pytest.mark.requirement(*SHAPE_ERRORS, "ERR-INTACT", "ERR-GUARD")
@pytest.mark.cases(scenario=errors.axes, planned=False)
def test_axes(suite: Suite, case: Case) -> None:
    suite.check(case, guards=True)


@pytest.mark.requirement("ERR-10", "ERR-11", "ERR-INTACT", "ERR-GUARD")
@pytest.mark.cases(scenario=errors.dtypes, planned=False)
def test_dtypes(suite: Suite, case: Case) -> None:
    suite.check(case, guards=True)


@pytest.mark.requirement("ERR-ORDER", "ERR-INTACT", "ERR-GUARD")
@pytest.mark.cases(scenario=errors.pairs, planned=False)
def test_two_causes_at_once(suite: Suite, case: Case) -> None:
    suite.check(case, guards=True)


@pytest.mark.requirement(*SHAPE_ERRORS, "ERR-10", "ERR-GUARD")
@pytest.mark.cases(scenario=errors.on_empty_batch, planned=False)
def test_an_empty_batch_is_checked_too(suite: Suite, case: Case) -> None:
    suite.check(case, guards=True)


@pytest.mark.requirement("ERR-CURE", "ERR-GUARD")
@pytest.mark.cases(scenario=errors.situations)
def test_documented_situations(suite: Suite, case: Case) -> None:
    suite.check(case, guards=True)


@pytest.mark.requirement("ROB-REFUSE")
@pytest.mark.cases(scenario=errors.refusals, planned=False)
def test_what_the_binding_refuses(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROB-DTYPE")
@pytest.mark.cases(scenario=errors.index_dtypes, planned=False)
def test_index_dtypes(suite: Suite, case: Case) -> None:
    suite.check(case)
