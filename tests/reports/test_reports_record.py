"""Records are read whole, torn ones as far as they go, and others refused in a line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import sample_record as sample

from conformance.case import Case
from conformance.finding import Finding, Judgement
from conformance.ledger import Ledger
from conformance.record import Recorder
from reports.record import RecordError, read


def test_reads_what_the_suite_writes(tmp_path: Path) -> None:
    path, ledger, case = tmp_path / "run.jsonl", Ledger(), Case()
    judgement = Judgement()
    judgement.looked("ROT-Q", 96, math.inf)
    judgement.found(Finding("ROT-Q", "q_rot is beyond its bound", where="token 0", looks_like="GPT-J pairs"))
    ledger.add(str(case), judgement)
    recorder = Recorder(path)
    recorder.run({"target": "host"})
    recorder.case("test_shapes", [case], judgement, 0, "seen once")
    for entry in ledger.entries.values():
        recorder.requirement(entry)
    recorder.end({"exit_status": 1, "cases": 1, "tests_failed": 1, "tests_collected": 1, "seconds": 0.5})

    record = read(path)

    assert record.run["target"] == "host"
    [read_case] = record.cases
    assert (read_case.line, read_case.note, read_case.test) == (str(case), "seen once", "test_shapes")
    assert read_case.checks["ROT-Q"].elements == 96
    assert read_case.checks["ROT-Q"].worst == math.inf
    [found] = read_case.findings
    assert (found.what, found.where, found.extent) == ("q_rot is beyond its bound", "token 0", "")
    assert (found.looks_like, found.severity) == ("GPT-J pairs", "failure")
    verdicts = {entry.id: entry.verdict for entry in record.requirements}
    assert verdicts == {id: entry.verdict for id, entry in ledger.entries.items()}
    assert verdicts["ROT-Q"] == "FAIL"
    assert record.end is not None
    assert record.end.exit_status == 1
    assert not record.torn


def test_a_torn_last_line_leaves_the_rest(tmp_path: Path) -> None:
    record = read(sample.write(tmp_path / "r.jsonl", sample.green()[:2], rest='{"kind": "case", "te'))
    assert record.torn
    assert record.end is None
    assert record.distinct_cases == 1


def test_a_last_line_that_only_lacks_its_newline_is_whole(tmp_path: Path) -> None:
    path = sample.write(tmp_path / "r.jsonl", sample.green())
    path.write_text(path.read_text().rstrip("\n"))
    record = read(path)
    assert not record.torn
    assert record.end is not None


def test_one_line_holds_any_text(tmp_path: Path) -> None:
    # str.splitlines would cut a line at U+2028.
    path = sample.write(tmp_path / "r.jsonl", [sample.run(device="a")])
    path.write_text(path.read_text().replace('"a"', '"a\u2028b"'), encoding="utf-8")
    assert read(path).run["device"] == "a\u2028b"


@pytest.mark.parametrize(
    ("lines", "rest", "message"),
    [
        ([], "", "does not begin with a line of kind 'run'"),
        ([], '{"kind": "ru', "does not begin with a line of kind 'run'"),
        ([sample.case()], "", "does not begin with a line of kind 'run'"),
        ([sample.run(format=2)], "", "has record format 2; this report reads format 1"),
        ([sample.run(), {"kind": "remark"}], "", "line 2: unknown kind 'remark'"),
        ([sample.run(), {"kind": "case"}], "", "line 2: malformed line of kind 'case'"),
        ([sample.run(), sample.end(), sample.case()], "", "line 3: a line of kind 'case' after the end"),
        ([sample.run(), sample.requirement("A", "numeric", "fine")], "", "unknown verdict 'fine'"),
        ([sample.run(), sample.case("c", sample.finding("A") | {"severity": "bad"})], "", "unknown severity 'bad'"),
        ([sample.run()], "nonsense\n", "line 2 is not a JSON object"),
        ([sample.run()], "[1]\n", "line 2 is not a JSON object"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, lines: list[sample.Line], rest: str, message: str) -> None:
    with pytest.raises(RecordError) as refused:
        read(sample.write(tmp_path / "r.jsonl", lines, rest))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_other_files_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "b.jsonl"
    binary.write_bytes(b"\x80\xff\x00")
    for path, message in (
        (binary, "not UTF-8"),
        (tmp_path / "none.jsonl", "no such record"),
        (tmp_path, "cannot read"),
    ):
        with pytest.raises(RecordError, match=message):
            read(path)
