"""Generated cases: whatever the draw, a right call is answered rightly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.strategies import cases, laid_out
from conformance.suite import Suite

DENSE = ("CALL", "OUT-SHAPE", "ROT-Q", "ROT-K", "ROT-ZERO", "SLOT-K", "SLOT-V", "SLOT-SKIP", "SLOT-REST", "SLOT-ROT")


@pytest.mark.requirement(*DENSE)
@given(data=st.data())
def test_generated_calls(suite: Suite, data: st.DataObject) -> None:
    suite.check(data.draw(cases(suite.launch), label="case"))


@pytest.mark.requirement("ROB-LAYOUT")
@given(data=st.data())
def test_generated_layouts(suite: Suite, data: st.DataObject) -> None:
    suite.check(data.draw(laid_out(suite.launch), label="case"))
