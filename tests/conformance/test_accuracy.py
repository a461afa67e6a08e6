"""Accuracy over a run: the book by decade and pair, the tightest class kept, from which position on it is left."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from callables import FAULTS
from drive import suite_for
from kernels import RIGHT
from shader_faults import FLOAT32_SHADER

import reference
from conformance import measure, selection, terminal
from conformance.accuracy import AccuracyBook
from conformance.case import Case
from conformance.evidence.models import IEEE, rotated
from conformance.inputs import logical_call
from conformance.judge import Expected, expect, judge
from conformance.measure import Decade, Kept, Measure, decade_name, decade_of
from conformance.outcome import Observer, Outcome
from conformance.profile import PROFILES
from conformance.record import Recorder
from conformance.scenarios import rotation
from conformance.standard import Standard, arithmetic_of
from conformance.suite import NonConformanceError, Settings, Suite
from kernel.targets import MATH_MODELS, Behaviour, CallableTarget, HostTarget, Target
from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE, Accuracy
from tests.right.arguments import Call
from tests.right.recipe import Recipe, kernel

CLASSES = (EXACT_ANGLE, FLOAT32_ANGLE, FAST)
TIGHTER = CLASSES[:2]
LONG = Case("f32", 64, 2, 1, 128, 64, positions="log:131071", values="normal", plan="split/1")


def auto(target: Target) -> Suite:
    return Suite(target, Settings(FAST, TIGHTER, strict=True), Recorder(None))


def fast_shader(folder: Path) -> Path:
    path = folder / "fast.metal"
    path.write_text(FLOAT32_SHADER.read_text().replace("precise::", "fast::"))
    return path


@pytest.mark.parametrize("kept", CLASSES, ids=lambda accuracy: accuracy.name)
def test_auto_tells_the_tightest_class_kept(kept: Accuracy, tmp_path: Path) -> None:
    shader = {EXACT_ANGLE: None, FLOAT32_ANGLE: FLOAT32_SHADER, FAST: fast_shader(tmp_path)}[kept]
    suite = auto(HostTarget.compile(shader) if shader else HostTarget.compile())
    for dtype in ("f16", "bf16", "f32"):
        assert not suite.check(LONG.but(dtype=dtype)).failed
    suite.close()
    assert suite.accuracy.tightest == kept.name
    told = list(terminal.accuracy(suite.accuracy))
    assert told[-1] == f"tightest class kept: {kept.name}"
    assert any(line.startswith(f"{kept.name}: kept") for line in told)


def test_a_refusal_says_from_which_position_on() -> None:
    suite = suite_for(HostTarget.compile(FLOAT32_SHADER), EXACT_ANGLE)
    case = LONG.but(positions="list:1/2/3/5/30000/40000/100000/131071", num_tokens=8)
    with pytest.raises(NonConformanceError, match="from position 30000 on, right up to 5"):
        suite.check(case)
    suite.close()
    entry = suite.accuracy.classes["exact-angle"]
    assert (entry.beyond, entry.case) == (30000, str(case))
    assert any("exact-angle: left from position 30000 on" in line for line in terminal.accuracy(suite.accuracy))


# What the default profile must find, under each class, before anything else.
NUMERIC_FAULTS = (
    "bf16_truncated",
    "rounded_twice",
    "angle_in_f16",
    "angle_in_bf16",
    "cos_and_sin_in_bf16",
    "position_in_f16",
    "position_in_bf16",
    "base_off_by_a_thousandth",
)


@pytest.mark.parametrize("accuracy", CLASSES, ids=lambda accuracy: accuracy.name)
@pytest.mark.parametrize("fault", NUMERIC_FAULTS)
def test_numeric_faults_are_found_by_the_first_cases(fault: str, accuracy: Accuracy) -> None:
    suite = suite_for(CallableTarget(fault, FAULTS[fault].call), accuracy)
    first = selection.cases(suite, PROFILES["default"], rotation.many_tokens)[:6]
    failed = []
    for case in first:
        try:
            suite.check(case)
        except NonConformanceError:
            failed.append(case)
    suite.close()
    assert failed


def test_a_bias_is_a_failure_unless_the_target_itself_truncates() -> None:
    case = LONG.but(dtype="bf16", num_qo_heads=8, num_kv_heads=8, plan="")
    outcome = Observer(CallableTarget("truncated", FAULTS["bf16_truncated"].call)).observe(case)
    told = judge(expect(case, Standard(FLOAT32_ANGLE)), outcome)
    assert {f.severity for f in told.findings if f.requirement == "ROT-BIAS"} == {"failure"}
    truncating = arithmetic_of(Behaviour(narrowing="toward zero"))
    told = judge(expect(case, Standard(FLOAT32_ANGLE, truncating)), outcome)
    assert {f.severity for f in told.findings if f.requirement == "ROT-BIAS"} == {"warning"}
    assert not told.failed


def test_what_is_measured_of_a_target_chooses_what_it_is_allowed() -> None:
    assert arithmetic_of(Behaviour()) == reference.GRANTED
    measured = Behaviour("to nearest", "to nearest even", False, False, False, True)
    assert arithmetic_of(measured) == reference.Arithmetic(False, False, False, False, True)
    loose = Behaviour("toward zero", "toward zero", True, True, True, False)
    assert arithmetic_of(loose) == reference.Arithmetic(True, True, True, True, False)


def test_positions_fall_into_decades() -> None:
    positions = torch.tensor([0, 1, -9, 10, 99, 100, 999_999_999, 1_000_000_000, -(2**31)])
    assert decade_of(positions).tolist() == [0, 1, 1, 2, 2, 3, 9, 10, 10]
    assert [decade_name(n) for n in (0, 1, 2, 10)] == ["0", "1-9", "10^1-10^2", "10^9-2^31"]


def _decade(elements: int, worst: list[float]) -> Decade:
    return Decade(elements, 1, 0.5, torch.tensor(worst, dtype=torch.float64))


def test_the_book_keeps_the_worst_case_of_each_pair() -> None:
    book = AccuracyBook(Standard(FAST, tighter=TIGHTER))
    exact, tight = ("exact-angle", 2), ("float32-angle", 2)
    one, other = (
        Measure("float16", {exact: _decade(n, [9.0]), tight: _decade(n, scores)}, {"exact-angle": Kept(7.0, beyond)})
        for n, scores, beyond in ((10, [0.5, 0.1], 30), (20, [0.2, 0.3, 0.0], 20))
    )
    assert book.add("first", one) == {exact: {0: 9.0}, tight: {0: 0.5, 1: 0.1}}
    assert book.add("second", other) == {exact: {}, tight: {1: 0.3, 2: 0.0}}
    assert book.told == "float32-angle"
    cell = book.cells["float16", 2]
    assert (cell.seen.elements, cell.seen.uninformative, cell.worst) == (30, 2, 0.5)
    assert cell.seen.worst.tolist() == [0.5, 0.3, 0.0]
    assert cell.cases.tolist() == [0, 1, 1]
    assert (book.classes["exact-angle"].beyond, book.classes["exact-angle"].case) == (20, "second")
    assert book.tightest == "float32-angle"


@pytest.mark.parametrize(
    ("score", "told"),
    [
        (0.0, 0.0),
        (0.12341, 0.1235),
        (0.1235, 0.1235),
        (0.99999, 1.0),
        (1.0, 1.0),
        (math.nextafter(1, 2), 1.001),
        (123456789.0, 123500000.0),
        (math.inf, math.inf),
    ],
)
def test_a_score_is_told_by_four_digits_that_are_no_smaller(score: float, told: float) -> None:
    assert measure.rounded_up(score) == told


def test_a_score_that_was_told_is_told_again_alike() -> None:
    told = [n / 10000 for n in range(1000, 10000)]
    assert [measure.rounded_up(score) for score in told] == told


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_errors_are_counted_by_the_ulps_that_they_are_off(dtype: torch.dtype) -> None:
    x = torch.full((1, 1, 64), 0.75, dtype=dtype)
    steps = [0, 1, -1, 2, -2, 3, 4, 5, -8, 9, 31, 60, *range(20)]
    ulp = torch.finfo(dtype).eps / 2
    out = x.clone()
    out[0, 0, :32] += torch.tensor(steps, dtype=torch.float64).mul(ulp).to(dtype)
    exact = x.to(torch.float64) + 0.4 * ulp
    exact[0, 0, 40:] = 0.01
    errors, ulps = measure.deviation(x, out, exact)
    wanted = [0] * 25
    for step in [*steps, *[0] * 8]:
        size = abs(step)
        bucket = size if size < 3 else math.ceil(math.log2(size)) + 1
        wanted[12 + (bucket if step > 0 else -bucket)] += 1
    assert ulps.tolist() == wanted
    assert float(errors[0]) == pytest.approx(0.74 / (0.75 * math.sqrt(2)), rel=0.01)


def test_what_is_far_off_or_no_number_is_in_the_last_bucket() -> None:
    x = torch.tensor([3.0, 4.0]).expand(3, 1, 2).contiguous()
    out = torch.tensor([[[math.nan, 4.0]], [[math.inf, -4000.0]], [[3.0, 4.0]]])
    errors, ulps = measure.deviation(x, out, x.to(torch.float64))
    assert (ulps[0], ulps[12], ulps[24]) == (1, 3, 2)
    assert errors.tolist() == pytest.approx([0.0, 800.8, 0.0])


def test_what_has_no_ordinary_length_is_not_counted() -> None:
    x = torch.tensor([[[1e-3, 1e-3]], [[3e4, 3e4]], [[math.inf, 1.0]], [[math.nan, 1.0]]])
    errors, ulps = measure.deviation(x, torch.zeros_like(x), x.to(torch.float64))
    assert not errors.any()
    assert not ulps.any()


def test_a_drawn_case_does_not_hide_a_planned_one() -> None:
    book, exact = AccuracyBook(Standard(EXACT_ANGLE)), ("exact-angle", 2)

    def raised(score: float, *, drawn: bool) -> dict[int, float]:
        return book.add("case", Measure("float16", {exact: _decade(1, [score])}), drawn=drawn)[exact]

    assert raised(0.9, drawn=True) == {0: 0.9}
    assert raised(0.5, drawn=False) == {0: 0.5}
    assert raised(0.4, drawn=False) == {}
    assert raised(0.6, drawn=True) == {}
    assert book.cells["float16", 2].worst == 0.9


def test_nothing_measured_keeps_no_class() -> None:
    book = AccuracyBook(Standard(EXACT_ANGLE))
    assert book.tightest == ""
    assert list(terminal.accuracy(book)) == []


@pytest.mark.parametrize(
    ("accuracy", "low", "high", "share"),
    [
        (FLOAT32_ANGLE, 1, 2**20 + 64, 0.0),
        (FLOAT32_ANGLE, 2**24 + 1, 2**24 + 400, 0.45),
        (FLOAT32_ANGLE, 2**31 - 300, 2**31 - 1, 0.78),
        (FAST, 2**20 - 64, 2**20 + 64, 0.067),
        (FAST, 2**24 + 1, 2**24 + 400, 0.52),
        (FAST, 2**31 - 300, 2**31 - 1, 0.81),
        (EXACT_ANGLE, 2**31 - 300, 2**31 - 1, 0.0),
    ],
    ids=str,
)
def test_how_many_bounds_say_nothing(accuracy: Accuracy, low: int, high: int, share: float) -> None:
    """The prototype's shares, over its six bases and five head_dims."""
    silent = elements = 0
    grid = itertools.product((1.0001, 100.0, 1e4, 5e5, 1e6, 1e9), (64, 80, 128, 192, 256))
    for seed, (base, head_dim) in enumerate(grid):
        generator = torch.Generator().manual_seed(seed)
        positions = torch.randint(low, high, (64,), generator=generator) | (low & 1)
        x = torch.randn(64, 2, head_dim, generator=generator)
        turn = reference.turn_bound(positions, base, head_dim, accuracy)
        bound = reference.element_bound(x, turn)
        rotated = measure.Rotated(x, positions, x, bound)
        for decade in measure.decades(reference.score(x, bound), rotated, turn, np.zeros(64)).values():
            silent += decade.uninformative
            elements += decade.elements
    assert silent / elements == pytest.approx(share, abs=0.03)


