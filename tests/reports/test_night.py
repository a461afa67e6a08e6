"""`python -m reports night`: the exit code, a summary that names what was found, and files that appear whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import sample_record as sample

from reports import page
from reports.__main__ import main
from reports.summary import COLUMNS, LINES

Lines = list[sample.Line]
Night = Callable[..., int]
SOURCE = b"kernel void rope() {}\n"


@pytest.fixture
def full_night(tmp_path: Path) -> Night:
    """Makes a night of a record's lines; further words go to the command."""

    def made(lines: Lines, *words: str, rest: str = "") -> int:
        record = sample.write(tmp_path / "record.jsonl", lines, rest)
        return _run(tmp_path, str(record), *words)

    return made


@pytest.fixture
def night(full_night: Night, monkeypatch: pytest.MonkeyPatch) -> Night:
    """The same without the page, whose plots take a second."""
    monkeypatch.setattr(page, "render", lambda *_, **__: "")
    return full_night


def _run(folder: Path, *words: str) -> int:
    return main(["night", *words, "--history", str(folder / "history.sqlite"), "-o", str(folder / "out")])


def _summary(folder: Path) -> str:
    text = (folder / "out" / "summary.txt").read_text()
    assert len(text.splitlines()) <= LINES
    assert max(map(len, text.splitlines())) <= COLUMNS
    return text


def _told(folder: Path) -> list[dict[str, str]]:
    return list(json.loads((folder / "out" / "regressions.json").read_text())["regressions"])


def _green(name: str, *scores: float, **facts: Any) -> Lines:
    """A whole run of a case for each score, 0.5 and 0.4 by default."""
    given = scores or (0.5, 0.4)
    judged: Lines = []
    for seed, score in enumerate(given):
        line = sample.CASE.replace("seed=0", f"seed={seed}")
        judged += [sample.case(line, measure=sample.measure(score), ROT_Q=score), sample.finished(sample.id_of(line))]
    return [
        *sample.begun(name, **facts)[:-1],
        sample.plan(tests=len(given), cases=len(given)),
        *judged,
        sample.requirement("ROT-Q", cases=len(given), elements=96 * len(given), worst=max(given)),
        sample.requirement("ROB-DUP", "not run"),
        sample.end(cases=len(given), tests_collected=len(given)),
    ]


def _timed(path: Path, **medians: float) -> str:
    """A file of benchmarks with medians in milliseconds."""
    entries = [
        {
            "name": name,
            "extra_info": {"p20": 0.98e-3 * ms, "p50": 1e-3 * ms, "p80": 1.02e-3 * ms, "share": 0.5 / ms},
        }
        for name, ms in medians.items()
    ]
    path.write_text(json.dumps({"benchmarks": entries}))
    return str(path)


def test_the_first_night_is_a_baseline_for_the_second(
    night: Night, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert night(_green("one")) == 3
    assert capsys.readouterr().out == _summary(tmp_path)
    assert "no baseline yet" in _summary(tmp_path)
    assert night(_green("two")) == 0
    text = _summary(tmp_path)
    assert "held (exit code 0)" in text
    assert "with 2026-12-01T15:30:00Z, commit 0123456789ab, rope_pool_fused.metal 8f69daa1a0ee" in text
    assert _told(tmp_path) == []


def test_its_files_are_whole(full_night: Night, tmp_path: Path) -> None:
    full_night(_green("one"), "--again", "python -m conformance nightly --hypothesis-seed 7", "--note", "no benchmarks")
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"index.html", "junit.xml", "summary.txt", "regressions.json"}
    assert ElementTree.parse(tmp_path / "out" / "junit.xml").getroot().tag == "testsuites"
    assert "</html>" in (tmp_path / "out" / "index.html").read_text()
    for words in ("python -m conformance nightly --hypothesis-seed 7", "no benchmarks", "seed derandomised"):
        assert words in _summary(tmp_path)


def test_a_night_told_twice_says_the_same(night: Night, tmp_path: Path) -> None:
    night(_green("one"))
    assert night(_green("one")) == 3
    assert night(_green("two", 0.9, 0.4)) == 2
    assert night(_green("two", 0.9, 0.4)) == 2
    assert "0.5 -> 0.9" in _summary(tmp_path)


