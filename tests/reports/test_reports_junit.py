"""The XML tells what the record tells, and any parser reads it."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import sample_record as sample

from reports import junit
from reports.record import read


def suites(tmp_path: Path, *records: list[sample.Line]) -> list[ElementTree.Element]:
    text = junit.render(read(sample.write_each(tmp_path, *records)))
    root = ElementTree.fromstring(text.encode())
    assert root.tag == "testsuites"
    found = root.findall("testsuite")
    for counted in ("tests", "failures", "errors", "skipped"):
        assert int(root.get(counted, "")) == sum(int(suite.get(counted, "")) for suite in found)
    for suite in found:
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
        assert int(suite.get("failures", "")) == len(suite.findall(".//failure"))
        assert int(suite.get("errors", "")) == len(suite.findall(".//error"))
    return found


def test_green(tmp_path: Path) -> None:
    [suite] = suites(tmp_path, sample.green())
    assert (suite.get("name"), suite.get("timestamp")) == ("host (CPU x86_64)", "2026-12-01T15:30:00Z")
    test, record = suite.findall("testcase")
    assert (test.get("classname"), test.get("time")) == ("conformance.test_rotation", "0.500")
    assert test.get("name") == f"test_shapes[{sample.CASE}]"
    assert (record.get("classname"), len(list(record))) == ("record", 0)
    assert (suite.get("failures"), suite.get("errors"), suite.get("time")) == ("0", "0", "0.500")
    facts = {each.get("name"): each.get("value") for each in suite.iter("property")}
    assert (facts["math"], facts["torch"], facts["decides"]) == ("libm", "2.9.0", "exact-angle")


def test_a_failure_holds_its_findings(tmp_path: Path) -> None:
    texts = {"where": "token 0, head 1", "extent": "46 of 72", "looks_like": "GPT-J pairs"}
    [suite] = suites(tmp_path, sample.red(sample.finding("ROT-Q", **texts)))
    [failure] = suite.iter("failure")
    assert failure.get("message") == "failed ROT-Q"
    for text in (*texts.values(), "failure of ROT-Q: q_rot is beyond", f"case: {sample.CASE}"):
        assert text in (failure.text or "")


def test_findings_that_do_not_decide_fail_no_test(tmp_path: Path) -> None:
    [suite] = suites(tmp_path, sample.found())
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")
    [output] = suite.iter("system-out")
    assert "failure of ROB-DUP: neither candidate" in (output.text or "")
    assert "warning of ROT-ZERO: changed at position 0" in (output.text or "")


def test_a_failure_whose_case_is_not_kept_is_still_one(tmp_path: Path) -> None:
    lines = [f"f32 T=3 seed={number}" for number in range(100)]
    cases = [
        each
        for line in lines
        for each in (sample.case(line, sample.finding("ROT-Q")), sample.finished(sample.id_of(line), "failed"))
    ]
    [suite] = suites(tmp_path, [*sample.begun(), *cases])
    texts = [failure.text or "" for failure in suite.iter("failure")]
    assert len(texts) == 100
    assert sum("The record holds its findings" in text for text in texts) == 60


def test_broken_tests_and_troubles_are_errors(tmp_path: Path) -> None:
    broken = sample.finished(outcome="broken", text="Traceback\nOSError: disk full")
    record = [*sample.begun(), sample.case(), broken, sample.trouble(text="no torch")]
    [suite] = suites(tmp_path, record)
    test, trouble, whole = suite.iter("error")
    assert "disk full" in (test.text or "")
    assert (trouble.get("message"), trouble.text) == ("collection", "no torch")
    assert "it has no end line" in (whole.text or "")


def test_a_run_that_died_is_not_green(tmp_path: Path) -> None:
    [suite] = suites(tmp_path, sample.crashed())
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
    [error] = suite.iter("error")
    assert "Of 4 planned tests 2 finished." in (error.text or "")


def test_each_run_has_its_suite(tmp_path: Path) -> None:
    names = [suite.get("name") for suite in suites(tmp_path, *sample.two_targets())]
    assert names == ["host (CPU x86_64)", "my_kernels.py:rope (GPU)"]


def test_no_text_breaks_the_file(tmp_path: Path) -> None:
    """Markup is escaped; what XML 1.0 cannot write is replaced."""
    markup = "]]></failure><script>alert('&\"')</script>"
    nasty = f"{markup}\x00\x1b[31m\x07\ufffe\ud800 \U0001f600 tab\t"
    record = [
        sample.run(target=nasty, device=nasty, machine=nasty, **{nasty: nasty}),
        *sample.begun()[1:],
        sample.case(nasty, sample.finding(nasty, nasty, where=nasty), test=f"{nasty}::{nasty}", note=nasty),
        sample.finished(f"{nasty}::{nasty}", "failed"),
        sample.finished(nasty, "broken", text=nasty),
        sample.trouble("internal", nasty, nasty),
    ]
    [suite] = suites(tmp_path, record)
    clean = f"{markup}\ufffd\ufffd[31m\ufffd\ufffd? \U0001f600 tab\t"
    assert suite.get("name") == f"{clean} ({clean})"
    failure = next(suite.iter("failure"))
    assert f"failure of {clean}: {clean}" in (failure.text or "")
    assert not list(suite.iter("script"))
