"""The contract's data agree with the oracle: texts, guards, situations."""

from __future__ import annotations

import re

import pytest

import reference.arguments
from conformance.contract import documented_errors, requirements
from conformance.inputs import logical_call
from conformance.judge import expect
from conformance.scenarios import errors
from conformance.situations import SITUATIONS
from reference import FLOAT32_ANGLE, RULES

TIERS = ["documented", "numeric", "memory", "robustness"]


def test_requirements_are_sentences_of_known_tiers() -> None:
    for requirement in requirements().values():
        assert requirement.tier in TIERS
        assert requirement.sentence[-1] not in ".;,"
        assert requirement.source


@pytest.mark.parametrize("number", range(1, 12))
def test_an_error_has_the_text_and_the_guard_of_its_rule(number: int) -> None:
    error, rule = documented_errors()[number], RULES[number - 1]
    shown = re.sub(r"\{.*?\}", "torch.Size([2, 4, 64])", rule.text)
    assert re.fullmatch(error.pattern, shown)
    others = [re.sub(r"\{.*?\}", "torch.Size([2, 4, 64])", other.text) for other in RULES if other is not rule]
    assert not any(re.fullmatch(error.pattern, text) for text in others)
    assert getattr(reference.arguments, error.guard) is rule.guard
    assert all(text for text in (error.trigger, error.common, error.cure))


def test_every_situation_belongs_to_one_error() -> None:
    named = [name for error in documented_errors().values() for name in error.situations]
    assert sorted(named) == sorted(SITUATIONS)


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_situation_raises_its_error_and_its_cure_raises_none(name: str) -> None:
    case = errors.SITUATION_BASE.but(situation=name)
    [number] = [e.number for e in documented_errors().values() if name in e.situations]
    violation = expect(case, FLOAT32_ANGLE).violation
    assert violation is not None
    assert violation.number == number
    cured = case.but(situation=f"{name}/cured")
    assert expect(cured, FLOAT32_ANGLE).violation is None
    assert logical_call(cured).q.numel()
