"""The page tells a reviewer what accuracy was kept and what was allowed, and an engineer where it was lost."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import sample_record as sample
from shown_page import Page, page

from reports.accuracy import SHOWN_PAIRS, accuracy
from reports.record import read


def told(shown: Page, caption: str) -> str:
    """The table of a caption."""
    return next(text for text in shown.texts["table"] if caption in text)


def left(*scores: float, accuracy: str = "exact-angle", beyond: int = 6, decade: int = 1) -> sample.Line:
    return sample.measure(*(scores or (9.5,)), accuracy=accuracy, beyond=beyond, decade=decade)


def held_to(decides: str, *measures: sample.Line, **facts: str) -> list[sample.Line]:
    first, *rest = sample.measured(*measures)
    return [first | {"decides": decides} | facts, *rest]


def test_a_class_kept_is_told_in_the_summary(tmp_path: Path) -> None:
    shown = page(tmp_path, held_to("exact-angle", accuracy="exact-angle"))
    assert "exact-angle decides" in told(shown, "Accuracy classes")
    assert shown.facts["tightest kept"] == "exact-angle"
    assert shown.facts["asked"] == "exact-angle"
    assert "Nowhere is the bound of exact-angle too wide" in shown.text("p")
    assert "no evidence." not in shown.text("p")


def test_with_auto_the_tightest_class_kept_is_told(tmp_path: Path) -> None:
    measures = sample.together(
        left(), sample.measure(0.75, accuracy="float32-angle"), sample.measure(0.1, accuracy="fast")
    )
    shown = page(tmp_path, held_to("fast", measures, accuracy="auto", target="mine:rope"))
    assert shown.facts["asked"] == "auto fast decides"
    assert shown.facts["tightest kept"] == "float32-angle"
    assert "left from position 6 on9.5" in told(shown, "Accuracy classes").replace("\n", "")
    # The command holds the case to the class that it left.
    [command] = {text for text in shown.texts["code"] if text.endswith("--accuracy exact-angle")}
    assert shlex.split(command)[-5:] == [sample.CASE, "--target", "mine:rope", "--accuracy", "exact-angle"]
    assert "A score is an error over the bound of float32-angle" in shown.text("p")


def test_no_class_kept(tmp_path: Path) -> None:
    shown = page(tmp_path, held_to("fast", sample.together(left(), left(accuracy="fast"))))
    assert shown.facts["tightest kept"] == "none"
    # The scores shown are those of the class that decides.
    assert "A score is an error over the bound of fast" in shown.text("p")


def test_the_scores_of_a_deciding_class_that_is_left_are_shown(tmp_path: Path) -> None:
    shown = page(tmp_path, held_to("exact-angle", sample.together(left(), sample.measure(0.5, accuracy="fast"))))
    assert shown.facts["tightest kept"] == "fast"
    assert "A score is an error over the bound of exact-angle" in shown.text("p")
    assert "1 of the cells are above the bound" in shown.text("figcaption")


def test_a_class_left_where_nothing_decided_says_so(tmp_path: Path) -> None:
    undecided = "This did not decide"
    assert undecided in page(tmp_path, sample.measured(left())).text("details")
    case = sample.case(sample.CASE, sample.finding("ROT-Q"), measure=left())
    lines = [case if line["kind"] == "case" else line for line in sample.red()]
    assert undecided not in page(tmp_path, lines).text("details")


def test_a_class_that_was_not_measured(tmp_path: Path) -> None:
    shown = page(tmp_path, held_to("fast"))
    rows = [text.split() for text in shown.texts["tr"] if text.startswith(("float32-angle", "fast"))]
    assert rows[:2] == [["float32-anglenot", "measured"], ["fast", "decidesnot", "measured"]]


def test_where_a_pass_is_no_evidence(tmp_path: Path) -> None:
    lines = sample.measured(
        sample.measure(0.5, decade=3, uninformative=400),
        sample.measure(0.5, dtype="float16", decade=2, uninformative=2),
        sample.measure(0.5, dtype="float16", decade=1),
    )
    shown = page(tmp_path, lines)
    words = "On 13.4% of the elements, from positions 10¹–10² on, the bound of exact-angle says nothing"
    assert words in shown.text("p")
    assert "A pass there is no evidence." in shown.text("p")
    assert {"40.0%", "0.2%"} <= set(shown.texts["td"])


def test_the_table_names_the_case_of_each_worst_score(tmp_path: Path) -> None:
    measures = sample.measure(0.25, 0.0, 0.0, decade=2), sample.measure(0.0, 0.0, 0.75, decade=2)
    shown = page(tmp_path, sample.measured(*measures, sample.measure(0.0, decade=0, error=0.0)))
    table = told(shown, "By dtype and position")
    assert "0.75" in table
    assert "1.5×10⁻⁷" in table
    # A score of 0 has no case worth a replay.
    assert table.count("conformance replay") == 1
    case = sample.CASE.replace("seed=0", "seed=1")
    assert f"conformance replay {shlex.quote(case)}" in table
    assert "--accuracy exact-angle" in table


def test_each_of_the_worst_pairs_is_told_once(tmp_path: Path) -> None:
    lines = sample.measured(
        sample.measure(*(0.01 * pair for pair in range(SHOWN_PAIRS + 5))),
        sample.measure(0.3, decade=3),
        sample.measure(0.9, 0.001, dtype="float16"),
    )
    [run] = read([sample.write(tmp_path / "r.jsonl", lines)])
    pairs = accuracy(run, "run-0").pairs
    assert [row.pair for row in pairs] == [0, *range(SHOWN_PAIRS + 4, 5, -1)]
    assert (pairs[0].cell.dtype, pairs[0].score, pairs[0].case) == (
        "float16",
        0.9,
        sample.CASE.replace("seed=0", "seed=2"),
    )
    assert pairs[1].cell.dtype == "float32"


def test_broken_bounds_stand_out(tmp_path: Path) -> None:
    html = page(tmp_path, sample.measured(left(9.5, 1.0))).html
    assert '<span class="over">9.5</span>' in html
    assert "<span>0.5</span>" in html


def test_the_ulps_are_told_in_numbers(tmp_path: Path) -> None:
    counts = {0: 900, 1: 60, -1: 40, 3: 5, -12: 2}
    shown = page(tmp_path, sample.measured(sample.measure(0.5, ulps=counts), sample.measure(0.5, ulps=counts)))
    table = told(shown, "distance from the nearest")
    for row in ("nearest1,800", "1 ulp80120", "3 to 4 ulps010", "more than 1,024 ulps40"):
        assert row in [text.replace("\n", "") for text in shown.texts["tr"]], row
    assert "float32" in table
    assert "89.4% of 2,014 elements are the nearest value" in shown.text("figcaption")


def test_terms_are_told_and_ours_are_marked(tmp_path: Path) -> None:
    terms = [
        sample.term("exact-angle", name="angle_error", value=2.0**-22, unit="rad"),
        sample.term("fast", source="ours: nobody promises it", reason="scaled to turns"),
    ]
    shown = page(tmp_path, sample.green(terms=terms))
    for text in ("angle_error", "2^-22 rad", "a specification", "4 ulp", "scaled to turns"):
        assert text in told(shown, "What each accuracy class grants")
    assert {"ours", "ours: nobody promises it"} <= set(shown.texts["strong"])


def test_probes_and_what_they_allow_are_told(tmp_path: Path) -> None:
    probes = [sample.probe(), sample.probe(name="half subnormal", measured="not measured", control="it crashed")]
    allowed = sample.standard()["allowed"] | {"flushes_half": True}
    shown = page(tmp_path, sample.green(probes=probes, allowed=allowed))
    for text in ("float32 sum", "to nearest", "toward zero seen in the control", "not measured", "it crashed"):
        assert text in told(shown, "Probes that ran")
    assert "Float16 subnormals may become zero." in shown.texts["li"]
    assert "Float32 and bfloat16 subnormals must be kept." in shown.texts["li"]


@pytest.mark.parametrize("freedom", list(sample.standard()["allowed"]))
def test_each_freedom_changes_one_sentence(tmp_path: Path, freedom: str) -> None:
    without = page(tmp_path, sample.green()).texts["li"]
    allowed = sample.standard()["allowed"] | {freedom: True}
    granted = page(tmp_path, sample.green(allowed=allowed)).texts["li"]
    assert [one == other for one, other in zip(without, granted, strict=True)].count(False) == 1


def test_a_target_that_no_probe_ran_on(tmp_path: Path) -> None:
    shown = page(tmp_path, sample.green(probes=[]))
    assert "Not measured: no probe ran on this target" in shown.text()
    assert "The target's arithmetic" in shown.text("h4")


def test_a_run_without_measures(tmp_path: Path) -> None:
    shown = page(tmp_path, sample.green())
    assert "The record holds no measure of accuracy." in shown.text()
    assert "No accuracy was measured." in shown.text()
    assert "svg" not in shown.tags
