"""A record is called conforming only when it bears that out."""

from __future__ import annotations

from pathlib import Path

import pytest
import sample_record as sample

from reports.record import read
from reports.verdict import Verdict, conclude


def concluded(tmp_path: Path, lines: list[sample.Line], rest: str = "") -> Verdict:
    return conclude(read(sample.write(tmp_path / "r.jsonl", lines, rest)))


def notices(verdict: Verdict) -> str:
    return "\n".join(notice.text for notice in verdict.notices)


def test_green_conforms(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.green())
    assert (verdict.line, verdict.notices) == ("conforms", ())


def test_red_does_not(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.red())
    assert (verdict.line, verdict.notices) == ("does not conform: ROT-Q", ())


def test_robustness_and_warnings_do_not_decide(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.found())
    assert (verdict.line, verdict.robustness, verdict.notices) == ("conforms", ("ROB-DUP",), ())


def test_robustness_decides_under_strict(tmp_path: Path) -> None:
    _, *judged, _ = sample.found()
    lines = [sample.run(strict=True), *judged, sample.end(exit_status=1, tests_failed=1)]
    verdict = concluded(tmp_path, lines)
    assert (verdict.line, verdict.robustness, verdict.notices) == ("does not conform: ROB-DUP", (), ())


def test_a_run_that_died_is_incomplete(tmp_path: Path) -> None:
    cases = [sample.case("f32 T=1"), sample.case("f32 T=2", sample.finding("ROT-Q"))]
    cut = concluded(tmp_path, [sample.run(), *cases], rest='{"kind": "case"')
    assert cut.state == "incomplete"
    expected = (
        "The record is incomplete: its last line is cut off; the run died. It holds 2 distinct cases, 1 with failures."
    )
    assert notices(cut) == expected
    assert "it has no end line" in notices(concluded(tmp_path, [sample.run(), *cases]))


def test_a_run_that_died_after_its_verdicts_keeps_the_failures(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.red()[:-1])
    assert verdict.line == "does not conform: ROT-Q"
    assert "it has no end line" in notices(verdict)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (sample.end(exit_status=1), "suite itself broke: exit status 1, though no deciding requirement failed"),
        (sample.end(exit_status=2), "suite itself broke: exit status 2, it was interrupted"),
        (sample.end(exit_status=3), "suite itself broke: exit status 3, pytest met an internal error"),
        (sample.end(tests_collected=0), "No test was collected"),
        (sample.end(cases=7), "The run counted 7 distinct cases; the record holds 1 distinct case."),
        (sample.end(tests_failed=2), "2 tests failed, and the cases explain 0: a test broke"),
    ],
)
def test_an_end_that_contradicts_a_green_record_blocks(tmp_path: Path, last: sample.Line, message: str) -> None:
    verdict = concluded(tmp_path, [*sample.green()[:-1], last])
    assert verdict.state == "incomplete"
    assert message in notices(verdict)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (sample.end(exit_status=0, tests_failed=1), "exit status 0, though a deciding requirement failed"),
        (sample.end(exit_status=1, tests_failed=3), "3 tests failed, and the cases explain 1: a test broke"),
        (sample.end(exit_status=1, tests_failed=0), "0 tests failed, and the cases explain 1: the failures were not"),
        (sample.end(exit_status=2, tests_failed=1), "suite itself broke: exit status 2"),
    ],
)
def test_a_broken_suite_is_told_beside_true_failures(tmp_path: Path, last: sample.Line, message: str) -> None:
    verdict = concluded(tmp_path, [*sample.red()[:-1], last])
    assert verdict.line == "does not conform: ROT-Q"
    assert message in notices(verdict)


@pytest.mark.parametrize(("tier", "state"), [("numeric", "incomplete"), ("robustness", "conforms")])
def test_a_requirement_not_run_is_told(tmp_path: Path, tier: str, state: str) -> None:
    *lines, last = sample.green()
    verdict = concluded(tmp_path, [*lines, sample.requirement("IDLE", tier, "not run", cases=0), last])
    assert verdict.state == state
    assert "Not run: IDLE." in notices(verdict)


def test_verdicts_are_held_against_the_cases(tmp_path: Path) -> None:
    first, judged, _, last = sample.red()
    hidden = concluded(tmp_path, [first, judged, sample.requirement("ROT-Q", "numeric", "pass"), last])
    assert hidden.line == "does not conform: ROT-Q"
    assert "ROT-Q has the verdict 'pass' with 0 failing cases; the record's cases show 1." in notices(hidden)
    unknown = concluded(tmp_path, [first, judged, sample.requirement("ROT-K", "numeric"), last])
    assert unknown.state == "incomplete"
    assert "Cases failed ROT-Q, and the record gives no verdict on it." in notices(unknown)
    unbacked = sample.requirement("ROT-Q", "numeric", "FAIL", failed=1)
    assert "the record's cases show 0" in notices(concluded(tmp_path, [first, sample.case(), unbacked, last]))


def test_no_verdicts_at_all_are_no_conformance(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, [sample.run(), sample.case(), sample.end()])
    assert verdict.state == "incomplete"
    assert "gives no verdict on any requirement" in notices(verdict)
