"""Many calls: nothing carried over, the same bits again; and nothing read outside the buffers."""

from __future__ import annotations

import pytest

from conformance.case import Case
from conformance.scenarios import process
from conformance.suite import Suite


@pytest.mark.requirement("ROB-STATE")
@pytest.mark.sequences(scenario=process.sequences)
def test_one_process_many_calls(suite: Suite, sequence: tuple[Case, ...]) -> None:
    suite.check_sequence(sequence)


@pytest.mark.requirement("RUN-REPEAT")
@pytest.mark.cases(scenario=process.repeated)
def test_the_same_call_twice(suite: Suite, case: Case) -> None:
    suite.check_repeat(case)


@pytest.mark.requirement("RUN-REPEAT", "SLOT-REST")
@pytest.mark.cases(scenario=process.donated, planned=False)
def test_arrays_that_nobody_keeps(suite: Suite, case: Case) -> None:
    suite.check_repeat(case)


@pytest.mark.requirement("RUN-SPLIT")
@pytest.mark.cases(scenario=process.by_token)
def test_token_by_token(suite: Suite, case: Case) -> None:
    suite.check_tokenwise(case)


@pytest.mark.requirement("MEM-READ", "MEM-MARGIN")
@pytest.mark.cases(scenario=process.beside_unreadable)
def test_beside_unreadable_memory(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROB-EMPTY")
@pytest.mark.cases(scenario=process.empty)
def test_empty_batch(suite: Suite, case: Case) -> None:
    suite.check(case)
