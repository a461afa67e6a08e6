"""The suite on the targets over MLX, as a user runs it; arrays that nobody keeps; the known deviations of MLX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from command import suite
from drive import suite_for

from conformance.__main__ import main
from conformance.case import Case
from conformance.deviations import Deviation, load
from conformance.finding import FAILURE, Judgement
from conformance.judge import expect, judge
from conformance.outcome import Observer
from conformance.profile import PROFILES
from conformance.scenarios import process
from conformance.standard import Standard, arithmetic_of
from conformance.suite import NonConformanceError
from kernel import Call, LaunchPlan, targets
from kernel.targets import Answer, HostTarget
from reference import EXACT_ANGLE, FAST

STANDINS = str(Path(__file__).resolve().parents[1] / "standins")
PARTS = ("conformance/test_process.py", "conformance/test_errors.py", "--target")


def test_sgl_over_a_stand_in_package() -> None:
    run = suite(*PARTS, "sgl", "--accuracy", "exact-angle", PYTHONPATH=STANDINS)
    assert run.returncode == 0, run.stdout
    for line in ("target: sgl", "sgl_kernel: stand-in", "pools: returned fresh", "nothing found"):
        assert line in run.stdout


def test_mlx_in_float32() -> None:
    run = suite(*PARTS, "mlx", "-k", "f32 and not bf16 and not f16 and not f64")
    assert run.returncode == 0, run.stdout
    assert "target: mlx" in run.stdout
    assert "nothing found" in run.stdout


def test_a_package_without_its_native_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sgl_kernel").mkdir()
    (tmp_path / "sgl_kernel" / "__init__.py").touch()
    (tmp_path / "sgl_kernel" / "metal.py").write_text("_metal = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["replay", "bf16", "--target", "sgl"]) == 4
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: sgl_kernel.metal has no native part (_metal is None): build it from SGLang's main")


class WrongWhenDonated(HostTarget):
    """Right as long as somebody keeps the arrays; then q_rot has q's first element."""

    def run(self, call: Call, plan: LaunchPlan | None = None) -> Answer:
        answer = super().run(call, plan)
        if call.donated:
            answer.outputs[0][0, 0, 0] = 1000
        return answer


def test_a_fault_in_donated_arrays_alone_is_found() -> None:
    judged = suite_for(WrongWhenDonated(HostTarget.compile().program), EXACT_ANGLE)
    [case, *_] = process.donated(PROFILES["smoke"])
    judged.check_repeat(replace(case, memory="margins"))
    with pytest.raises(NonConformanceError, match="ROT-Q"):
        judged.check_repeat(case)
    judged.close()


def _deviations() -> list[tuple[Deviation, str, str]]:
    """Each entry with each of its requirements and the case that shows it."""
    return [(one, id, line) for one in load("mlx", "MLX cpu").listed for id, line in one.replay.items()]


def _judged(case: Case) -> Judgement:
    target = targets.load("mlx")
    expected = expect(case, Standard(FAST, arithmetic_of(target.measure()), ()))
    # In this process: MLX's threads do not survive a fork.
    return judge(expected, Observer(target).observe(case), in_place=False)


@pytest.mark.parametrize(("entry", "requirement", "line"), _deviations(), ids=lambda value: str(value)[:14])
def test_each_deviation_of_mlx_is_true(entry: Deviation, requirement: str, line: str) -> None:
    case = Case.parse(line)
    failures = [finding for finding in _judged(case).findings if finding.severity == FAILURE]
    assert requirement in {finding.requirement for finding in failures}
    assert all(entry.covers(finding, [case]) for finding in failures)
    if entry.where:
        assert not _judged(case.but(dtype="f32")).failed