def test_a_regression_stays_one_until_it_is_mended_or_accepted(
    night: Night, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = str(tmp_path / "history.sqlite")
    night(_green("one"))
    assert night(_green("two", 0.9, 0.4)) == 2
    assert night(_green("three", 0.9, 0.4)) == 2
    capsys.readouterr()
    assert main(["accept", "--history", history]) == 0
    accepted = capsys.readouterr().out
    assert "the night of 2026-12-01T15:30:00Z (host, rope_pool_fused.metal, CPU x86_64)" in accepted
    assert "ROT-Q: error over bound 0.5 -> 0.9" in accepted
    assert night(_green("four", 0.9, 0.4)) == 0
    assert night(_green("five")) == 0


def test_a_larger_error_is_a_regression_and_is_named(full_night: Night, tmp_path: Path) -> None:
    full_night(_green("one"))
    assert full_night(_green("two", 0.9, 0.4)) == 2
    text = _summary(tmp_path)
    assert "regression (exit code 2)" in text
    assert "REGRESSION  ROT-Q: error over bound 0.5 -> 0.9" in text
    assert "REGRESSION  exact-angle: error over bound 0.5 -> 0.9 for float32 at positions 10^1-10^2" in text
    assert [(told["kind"], told["subject"]) for told in _told(tmp_path)] == [
        ("error over bound", "ROT-Q"),
        ("error over bound", "exact-angle"),
    ]
    assert "ROT-Q: error over bound" in (tmp_path / "out" / "index.html").read_text()


def test_lost_cases_are_a_regression_and_are_named(night: Night, tmp_path: Path) -> None:
    night(_green("one"))
    assert night(_green("two", 0.5)) == 2
    assert "REGRESSION  1 case of 2 planned vanished, such as " in _summary(tmp_path)


def test_a_lost_requirement_is_a_regression_and_is_named(night: Night, tmp_path: Path) -> None:
    tiers = {"ROT-Q": "numeric", "ROT-K": "numeric"}
    night([*sample.begun("one", tiers), sample.case(ROT_Q=0.5, ROT_K=0.5), sample.finished(), *_ends("ROT-Q", "ROT-K")])
    one = {"ROT-Q": "numeric"}
    assert night([*sample.begun("two", one), sample.case(), sample.finished(), *_ends("ROT-Q")]) == 2
    assert "REGRESSION  ROT-K is no longer in the contract" in _summary(tmp_path)


def _ends(*ids: str) -> Lines:
    return [*(sample.requirement(id) for id in ids), sample.end()]


def test_a_lost_class_is_a_regression_and_is_named(night: Night, tmp_path: Path) -> None:
    def two(name: str, tight: float, beyond: int | None = None) -> Lines:
        both = sample.together(
            sample.measure(tight, accuracy="exact-angle", beyond=beyond), sample.measure(0.2, accuracy="fast")
        )
        return [sample.run(name, decides="fast"), *sample.measured(both)[1:]]

    night(two("one", 0.5))
    assert night(two("two", 7.0, 100)) == 2
    assert "REGRESSION  exact-angle is no longer kept: worst score 0.5 -> 7, from position 100 on" in _summary(tmp_path)


def _rerun(folder: Path, base: float, head: float) -> str:
    rounds = []
    for number in range(3):
        _timed(folder / f"base-{number}.json", decode=base)
        _timed(folder / f"head-{number}.json", decode=head)
        rounds.append([f"base-{number}.json", f"head-{number}.json"])
    path = folder / "rerun.json"
    path.write_text(json.dumps({"why": "", "rounds": rounds}))
    return str(path)


def test_slower_is_a_regression_where_the_rerun_confirms_it(night: Night, tmp_path: Path) -> None:
    slow = ("--benchmarks", _timed(tmp_path / "slow.json", decode=1.5))
    night(_green("one"), "--benchmarks", _timed(tmp_path / "fast.json", decode=1.0))
    assert night(_green("two"), *slow, "--rerun", _rerun(tmp_path, 1.0, 1.5)) == 2
    assert "REGRESSION  decode: median 1 ms -> 1.5 ms (1.50 times) in 3 rounds" in _summary(tmp_path)


def test_slower_and_not_confirmed_is_told_and_neutral(night: Night, tmp_path: Path) -> None:
    slow = ("--benchmarks", _timed(tmp_path / "slow.json", decode=1.5))
    night(_green("one"), "--benchmarks", _timed(tmp_path / "fast.json", decode=1.0))
    why = tmp_path / "why.json"
    why.write_text(json.dumps({"why": "not measured again: the baseline was made outside git", "rounds": []}))
    assert night(_green("two"), *slow, "--rerun", str(why)) == 0
    assert "other       decode: median 1 ms -> 1.5 ms (1.50 times); not measured again: the" in _summary(tmp_path)


def test_suspects_are_listed_with_the_baselines_commit_and_source(night: Night, tmp_path: Path) -> None:
    shader, kept, listed = tmp_path / "mine.metal", tmp_path / "base.metal", tmp_path / "suspects.json"
    shader.write_bytes(SOURCE)
    facts = {"shader": f"mine.metal {hashlib.sha256(SOURCE).hexdigest()[:12]}"}
    fast, slow = (_timed(tmp_path / f"{ms}.json", decode=ms, prefill=1.0) for ms in (1.0, 1.5))
    night(_green("one", **facts), "--benchmarks", fast, "--source", str(shader))
    record = sample.write(tmp_path / "two.jsonl", _green("two", shader="mine.metal 000000000000"))
    words = ["suspects", str(record), "--history", str(tmp_path / "history.sqlite"), "-o", str(listed)]
    assert main([*words, "--benchmarks", slow, "--shader", str(kept)]) == 0
    assert json.loads(listed.read_text()) == {"names": ["decode"], "commit": "0123456789ab"}
    assert kept.read_bytes() == SOURCE


def test_a_source_that_is_not_what_ran_is_not_kept(night: Night, tmp_path: Path) -> None:
    changed, kept = tmp_path / "mine.metal", tmp_path / "base.metal"
    changed.write_bytes(SOURCE)
    fast = ("--benchmarks", _timed(tmp_path / "fast.json", decode=1.0))
    night(_green("one"), *fast, "--source", str(changed))
    record = sample.write(tmp_path / "two.jsonl", _green("two"))
    words = ["suspects", str(record), "--history", str(tmp_path / "history.sqlite"), *fast]
    assert main([*words, "--shader", str(kept), "-o", str(tmp_path / "suspects.json")]) == 0
    assert not kept.exists()


def test_a_failed_requirement_comes_before_a_regression_and_both_are_named(night: Night, tmp_path: Path) -> None:
    night(_green("one"))
    assert night(sample.red(name="two")) == 1
    text = _summary(tmp_path)
    assert "a requirement failed (exit code 1)" in text
    assert "does not conform: ROT-Q" in text
    assert "REGRESSION  ROT-Q fails; it was 'pass' before" in text
    assert "REGRESSION  1 case of 2 planned vanished" in text
    assert {told["kind"] for told in _told(tmp_path)} >= {"requirement failed", "cases vanished"}


def test_a_first_night_that_fails_is_no_baseline(night: Night, tmp_path: Path) -> None:
    assert night(sample.red(name="one")) == 1
    assert [told["subject"] for told in _told(tmp_path)] == ["ROT-Q"]
    assert night(_green("two")) == 3


def test_a_run_that_died_is_stored_and_is_replaced_when_it_is_whole(night: Night, tmp_path: Path) -> None:
    assert night(sample.crashed(), rest='{"kind": "ca') == 4
    text = _summary(tmp_path)
    assert "could not run (exit code 4)" in text
    assert "The record is incomplete" in text
    assert night(_green("run")) == 3
    assert night(_green("two")) == 0


def test_a_step_that_could_not_run_is_told(night: Night, tmp_path: Path) -> None:
    night(_green("one"))
    assert night(_green("two"), "--could-not-run", "the benchmarks: no compiler") == 4
    assert "could not run: the benchmarks: no compiler" in _summary(tmp_path)
    assert night(_green("three", 0.9), "--could-not-run", "the benchmarks: no compiler") == 2


@pytest.mark.parametrize(
    "facts",
    [
        {"target": "other.py:rope"},
        {"device": "GPU"},
        {"compiler": "g++ 14"},
        {"shader": "other.metal 8f69daa1a0ee"},
        {"math": "metal-fast"},
        {"accuracy": "fast"},
        {"profile": "smoke"},
        {"launch": "rect"},
        {"strict": True},
        {"versions": {"suite": "0.1.0", "python": "3.12", "torch": "2.9.0", "numpy": "2.3.5", "platform": "Linux"}},
    ],
)
def test_nothing_is_compared_across_targets_devices_and_versions(night: Night, facts: dict[str, Any]) -> None:
    night(_green("one"))
    assert night(_green("two", 0.9, **facts)) == 3


def test_nor_across_options_that_choose_the_tests(night: Night) -> None:
    night(_green("one"))
    assert night(_green("two", 0.9), "--options=-k rotation") == 3
    assert night(_green("three", 0.9), "--options=-k rotation") == 0


def test_another_commit_shader_text_and_seed_are_compared(night: Night) -> None:
    night(_green("one"))
    facts = {"commit": "ffffffffffff+", "shader": "rope_pool_fused.metal 000000000000", "seed": "7", "machine": "other"}
    assert night(_green("two", 0.9, **facts)) == 2


def test_records_of_two_targets_are_two_nights(night: Night, tmp_path: Path) -> None:  # noqa: ARG001
    records = [str(path) for path in sample.write_each(tmp_path, *sample.two_targets())]
    assert _run(tmp_path, *records) == 1
    text = _summary(tmp_path)
    assert "my_kernels.py:rope" in text or "other.metal" in text
    assert _run(tmp_path, records[0], "--benchmarks", _timed(tmp_path / "b.json", decode=1.0)) == 3
    assert _run(tmp_path, *records, "--benchmarks", str(tmp_path / "b.json")) == 4


def test_a_hundred_regressions_fit_on_one_screen(night: Night, tmp_path: Path) -> None:
    ids = [f"REQ-{number}" for number in range(100)]
    tiers = dict.fromkeys(ids, "numeric")
    checks = dict.fromkeys((id.replace("-", "_") for id in ids), 0.5)
    night([*sample.begun("one", tiers), sample.case(**checks), sample.finished(), *_ends(*ids)])
    one = {"REQ-0": "numeric"}
    assert night([*sample.begun("two", one), sample.case(REQ_0=0.5), sample.finished(), *_ends("REQ-0")]) == 2
    assert "regressions and 0 other changes are in the report: requirement vanished" in _summary(tmp_path)
    assert len(_told(tmp_path)) == 99


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["night", "absent.jsonl", "-o", "out"], "no such record: absent.jsonl"),
        (["night", "record.jsonl", "-o", "out", "--benchmarks", "notes.txt"], "notes.txt holds no benchmarks"),
        (["night", "record.jsonl", "-o", "out", "--benchmarks", "absent.json"], "cannot read absent.json"),
        (["night", "record.jsonl", "-o", "out", "--rerun", "notes.txt"], "notes.txt tells of no rerun"),
        (["night", "record.jsonl", "-o", "notes.txt"], "notes.txt"),
        (["accept"], "no such history"),
        (["accept", "--history", "notes.txt"], "notes.txt is no history"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("my notes")
    sample.write(Path("record.jsonl"), _green("one"))
    assert main([*words, *(() if "--history" in words else ("--history", "history.sqlite"))]) == 4
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert says in error
    assert error.count("\n") == 1


def test_accept_refuses_a_night_that_did_not_finish(
    night: Night, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    night(sample.crashed())
    assert main(["accept", "--history", str(tmp_path / "history.sqlite")]) == 4
    assert "did not finish" in capsys.readouterr().err
