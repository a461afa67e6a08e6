"""A record is called conforming only when it bears that out."""

from __future__ import annotations

from pathlib import Path

import pytest
import sample_record as sample

from conformance import terminal
from conformance.contract import requirements
from conformance.finding import Finding, Judgement
from conformance.ledger import Ledger
from reports.record import read
from reports.verdict import INCOMPLETE, UNSEEN, Verdict, conclude

CASES = [sample.CASE.replace("seed=0", f"seed={seed}") for seed in range(4)]


def concluded(tmp_path: Path, *records: list[sample.Line], rest: str = "") -> Verdict:
    paths = sample.write_each(tmp_path, *records)
    with paths[-1].open("a") as last:
        last.write(rest)
    [run] = read(paths)
    return conclude(run)


def notices(verdict: Verdict) -> str:
    return "\n".join(notice.text for notice in verdict.notices)


def test_green_conforms(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.green())
    assert (verdict.line, verdict.notices, verdict.finished) == ("conforms", (), True)


def test_red_does_not(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.red())
    assert (verdict.line, verdict.notices, verdict.finished) == ("does not conform: ROT-Q", (), True)


def test_robustness_and_warnings_do_not_decide(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.found())
    assert (verdict.line, verdict.robustness, verdict.notices) == ("conforms", ("ROB-DUP",), ())


def test_robustness_decides_under_strict(tmp_path: Path) -> None:
    record = [
        sample.finished(outcome="failed") if line["kind"] == "test" else line for line in sample.found(strict=True)[:-1]
    ]
    verdict = concluded(tmp_path, [*record, sample.end(exit_status=1, tests_failed=1)])
    assert (verdict.line, verdict.robustness, verdict.notices) == ("does not conform: ROB-DUP", (), ())


def test_a_run_that_died_is_incomplete(tmp_path: Path) -> None:
    record = [*sample.crashed(), sample.case("f32 T=2", sample.finding("ROB-DUP"))]
    cut = concluded(tmp_path, record, rest='{"kind": "case"')
    assert (cut.state, cut.finished) == ("incomplete", False)
    assert notices(cut).splitlines()[:3] == [
        "The record is incomplete: its last line is cut off; the run died. It holds 3 distinct cases, 1 with failures.",
        "Of 4 planned cases 3 were recorded.",
        "Of 4 planned tests 2 finished.",
    ]
    assert "it has no end line" in notices(concluded(tmp_path, record))


def test_a_run_that_died_before_its_plan_says_so(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.begun()[:3])
    assert "It holds 0 distinct cases, 0 with failures. It died before its tests were known." in notices(verdict)


def test_a_run_that_died_keeps_its_failures(tmp_path: Path) -> None:
    for kept in (5, 8):
        verdict = concluded(tmp_path, sample.red()[:kept])
        assert verdict.line == "does not conform: ROT-Q"
        assert not verdict.finished
        assert "it has no end line" in notices(verdict)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (sample.end(exit_status=1), "suite itself broke: exit status 1, though no deciding requirement failed"),
        (sample.end(exit_status=2), "suite itself broke: exit status 2, it was interrupted"),
        (sample.end(exit_status=3), "suite itself broke: exit status 3, pytest met an internal error"),
        (sample.end(tests_collected=0), "No test was collected"),
        (sample.end(cases=7), "The run counted 7 distinct cases; the record holds 1 distinct case."),
        (sample.end(tests_failed=2), "The run counted 2 failed tests; the record holds 0."),
    ],
)
def test_an_end_that_contradicts_a_green_record_blocks(tmp_path: Path, last: sample.Line, message: str) -> None:
    verdict = concluded(tmp_path, [*sample.green()[:-1], last])
    assert (verdict.state, verdict.finished) == ("incomplete", False)
    assert message in notices(verdict)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (sample.end(exit_status=0, tests_failed=1), "exit status 0, though a deciding requirement failed"),
        (sample.end(exit_status=1, tests_failed=3), "The run counted 3 failed tests; the record holds 1."),
        (sample.end(exit_status=1, tests_failed=0), "The run counted 0 failed tests; the record holds 1."),
        (sample.end(exit_status=2, tests_failed=1), "suite itself broke: exit status 2"),
    ],
)
def test_a_broken_suite_is_told_beside_true_failures(tmp_path: Path, last: sample.Line, message: str) -> None:
    verdict = concluded(tmp_path, [*sample.red()[:-1], last])
    assert verdict.line == "does not conform: ROT-Q"
    assert message in notices(verdict)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"cases": 4790}, "Of 4,790 planned cases 1 were recorded."),
        ({"tests": 3}, "Of 3 planned tests 1 finished."),
        ({"cases": 0}, "1 tests and 1 cases of them stand against 1 and 0 planned"),
        ({"tests": 0}, "The record contradicts itself"),
    ],
)
def test_what_was_planned_and_is_not_there_blocks(tmp_path: Path, plan: dict[str, int], message: str) -> None:
    record = [sample.plan(**plan) if line["kind"] == "plan" else line for line in sample.green()]
    verdict = concluded(tmp_path, record)
    assert (verdict.state, verdict.finished) == ("incomplete", False)
    assert message in notices(verdict)


