"""A Case prints as a line, reads back, and draws the same arrays everywhere."""

from __future__ import annotations

import hashlib
import json

import pytest
import torch
from hypothesis import given

from conformance import draw
from conformance.case import Case, CaseError
from conformance.inputs import build, logical_call
from conformance.scenarios.rotation import VALUES
from conformance.strategies import laid_out
from kernel.memory import bits

SPECIAL = Case(
    "f32",
    num_tokens=5,
    num_qo_heads=6,
    num_kv_heads=3,
    head_dim=66,
    pool_size=9,
    slots="holes",
    values="wide",
    rope_base=10000.5,
    positions="list:0/5/2147483647",
    layout="q:transposed,k:step",
    memory="page-end",
    fault="k:3x2x65+v@f32",
    situation="packed-q/cured",
    token=2,
    plan="rect/3",
    seed=2**32 - 1,
    v_bits="every",
)


@given(laid_out("all"))
def test_line_and_json_read_back(case: Case) -> None:
    assert Case.parse(str(case)) == case
    assert Case.from_json(json.loads(json.dumps(case.to_json()))) == case


def test_every_field_reads_back() -> None:
    assert Case.parse(str(SPECIAL)) == SPECIAL
    assert all(value != getattr(Case(), name) for name, value in SPECIAL.to_json().items())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "begins with its dtype"),
        ("f64 T=3", "begins with its dtype"),
        ("f16 T", "'T' is not name=value"),
        ("f16 tokens=3", "'tokens=3' is not name=value"),
        ("f16 T=three", "T must be a number"),
    ],
)
def test_a_line_that_is_no_case_says_why(line: str, message: str) -> None:
    with pytest.raises(CaseError, match=message):
        Case.parse(line)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case(positions="sideways:3"), "unknown kind of positions"),
        (Case(positions="rise:x"), "needs a whole number"),
        (Case(positions="list:1/2"), "a list of 2 for 3 tokens"),
        (Case(slots="sideways"), "unknown kind of slots"),
        (Case(slots="high"), "more than 65536 rows"),
        (Case(values="odd"), "unknown kind of values"),
        (Case(layout="q:diagonal"), "no layout 'diagonal'"),
        (Case(layout="z:step"), "no array z"),
        (Case(memory="cloud"), "no memory 'cloud'"),
        (Case(fault="q*3"), "not an override"),
        (Case(fault="q:2xa"), "a shape is written"),
        (Case(fault="q@f8"), "a dtype is one of"),
        (Case(situation="monday"), "no situation 'monday'"),
        (Case(token=3), "token=3 of a batch of 3"),
    ],
)
def test_a_case_that_cannot_be_built_says_why(case: Case, message: str) -> None:
    with pytest.raises(CaseError, match=message):
        build(case)


PINNED = {
    "normal": "aedf3af3aa31b50d",
    "wide": "6a4c09d4ed6415e0",
    "subnormal": "f3263f814ac8223d",
    "huge": "d9c13703c16d0655",
    "cancel": "6fe7d19bfae67cbc",
    "zeros": "cf9cf602af4241f5",
    "mixed": "8c0871776c465ba0",
    "nonfinite": "213a33f371cd0590",
    "ones": "6d33a34dbe24f415",
}


def _digest(case: Case) -> str:
    digest = hashlib.sha256()
    for _, tensor in logical_call(case).tensors():
        digest.update(bits(tensor.contiguous()).numpy().tobytes())
    return digest.hexdigest()[:16]


def test_arrays_are_the_same_on_every_machine() -> None:
    """Digests seen on one machine."""
    drawn = {kind: _digest(Case("f16", values=kind, positions="log")) for kind in VALUES}
    assert drawn == PINNED


@pytest.mark.parametrize("layout", ["q:step,k:sliced,v:transposed", "q:broadcast,slots:step,k_pool:odd-stride"])
def test_a_layout_changes_strides_and_no_value(layout: str) -> None:
    case = Case("f32", num_tokens=4, num_kv_heads=1, layout=layout)
    dense, placed = dict(logical_call(case).tensors()), dict(build(case).call.tensors())
    for item in layout.split(","):
        name = item.partition(":")[0]
        assert placed[name].stride() != dense[name].stride()
    assert all(bool((bits(placed[name]) == bits(dense[name])).all()) for name in dense)


@pytest.mark.parametrize(
    "positions", ["log:0", "log:-5", "uniform:-1", "negative:0", "equal:99999999999", "log:99999999999999999999"]
)
def test_positions_that_no_int32_holds_are_refused(positions: str) -> None:
    with pytest.raises(CaseError, match=r"past int32|at least"):
        draw.positions(Case(positions=positions))


def test_log_positions_stay_within_their_reach() -> None:
    drawn = draw.positions(Case(num_tokens=500, positions="log:131071"))
    assert int(drawn.min()) >= 1
    assert 2**16 < int(drawn.max()) <= 131071


def test_every_pattern_goes_through_v() -> None:
    call = logical_call(Case("bf16", 64, 8, 8, 128, 64, values="normal", v_bits="every"))
    assert len(torch.unique(bits(call.v).to(torch.int32) & 0xFFFF)) == 65536
    with pytest.raises(CaseError, match="v_bits"):
        logical_call(Case("f32", v_bits="every"))
