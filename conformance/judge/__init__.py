"""The judge: one outcome against the oracle. Tests, replays and sweeps all call `judge`."""

from __future__ import annotations

from conformance.case import Case
from conformance.finding import Finding, Judgement
from conformance.judge.errors import answered, judge_guards, judge_intact, judge_violation, told
from conformance.judge.expected import Expected, expect
from conformance.judge.pools import judge_pools
from conformance.judge.rotation import judge_rotation
from conformance.outcome import OUTPUTS, Outcome

__all__ = ["Expected", "expect", "filing", "judge", "judge_guards"]


def judge(expected: Expected, outcome: Outcome, in_place: bool | None = None) -> Judgement:
    """Every requirement that this outcome bears on.

    Args:
        in_place: whether the target was seen to write pools in place; None when not known.
    """
    judgement = Judgement()
    if expected.violation is not None and not outcome.died:
        judge_violation(expected, outcome, judgement)
    elif expected.refusable and outcome.raised is not None:
        judgement.looked("CALL", 1)
        judge_intact(outcome, judgement)
    elif _returned(expected, outcome, judgement):
        _judge_returned(expected, outcome, in_place, judgement)
    scope = filing(expected.case)
    return judgement.filed_under(scope) if scope else judgement


def filing(case: Case) -> str:
    """The requirement under which all findings of a case are filed; empty for each its own."""
    if case.fault and ("positions@" in case.fault or "slots@" in case.fault):
        return "ROB-DTYPE"
    if (not case.fault and case.head_dim % 2) or "@f64" in case.fault:
        return "ROB-REFUSE"
    if case.situation:
        return "ERR-CURE"
    if case.fault:
        return ""
    if case.num_tokens == 0:
        return "ROB-EMPTY"
    if case.layout != "dense":
        return "ROB-LAYOUT"
    if case.memory == "sparse":
        return "ROB-LARGE"
    by_slots = {"past": "ROB-SLOT", "duplicate": "ROB-DUP"}
    by_positions = {"negative": "ROB-POSITION"}
    return by_slots.get(case.slots.partition(":")[0], by_positions.get(case.positions.partition(":")[0], ""))


def _returned(expected: Expected, outcome: Outcome, judgement: Judgement) -> bool:
    """Whether four arrays of the right shape and dtype came back."""
    flush = expected.case.memory.startswith("page")
    judgement.looked("CALL", 1)
    if flush:
        judgement.looked("MEM-READ", sum(tensor.numel() for _, tensor in expected.call.tensors()))
    if outcome.died and flush:
        edge = expected.case.memory.replace("page-", "")
        what = f"the call {outcome.died} with the {edge} of each buffer flush against an unreadable page"
        judgement.found(Finding("MEM-READ", what))
        return False
    if outcome.outputs is None or outcome.pools is None:
        judgement.found(Finding("CALL", "the call keeps the contract but did not return its arrays", answered(outcome)))
        return False
    if expected.refusable and expected.case.head_dim % 2:
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
    if expected.call.q.dtype.itemsize < 8:
        judge_rotation(expected, outcome.outputs, judgement)
        judge_pools(expected, outcome, in_place, judgement)
    else:
        judgement.found(Finding("CALL", f"{expected.call.q.dtype} was accepted"))
    _judge_memory(expected, outcome, judgement)


def _judge_memory(expected: Expected, outcome: Outcome, judgement: Judgement) -> None:
    judgement.looked("MEM-INPUT", sum(t.numel() for name, t in expected.call.tensors() if not name.endswith("_pool")))
    judgement.looked("MEM-ALIAS", len(OUTPUTS))
    for pair in outcome.aliases:
        judgement.found(Finding("MEM-ALIAS", f"{pair} share memory"))
    judgement.looked("MEM-EARLIER", 2)
    for name in outcome.disturbed:
        judgement.found(Finding("MEM-EARLIER", f"the {name} that the call before returned has changed"))
    judgement.looked("MEM-MARGIN", len(dict(expected.call.tensors())))
    for change in outcome.changes:
        if change.where == "outside":
            what = f"written outside {change.buffer}"
            judgement.found(Finding("MEM-MARGIN", what, told(change)))
        elif not change.buffer.endswith("_pool"):
            judgement.found(Finding("MEM-INPUT", f"{change.buffer} changed", told(change)))