def test_fewer_generated_cases_than_might_be_are_no_fault(tmp_path: Path) -> None:
    record = [sample.plan(examples=240) if line["kind"] == "plan" else line for line in sample.green()]
    assert concluded(tmp_path, record).notices == ()


def test_a_generated_case_stands_for_no_planned_one(tmp_path: Path) -> None:
    record = [sample.case(drawn=True, ROB_DUP=None, ROT_Q=0.5) if x["kind"] == "case" else x for x in sample.green()]
    assert "Of 1 planned cases 0 were recorded." in notices(concluded(tmp_path, record))


def test_a_run_without_a_plan_is_not_whole(tmp_path: Path) -> None:
    record = [line for line in sample.green() if line["kind"] != "plan"]
    assert "The record does not tell what was planned." in notices(concluded(tmp_path, record))


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (
            sample.trouble(text="Traceback\n  File x\nImportError: no torch\n"),
            "A part of the suite could not be collected at conformance/test_rotation.py: ImportError: no torch",
        ),
        (sample.trouble("internal", "", "boom"), "The suite met an internal error: boom"),
        (sample.trouble("interrupted", "", "KeyboardInterrupt"), "The run was interrupted: KeyboardInterrupt"),
        (sample.trouble("interrupted", "", ""), "The run was interrupted: no text"),
    ],
)
def test_what_befell_the_run_blocks(tmp_path: Path, trouble: sample.Line, message: str) -> None:
    *record, last = sample.green()
    verdict = concluded(tmp_path, [*record, trouble, last])
    assert (verdict.state, verdict.finished, notices(verdict)) == ("incomplete", False, message)


def test_broken_tests_block(tmp_path: Path) -> None:
    broken = sample.finished(outcome="broken", text="Traceback\n  File x\nOSError: disk full")
    record = [broken if line["kind"] == "test" else line for line in sample.green()[:-1]]
    verdict = concluded(tmp_path, [*record, sample.end(exit_status=1, tests_failed=1)])
    assert (verdict.state, verdict.finished) == ("incomplete", False)
    assert f"1 test of the suite broke: {sample.id_of(sample.CASE)}. OSError: disk full" in notices(verdict)


@pytest.mark.parametrize(("outcome", "message"), [("failed", "no case explains it"), ("passed", "a case of it failed")])
def test_outcomes_are_held_against_the_cases(tmp_path: Path, outcome: str, message: str) -> None:
    record = sample.green() if outcome == "failed" else sample.red()
    record = [sample.finished(outcome=outcome) if line["kind"] == "test" else line for line in record]
    assert message in notices(concluded(tmp_path, record))


