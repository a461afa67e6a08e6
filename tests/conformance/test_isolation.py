"""A shader that does what no process survives costs its own cases and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from shader_faults import ShaderFault

from conformance import worker
from conformance.case import Case
from conformance.record import Recorder
from conformance.suite import NonConformanceError, Settings, Suite
from reference import EXACT_ANGLE

_FAULTS = """        return;
    }
    if (HEAD_DIM == 34) { for (volatile uint n = 0; n < 1; n = 0) {} }
    if (HEAD_DIM == 36) { *(device T*)(ulong(0x10000)) = T(1); }
    struct Deep { static uint down(uint n) { volatile uint here = n; return down(n + 1) + here; } };
    if (HEAD_DIM == 38) { k_out[0] = T(Deep::down(0)); }
    if (HEAD_DIM == 40) { for (volatile ulong n = 0; n < (ulong(1) << 37); n = n + 1) {} }
    const Rotation rotation(positions[gid.y], frequencies[gid.x]);
    rotate_heads<T>(k, k_out, k_pool,"""
DEADLY = ShaderFault(
    "deadly",
    "for ever; through a wild pointer; past the end of the stack; for a minute",
    """        return;
    }
    const Rotation rotation(positions[gid.y], frequencies[gid.x]);
    rotate_heads<T>(k, k_out, k_pool,""",
    _FAULTS,
)
DIED = {
    34: "the call gave no answer within 1 s",
    36: "the call crashed with SIGSEGV",
    38: "the call crashed with SIGSEGV",
    40: "the call gave no answer within 1 s",
}


def test_each_is_a_named_failed_case_and_the_others_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "ANSWER_SECONDS", 1.0)
    suite = Suite(DEADLY.compile(tmp_path), Settings(EXACT_ANGLE), Recorder(None))
    seen = {}
    for head_dim in (32, 34, 36, 38, 40, 42):
        try:
            suite.check(Case(head_dim=head_dim, plan="split/1"))
        except NonConformanceError as error:
            seen[head_dim] = next(died for died in DIED.values() if died in str(error))
    suite.close()
    assert seen == DIED
    assert suite.ledger.entries["ROT-K"].elements > 0
    assert len(suite.ledger.cases) == 6
