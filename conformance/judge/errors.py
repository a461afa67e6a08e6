"""Calls that must be refused, and the state that a refusal leaves."""

from __future__ import annotations

import re
from inspect import signature

import reference.arguments
from conformance.contract import documented_errors
from conformance.finding import Finding, Judgement
from conformance.judge.expected import Expected, error_texts
from conformance.outcome import Outcome
from conformance.placement import Change

_LONGEST_TEXT = 300


def judge_violation(expected: Expected, outcome: Outcome, judgement: Judgement) -> None:
    """The documented ValueError, its text, its order, and nothing changed."""
    violation = expected.violation
    assert violation is not None
    faults = expected.case.fault.split("+")
    requirement = "ERR-ORDER" if len(faults) > 1 else documented_errors()[violation.number].requirement
    if expected.case.situation:
        requirement = "ERR-CURE"
    judgement.looked(requirement, 1)
    raised = outcome.raised
    right = raised is not None and raised.is_value_error and raised.text in error_texts(violation)
    if not right:
        judgement.found(Finding(requirement, f"expected ValueError: {violation.text}", where=answered(outcome)))
    judge_intact(outcome, judgement)


def judge_intact(outcome: Outcome, judgement: Judgement) -> None:
    """After a refusal every buffer is as it was."""
    if outcome.raised is None:
        return
    judgement.looked("ERR-INTACT", 1)
    for change in outcome.changes:
        judgement.found(Finding("ERR-INTACT", f"the call raised, yet changed {change.buffer}", told(change)))


def judge_guards(expected: Expected, outcome: Outcome) -> Judgement:
    """Each guard against what the call did: the first to say False names the error raised."""
    judgement = Judgement()
    arguments = {**dict(expected.call.tensors()), **expected.call.arguments()}
    errors = documented_errors()
    verdicts = {n: _says(errors[n].guard, arguments) for n in sorted(errors)}
    first_false = next((number for number, holds in verdicts.items() if not holds), None)
    judgement.looked("ERR-GUARD", len(verdicts))
    raised = outcome.raised.text if outcome.raised else ""
    if first_false is None:
        agrees = not any(_is_text_of(number, raised) for number in errors)
    else:
        agrees = _is_text_of(first_false, raised)
    if not agrees:
        guard = "every guard says True" if first_false is None else f"{errors[first_false].guard} says False"
        judgement.found(Finding("ERR-GUARD", f"{guard}, the call does not agree", answered(outcome)))
    return judgement


def _says(guard: str, arguments: dict[str, object]) -> bool:
    function = getattr(reference.arguments, guard)
    return bool(function(**{name: arguments[name] for name in signature(function).parameters}))


def _is_text_of(number: int, text: str) -> bool:
    return re.fullmatch(documented_errors()[number].pattern, text) is not None


def answered(outcome: Outcome) -> str:
    """What the call did, in words."""
    if outcome.raised is not None:
        text = " ".join(outcome.raised.text.split())
        return f"got {outcome.raised.type}: {text[:_LONGEST_TEXT]}{'...' if len(text) > _LONGEST_TEXT else ''}"
    if outcome.died:
        return f"the call {outcome.died}"
    return f"got {outcome.malformed}" if outcome.malformed else "the call returned without an error"


def told(change: Change) -> str:
    """A change, in words."""
    if change.where == "itself":
        return f"the array {change.buffer} has another shape, other strides or other memory"
    return f"{change.count} elements {change.where} {change.buffer}, the first at offset {change.first}"