@pytest.mark.parametrize(("tier", "state"), [("numeric", "incomplete"), ("robustness", "conforms")])
def test_a_requirement_not_run_is_told(tmp_path: Path, tier: str, state: str) -> None:
    record = [
        sample.contract(sample.CONTRACT | {"IDLE": tier}) if line["kind"] == "contract" else line
        for line in sample.green()[:-1]
    ]
    verdict = concluded(tmp_path, [*record, sample.requirement("IDLE", "not run"), sample.end()])
    assert verdict.state == state
    assert verdict.finished
    assert "Not run: IDLE." in notices(verdict)


def replaced(record: list[sample.Line], verdict: sample.Line) -> list[sample.Line]:
    return [verdict if line["kind"] == "requirement" and line["id"] == verdict["id"] else line for line in record]


@pytest.mark.parametrize(
    "told",
    [
        sample.requirement("ROT-Q", "pass"),
        sample.requirement("ROT-Q", "FAIL", failed=2),
        sample.requirement("ROT-Q", "FAIL", failed=1, cases=2),
        sample.requirement("ROT-Q", "FAIL", failed=1, warned=1),
        sample.requirement("ROT-Q", "not run"),
    ],
)
def test_verdicts_are_held_against_the_cases(tmp_path: Path, told: sample.Line) -> None:
    assert concluded(tmp_path, sample.red()).notices == ()
    verdict = concluded(tmp_path, replaced(sample.red(), told))
    assert verdict.line == "does not conform: ROT-Q"
    assert not verdict.finished
    assert f"ROT-Q has the verdict {told['verdict']!r} of" in notices(verdict)
    assert "the record's cases show 1, 1 and 0." in notices(verdict)


def test_a_failure_that_the_verdicts_alone_tell_counts(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, replaced(sample.green(), sample.requirement("ROT-Q", "FAIL", failed=1)))
    assert verdict.line == "does not conform: ROT-Q"
    assert "the record's cases show 1, 0 and 0." in notices(verdict)


def test_missing_and_unknown_verdicts_block(tmp_path: Path) -> None:
    missing = [line for line in sample.green() if line.get("id") != "ROB-DUP"]
    assert "The record gives no verdict on ROB-DUP." in notices(concluded(tmp_path, missing))
    *record, last = sample.green()
    unknown = concluded(tmp_path, [*record, sample.requirement("ROT-K"), last])
    assert "a verdict on ROT-K, which its contract does not hold" in notices(unknown)
    none = concluded(tmp_path, [line for line in sample.green() if line["kind"] != "requirement"])
    assert "gives no verdict on any requirement" in notices(none)
    for verdict in (unknown, none):
        assert verdict.state == "incomplete"


def test_cases_of_an_unknown_requirement_block(tmp_path: Path) -> None:
    *record, last = sample.green()
    case = sample.case(sample.CASE, sample.finding("NEW"))
    verdict = concluded(tmp_path, [*record[:4], case, *record[4:], last])
    assert verdict.state == "incomplete"
    assert "Cases failed NEW, which the record's contract does not hold." in notices(verdict)


def shard(name: str, cases: list[str], checks: dict[str, float | None], **plan: bool) -> list[sample.Line]:
    """A part of the suite: `cases`, each looking at the requirements of `checks`."""
    told = [
        sample.requirement(id, cases=len(cases), worst=None)
        if id.replace("-", "_") in checks
        else sample.requirement(id, "not run")
        for id in sample.CONTRACT
    ]
    return [
        *sample.begun(name)[:-1],
        sample.plan(tests=len(cases), cases=len(cases), whole=False, **plan),
        *(each for line in cases for each in (sample.case(line, **checks), sample.finished(sample.id_of(line)))),
        *told,
        sample.end(cases=len(cases), tests_collected=len(cases)),
    ]


def test_shards_conform_together_and_not_alone(tmp_path: Path) -> None:
    rotation, slots = shard("one", CASES[:2], {"ROT_Q": 0.5}), shard("two", CASES[2:], {"ROB_DUP": None})
    both = concluded(tmp_path, rotation, slots)
    assert (both.state, both.finished) == ("conforms", True)
    assert notices(both) == "Not the whole suite was asked for: 4 tests."
    alone = concluded(tmp_path, slots)
    assert (alone.state, alone.finished) == ("incomplete", True)
    assert [notice.weight for notice in alone.notices if notice.blocks] == [UNSEEN]
    assert "Not run: ROT-Q." in notices(alone)


