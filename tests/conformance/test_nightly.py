"""A night as a user makes one: its exit codes, what is killed and goes on, two at once, and reruns of the baseline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import ROOT
from shader_faults import FLOAT32_SHADER

from conformance import nightly, rerun, step
from conformance.__main__ import main
from conformance.rerun import ROUNDS, Timed, measure_again
from conformance.step import KilledError, NightlyError
from kernel.targets import DEFAULT_SHADER

SHORT = ("--profile", "smoke", "--no-benchmarks", "-k", "test_every_position")
LONGER = ("--profile", "default", "--no-benchmarks", "-k", "test_each_operand")


@pytest.fixture
def shader(tmp_path: Path) -> Path:
    """A shader of the user's own, outside the repository."""
    path = tmp_path / "mine.metal"
    path.write_text(FLOAT32_SHADER.read_text())
    return path


def _words(out: Path, shader: Path, *words: str) -> list[str]:
    return ["nightly", "--out", str(out), "--shader", str(shader), *words]


def _folders(out: Path) -> list[Path]:
    return sorted(path for path in out.iterdir() if path.is_dir() and not path.is_symlink() and path.name != "examples")


def _replace(shader: Path, find: str, by: str) -> None:
    text = FLOAT32_SHADER.read_text()
    assert text.count(find) == 1
    shader.write_text(text.replace(find, by))


