"""Every planted callable is found."""

from __future__ import annotations

import pytest
from callables import FAULTS, arguments
from drive import first_finding, suite_for
from kept import KEPT

from conformance import terminal
from kernel.targets import CallableTarget

ABOUT_ARGUMENTS = {fault.name for fault in arguments.FAULTS}


EVERY = FAULTS | KEPT


@pytest.mark.parametrize("name", EVERY)
def test_each_planted_fault_is_found(name: str) -> None:
    suite = suite_for(CallableTarget(name, EVERY[name].call))
    try:
        assert first_finding(suite, first="ERR" if name in ABOUT_ARGUMENTS else ""), EVERY[name].what
    finally:
        suite.close()
    assert any(entry.failed for entry in suite.ledger.entries.values())
    assert list(terminal.findings(suite.ledger, ""))
