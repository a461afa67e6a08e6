"""Every planted callable is found."""

from __future__ import annotations

import pytest
from callables import MODULES
from drive import first_finding, suite_for
from kept import KEPT

from conformance import terminal, worker
from kernel.targets import CallableTarget
from tests.planted.arguments import ERRORS
from tests.planted.fault import Fault

# Where to look first, by a part of the fault's name, else by the module that plants it; any finding counts.
NAMED = {
    "_checked_before_": "ERR-ORDER",
    "_check_each_other_only": "ERR-CURE",
    **{f"{name}_check_": f"ERR-{number:02d}" for number, name in enumerate(ERRORS, 1)},
    "slot_past_pool": "ROB-SLOT",
    "duplicates_": "ROB-DUP",
    "negative_position": "ROB-POSITION",
    "position_unsigned": "ROB-POSITION",
    "empty_batch": "ROB-EMPTY",
    "head_dim_argument": "ERR-04",
    "_positions_reinterpreted": "ROB-DTYPE",
    "float64_accepted": "ROB-REFUSE",
}
FIRST = {"arguments": "ERR", "slots": "SLOT", "stored": "SLOT", "layout": "ROB-LAYOUT", "state": "ROB-STATE"}


def _first(name: str, module: str) -> str:
    return next((first for part, first in NAMED.items() if part in name), FIRST.get(module, "ROT"))


PLANTED = {f.name: (f, _first(f.name, m.__name__.rpartition(".")[2])) for m in MODULES for f in m.FAULTS}
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
