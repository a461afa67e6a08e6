"""Rotation: every element within the bound of its accuracy class."""

from __future__ import annotations

import pytest

from conformance.case import Case
from conformance.scenarios import rotation, serving
from conformance.suite import Suite

ROTATION = ("CALL", "OUT-SHAPE", "ROT-Q", "ROT-K", "ROT-ZERO", "MEM-INPUT", "MEM-MARGIN", "MEM-ALIAS", "MEM-EARLIER")


@pytest.mark.requirement(*ROTATION)
@pytest.mark.cases(scenario=rotation.shapes)
def test_shapes(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement(*ROTATION)
@pytest.mark.cases(scenario=rotation.sizes)
def test_sizes(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement(*ROTATION)
@pytest.mark.cases(scenario=rotation.many_tokens_of_each_size)
def test_many_tokens_of_each_size(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement(*ROTATION)
@pytest.mark.cases(scenario=rotation.long_contexts)
def test_long_contexts(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement(*ROTATION)
@pytest.mark.cases(scenario=rotation.positions)
def test_positions(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement(*ROTATION, "ROT-NONFINITE")
@pytest.mark.cases(scenario=rotation.values)
def test_values(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement(*ROTATION)
@pytest.mark.cases(scenario=rotation.tokens)
def test_token_counts(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement(*ROTATION)
@pytest.mark.cases(scenario=rotation.head_by_head)
def test_equal_tokens_and_heads(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROB-POSITION")
@pytest.mark.cases(scenario=rotation.negative_positions)
def test_negative_positions(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement(*ROTATION)
@pytest.mark.cases(scenario=serving.batches)
def test_serving(suite: Suite, case: Case) -> None:
    suite.check(case)
