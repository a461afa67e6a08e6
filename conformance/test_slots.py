"""Slots: written rows bit for bit, skipped tokens, and everything else untouched."""

from __future__ import annotations

import pytest

from conformance.case import Case
from conformance.scenarios import slots
from conformance.suite import Suite

WRITES = ("SLOT-K", "SLOT-V", "SLOT-SKIP", "SLOT-REST", "SLOT-ROT", "POOL-MODE")


@pytest.mark.requirement(*WRITES)
@pytest.mark.cases(scenario=slots.kinds)
def test_kinds_of_slots(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement(*WRITES)
@pytest.mark.cases(scenario=slots.negatives)
def test_negative_slots(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement(*WRITES)
@pytest.mark.cases(scenario=slots.sizes)
def test_pool_sizes(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement(*WRITES)
@pytest.mark.cases(scenario=slots.high)
def test_rows_past_65535(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROB-DUP")
@pytest.mark.cases(scenario=slots.duplicates)
def test_two_tokens_with_one_slot(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROB-SLOT")
@pytest.mark.cases(scenario=slots.past)
def test_slots_past_the_pool(suite: Suite, case: Case) -> None:
    suite.check(case)


@pytest.mark.requirement("ROB-LARGE")
@pytest.mark.cases(scenario=slots.huge)
def test_pools_past_32_bit_offsets(suite: Suite, case: Case) -> None:
    suite.check(case)
