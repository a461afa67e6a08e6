"""Every planted callable is found."""

from __future__ import annotations

import pytest
from callables import MODULES
from drive import first_finding, suite_for
from kept import KEPT

from conformance import terminal, worker
from kernel.targets import CallableTarget
from tests.planted.fault import Fault

# Where to look first, by the module that plants a fault; any finding counts.
FIRST = {"arguments": "ERR", "slots": "SLOT", "stored": "SLOT", "layout": "ROB-LAYOUT", "state": "ROB-STATE"}
PLANTED = {fault.name: (fault, FIRST.get(m.__name__.rpartition(".")[2], "ROT")) for m in MODULES for fault in m.FAULTS}
PLANTED |= {name: (fault, "ROB-STATE") for name, fault in KEPT.items()}


@pytest.mark.parametrize(("fault", "first"), PLANTED.values(), ids=PLANTED)
def test_each_planted_fault_is_found(fault: Fault, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "ANSWER_SECONDS", 3.0)
    suite = suite_for(CallableTarget(fault.name, fault.call))
    try:
        assert first_finding(suite, first=first), fault.what
    finally:
        suite.close()
    assert any(entry.failed for entry in suite.ledger.entries.values())
    assert list(terminal.findings(suite.ledger, ""))