def test_fast_math_on_the_host_is_predicted_to_keep_fast_alone(tmp_path: Path) -> None:
    unqualified = tmp_path / "unqualified.metal"
    unqualified.write_text(FLOAT32_SHADER.read_text().replace("precise::", ""))
    kept = {}
    for name, build in MATH_MODELS.items():
        suite = auto(HostTarget.compile(unqualified, build))
        suite.check(LONG)
        suite.close()
        kept[name] = suite.accuracy.tightest
    assert kept == {"libm": "float32-angle", "metal-fast": "fast"}


@pytest.mark.parametrize("fault", ["position_in_bf16", ""])
def test_a_call_judged_part_by_part_is_judged_as_a_whole(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = LONG.but(dtype="bf16", plan="", slots="holes", num_tokens=50, values="mixed")
    target = CallableTarget("f", FAULTS[fault].call) if fault else HostTarget.compile(FLOAT32_SHADER)
    outcome = Observer(target).observe(case)
    standard = Standard(FLOAT32_ANGLE, tighter=(EXACT_ANGLE,))
    whole = judge(Expected(case, logical_call(case), standard), outcome)
    monkeypatch.setattr("conformance.judge.expected._AT_ONCE", 7 * 3 * 128)
    apart = Expected(case, logical_call(case), standard)
    assert [part.start for part in apart.parts()] == list(range(0, 50, 7))
    parts = judge(apart, outcome)
    assert bool(fault) == whole.failed == parts.failed
    assert [(f.requirement, f.where) for f in parts.findings] == [(f.requirement, f.where) for f in whole.findings]
    assert parts.checks == whole.checks
    assert whole.measure is not None
    assert parts.measure is not None
    assert parts.measure.classes == whole.measure.classes
    assert parts.measure.ulps.tolist() == whole.measure.ulps.tolist()
    assert parts.measure.ulps.sum() > 1000
    for key, decade in whole.measure.decades.items():
        other = parts.measure.decades[key]
        assert (other.elements, other.uninformative, other.error) == (
            decade.elements,
            decade.uninformative,
            decade.error,
        )
        assert torch.equal(other.worst, decade.worst)


def _observed(case: Case) -> Outcome:
    return Observer(CallableTarget("exact", RIGHT["exact"])).observe(case)


def _with_q(outcome: Outcome, q_rot: torch.Tensor) -> Outcome:
    assert outcome.outputs is not None
    return replace(outcome, outputs={**outcome.outputs, "q_rot": q_rot})


def _q_rot(outcome: Outcome) -> torch.Tensor:
    assert outcome.outputs is not None
    return outcome.outputs["q_rot"].clone()


def test_a_kernel_that_is_right_in_a_tighter_class_is_right_in_a_looser_one() -> None:
    case = LONG.but(plan="", positions="rise:1", slots="none")
    call = logical_call(case)
    shift = torch.tensor(2.0**-23, dtype=torch.float64)
    cos, sin = reference.cos_sin(call.positions, case.rope_base, case.head_dim)
    off = (cos * shift.cos() - sin * shift.sin()).float(), (sin * shift.cos() + cos * shift.sin()).float()
    out = {f"{name}_rot": rotated(getattr(call, name), *(t.double() for t in off), IEEE) for name in ("q", "k")}
    outcome = replace(_observed(case), outputs=out)
    bound = reference.error_bound(call.q, call.positions, case.rope_base, FLOAT32_ANGLE)
    assert bool((reference.score(out["q_rot"], bound) > 1).any())
    for accuracy in CLASSES:
        told = judge(expect(case, Standard(accuracy)), outcome)
        assert not any(finding.requirement.startswith("ROT-Q") for finding in told.findings)
        assert told.measure is not None
        assert told.measure.classes[accuracy.name].beyond is None


_STORED = {
    "the other infinity": (torch.neg, "failure"),
    "NaN": (lambda q_rot: torch.full_like(q_rot, math.nan), "warning"),
    "the largest finite value": (lambda q_rot: q_rot.clamp(-65504, 65504), "warning"),
    "one": (torch.ones_like, "failure"),
}


@pytest.mark.parametrize("stored", _STORED)
def test_fast_excuses_of_an_overflow_what_saturation_leaves_and_nothing_else(stored: str) -> None:
    case = LONG.but(dtype="f16", plan="", values="huge", slots="none", positions="uniform:64")
    outcome = _observed(case)
    q_rot, (store, severity) = _q_rot(outcome), _STORED[stored]
    infinite = q_rot.isinf()
    assert bool(infinite.any())
    told = judge(expect(case, Standard(FAST)), _with_q(outcome, torch.where(infinite, store(q_rot), q_rot)))
    assert {finding.severity for finding in told.findings if finding.requirement == "ROT-Q"} == {severity}
    assert told.measure is not None
    assert (told.measure.classes["fast"].beyond is None) == (severity == "warning")


def test_a_small_error_that_only_skipped_tokens_show_is_no_fault_of_the_slots() -> None:
    case = LONG.but(plan="", slots="holes")
    outcome = _observed(case)
    q_rot, skipped = _q_rot(outcome), logical_call(case).slots < 0
    q_rot[skipped, :, 5] *= 1 + 2.0**-12
    told = judge(expect(case, Standard(EXACT_ANGLE)), _with_q(outcome, q_rot))
    assert {finding.requirement for finding in told.findings} == {"ROT-Q"}


def test_a_flushed_zero_is_told_apart_from_the_range_that_is_right() -> None:
    case = LONG.but(dtype="f16", plan="", values="cancel", slots="none", positions="uniform:64")
    outcome = _observed(case)
    q_rot = _q_rot(outcome)
    exact = expect(case, Standard(EXACT_ANGLE)).bound("q", slice(0, 64), EXACT_ANGLE).exact.abs()
    subnormal = ((exact > 2.0**-18) & (exact < 2.0**-15)).nonzero()[0]
    q_rot[tuple(subnormal)] += 2.0**-10
    told = judge(expect(case, Standard(EXACT_ANGLE)), _with_q(outcome, q_rot))
    [finding] = [finding for finding in told.findings if finding.requirement == "ROT-Q"]
    assert ", or a flushed 0; off by" in finding.where


class _WrongAtLargeNegatives(Recipe):
    def position(self, call: Call) -> torch.Tensor:
        off = (call.positions <= -101) & (call.positions >= -(2**24))
        return (call.positions + off).to(torch.float32)


def test_an_error_at_negative_positions_within_the_reach_of_the_class_is_found() -> None:
    faulty = kernel(_WrongAtLargeNegatives(), "wrong_at_large_negatives", None)
    suite = suite_for(CallableTarget("wrong_at_large_negatives", faulty))
    found = 0
    for case in selection.cases(suite, PROFILES["default"], rotation.negative_positions):
        try:
            suite.check(case)
        except NonConformanceError:
            found += 1
    suite.close()
    assert found
    assert suite.ledger.entries["ROB-POSITION"].failed
