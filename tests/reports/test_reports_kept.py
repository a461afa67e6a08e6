"""However many cases fail, all are counted, and those that tell most are kept."""

from __future__ import annotations

import gc
from pathlib import Path

import sample_record as sample

from reports.kept import MOST_KEPT, Kept, story
from reports.model import Case, Finding, Run
from reports.record import read


def run_of(tmp_path: Path, *cases: sample.Line) -> Run:
    [run] = read([sample.write(tmp_path / "r.jsonl", [*sample.begun(), *cases])])
    return run


def failing(number: int, what: str, tokens: int = 3, **texts: str) -> sample.Line:
    return sample.case(f"f32 T={tokens} seed={number}", sample.finding("ROT-Q", what, **texts), tokens=tokens)


def shown(cases: tuple[Case, ...], requirement: str) -> list[Case]:
    return [case for case in cases if any(found.requirement == requirement for found in case.findings)]


def test_stories_differ_in_words_not_in_figures() -> None:
    def told(what: str, looks_like: str = "") -> tuple[str, str]:
        return story(Finding("ROT-Q", what, "", "", looks_like, "failure"))

    assert told("largest error 6.92e+03 of 1,024") == told("largest error 7.08e-01 of 9")
    assert told("largest error 6") != told("largest error of 6 elements")
    assert told("x", "GPT-J pairs") != told("x")


def test_all_are_counted_and_few_are_kept(tmp_path: Path) -> None:
    run = run_of(tmp_path, *(failing(n, f"error {n}", tokens=1 + n % 100) for n in range(3000)))
    assert run.requirements[0].failed == 3000
    assert run.index.verdicts.count("fail") == 3000
    assert len(run.found) == MOST_KEPT
    # The smallest ones: 30 of one token, then of two.
    assert sorted({case.size for case in run.found}) == [64, 128]


def test_the_smallest_case_of_each_story_is_kept(tmp_path: Path) -> None:
    """Whatever comes first, and though a larger one alone tells it."""
    many = [failing(n, f"error {n}") for n in range(500)]
    rare = [failing(500, "error 3", 90, looks_like="GPT-J pairs"), failing(501, "another", 80)]
    smaller = [failing(502, "error 4", 70, looks_like="GPT-J pairs"), failing(503, "error 1", 1)]
    for cases in ([*many, *rare, *smaller], [*smaller, *rare, *many], [*rare, *many, *smaller]):
        run = run_of(tmp_path, *cases)
        lines = {case.line for case in run.found}
        assert {"f32 T=70 seed=502", "f32 T=80 seed=501", "f32 T=1 seed=503"} <= lines
        assert len(lines) == MOST_KEPT


def test_what_is_not_kept_is_forgotten() -> None:
    """However the cases shrink."""
    kept = Kept()
    for size in range(1000, 0, -1):
        kept.add(Case("test_x", f"f32 T={size}", size, (Finding("ROT-Q", "x", "", "", "", "failure"),), "", ()))
    assert [case.size for case in kept.cases()] == list(range(MOST_KEPT, 0, -1))
    held = [each for each in gc.get_objects() if type(each) is Case and each.test == "test_x"]
    assert len(held) <= MOST_KEPT + 1


def test_more_stories_than_are_kept(tmp_path: Path) -> None:
    words = [f"{one}{other}" for one in "abcdefghij" for other in "abcdefghij"]
    run = run_of(tmp_path, *(failing(n, word) for n, word in enumerate(words)))
    assert len(run.found) == MOST_KEPT
    assert run.requirements[0].failed == len(words)


def test_failures_and_warnings_are_kept_apart(tmp_path: Path) -> None:
    warned = [sample.case(f"f32 T=1 seed={n}", sample.warning("ROT-Q"), tokens=1) for n in range(100)]
    run = run_of(tmp_path, *warned, failing(0, "the one failure", tokens=500))
    assert "the one failure" in {case.findings[0].what for case in run.found}
    assert len(run.found) == MOST_KEPT + 1
    assert (run.requirements[0].warned, run.requirements[0].failed) == (100, 1)


def test_each_requirement_has_its_own(tmp_path: Path) -> None:
    cases = [sample.case(f"f32 T=3 seed={n}", sample.finding("ROT-Q"), sample.finding("ROB-DUP")) for n in range(99)]
    other = sample.case("f32 T=900", sample.finding("ROB-DUP", "a rare one"), tokens=900)
    run = run_of(tmp_path, *cases, other)
    assert len(shown(run.found, "ROT-Q")) == MOST_KEPT
    assert shown(run.found, "ROB-DUP")[-1].line == "f32 T=900"


def test_kept_cases_come_in_the_order_of_the_record(tmp_path: Path) -> None:
    run = run_of(tmp_path, failing(0, "b", 9), failing(1, "a", 1), failing(2, "b", 5))
    assert [case.line for case in run.found] == ["f32 T=9 seed=0", "f32 T=1 seed=1", "f32 T=5 seed=2"]


def test_what_stands_twice_is_kept_once(tmp_path: Path) -> None:
    run = run_of(tmp_path, failing(0, "a"), failing(0, "a"), failing(0, "b"))
    assert [case.findings[0].what for case in run.found] == ["a", "b"]