def test_a_whole_part_asked_for_every_test(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.green("one"), shard("two", CASES[2:], {"ROT_Q": 0.5}))
    assert (verdict.state, verdict.notices) == ("conforms", ())


def test_one_part_that_died_spoils_the_whole(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.green("one"), shard("two", CASES[1:], {"ROT_Q": 0.5})[:-1])
    assert (verdict.state, verdict.finished) == ("incomplete", False)
    assert "r1.jsonl: The record is incomplete: it has no end line" in notices(verdict)
    assert "r0.jsonl" not in notices(verdict)


def test_one_part_that_fails_fails_the_whole(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.green("one"), sample.red(name="two"))
    assert verdict.line == "does not conform: ROT-Q"
    assert "The records overlap in 1 test." in notices(verdict)
    assert f"The outcome differs from record to record: {sample.id_of(sample.CASE)}." in notices(verdict)
    assert verdict.finished


def test_parts_that_overlap_are_told(tmp_path: Path) -> None:
    verdict = concluded(tmp_path, sample.green("one"), sample.green("two", commit="ba9876543210"))
    assert verdict.state == "conforms"
    assert notices(verdict).splitlines() == [
        "The records were made at different commits.",
        "The records overlap in 1 test.",
    ]


def test_a_contradiction_of_one_part_is_not_made_up_for_by_another(tmp_path: Path) -> None:
    wrong = replaced(shard("two", CASES[1:], {"ROT_Q": 0.5}), sample.requirement("ROT-Q", cases=4))
    verdict = concluded(tmp_path, sample.green("one"), wrong)
    assert verdict.state == "incomplete"
    assert "r1.jsonl: ROT-Q has the verdict 'pass' of 4 cases" in notices(verdict)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("missing", "failing"),
    [
        ("", ""),
        ("", "ROT-Q"),
        ("", "ROB-DUP"),
        ("ROT-Q", ""),
        ("ROT-Q", "ROB-DUP"),
        ("ROB-DUP", ""),
        ("ROB-DUP", "ROT-Q"),
    ],
)
@pytest.mark.parametrize("ended", ["well", "broken", "interrupted"])
def test_the_terminal_and_the_report_agree(
    tmp_path: Path, strict: bool, missing: str, failing: str, ended: str
) -> None:
    tiers = {entry.id: entry.tier for entry in requirements().values()}
    seen = [id for id in tiers if id != missing]
    judgement, found = Judgement(), [Finding(failing, "a fault")] if failing else []
    for id in seen:
        judgement.looked(id, 96)
    judgement.findings.extend(found)
    ledger = Ledger()
    ledger.add(sample.CASE, judgement)
    failed = ledger.decides_failure(judgement, strict=strict)
    outcome = "broken" if ended == "broken" else "failed" if failed else "passed"
    status = 2 if ended == "interrupted" else 1 if failed or ended == "broken" else 0
    verdict = concluded(
        tmp_path,
        [
            *sample.begun(tiers=tiers, strict=strict),
            sample.case(sample.CASE, *(sample.finding(found.requirement) for found in found), **dict.fromkeys(seen)),
            sample.finished(outcome=outcome),
            *([sample.trouble("interrupted")] if ended == "interrupted" else []),
            *(
                sample.requirement(id, entry.verdict, cases=len(entry.cases), failed=len(entry.failed))
                for id, entry in ledger.entries.items()
            ),
            sample.end(exit_status=status, tests_failed=int(outcome != "passed")),
        ],
    )
    broken, interrupted = int(ended == "broken"), ended == "interrupted"
    printed = terminal.summary(ledger, strict=strict, broken=broken, interrupted=interrupted)
    line = "no verdict" if verdict.state == INCOMPLETE else verdict.line
    assert printed.startswith(line)
    assert (": robustness findings" in printed.replace(";", ":")) == bool(verdict.robustness)