def test_the_nights_of_a_shader_that_gets_worse(
    tmp_path: Path, shader: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "nightly"

    def night() -> tuple[int, str]:
        status = main(_words(out, shader, *SHORT))
        assert capfd.readouterr().out.splitlines()[-1] == f"exit code {status}"
        assert json.loads((out / "latest" / "outcome.json").read_text())["status"] == status
        return status, (out / "latest" / "summary.txt").read_text()

    status, summary = night()
    assert status == 3
    assert f"python -m conformance nightly --shader {shader}" in " ".join(summary.split())
    assert night()[0] == 0
    _replace(shader, "precise::sin(angle)", "precise::sin(angle) * 1.0000001f")
    status, summary = night()
    assert status == 2, "a sine that errs by an ulp more is within the class, and worse"
    assert "REGRESSION  ROT-Q: error over bound 0." in summary
    _replace(shader, "x.x * sine + x.y * cosine", "x.x * sine")
    status, summary = night()
    assert status == 1
    assert "does not conform: ROT-Q, ROT-K" in summary
    shader.write_text("no shader")
    status, summary = night()
    assert status == 4
    assert "could not run (exit code 4)\nsuite       mine.metal" in summary
    assert len(_folders(out)) == 5


def _begun(out: Path, shader: Path) -> subprocess.Popen[bytes]:
    """A night in a process group of its own, of which fifty cases are judged."""
    words = [sys.executable, "-m", "conformance", *_words(out, shader, *LONGER)]
    process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
    waited = time.monotonic() + 120
    while sum(map(_cases, out.glob("*/record.jsonl"))) < 50:
        assert process.poll() is None
        assert time.monotonic() < waited
        time.sleep(0.02)
    return process


def _cases(record: Path) -> int:
    return record.read_bytes().count(b'{"kind": "case"')


def _kinds(record: Path, kind: str) -> int:
    return sum(json.loads(line)["kind"] == kind for line in record.read_text().splitlines())


@pytest.mark.parametrize("alone", [False, True])
def test_a_night_that_was_killed_goes_on_and_one_at_a_time(
    tmp_path: Path, shader: Path, capfd: pytest.CaptureFixture[str], alone: bool
) -> None:
    """alone: whether the suite outlives the night that began it."""
    out = tmp_path / "nightly"
    process = _begun(out, shader)
    assert main(_words(out, shader, *LONGER)) == 4
    assert f"error: a night of these arguments is under way: process {process.pid}" in capfd.readouterr().err
    (os.kill if alone else os.killpg)(process.pid, signal.SIGKILL)
    process.wait()
    assert main(_words(out, shader, *LONGER)) == 3
    assert ("waiting: the suite of the killed night" in capfd.readouterr().out) == alone
    [folder] = _folders(out)
    record = folder / "record.jsonl"
    assert (_kinds(record, "run"), _kinds(record, "end"), _kinds(record, "resumed")) == (1, 1, 0 if alone else 1)
    tests = [json.loads(line)["id"] for line in record.read_text().splitlines() if '{"kind": "test"' in line]
    assert len(tests) == len(set(tests)) == json.loads((record).read_text().splitlines()[-1])["tests_collected"]


def test_a_night_whose_kernel_changed_since_stays_beside_the_next(tmp_path: Path, shader: Path) -> None:
    out = tmp_path / "nightly"
    process = _begun(out, shader)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 4
    [cut_off] = _folders(out)
    held = _cases(cut_off / "record.jsonl")
    shader.write_text("no shader")
    assert main(_words(out, shader, *LONGER)) == 4
    assert [folder for folder in _folders(out) if folder != cut_off]
    assert _cases(cut_off / "record.jsonl") == held >= 50
    assert "changed since" in (cut_off / "outcome.json").read_text()


class _Steps:
    """Stands in for the steps of nights: each has one result after another, a status or an exception."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **results: list[int | Exception]) -> None:
        self.results = {"pytest": [0] * 9, "bench": [0] * 9, "suspects": [0] * 9, "night": [0] * 9} | results
        self.made: list[str] = []
        self.words: dict[str, tuple[str, ...]] = {}
        self.suspected: dict[str, object] = {"names": [], "commit": ""}
        monkeypatch.setattr(nightly, "python", self.python)
        monkeypatch.setattr(rerun, "python", self.python)

    def python(self, log: Path, *words: str, cwd: Path | None = None) -> int:  # noqa: ARG002
        step = words[1] if words[0] == "reports" else "bench" if "--benchmark-json" in words else "pytest"
        self.made.append(step)
        self.words[step] = words
        log.write_text(f"error: {step} cannot run\n")
        result = self.results[step].pop(0)
        if isinstance(result, Exception):
            raise result
        self._write(step, log.parent, words)
        return result

    def _write(self, step: str, folder: Path, words: tuple[str, ...]) -> None:
        if step == "pytest":
            (folder / "record.jsonl").write_text("{}\n")
        elif step == "bench":
            Path(words[words.index("--benchmark-json") + 1]).write_text("{}")
        elif step == "suspects":
            (folder / "suspects.json").write_text(json.dumps(self.suspected))
        elif not folder.joinpath("crash").exists():
            (folder / "summary.txt").write_text("told\n")


KILLED = KilledError("the step was killed by SIGKILL; the same command continues this night")


def _night(out: Path, *words: str) -> int:
    return main(["nightly", "--out", str(out), *words])


def test_every_step_is_made_once_and_told_to_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = _Steps(monkeypatch, night=[2])
    assert _night(tmp_path, "--benchmark-max-time=0", "--hypothesis-seed", "7", "-k", "slots") == 2
    assert steps.made == ["pytest", "bench", "suspects", "night"]
    assert "--benchmark-max-time=0" in steps.words["bench"]
    assert "--benchmark-max-time=0" not in steps.words["pytest"]
    suite = " ".join(steps.words["pytest"])
    assert "--profile nightly -k slots" in suite
    assert "--hypothesis-seed 7" in suite
    again = "python -m conformance nightly --profile nightly -k slots --benchmark-max-time=0 --hypothesis-seed 7"
    for word in (again, str(DEFAULT_SHADER)):
        assert word in steps.words["night"]
    # Both look for the same nights.
    for word in ("--options=-k slots", str(tmp_path / "history.sqlite"), "--benchmarks"):
        assert word in steps.words["night"]
        assert word in steps.words["suspects"]


def test_a_night_begins_anew_after_one_that_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = _Steps(monkeypatch)
    assert [_night(tmp_path), _night(tmp_path)] == [0, 0]
    assert len(_folders(tmp_path)) == 2
    seeds = {json.loads((folder / "outcome.json").read_text())["seed"] for folder in _folders(tmp_path)}
    assert len(seeds) == 2
    assert len(steps.made) == 8


@pytest.mark.parametrize("step", ["pytest", "bench", "suspects", "night"])
def test_whichever_step_is_killed_the_night_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], step: str
) -> None:
    steps = _Steps(monkeypatch, **{step: [KILLED, 0]})
    assert _night(tmp_path) == 4
    assert "killed by SIGKILL; the same command continues this night" in capfd.readouterr().err
    assert _night(tmp_path) == 0
    assert len(_folders(tmp_path)) == 1
    assert {name: steps.made.count(name) for name in steps.results} == dict.fromkeys(steps.results, 1) | {step: 2}


def test_a_suite_that_is_cut_off_is_told_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = _Steps(monkeypatch, pytest=[2, 0], night=[4, 0])
    assert _night(tmp_path) == 4
    assert "the suite ended with status 2; the same command continues this night" in steps.words["night"]
    assert _night(tmp_path) == 0
    assert steps.made == ["pytest", "night", "pytest", "bench", "suspects", "night"]


def test_a_night_that_cannot_be_continued_stays_beside_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Steps(monkeypatch, pytest=[KILLED, 4, 0])
    assert [_night(tmp_path), _night(tmp_path)] == [4, 0]
    first, second = _folders(tmp_path)
    assert json.loads((first / "outcome.json").read_text())["why"] == "pytest cannot run"
    assert json.loads((second / "outcome.json").read_text())["status"] == 0


def test_a_cut_off_night_of_other_code_stays_beside_a_new_one(
    tmp_path: Path, shader: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Steps(monkeypatch, pytest=[KILLED, 0])
    out = tmp_path / "nightly"
    assert main(_words(out, shader)) == 4
    shader.write_text("another")
    assert main(_words(out, shader)) == 0
    first, second = _folders(out)
    assert "changed since" in (first / "outcome.json").read_text()
    assert json.loads((second / "outcome.json").read_text())["status"] == 0


def test_a_step_that_was_killed_is_told_from_one_that_failed(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(KilledError, match="dies was killed by SIGKILL"):
        step.python(tmp_path / "log", "dies", cwd=tmp_path)


@pytest.mark.parametrize("status", [4, 5])
def test_a_suite_that_cannot_run_says_why_in_the_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    steps = _Steps(monkeypatch, pytest=[status])
    assert _night(tmp_path) == 4
    assert steps.made == ["pytest"]
    summary = (tmp_path / "latest" / "summary.txt").read_text()
    assert "could not run (exit code 4)\nsuite       pytest cannot run\nagain       python -m" in summary


def test_benchmarks_that_cannot_run_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = _Steps(monkeypatch, bench=[4, 1])
    _night(tmp_path)
    assert "the benchmarks: bench cannot run" in steps.words["night"]
    _night(tmp_path)
    assert any(word.startswith("not every benchmark was timed") for word in steps.words["night"])
    _night(tmp_path, "--no-benchmarks")
    assert any(word.startswith("no benchmarks (--no-benchmarks)") for word in steps.words["night"])


def test_a_report_that_breaks_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's own status for an uncaught error is that of a failed requirement."""
    steps = _Steps(monkeypatch, night=[KILLED, 1, 0])
    _night(tmp_path)
    [folder] = _folders(tmp_path)
    (folder / "crash").touch()
    assert _night(tmp_path) == 4
    assert "report      night cannot run" in (folder / "summary.txt").read_text()
    (folder / "crash").unlink()
    assert _night(tmp_path) == 0
    assert steps.made.count("pytest") == 1


def test_suspects_are_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = _Steps(monkeypatch)
    steps.suspected = {"names": ["decode"], "commit": "0123456789ab+"}
    _night(tmp_path)
    path = steps.words["night"][steps.words["night"].index("--rerun") + 1]
    why = "not measured again: the baseline's tree had changes beyond its commit 0123456789ab"
    assert json.loads(Path(path).read_text()) == {"why": why, "rounds": []}


def _timing(log: list[Timed], failing: int = -1) -> object:
    """Stands in for a measurement: it notes what would be timed, and writes a file."""

    def measure(timed: Timed, _log: Path, measured: Path, names: list[str]) -> int:
        assert names == ["decode"]
        log.append(timed)
        _log.write_text("ERROR: no compiler\n")
        measured.write_text("{}")
        return 4 if len(log) - 1 == failing else 0

    return measure


@pytest.fixture
def head_commit() -> Iterator[str]:
    """The commit of the repository; no worktree may be left behind."""
    yield _git("rev-parse", "--short=12", "HEAD").strip()
    assert "nightly-base" not in _git("worktree", "list")


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout


def test_base_and_head_take_turns(
    tmp_path: Path, shader: Path, monkeypatch: pytest.MonkeyPatch, head_commit: str
) -> None:
    timed: list[Timed] = []
    monkeypatch.setattr(rerun, "measure", _timing(timed))
    base, head = tmp_path / "base.metal", Timed("host", shader)
    rounds = measure_again(head, tmp_path, ["decode"], head_commit, base)
    assert len(rounds) == ROUNDS
    assert all((tmp_path / name).exists() for pair in rounds for name in pair)
    assert [each.shader for each in timed[:4]] == [base, shader, shader, base]
    assert len(timed) == 2 * ROUNDS


def test_a_kernel_of_the_repository_is_measured_in_its_commits_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head_commit: str
) -> None:
    folder = tmp_path / "nightly-base"
    folder.mkdir()
    seen: list[str] = []

    def measure(timed: Timed, _log: Path, measured: Path, _names: list[str]) -> int:
        if timed.tree is not None:
            assert timed.shader is not None
            seen.append((timed.tree / timed.shader).read_text())
        measured.write_text("{}")
        return 0

    monkeypatch.setattr(rerun, "measure", measure)
    measure_again(Timed("host", FLOAT32_SHADER), folder, ["decode"], head_commit, None)
    assert seen == [_git("show", f"HEAD:{FLOAT32_SHADER.relative_to(ROOT)}")] * ROUNDS
    assert not (folder / "base").exists()


