"""Records of one run are parts of it; others stay apart; what is counted does not depend on how it was split."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
import sample_record as sample

from reports.model import Run
from reports.record import RecordError, read

LINES = [sample.CASE.replace("seed=0", f"seed={seed}") for seed in range(6)]


def made(line: str, outcome: str = "passed", *findings: sample.Line, **fields: Any) -> list[sample.Line]:
    """A case and its test."""
    return [sample.case(line, *findings, **fields), sample.finished(sample.id_of(line), outcome)]


def events() -> list[sample.Line]:
    """Six tests: other findings, scores and measures, one line in two of them."""
    return [
        *made(LINES[0], ROT_Q=0.5, measure=sample.measure(0.5, 0.25)),
        *made(LINES[1], "failed", sample.finding("ROT-Q"), ROT_Q=9.5, measure=sample.measure(0.125, 9.5, beyond=70)),
        *made(LINES[2], "passed", sample.finding("ROB-DUP", "neither"), ROB_DUP=None),
        sample.case(LINES[0], sample.warning("ROT-Q"), test="a.py::test_again", ROT_Q=0.75),
        sample.finished("a.py::test_again"),
        *made(LINES[3], "failed", sample.finding("ROT-Q", looks_like="pairs"), ROT_Q="inf", tokens=1),
        *made(LINES[4], measure=sample.measure(3.5, beyond=6, dtype="float16", uninformative=9), drawn=True, ROT_K=0.5),
    ]


def merged(tmp_path: Path, *parts: list[sample.Line]) -> Run:
    records = [[*sample.begun(f"part {number}"), *lines] for number, lines in enumerate(parts)]
    [run] = read(sample.write_each(tmp_path, *records))
    return run


@pytest.mark.parametrize("cut", range(14))
def test_what_is_counted_does_not_depend_on_the_split(tmp_path: Path, cut: int) -> None:
    whole, parts = merged(tmp_path, events()), merged(tmp_path, events()[:cut], events()[cut:])
    for field in dataclasses.fields(Run):
        if field.name not in ("parts", "tests", "facts"):
            assert getattr(parts, field.name) == getattr(whole, field.name), field.name
    assert [test.id for test in parts.tests] == [test.id for test in whole.tests]
    assert sum(part.tests for part in parts.parts) == whole.parts[0].tests
    assert parts.index.lines == (*LINES[:3], *LINES[3:5])


def test_the_order_of_the_parts_changes_no_count(tmp_path: Path) -> None:
    one, other = merged(tmp_path, events()[:5], events()[5:]), merged(tmp_path, events()[5:], events()[:5])
    assert one.requirements[:2] == other.requirements[:2]
    assert (one.classes, one.ulps, set(one.found)) == (other.classes, other.ulps, set(other.found))


def test_the_parts_keep_their_own_counts(tmp_path: Path) -> None:
    first, second = merged(tmp_path, events()[:4], events()[4:]).parts
    assert [part.counted[0].failed for part in (first, second)] == [1, 1]
    assert [part.failed_cases for part in (first, second)] == [1, 2]
    assert [part.distinct_cases for part in (first, second)] == [2, 4]
    assert first.run_id != second.run_id


def test_tests_know_their_part(tmp_path: Path) -> None:
    run = merged(tmp_path, events()[:2], events()[:2])
    assert [(test.id, test.part) for test in run.tests] == [(sample.id_of(LINES[0]), part) for part in (0, 1)]


@pytest.mark.parametrize(
    "other",
    [
        {"target": "my_kernels.py:rope"},
        {"device": "GPU"},
        {"compiler": "clang 19"},
        {"shader": "rope_pool_fused.metal 0011223344ff"},
        {"math": "metal-fast"},
        {"accuracy": "fast"},
        {"decides": "fast"},
        {"launch": "split"},
        {"strict": True},
        {"profile": "nightly"},
        {"arithmetic": "not measured"},
        {"terms": []},
        {"allowed": dict.fromkeys(sample.standard()["allowed"], True)},
        {"versions": {"suite": "0.2.0"}},
        {"a fact of the target": "that this suite does not know"},
    ],
)
def test_another_standard_is_another_run(tmp_path: Path, other: dict[str, Any]) -> None:
    runs = read(sample.write_each(tmp_path, sample.green("one"), sample.green("two", **other)))
    assert [len(run.parts) for run in runs] == [1, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"started": "2026-12-02T00:00:00Z"},
        {"seed": "7"},
        {"machine": "another one"},
        {"commit": "ba9876543210"},
        {"shader path": "elsewhere/rope_pool_fused.metal"},
        {"pools": "unknown: the probe returned none"},
        {"probes": []},
    ],
)
def test_another_worker_is_a_part(tmp_path: Path, other: dict[str, Any]) -> None:
    [run] = read(sample.write_each(tmp_path, sample.green("one"), sample.green("two", **other)))
    assert len(run.parts) == 2
    name = next(iter(other))
    assert run.parts[1].facts[name] == other[name]


def test_another_contract_is_another_run(tmp_path: Path) -> None:
    first, _, *rest = sample.green("two")
    other = [first, sample.contract(sample.CONTRACT, sentence="Otherwise"), *rest]
    assert len(read(sample.write_each(tmp_path, sample.green("one"), other))) == 2


def test_a_part_that_died_before_its_contract_still_belongs(tmp_path: Path) -> None:
    for records in ((sample.begun("one")[:1], sample.green("two")), (sample.green("two"), sample.begun("one")[:1])):
        [run] = read(sample.write_each(tmp_path, *records))
        assert len(run.parts) == 2
        assert [entry.id for entry in run.requirements] == ["ROT-Q", "ROB-DUP"]


def test_runs_come_in_the_order_given(tmp_path: Path) -> None:
    one, other = sample.two_targets()
    paths = sample.write_each(tmp_path, other, one, sample.green("three"))
    runs = read(paths)
    assert [run.facts["target"] for run in runs] == ["my_kernels.py:rope", "host"]
    assert [[Path(part.path) for part in run.parts] for run in runs] == [paths[:1], paths[1:]]


def test_the_same_record_twice_is_refused(tmp_path: Path) -> None:
    path = sample.write(tmp_path / "r.jsonl", sample.green())
    copy = sample.write(tmp_path / "copy.jsonl", sample.green())
    link = tmp_path / "link.jsonl"
    os.symlink(path, link)
    for other, message in (
        (path, "r.jsonl is given twice"),
        (link, "link.jsonl is given twice"),
        (tmp_path / "." / "r.jsonl", "given twice"),
        (copy, "r.jsonl and .*copy.jsonl are records of the same run"),
    ):
        with pytest.raises(RecordError, match=message):
            read([path, other])


def test_a_malformed_contract_is_told_with_its_file(tmp_path: Path) -> None:
    paths = sample.write_each(tmp_path, sample.green("one"), [sample.run("two"), {"kind": "contract"}])
    with pytest.raises(RecordError, match=r"r1.jsonl, line 2: malformed line of kind 'contract'"):
        read(paths)
