"""The judge: one outcome against the oracle. Tests, replays and sweeps all call `judge`."""

from __future__ import annotations

import torch

from conformance.finding import Finding, Judgement
from conformance.judge.errors import answered, judge_guards, judge_intact, judge_violation, told
from conformance.judge.expected import FLOAT_DTYPES, Expected, expect
from conformance.judge.pools import ABOUT_POOLS, judge_pools, pictures
from conformance.judge.rotation import judge_rotation
from conformance.outcome import OUTPUTS, Outcome

__all__ = ["Expected", "answered", "expect", "filing", "judge", "judge_guards"]


def judge(expected: Expected, outcome: Outcome, in_place: bool | None = None) -> Judgement:
    """Every requirement that this outcome bears on.

    Args:
        in_place: whether the target was seen to write pools in place; None when not known.
    """
    judgement = Judgement()
    if expected.violation is not None:
        judge_violation(expected, outcome, judgement)
    elif expected.refusable and outcome.raised is not None:
        judgement.looked("CALL", 1)
        judge_intact(outcome, judgement)
    elif _returned(expected, outcome, judgement):
        _judge_returned(expected, outcome, in_place, judgement)
    for name in outcome.disturbed:
        judgement.found(Finding("MEM-EARLIER", f"a {name} that an earlier call returned has changed"))
    if expected.case.situation:
        _judge_cure(expected, judgement)
    scope = filing(expected)
    return judgement.filed_under(scope) if scope else judgement


def _judge_cure(expected: Expected, judgement: Judgement) -> None:
    if expected.violation is None:
        judgement.looked("ERR-CURE", 1)
        if judgement.failed:
            first = judgement.findings[0]
            judgement.found(Finding("ERR-CURE", f"the cured call is not right: {first.what}", first.where))


def filing(expected: Expected) -> str:
    """The requirement under which all findings of a case are filed; empty for each its own."""
    case, call = expected.case, expected.call
    if expected.violation is not None or case.situation:
        return ""
    filings = {
        "ROB-DTYPE": {call.positions.dtype, call.slots.dtype} != {torch.int32},
        "ROB-REFUSE": call.head_dim % 2 == 1 or call.q.dtype not in FLOAT_DTYPES,
        "ROB-EMPTY": not len(call.q),
        "ROB-LAYOUT": case.layout != "dense",
        "ROB-LARGE": case.memory == "sparse",
        "ROB-SLOT": bool((expected.slots >= len(call.k_pool)).any()),
        "ROB-DUP": any(len(tokens) > 1 for tokens in expected.writers.values()),
        "ROB-POSITION": bool((expected.positions < 0).any()),
    }
    return next((id for id, applies in filings.items() if applies), "")


def _returned(expected: Expected, outcome: Outcome, judgement: Judgement) -> bool:
    """Whether four arrays of the right shape and dtype came back."""
    flush = expected.case.memory.startswith("page")
    judgement.looked("CALL", 1)
    if flush and ("SIG" in outcome.died or outcome.outputs is not None):
        judgement.looked("MEM-READ", sum(tensor.numel() for _, tensor in expected.call.tensors()))
    if flush and ("SIGSEGV" in outcome.died or "SIGBUS" in outcome.died):
        edge = expected.case.memory.replace("page-", "")
        what = f"the call {outcome.died} with the {edge} of each buffer flush against an unreadable page"
        judgement.found(Finding("MEM-READ", what))
        return False
    if outcome.outputs is None or outcome.pools is None:
        judgement.found(Finding("CALL", "the call keeps the contract but did not return its arrays", answered(outcome)))
        return False
    if expected.call.head_dim % 2:
        judgement.found(Finding("CALL", "an odd head_dim was accepted"))
        return False
    return _shapes_match(expected, outcome, judgement)


def _shapes_match(expected: Expected, outcome: Outcome, judgement: Judgement) -> bool:
    assert outcome.outputs is not None
    assert outcome.pools is not None
    call = expected.call
    wanted = dict(zip(OUTPUTS, (call.q, call.k, call.k_pool, call.v_pool), strict=True))
    got = {name: (tuple(t.shape), t.dtype) for name, t in outcome.outputs.items()}
    got |= {f"{name}_new": (pool.shape, pool.dtype) for name, pool in outcome.pools.items()}
    judgement.looked("OUT-SHAPE", len(OUTPUTS))
    right = True
    for name, like in wanted.items():
        if got[name] != (tuple(like.shape), like.dtype):
            shape, dtype = got[name]
            what = f"{name} is {dtype} {list(shape)}, wanted {like.dtype} {list(like.shape)}"
            judgement.found(Finding("OUT-SHAPE", what))
            right = False
    return right


def _judge_returned(expected: Expected, outcome: Outcome, in_place: bool | None, judgement: Judgement) -> None:
    assert outcome.outputs is not None
    if expected.call.q.dtype in FLOAT_DTYPES:
        judge_rotation(expected, outcome.outputs, judgement)
        judge_pools(expected, outcome, in_place, judgement)
    else:
        judgement.found(Finding("CALL", f"{expected.call.q.dtype} was accepted"))
    _judge_memory(expected, outcome, judgement)
    about_pools = any(finding.requirement in ABOUT_POOLS for finding in judgement.findings)
    if about_pools and expected.call.q.dtype in FLOAT_DTYPES:
        judgement.pools = pictures(expected, outcome)


def _judge_memory(expected: Expected, outcome: Outcome, judgement: Judgement) -> None:
    judgement.looked("MEM-INPUT", sum(t.numel() for name, t in expected.call.tensors() if not name.endswith("_pool")))
    judgement.looked("MEM-ALIAS", len(OUTPUTS))
    for pair in outcome.aliases:
        judgement.found(Finding("MEM-ALIAS", f"{pair} share memory"))
    judgement.looked("MEM-EARLIER", 2)
    judgement.looked("MEM-MARGIN", len(dict(expected.call.tensors())))
    for change in outcome.changes:
        if change.where == "outside":
            past = bool((expected.slots >= len(expected.call.k_pool)).any())
            what = f"written outside {change.buffer}"
            judgement.found(Finding("ROB-SLOT" if past else "MEM-MARGIN", what, told(change)))
            if change.first < 0 and change.buffer.endswith("_pool") and bool(expected.skipped.any()):
                what = f"written before the first row of {change.buffer}, where a negative slot would be"
                judgement.found(Finding("SLOT-SKIP", what, told(change)))
        elif change.where == "itself" or not change.buffer.endswith("_pool"):
            judgement.found(Finding("MEM-INPUT", f"{change.buffer} changed", told(change)))