@pytest.mark.parametrize(
    ("head", "commit", "says"),
    [
        (Timed("host", None), "", "made outside git"),
        (Timed("host", None), "0123456789ab+", "had changes beyond its commit 0123456789ab"),
        (Timed("host", None), "0123456789ab", "git cannot check out the baseline's commit 0123456789ab here"),
        (Timed("host", Path("/tmp/mine.metal")), "0123456789ab", "holds no source of the baseline's shader"),
        (Timed("/tmp/mine.py:rope", None), "0123456789ab", "no part of this repository"),
        (Timed("my_package.ops:rope", None), "0123456789ab", "no part of this repository"),
    ],
)
def test_a_baseline_that_cannot_be_had_says_why(tmp_path: Path, head: Timed, commit: str, says: str) -> None:
    with pytest.raises(NightlyError, match=says):
        measure_again(head, tmp_path, ["decode"], commit, None)
    assert not (tmp_path / "base").exists()


def test_an_interrupted_or_failing_rerun_leaves_no_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, head_commit: str
) -> None:
    folder = tmp_path / "nightly-base"
    folder.mkdir()
    monkeypatch.setattr(rerun, "measure", _timing([], failing=1))
    with pytest.raises(NightlyError, match="head could not be measured: no compiler"):
        measure_again(Timed("host", None), folder, ["decode"], head_commit, None)

    def interrupted(*_: object) -> int:
        assert (folder / "base" / "conformance").is_dir()
        raise KeyboardInterrupt

    monkeypatch.setattr(rerun, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure_again(Timed("host", None), folder, ["decode"], head_commit, None)
    assert not (folder / "base").exists()


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("ERROR: usage: pytest [options]\npytest: error: unrecognized arguments: --x\n  rootdir: /\n", "unrecognized"),
        ("fine so far\nERROR: unknown target 'x'\n\n", "unknown target 'x'"),
        ("Traceback:\nKeyError: 3\n", "KeyError: 3"),
        ("", "no reason given"),
    ],
)
def test_a_step_tells_why_it_failed(tmp_path: Path, log: str, says: str) -> None:
    (tmp_path / "log").write_text(log)
    assert step.complaint(tmp_path / "log").startswith(says)
