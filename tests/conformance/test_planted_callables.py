"""Every planted callable is found, and right callables never are."""

from __future__ import annotations

import pytest
from callables import FAULTS
from drive import first_finding, suite_for

from conformance import terminal
from kernel.targets import CallableTarget


@pytest.mark.parametrize("name", FAULTS)
def test_each_planted_fault_is_found(name: str) -> None:
    suite = suite_for(CallableTarget(name, FAULTS[name].call))
    try:
        assert first_finding(suite), FAULTS[name].what
    finally:
        suite.close()
    assert any(entry.failed for entry in suite.ledger.entries.values())
    assert list(terminal.findings(suite.ledger, ""))
