"""What got worse is a regression and is named; what scatters, is new or got better is none."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import sample_record as sample
from sample_night import LINES, benchmark, digest, night, not_looked_at, scored, without_requirement

from reports.compare import SCATTER_NIGHTS, Change, Changes, Rerun, compare, confirmed, suspects
from reports.digest import ClassNight, Digest, Peak


@pytest.fixture
def before(tmp_path: Path) -> Digest:
    return night(tmp_path)


def _only(changes: Changes) -> Change:
    [change] = changes.changes
    return change


def test_equal_nights_differ_in_nothing(before: Digest) -> None:
    assert compare([before], replace(before, run_id="second")) == Changes(before)


def test_without_a_held_night_there_is_nothing_to_compare_with(before: Digest) -> None:
    assert compare([], before) == Changes(None)


def test_a_run_that_did_not_finish_is_not_compared(before: Digest) -> None:
    assert compare([before], replace(before, finished=False, planned=frozenset())).changes == ()


def test_a_generated_case_is_not_planned_and_does_not_hide_one(tmp_path: Path) -> None:
    drawn = sample.case(LINES[0], drawn=True, measure=sample.measure(0.9), ROT_Q=0.9)
    planned = sample.case(LINES[1], measure=sample.measure(0.5), ROT_Q=0.5)
    made = digest(tmp_path / "both.jsonl", [*sample.begun(), drawn, planned, sample.end()])
    [cell] = made.cells.values()
    assert made.planned == {LINES[1]}
    assert made.requirements["ROT-Q"].planned == cell.planned == Peak(0.5, LINES[1])
    assert made.requirements["ROT-Q"].worst == cell.worst == 0.9


def test_vanished_cases_are_counted_and_one_is_shown(before: Digest) -> None:
    change = _only(compare([before], replace(before, planned=frozenset(LINES[:1]))))
    assert change.is_regression
    assert "2 cases of 3 planned vanished" in change.text
    assert LINES[1] in change.text


def test_new_cases_are_told_and_are_no_regression(before: Digest) -> None:
    change = _only(compare([replace(before, planned=frozenset(LINES[:1]))], before))
    assert (change.kind, change.severity) == ("cases new", "neutral")


@pytest.mark.parametrize("lost", [without_requirement, not_looked_at])
def test_a_vanished_requirement_is_a_regression(before: Digest, lost: object) -> None:
    change = _only(compare([before], lost(before, "ROT-Q")))  # type: ignore[operator]
    assert change.kind == "requirement vanished"
    assert change.is_regression
    assert "ROT-Q" in change.text


def test_a_requirement_that_fails_is_a_regression_where_it_decides(before: Digest) -> None:
    entry = replace(before.requirements["ROT-Q"], verdict="FAIL")
    failing = replace(before, requirements={**before.requirements, "ROT-Q": entry}, failing=("ROT-Q",))
    assert _only(compare([before], failing)).is_regression
    assert not _only(compare([before], replace(failing, failing=(), robustness=("ROT-Q",)))).is_regression
    assert _only(compare([failing], before)).severity == "improvement"


@pytest.mark.parametrize(
    ("after", "regresses"), [(0.5, False), (0.5049, False), (0.5051, True), (0.99, True), (0.2, False)]
)
def test_errors_of_planned_cases_may_not_grow(before: Digest, after: float, regresses: bool) -> None:
    changes = compare([before], scored(before, after))
    assert bool(changes.regressions) == regresses
    if regresses:
        assert "ROT-Q: error over bound 0.5 -> " in changes.regressions[0].text
        assert LINES[0] in changes.regressions[0].text


def test_a_growth_below_a_thousandth_of_the_bound_is_none(before: Digest) -> None:
    assert not compare([scored(before, 1e-5)], scored(before, 9e-4)).changes


def test_a_cell_that_errs_more_is_named_though_its_requirement_does_not(before: Digest) -> None:
    [(key, cell)] = before.cells.items()
    worse = replace(before, cells={key: replace(cell, planned=Peak(0.75, LINES[1]))})
    change = _only(compare([before], worse))
    assert change.is_regression
    assert "exact-angle: error over bound 0.5 -> 0.75 for float32 at positions 10^1-10^2" in change.text


def test_cells_of_a_class_that_was_not_kept_do_not_count(before: Digest) -> None:
    [(key, cell)] = before.cells.items()
    left = replace(before, classes={"exact-angle": ClassNight(False, 9.5, 6)})
    assert not compare([left], replace(left, cells={key: replace(cell, planned=Peak(50.0, LINES[1]))})).changes


def test_a_larger_error_in_a_new_case_is_told_and_is_no_regression(before: Digest) -> None:
    case = LINES[0].replace("seed=0", "seed=9")
    changes = compare([before], replace(scored(before, 0.9, case=case), planned=before.planned | {case}))
    assert [change.kind for change in changes.changes] == ["cases new", "error in a new case"]
    assert not changes.regressions


def test_errors_under_other_bounds_are_not_compared(before: Digest) -> None:
    changes = compare([before], replace(scored(before, 0.99), standard="other"))
    assert _only(changes).kind == "bounds changed"


def test_generated_cases_scatter(before: Digest) -> None:
    """Ten nights whose draws err by 0.3 to 0.6 of the bound raise nothing, in a thousand tries."""
    draw = random.Random(0)
    for _ in range(1000):
        past: list[Digest] = []
        for _ in range(10):
            now = scored(before, 0.25, draw.uniform(0.3, 0.6))
            assert not compare(past, now).regressions
            past.append(now)


def test_a_generated_case_far_beyond_what_past_nights_scattered_is_a_regression(before: Digest) -> None:
    past = [scored(before, 0.1, worst) for worst in (0.2, 0.25, 0.22)]
    assert len(past) == SCATTER_NIGHTS
    worse = scored(before, 0.1, 0.6)
    assert "0.6 in a generated case; at most 0.25 on 3 past nights" in _only(compare(past, worse)).text
    assert not compare(past[1:], worse).regressions


def test_a_class_that_is_lost_is_a_regression(before: Digest) -> None:
    lost = replace(before, classes={**before.classes, "exact-angle": ClassNight(False, 9.5, 6)})
    change = _only(compare([before], lost))
    assert (change.kind, change.is_regression) == ("class lost", True)
    assert "exact-angle is no longer kept: worst score 0.5 -> 9.5, from position 6 on" in change.text
    assert _only(compare([lost], before)).kind == "class gained"


def test_slower_is_a_regression_only_where_a_rerun_confirms_it(before: Digest) -> None:
    past = [replace(before, benchmarks=(benchmark(),))]
    now = replace(before, benchmarks=(benchmark(median=1.3e-3),))
    assert suspects(past, now) == ("decode",)
    assert _only(compare(past, now)).severity == "neutral"
    why = Rerun(why="not measured again: the baseline was made outside git")
    assert why.why in _only(compare(past, now, why)).text
    base, slow = (benchmark(),) * 5, (benchmark(median=1.3e-3),) * 5
    noise = _only(compare(past, now, Rerun({"decode": base}, {"decode": base})))
    assert (noise.kind, noise.severity) == ("slower, not confirmed", "neutral")
    change = _only(compare(past, now, Rerun({"decode": base}, {"decode": slow})))
    assert (change.kind, change.is_regression) == ("slower", True)
    assert "decode: median 1 ms -> 1.3 ms (1.30 times)" in change.text


def test_the_night_that_timed_last_is_compared_with(before: Digest) -> None:
    past = [replace(before, benchmarks=(benchmark(),)), before]
    assert suspects(past, replace(before, benchmarks=(benchmark(median=2e-3),))) == ("decode",)
    assert _only(compare(past, before)).kind == "not timed"


def test_on_another_machine_shares_are_compared(before: Digest) -> None:
    past = [replace(before, benchmarks=(benchmark(),))]
    for share, suspected in ((0.5, ()), (0.3, ("decode",))):
        now = replace(before, machine="another", benchmarks=(benchmark(median=5e-3, share=share),))
        assert suspects(past, now) == suspected


def test_the_speed_of_the_oracle_is_not_the_kernels(before: Digest) -> None:
    past = [replace(before, benchmarks=(benchmark(share=None),))]
    now = replace(before, benchmarks=(benchmark(median=2e-3, share=None),))
    assert not compare(past, now).changes


def test_a_benchmark_that_vanished_is_a_regression(before: Digest) -> None:
    past = [replace(before, benchmarks=(benchmark(), benchmark("prefill")))]
    assert _only(compare(past, replace(before, benchmarks=(benchmark(),)))).is_regression


def test_faster_is_told(before: Digest) -> None:
    past = [replace(before, benchmarks=(benchmark(),))]
    assert _only(compare(past, replace(before, benchmarks=(benchmark(median=5e-4),)))).severity == "improvement"


def test_one_round_in_which_head_was_not_slower_confirms_nothing() -> None:
    base, slow = benchmark(), benchmark(median=1.5e-3)
    assert confirmed([base] * 5, [slow] * 5)
    assert not confirmed([base] * 5, [slow] * 4 + [base])


def test_equal_code_on_a_busy_machine_is_hardly_ever_confirmed() -> None:
    """Of a thousand suspects one at most, where the medians of nine rounds scatter by 20%."""
    draw = random.Random(0)

    def measured() -> list[object]:
        return [benchmark(median=1e-3 * draw.lognormvariate(0, 0.2)) for _ in range(9)]

    assert sum(confirmed(measured(), measured()) for _ in range(5000)) <= 5  # type: ignore[arg-type]
