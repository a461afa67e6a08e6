"""A run that is killed and goes on leaves one whole record; nothing that was recorded is lost."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from command import PLANTED, RIGHT, suite

from conformance.case import Case
from conformance.finding import Judgement
from conformance.profile import PROFILES
from conformance.record import Recorder
from conformance.recording import Recording
from conformance.resume import Past, RecordError

SLOTS = "conformance/test_slots.py"
WRONG = (SLOTS, "--target", f"{PLANTED}:also_writes_next_row")
PLUGINS = str(Path(__file__).parent / "plugins")
USAGE_ERROR = 4
FACTS = {"target": "kernel", "seed": "7", "arithmetic": "", "allowed": {"flushes": True}}
Line = dict[str, Any]


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _killed(path: Path, *arguments: str, after: int) -> None:
    """A run that dies by SIGKILL after so many cases."""
    run = suite(*arguments, "--record", str(path), "-p", "dies", PYTHONPATH=PLUGINS, DIES_AFTER=str(after))
    assert run.returncode == -9, run.stdout + run.stderr


@dataclass(frozen=True)
class Runs:
    undisturbed: list[Line]
    killed: list[Line]
    """As the record was when it had been killed twice."""
    path: Path
    """Of the record of the run that was killed twice and then ended."""
    output: str
    status: int


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """A kernel that fails, judged once undisturbed, and once with two kills, the first in the middle of a line."""
    folder = tmp_path_factory.mktemp("runs")
    whole, cut = folder / "whole.jsonl", folder / "cut.jsonl"
    assert suite(*WRONG, "--record", str(whole)).returncode == 1
    _killed(cut, *WRONG, after=10)
    with cut.open("r+b") as file:
        file.truncate(cut.stat().st_size - 10)
    _killed(cut, *WRONG, "--resume", after=8)
    killed = read(cut)
    run = suite(*WRONG, "--record", str(cut), "--resume")
    return Runs(read(whole), killed, cut, run.stdout + run.stderr, run.returncode)


def _verdicts(lines: list[Line]) -> list[Line]:
    """What the run says of each requirement; elements of a test that was made again are counted twice."""
    return [line | {"elements": None} for line in lines if line["kind"] == "requirement"]


def test_a_run_that_was_killed_twice_leaves_one_whole_record(runs: Runs) -> None:
    resumed, undisturbed = read(runs.path), runs.undisturbed
    assert resumed[: len(runs.killed)] == runs.killed
    kinds = Counter(line["kind"] for line in resumed)
    assert (kinds["run"], kinds["contract"], kinds["envelopes"], kinds["plan"], kinds["end"]) == (1, 1, 1, 1, 1)
    assert kinds["resumed"] == 2
    assert {line["line"] for line in resumed if line["kind"] == "case"} == {
        line["line"] for line in undisturbed if line["kind"] == "case"
    }
    tests = [(line["id"], line["outcome"]) for line in resumed if line["kind"] == "test"]
    assert tests == [(line["id"], line["outcome"]) for line in undisturbed if line["kind"] == "test"]
    assert {outcome for _, outcome in tests} == {"passed", "failed"}
    assert _verdicts(resumed) == _verdicts(undisturbed)
    one, other = resumed[-1], undisturbed[-1]
    assert (one["kind"], one["exit_status"]) == ("end", 1)
    for count in ("exit_status", "cases", "tests_failed", "tests_collected"):
        assert one[count] == other[count]
    assert one["seconds"] >= sum(line["seconds"] for line in runs.killed if line["kind"] == "test")


def test_the_end_of_a_resumed_run_speaks_of_the_whole(runs: Runs) -> None:
    assert runs.status == 1
    held = len({line["id"] for line in runs.killed if line["kind"] == "test"})
    assert f"resumed: the record {runs.path} holds {held} finished tests" in runs.output
    assert f" {held} deselected" in runs.output
    assert "FAIL SLOT-REST" in runs.output
    cases = {line["line"] for line in runs.undisturbed if line["kind"] == "case"}
    assert f"({len(cases):,} distinct cases, " in runs.output
    failed = [line["id"] for line in runs.undisturbed if line["kind"] == "requirement" and line["failed"]]
    assert f"does not conform: {', '.join(id for id in failed if not id.startswith('ROB-'))}" in runs.output


def test_of_a_finished_run_nothing_is_left(runs: Runs) -> None:
    before = runs.path.read_bytes()
    again = suite(*WRONG, "--record", str(runs.path), "--resume")
    assert again.returncode == 1
    assert f"nothing left to run: the record {runs.path} is finished (exit status 1)" in again.stdout
    assert "does not conform: " in again.stdout
    assert runs.path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--accuracy", "fast"), "is of another run: accuracy was float32-angle, is fast; "),
        (("-k", "kinds"), "is of a run of other tests: choose the same ones, or run without --resume"),
    ],
)
def test_another_run_does_not_go_on(arguments: tuple[str, ...], message: str, runs: Runs, tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    path.write_bytes(b"".join(runs.path.read_bytes().splitlines(keepends=True)[:-60]))
    before = path.read_bytes()
    run = suite(*WRONG, "--record", str(path), "--resume", *arguments)
    assert run.returncode == USAGE_ERROR
    assert message in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
    assert path.read_bytes() == before


def test_a_record_that_another_run_is_writing_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    first = Recorder(path)
    first.start(FACTS)
    # Not read until it is closed: that would give up the lock of this process.
    for more in ((), ("--resume",)):
        second = suite(SLOTS, "--target", f"{RIGHT}:float32_angle", "--record", str(path), *more)
        assert second.returncode == USAGE_ERROR
        assert f"another run is writing the record {path}: " in second.stderr
        assert len(second.stderr.strip().splitlines()) == 1
    first.end({"exit_status": 0})
    run, end = read(path)
    assert (run["target"], end["kind"]) == ("kernel", "end")


def test_a_random_seed_is_taken_from_the_record(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    drawn = ("conformance/test_properties.py::test_generated_calls", "--profile", "nightly", "-p", "few_examples")
    target = ("--target", f"{RIGHT}:float32_angle", "--examples-database", str(tmp_path / "examples"))
    _killed(path, *drawn, *target, after=10)
    killed = read(path)
    run = suite(*drawn, *target, "--record", str(path), "--resume", PYTHONPATH=PLUGINS)
    assert run.returncode == 0, run.stdout + run.stderr
    seed = killed[0]["seed"]
    assert re.fullmatch("[0-9]+", seed)
    assert f"seed: {seed}" in run.stdout
    resumed = read(path)
    assert resumed[0] == killed[0]
    cases = [line["line"] for line in resumed if line["kind"] == "case"]
    # The property is drawn anew, from the same seed.
    assert cases[10:20] == cases[:10]
    assert len(cases) == 50


def test_a_run_ended_by_ctrl_c_goes_on(tmp_path: Path) -> None:
    path, own = tmp_path / "r.jsonl", tmp_path / "test_own.py"
    own.write_text(
        "import os, pytest\n@pytest.mark.requirement('CALL')\ndef test_own():\n"
        "    if os.environ.get('STOP'):\n        raise KeyboardInterrupt\n"
    )
    arguments = (str(own), SLOTS, "-k", "kinds or own", "--target", f"{RIGHT}:float32_angle", "--record", str(path))
    assert suite(*arguments, STOP="1").returncode == 2
    stopped = read(path)
    run = suite(*arguments, "--resume")
    assert run.returncode == 0, run.stdout + run.stderr
    lines = read(path)
    assert lines[: len(stopped)] == stopped
    assert [line["kind"] for line in lines[len(stopped) :]][:2] == ["resumed", "test"]
    assert lines[-1]["exit_status"] == 0
    assert lines[-1]["tests_collected"] == lines[3]["tests"]


def _written(path: Path, *, end: bool = True) -> bytes:
    """A small record."""
    made = Recorder(path)
    made.start(FACTS)
    made.plan({"tests": 2, "cases": 2, "examples": 0, "whole": False})
    for id in ("one", "two"):
        made.case(id, [Case()], Judgement(), {}, drawn=False, expected_error=0, seconds=0.1, note="")
        made.test(id, "passed", 0.2, "")
    if end:
        made.end({"exit_status": 0})
    made.close()
    return path.read_bytes()


def _resumed(path: Path, facts: Line = FACTS) -> tuple[Past | None, list[Line]]:
    """What a record holds when its run goes on, and the cases that are remembered; then a line is written."""
    made, remembered = Recorder(path), []
    try:
        past = made.resume(facts, remembered.append)
        if past is not None:
            made.trouble("internal", "", "")
    finally:
        made.close()
    return past, remembered


def test_a_record_cut_anywhere_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    whole = _written(path, end=False)
    first = whole.index(b"\n") + 1
    for length in [*range(0, first, 7), *range(first - 2, len(whole), 3), len(whole)]:
        path.write_bytes(whole[:length])
        kept = whole[: whole.rfind(b"\n", 0, length) + 1]
        past, remembered = _resumed(path)
        if length < first:
            assert past is None
            assert path.read_bytes() == whole[:length]
            continue
        assert past is not None
        assert not past.finished
        assert path.read_bytes().startswith(kept)
        added = [json.loads(line) for line in path.read_bytes()[len(kept) :].splitlines()]
        assert [line["kind"] for line in added] == ["resumed", "trouble"]
        assert len(past.done) == kept.count(b'"kind": "test"')
        assert len(remembered) == kept.count(b'"kind": "case"')


def test_a_finished_record_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    whole = _written(path)
    past, _ = _resumed(path)
    assert past is not None
    assert past.finished
    assert path.read_bytes() == whole


@pytest.mark.parametrize("missing", ["a test", "the plan"])
def test_a_run_that_ended_before_its_last_test_is_not_finished(missing: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    gone = {"a test": b'"id": "two"', "the plan": b'"kind": "plan"'}[missing]
    lines = _written(path).splitlines(keepends=True)
    path.write_bytes(b"".join(line for line in lines if gone not in line))
    past, _ = _resumed(path)
    assert past is not None
    assert not past.finished
    assert read(path)[-2]["kind"] == "resumed"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# A title\n\ntext\n", "is no record of a run: name another file with --record"),
        (b"\x89PNG", "is no record of a run"),
        (b'{"kind": "case"}\n', "is no record of a run"),
        (b"[1, 2]\n", "is no record of a run"),
        (b'{"kind": "run", "format": 1, "target": "kernel"}\n', "made by another version of the suite"),
        (b'{"kind": "run", "format": 2, "target": "other"}\n', "target was other, is kernel; seed differs"),
        (b'@{"kind": "case", "line": "x"}\n', "line 7, cannot be read"),
        (b'@{"kind": "test"}\n{"kind": "test"}\n', "line 7, cannot be read"),
        (b"@what?\n", "is no record of a run"),
    ],
    ids=str,
)
def test_what_is_no_record_of_this_run_is_refused_in_a_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    if content.startswith(b"@"):
        content = _written(path, end=False)[: -len("\n")] + b"\n" + content[1:]
    path.write_bytes(content)
    recorder = Recorder(path)

    def remember(line: Line) -> None:
        Judgement.from_json(line)

    with pytest.raises(RecordError, match=re.escape(message)) as refused:
        recorder.resume(FACTS, remember)
    recorder.close()
    assert len(str(refused.value).splitlines()) == 1
    assert path.read_bytes() == content


def test_a_record_that_was_cut_off_is_kept_when_its_file_is_written_anew(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    cut = _written(path, end=False)
    for name in ("r.jsonl.cut-off", "r.jsonl.cut-off-2"):
        path.write_bytes(cut[:-20])
        made = Recorder(path)
        assert made.start(FACTS) == tmp_path / name
        made.close()
        assert (tmp_path / name).read_bytes() == cut[:-20]
        assert [line["kind"] for line in read(path)] == ["run"]


@pytest.mark.parametrize("held", ["nothing", "a finished record", "a first line cut off"])
def test_what_holds_no_run_that_was_cut_off_is_overwritten(held: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    whole = _written(path)
    path.write_bytes({"nothing": b"", "a finished record": whole, "a first line cut off": whole[:100]}[held])
    made = Recorder(path)
    assert made.start(FACTS) is None
    made.close()
    assert [line["kind"] for line in read(path)] == ["run"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_resumed_run_fails_by_what_failed_before() -> None:
    def status(before: dict[str, tuple[str, float]], now: int, end: Line | None = None) -> int:
        plan = {"tests": len(before)}
        return Recording(Recorder(None), PROFILES["smoke"], Past(plan=plan, tests=before, end=end)).exit_status(now)

    passed, failed, broken = {"a": ("passed", 0.1)}, {"a": ("failed", 0.1)}, {"a": ("broken", 0.1)}
    assert (status(passed, 0), status(passed, 5), status(passed, 1), status(passed, 2)) == (0, 0, 1, 2)
    assert (status(failed, 0), status(failed, 5), status(failed, 1), status(failed, 2)) == (1, 1, 1, 2)
    # What broke is made again.
    assert (status(broken, 0), status(broken, 1)) == (0, 1)
    assert status(passed, 5, {"exit_status": 1}) == 1


def test_resume_needs_a_record() -> None:
    run = suite(SLOTS, "--resume")
    assert run.returncode == USAGE_ERROR
    assert "--resume goes with --record FILE" in run.stderr
    assert "Traceback" not in run.stderr


def test_the_run_says_where_a_cut_off_record_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    _written(path, end=False)
    run: subprocess.CompletedProcess[str] = suite(
        SLOTS, "-k", "kinds", "--target", f"{RIGHT}:float32_angle", "--record", str(path), "-q"
    )
    assert run.returncode == 0
    assert f"{path} was no finished record: kept as {path}.cut-off; " in run.stdout
    assert read(path)[-1]["kind"] == "end"
