"""Exit codes, the table and the record of whole runs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from command import PLANTED, RIGHT, replay, suite

from kernel.targets import DEFAULT_SHADER

SLOTS, PROCESS = "conformance/test_slots.py", "conformance/test_process.py"


def _record(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_right_kernel_conforms_and_is_recorded(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    run = suite("conformance", "--target", f"{RIGHT}:float32_angle", "--record", str(record))
    assert run.returncode == 0, run.stdout
    assert "\nconforms (" in run.stdout
    for fact in (f"target: {RIGHT}:float32_angle", "accuracy: float32-angle", "profile: smoke", "seed: derandomised"):
        assert fact in run.stdout
    lines = _record(record)
    assert [lines[0]["kind"], lines[-1]["kind"]] == ["run", "end"]
    cases = {line["line"] for line in lines if line["kind"] == "case"}
    assert lines[-1]["exit_status"] == 0
    assert lines[-1]["cases"] == len(cases) > 300
    verdicts = {line["id"]: line["verdict"] for line in lines if line["kind"] == "requirement"}
    assert verdicts["SLOT-K"] == "pass"
    assert set(verdicts.values()) == {"pass"}


def test_a_wrong_kernel_fails_and_its_replay_fails_alike() -> None:
    run = suite(SLOTS, "--target", f"{PLANTED}:also_writes_next_row")
    assert run.returncode == 1
    verdict = next(line for line in run.stdout.splitlines() if line.startswith("does not conform: "))
    assert "SLOT-REST" in verdict
    section = run.stdout.rpartition("FAIL SLOT-REST")[2]
    command = next(line for line in section.splitlines() if "replay     " in line)
    words = shlex.split(command)[4:]
    assert words[:1] == ["replay"]
    again = replay(*words[1:])
    assert again.returncode == 1
    assert "FAIL SLOT-REST" in again.stdout
    assert replay(words[1], "--target", f"{RIGHT}:float32_angle").returncode == 0


def test_robustness_findings_are_shown_and_decide_under_strict_alone() -> None:
    loose = suite(PROCESS, "--target", f"{PLANTED}:empty_batch_raises", "-k", "empty")
    assert loose.returncode == 0
    assert "FINDING ROB-EMPTY" in loose.stdout
    assert "; robustness findings: ROB-EMPTY" in loose.stdout
    strict = suite(PROCESS, "--target", f"{PLANTED}:empty_batch_raises", "-k", "empty", "--strict")
    assert strict.returncode == 1
    assert "does not conform: ROB-EMPTY" in strict.stdout


def test_a_warning_does_not_decide() -> None:
    run = suite("conformance/test_rotation.py", "--target", f"{RIGHT}:fast", "--accuracy", "fast", "--strict")
    assert run.returncode == 0, run.stdout
    assert "WARN ROT-ZERO" in run.stdout


def test_a_crash_is_a_failed_case_and_the_others_are_judged() -> None:
    target = f"{PLANTED}:crashes_at_head_dim_96"
    run = suite("conformance/test_rotation.py", "--profile", "default", "-k", "test_shapes", "--target", target)
    assert run.returncode == 1
    assert "the call crashed with SIGSEGV" in run.stdout
    # Once as it happens, then with its case.
    assert "D=96" in run.stdout.split("crashed with SIGSEGV")[1].splitlines()[-3]
    assert " passed" in run.stdout


def test_a_broken_test_module_leaves_no_verdict(tmp_path: Path) -> None:
    broken = tmp_path / "test_broken.py"
    broken.write_text("import no_such_module\n")
    arguments = ("--target", f"{RIGHT}:float32_angle", "--continue-on-collection-errors")
    run = suite(SLOTS, str(broken), *arguments)
    assert run.returncode == 1
    assert "no verdict: 1 tests of the suite broke" in run.stdout


def test_an_error_of_the_suite_itself_is_no_verdict(tmp_path: Path) -> None:
    broken = tmp_path / "test_broken.py"
    broken.write_text(
        "import pytest\n@pytest.mark.requirement('CALL')\ndef test_x():\n    raise RuntimeError('torn')\n"
    )
    run = suite(SLOTS, str(broken), "--target", f"{RIGHT}:float32_angle")
    assert run.returncode == 1
    assert "RuntimeError: torn" in run.stdout
    assert "no verdict: 1 tests of the suite broke" in run.stdout


def test_a_record_on_a_full_disk_is_told() -> None:
    run = suite(SLOTS, "--target", f"{RIGHT}:float32_angle", "--record", "/dev/full")
    assert run.returncode == 1
    assert "the record /dev/full is incomplete: " in run.stdout
    assert "INTERNALERROR" not in run.stdout + run.stderr


def test_a_part_of_the_suite_gives_no_verdict() -> None:
    run = suite(SLOTS, "--target", f"{RIGHT}:float32_angle", "-k", "kinds")
    assert run.returncode == 0
    assert "no verdict: nothing found, " in run.stdout


def test_an_interrupted_run_keeps_its_record_and_gives_no_verdict(tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    interrupts = tmp_path / "test_interrupts.py"
    interrupts.write_text(
        "import pytest\n@pytest.mark.requirement('CALL')\ndef test_x():\n    raise KeyboardInterrupt\n"
    )
    arguments = ("--target", f"{RIGHT}:float32_angle", "--record", str(record))
    run = suite(SLOTS, str(interrupts), *arguments)
    assert run.returncode == 2
    assert "no verdict: interrupted" in run.stdout
    lines = _record(record)
    assert lines[-1]["kind"] == "end"
    assert lines[-1]["exit_status"] == 2
    assert any(line["kind"] == "case" for line in lines)


def test_calls_of_one_process_replay_together() -> None:
    calls = "bf16 base=10.25 values=normal ; bf16 base=10.75 values=normal pos=rise:100"
    assert replay(calls, "--target", f"{RIGHT}:float32_angle").returncode == 0
    wrong = replay(calls, "--target", f"{PLANTED}:frequency_cached_by_whole_base")
    assert wrong.returncode == 1
    assert "call 2 of 2 is right alone" in wrong.stdout


def test_the_math_model_decides_what_an_unqualified_function_is_and_a_replay_names_it(tmp_path: Path) -> None:
    source = DEFAULT_SHADER.with_name("rope_pool_fused_float32.metal").read_text()
    assert source.count("precise::") == 3
    shader = tmp_path / "mine.metal"
    shader.write_text(source.replace("precise::", ""))
    arguments = ("conformance/test_rotation.py", "-k", "test_shapes", "--shader", str(shader))
    libm = suite(*arguments)
    assert libm.returncode == 0, libm.stdout
    assert "math: libm" in libm.stdout
    fast = suite(*arguments, "--math", "metal-fast")
    assert fast.returncode == 1
    assert "math: metal-fast" in fast.stdout
    command = next(line for line in fast.stdout.splitlines() if "replay     " in line)
    words = shlex.split(command)[4:]
    assert words[-2:] == ["--math", "metal-fast"]
    assert replay(*words[1:]).returncode == 1
    assert replay(*words[1:-2]).returncode == 0
    assert replay(*words[1:], "--accuracy", "fast").returncode == 0


@pytest.mark.parametrize("launch", ["split", "rect"])
def test_a_launch_plan_alone(launch: str) -> None:
    run = suite("conformance/test_launch.py", "--launch", launch, "--collect-only", "-q")
    ids = [line for line in run.stdout.splitlines() if "test_heads_per_thread" in line]
    assert ids
    assert all(f"plan={launch}/" in line for line in ids)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("bf16 T=3 slots=sideways",), "unknown kind of slots"),
        (("bf16 T=3 wrong",), "not name=value"),
        (("bf16 base=0.5",), "base must be at least 1"),
        (("bf16 T=-1",), "T must be at least 0"),
        (("bf16 plan=spiral",), "a launch plan is split/N or rect/N"),
        (("bf16 slots=list:1/2/99999999999",), "a list of int32"),
        (("bf16", "--accuracy", "perfect"), "invalid choice"),
        (("bf16 T=3", "--target", "nowhere"), "unknown target 'nowhere'"),
    ],
)
def test_a_replay_that_cannot_be_made(arguments: tuple[str, ...], message: str) -> None:
    run = replay(*arguments)
    assert run.returncode == 4
    assert message in run.stderr
    assert len(run.stderr.splitlines()) == 1
