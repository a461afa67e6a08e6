"""Two targets on the same cases: every disagreement is told, and which of the two is nearer; none is judged."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pair_kernels
import pytest
import torch
from command import RIGHT, suite
from kernels import RIGHT as KERNELS

from conformance import options, worker
from conformance.__main__ import main
from conformance.case import Case
from conformance.judge import expect
from conformance.pair import shown
from conformance.pair.beside import Beside
from conformance.pair.difference import Difference
from conformance.record import Recorder
from conformance.standard import Standard
from conformance.suite import NonConformanceError, Settings, Suite
from kernel import Call, LaunchPlan
from kernel.targets import Answer, CallableTarget, HostTarget, Target, TargetError
from reference import EXACT_ANGLE, rotate

PAIRS = "tests/conformance/pair_kernels.py"
PLUGINS = str(Path(__file__).parent / "plugins")
SLOTS = ("conformance/test_slots.py", "-k", "kinds", "--target", f"{RIGHT}:exact", "--accuracy", "exact-angle")
CASE = Case(dtype="f32", values="normal", positions="list:1000/77777/5")
EXACT = CallableTarget("exact", KERNELS["exact"])


def _target(kernel: Callable[..., Any]) -> Target:
    return CallableTarget(kernel.__name__, kernel)


def _pair(first: Target, second: Target) -> Suite:
    return Suite(first, Settings(EXACT_ANGLE), Recorder(None), beside=Beside(second))


def _differences(first: Target, second: Target, case: Case = CASE) -> tuple[Difference, ...]:
    pair = _pair(first, second)
    with contextlib.suppress(NonConformanceError):
        pair.check(case)
    pair.close()
    assert pair.pairs.compared == {str(case)}
    return pair.pairs.differing.get(str(case), ())


def test_a_planted_ulp_is_found_and_the_nearer_side_is_named() -> None:
    call = expect(CASE, Standard(EXACT_ANGLE)).call
    exact = rotate(call.q, call.positions, call.rope_base)[pair_kernels.AT]
    near = KERNELS["exact"](*(t.clone() for _, t in call.tensors()), **call.arguments())[0]
    far = near.clone()
    far.view(torch.int32)[pair_kernels.AT] += 1
    assert abs(near[pair_kernels.AT].double() - exact) < abs(far[pair_kernels.AT].double() - exact)
    [found] = _differences(EXACT, _target(pair_kernels.one_ulp_off))
    assert (found.output, found.dtype, found.where) == ("q_rot", "float32", "token 1, head 0, element 5")
    assert (found.elements, found.size, found.ulps, found.largest_ulps) == (1, near.numel(), 1, 1)
    assert (float(found.first), float(found.second)) == pytest.approx([float(o[pair_kernels.AT]) for o in (near, far)])
    assert found.wanted == f"exact {float(exact):.17g}"
    assert (found.nearer, found.nearer_first, found.nearer_second) == ("first", 1, 0)
    [turned] = _differences(_target(pair_kernels.one_ulp_off), EXACT)
    assert (turned.nearer, turned.nearer_first, turned.nearer_second) == ("second", 0, 1)


@pytest.mark.parametrize("values", ["normal", "nonfinite", "zeros"])
def test_one_target_twice_does_not_disagree(values: str) -> None:
    assert _differences(EXACT, EXACT, CASE.but(values=values)) == ()


def test_zeros_and_nans_are_compared_by_value() -> None:
    for values in ("nonfinite", "zeros"):
        assert _differences(EXACT, _target(pair_kernels.swaps_zeros_and_nans), CASE.but(values=values)) == ()


def test_a_row_that_is_not_written() -> None:
    [found] = _differences(EXACT, _target(pair_kernels.skips_v))
    slot = int(expect(CASE, Standard(EXACT_ANGLE)).slots[0])
    assert (found.output, found.where) == ("v_pool_new", f"row {slot}, head 0, element 0")
    assert (found.nearer, found.elements, found.nearer_first) == ("first", 128, 128)
    assert found.wanted == f"the bits {found.first}"
    assert found.ulps is None
    [tied] = _differences(_target(pair_kernels.skips_v), _target(pair_kernels.overwrites_v))
    assert (tied.nearer, tied.elements, tied.undecided) == ("neither", 128, 128)


def test_of_two_tokens_with_one_slot_neither_is_nearer() -> None:
    [found] = _differences(EXACT, _target(pair_kernels.first_wins), CASE.but(slots="list:3/3/1"))
    assert (found.output, found.nearer, found.wanted) == ("v_pool_new", "neither", "")
    assert (found.elements, found.nearer_first, found.nearer_second, found.undecided) == (128, 0, 0, 128)


class _Planless(CallableTarget):
    """Refuses a launch plan."""

    def run(self, call: Call, plan: LaunchPlan | None = None) -> Answer:
        assert plan is None
        return super().run(call, plan)


def test_a_second_target_that_has_no_plans_is_given_none() -> None:
    planned = CASE.but(plan="rect/1")
    second = _Planless("planless", KERNELS["exact"])
    assert not any(found.output == "ending" for found in _differences(HostTarget.compile(), second, planned))


def test_a_host_against_a_callable_under_a_plan() -> None:
    host = HostTarget.compile()
    planned = CASE.but(plan="split/1")
    assert _differences(host, _target(pair_kernels.skips_v), planned)[-1].output == "v_pool_new"
    assert _differences(_target(pair_kernels.skips_v), host)[-1].nearer == "second"
    assert _differences(host, host, planned) == ()


def test_a_call_that_raises() -> None:
    [found] = _differences(EXACT, _target(pair_kernels.raises))
    assert (found.output, found.first) == ("ending", "the call returned without an error")
    assert (found.second, found.nearer) == ("got RuntimeError: no float32 here", "first")
    assert _differences(EXACT, _target(pair_kernels.raises), CASE.but(dtype="bf16")) == ()


def test_refusals_agree_by_the_number_of_their_error() -> None:
    broken = CASE.but(fault="q:2x4x1x64")
    assert _differences(EXACT, HostTarget.compile(), broken) == ()
    [found] = _differences(EXACT, _target(pair_kernels.raises), broken)
    assert (found.wanted, found.nearer) == ("ValueError: rope_pool_fused expects q/k/v to be 3-D", "first")


def test_a_crash_ends_that_comparison_only() -> None:
    pair = _pair(EXACT, _target(pair_kernels.crashes))
    assert not pair.check(CASE).failed
    assert pair.check(CASE.but(dtype="bf16")).pair == ()
    [found] = pair.pairs.differing[str(CASE)]
    assert (found.second, found.nearer) == ("the call crashed with SIGABRT", "first")
    pair.close()


def test_a_target_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ANSWER_SECONDS", 0.2), ("IMPATIENT_SECONDS", 0.1), ("HANGS", 3)):
        monkeypatch.setattr(worker, name, value)
    pair = _pair(EXACT, _target(pair_kernels.never_ends))
    for seed in range(5):
        assert not pair.check(CASE.but(seed=seed)).failed
    assert (len(pair.pairs.compared), len(pair.pairs.differing)) == (3, 3)
    [found] = pair.pairs.differing[str(CASE)]
    assert "gave no answer within 0.2 s" in found.second
    pair.close()


def test_calls_of_one_process_are_compared_one_by_one() -> None:
    pair = _pair(EXACT, _target(pair_kernels.one_ulp_off))
    pair.check_sequence([CASE.but(dtype="bf16"), CASE])
    [(line, [found])] = pair.pairs.differing.items()
    assert line == f"{CASE.but(dtype='bf16')} ; {CASE}"
    assert (found.call, found.output) == (1, "q_rot")
    assert next(found.lines(("one", "other"))).endswith("call 2: q_rot: 1 of 768 elements differ, at most 1 ulp apart")
    pair.close()


def test_targets_of_one_name_are_told_apart() -> None:
    one, other = HostTarget.compile().describe(), EXACT.describe()
    assert shown.names(one, other) == ("host", "exact")
    assert shown.names(one, one) == ("the first host", "the second host")
    changed = replace(one, facts=one.facts | {"shader": "other.metal"})
    assert shown.names(one, changed) == (f"host {one.facts['shader']}", "host other.metal")


def _section(output: str) -> str:
    return output[output.index("\npair: ", output.index("requirement  ")) :].partition("\nno verdict")[0]


def test_a_run_tells_and_does_not_fail(tmp_path: Path) -> None:
    pair = ("--pair", f"{PAIRS}:one_ulp_off")
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    run = suite(*SLOTS, *pair, "--record", str(whole))
    assert run.returncode == 0, run.stdout + run.stderr
    told = _section(run.stdout)
    assert f"pair: {RIGHT}:exact against {PAIRS}:one_ulp_off; what differs is told, not judged" in told
    lines = [json.loads(line) for line in whole.read_text().splitlines()]
    cases = {line["line"]: line["pair"] for line in lines if line["kind"] == "case"}
    differing = [line for line, found in cases.items() if found]
    assert differing
    assert all(line.startswith("f32") for line in differing)
    counts = f"{len(cases)} cases compared: {len(cases) - len(differing)} identical, {len(differing)} disagreeing"
    assert counts in told
    assert re.search(rf"q_rot +float32 +{len(differing)} +{len(differing)} +{len(differing)} +0 +0 +1 ulp\n", told)
    assert lines[0]["pair"]["target"] == f"{PAIRS}:one_ulp_off"
    assert f"' --target {RIGHT}:exact --accuracy exact-angle --pair {PAIRS}:one_ulp_off" in told
    # One that is cut off and goes on tells the same.
    killed = suite(*SLOTS, *pair, "--record", str(cut), "-p", "dies", PYTHONPATH=PLUGINS, DIES_AFTER="2")
    assert killed.returncode == -9
    assert _section(suite(*SLOTS, *pair, "--record", str(cut), "--resume").stdout) == told


def test_a_replay_shows_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(CASE), "--target", f"{RIGHT}:exact", "--pair", "host"]) == 0
    told = capsys.readouterr().out
    assert f"pair: {RIGHT}:exact against host; what differs is told, not judged" in told
    assert "1 case compared: " in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--pair", "metal"), "--pair: unknown target 'metal'"),
        (("--pair-shader", "x.metal"), "--pair-shader goes with --pair"),
    ],
)
def test_a_pair_that_cannot_be(words: tuple[str, ...], message: str) -> None:
    parser = argparse.ArgumentParser()
    options.add_pair_options(parser.add_argument)
    with pytest.raises(TargetError, match=message):
        options.load_beside(parser.parse_args(words))


@pytest.mark.skipif(importlib.util.find_spec("mlx") is None, reason="mlx is not installed")
def test_our_shader_against_mlx() -> None:
    run = suite("conformance/test_slots.py", "-k", "kinds and f32", "--target", "host", "--pair", "mlx")
    assert run.returncode == 0, run.stdout
    assert "pair: mlx, MLX " in run.stdout
    assert "pair: host against mlx; what differs is told, not judged" in run.stdout
    assert re.search(r"q_rot +float32 ", _section(run.stdout))
