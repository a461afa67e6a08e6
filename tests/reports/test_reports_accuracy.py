"""The page tells a reviewer what accuracy was kept and what was allowed, and an engineer where it was lost."""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict
from pathlib import Path

import pytest
import sample_record as sample
import torch
from shown_page import page

from conformance.accuracy import AccuracyBook
from conformance.measure import Decade, Kept, Measure
from conformance.standard import Standard
from reference import ACCURACY_CLASSES, EXACT_ANGLE, FAST, GRANTED
from reports.accuracy import SHOWN_PAIRS, accuracy
from reports.chart import draw
from reports.model import Cell
from reports.record import RecordError, read

OTHER = "f16 T=1 Hq=1 Hkv=1 D=8 P=8 base=10000 pos=rise:7 slots=holes values=normal seed=0"


def test_reads_the_lines_that_the_suite_writes(tmp_path: Path) -> None:
    standard = Standard(FAST, GRANTED, (EXACT_ANGLE,))
    book = AccuracyBook(standard)
    seen = Decade(64, 3, 1e-7, torch.tensor([0.25, math.inf], dtype=torch.float64))
    names = (EXACT_ANGLE.name, FAST.name)
    classes = {name: Kept(math.inf, 12) for name in names}
    book.add(OTHER, Measure("float16", {(name, 2): seen for name in names}, classes))
    terms = [{"class": a.name, **asdict(term)} for a in ACCURACY_CLASSES.values() for term in a.terms]
    facts = {"terms": terms, "probes": [], "allowed": asdict(GRANTED)}
    # The recorder writes infinities as text.
    lines = [{key: "inf" if value == math.inf else value for key, value in line.items()} for line in book.lines()]

    record = read(sample.write(tmp_path / "r.jsonl", [sample.run(**facts), *lines]))

    assert [(c.name, c.decides, c.beyond, c.case) for c in record.classes] == [
        (EXACT_ANGLE.name, False, 12, OTHER),
        (FAST.name, True, 12, OTHER),
    ]
    [cell] = record.cells
    assert (cell.accuracy, cell.positions, cell.uninformative) == (FAST.name, "10^1-10^2", 3)
    assert cell.pairs == ((0.25, 0), (math.inf, 0))
    assert record.standard is not None
    assert {(t.accuracy, t.name) for t in record.standard.terms if t.ours} == {(FAST.name, "trig_slope")}
    assert asdict(record.standard.allowed) == asdict(GRANTED)


def test_a_class_kept_is_told_in_the_head(tmp_path: Path) -> None:
    told = page(tmp_path, sample.measured()).text("header")
    assert "exact-angle" in told
    assert "kept, worst score 0.5" in told
    assert "Nowhere: on every element the bound of exact-angle" in told
    assert "no evidence." not in told
    # One class was asked for and measured: it is no discovery.
    assert "tightest" not in told


def test_with_auto_the_tightest_class_kept_is_told(tmp_path: Path) -> None:
    first, *rest = sample.measured(
        sample.left("exact-angle", decides=False), sample.kept("float32-angle", decides=False), sample.kept("fast")
    )
    shown = page(tmp_path, [first | {"accuracy": "auto", "target": "mine:rope"}, *rest])
    facts = dict(zip(shown.texts["dt"], shown.texts["dd"], strict=True))
    assert facts["accuracy class asked"] == "auto fast decides; the tighter classes are told of"
    assert facts["tightest class kept"] == "float32-angle"
    assert "left from position 6 on, worst score 9.5" in facts["exact-angle"]
    # The command holds the case to the class that it left.
    [command] = shown.texts["pre"]
    assert shlex.split(command)[-5:] == [sample.CASE, "--target", "mine:rope", "--accuracy", "exact-angle"]


@pytest.mark.parametrize(("first", "tightest"), [(sample.left("fast"), "none"), (sample.kept("fast"), "fast")])
def test_no_class_kept(tmp_path: Path, first: sample.Line, tightest: str) -> None:
    shown = page(tmp_path, sample.measured(sample.left("exact-angle", decides=False), first))
    assert dict(zip(shown.texts["dt"], shown.texts["dd"], strict=True))["tightest class kept"] == tightest


def test_a_class_left_where_nothing_decided_says_so(tmp_path: Path) -> None:
    undecided = "This did not decide"
    assert undecided in page(tmp_path, sample.measured(sample.left())).text("header")
    *lines, last = sample.red()
    assert undecided not in page(tmp_path, [*lines, sample.left(), last]).text("header")


def test_a_class_that_was_not_measured(tmp_path: Path) -> None:
    lines = sample.measured(sample.kept(worst=0.0) | {"kept": False})
    told = page(tmp_path, lines).text("header")
    assert "not measured" in told
    assert "worst score" not in told


def test_where_a_pass_is_no_evidence(tmp_path: Path) -> None:
    lines = sample.measured(
        sample.kept(),
        sample.cell([0.5, 0], decade=3, uninformative=400),
        sample.cell([0.5, 0], decade=2, uninformative=2, dtype="float16"),
        sample.cell([0.5, 0], decade=1, dtype="float16"),
    )
    shown = page(tmp_path, lines)
    told = "On 13.4% of the elements, from positions 10^1-10^2 on, the bound of exact-angle says nothing"
    assert told in shown.text("header")
    assert "A pass there is no evidence." in shown.text("header")
    assert {"40.0%", "0.2%"} <= set(shown.texts["td"])


def test_the_table_names_the_case_of_each_worst_score(tmp_path: Path) -> None:
    lines = sample.measured(
        sample.kept(worst=0.75),
        sample.cell([0.25, 0], None, [0.75, 1], cases=[sample.CASE, OTHER]),
        sample.cell([0.0, 0], decade=0, error=0.0),
    )
    shown = page(tmp_path, lines)
    table = shown.texts["table"][1]
    assert "0.75" in table
    assert "1.5e-07" in table
    # A score of 0 has no case worth a replay.
    assert table.count("conformance replay") == 1
    assert f"conformance replay {shlex.quote(OTHER)} --accuracy exact-angle" in table


def test_a_replay_holds_the_case_to_the_class_whose_scores_are_told(tmp_path: Path) -> None:
    first, *rest = sample.measured(sample.kept(decides=False), sample.kept("fast"), sample.cell([0.5, 0]))
    shown = page(tmp_path, [first | {"accuracy": "auto"}, *rest])
    assert {shlex.split(command)[-1] for command in shown.texts["pre"]} == {"exact-angle"}
    assert "a fraction of the bound of exact-angle" in shown.text()


def test_each_of_the_worst_pairs_is_told_once(tmp_path: Path) -> None:
    many = [[0.01 * pair, 0] for pair in range(SHOWN_PAIRS + 5)]
    path = sample.write(
        tmp_path / "r.jsonl",
        sample.measured(
            sample.cell(*many),
            sample.cell([0.3, 0], decade=3),
            sample.cell([0.9, 0], [0.001, 0], dtype="float16", cases=[OTHER]),
        ),
    )
    pairs = accuracy(read(path)).pairs
    assert [row.pair for row in pairs] == [0, *range(SHOWN_PAIRS + 4, 5, -1)]
    assert (pairs[0].cell.dtype, pairs[0].score, pairs[0].case) == ("float16", 0.9, OTHER)
    assert pairs[1].cell.dtype == "float32"


def test_broken_bounds_stand_out(tmp_path: Path) -> None:
    lines = sample.measured(sample.left(), sample.cell([9.5, 0], [1.0, 0]))
    html = page(tmp_path, lines).html
    assert '<span class="fail">9.5</span>' in html
    assert "<span>1</span>" in html


def read_cells(tmp_path: Path, *lines: sample.Line) -> list[Cell]:
    return list(read(sample.write(tmp_path / "r.jsonl", [sample.run(), *lines])).cells)


def test_the_chart_puts_scores_on_their_side_of_the_bound(tmp_path: Path) -> None:
    cells = read_cells(
        tmp_path,
        sample.cell([0.0, 0], decade=0),
        sample.cell([0.999, 0], decade=1),
        sample.cell([1.001, 0], decade=2),
        sample.cell(["inf", 0], decade=3, worst="inf"),
        sample.cell([1e7, 0], dtype="float64", decade=3),
    )
    chart = draw(cells)
    [first, second] = chart.lines
    # A score of 0 is left out.
    under, over, infinite = (point.y for point in first.points)
    assert chart.bottom > under > chart.limit > over > second.points[0].y > infinite
    assert [tick.label for tick in chart.positions] == ["0", "1", "10^1", "10^2"]
    assert "1" in [tick.label for tick in chart.scores]
    assert first.points[1].text == "float32, positions 10^1-10^2: >1"
    # Both dtypes have their last point above the same label.
    assert second.points[0].x == first.points[2].x == chart.positions[3].at


@pytest.mark.parametrize("worst", [1e-9, 1.0, 3e38, 1e300, math.inf])
def test_the_chart_stays_within_its_frame(tmp_path: Path, worst: float) -> None:
    score = "inf" if worst == math.inf else worst
    chart = draw(read_cells(tmp_path, sample.cell([score, 0], worst=score)))
    [[point]] = [line.points for line in chart.lines]
    assert 0 < point.y <= chart.bottom
    assert chart.left <= point.x <= chart.right
    assert all(0 < tick.at <= chart.bottom for tick in chart.scores)
    assert len(chart.scores) <= 10


def test_terms_are_told_and_ours_are_marked(tmp_path: Path) -> None:
    terms = [
        sample.term("exact-angle", name="angle_error", value=2.0**-22, unit="rad"),
        sample.term("fast", source="ours: nobody promises it", reason="scaled to turns"),
    ]
    first, *rest = sample.measured()
    shown = page(tmp_path, [first | sample.standard(terms=terms), *rest])
    told = shown.texts["table"][-2]
    for text in ("angle_error", "2^-22 rad", "a specification", "4 ulp", "scaled to turns"):
        assert text in told
    assert shown.texts["strong"] == ["ours", "ours: nobody promises it"]


def test_probes_and_what_they_allow_are_told(tmp_path: Path) -> None:
    probes = [sample.probe(), sample.probe(name="half subnormal", measured="not measured", control="it crashed")]
    allowed = sample.standard()["allowed"] | {"flushes_half": True}
    first, *rest = sample.measured()
    shown = page(tmp_path, [first | sample.standard(probes=probes, allowed=allowed), *rest])
    for text in ("float32 sum", "to nearest", "toward zero seen in the control", "not measured", "it crashed"):
        assert text in shown.texts["table"][-1]
    assert "Float16 subnormals may become zero." in shown.texts["li"]
    assert "Float32 and bfloat16 subnormals must be kept." in shown.texts["li"]


@pytest.mark.parametrize("freedom", list(sample.standard()["allowed"]))
def test_each_freedom_changes_one_sentence(tmp_path: Path, freedom: str) -> None:
    first, *rest = sample.measured()
    without = page(tmp_path, [first, *rest]).texts["li"]
    allowed = sample.standard()["allowed"] | {freedom: True}
    granted = page(tmp_path, [first | {"allowed": allowed}, *rest]).texts["li"]
    assert [one == other for one, other in zip(without, granted, strict=True)].count(False) == 1


def test_a_target_that_no_probe_ran_on(tmp_path: Path) -> None:
    first, *rest = sample.measured()
    shown = page(tmp_path, [first | {"probes": []}, *rest])
    assert "Not measured: no probe ran on this target" in shown.text()
    assert "The target's arithmetic" in shown.text("h3")


def test_records_of_older_suites_still_give_a_page(tmp_path: Path) -> None:
    shown = page(tmp_path, sample.green())
    assert "The record does not tell which accuracy classes were kept." in shown.text("header")
    assert "The record holds no measure of accuracy." in shown.text()
    assert "The record does not tell what was allowed." in shown.text()
    assert "svg" not in shown.tags


def test_a_run_that_died_before_its_accuracy_lines(tmp_path: Path) -> None:
    shown = page(tmp_path, [sample.run(**sample.standard()), sample.case()], rest='{"kind": "cla')
    assert "The record holds no measure of accuracy." in shown.text()
    assert "trig_ulp" in shown.text("table")


def test_tables_can_be_read_without_seeing_them(tmp_path: Path) -> None:
    html = page(tmp_path, sample.measured()).html
    assert html.count("<table>") == html.count("<caption>") == 5
    assert "<th>" not in html
    assert 'role="img" aria-labelledby="chart-title"' in html


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "\"'><b>&amp;"])
def test_texts_are_escaped(tmp_path: Path, text: str) -> None:
    facts = sample.standard(
        terms=[sample.term(text, **dict.fromkeys(("name", "unit", "source", "reason"), text))],
        probes=[sample.probe(**dict.fromkeys(("name", "measured", "control"), text))],
    )
    cell = sample.cell([9.5, 0], **{"class": text}, dtype=text, positions=text, cases=[text], uninformative=1)
    lines = [sample.run(accuracy=text, **facts), sample.left(text, case=text), cell]
    shown = page(tmp_path, lines)
    assert {"script", "img", "b"}.isdisjoint(shown.tags)
    # Of the chart the label of the positions, the legend, and what a point says.
    for tag, times in (("header", 4), ("svg", 3), ("pre", 3), ("table", 12), ("summary", 2)):
        assert shown.text(tag).count(text) >= times, tag


def contradict(**fields: object) -> list[sample.Line]:
    return [sample.run(), sample.kept() | fields]


def misread(**fields: object) -> list[sample.Line]:
    return [sample.run(), sample.cell([0.5, 0]) | fields]


def untold(**facts: object) -> list[sample.Line]:
    return [sample.run(**sample.standard(**facts))]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([sample.run(), {"kind": "class"}], "line 2: malformed line of kind 'class'"),
        (contradict(kept="yes"), "'yes' is neither true nor false"),
        (contradict(worst=1.5), "contradict each other"),
        (contradict(beyond=3), "contradict each other"),
        (contradict(worst=1.5, beyond=3), "contradict each other"),
        (contradict(worst=1.5, beyond=3, case="f16", kept=True), "contradict each other"),
        (contradict(case="f16"), "contradict each other"),
        (contradict(worst="nan"), "'nan' is no score"),
        (contradict(worst=1.5, beyond=-3, case="f16", kept=False), "-3 is no count"),
        ([sample.run(), sample.kept(), sample.kept()], "two lines of kind 'class' for 'exact-angle'"),
        ([sample.run(), sample.kept(), sample.kept("fast")], "two lines of kind 'class' for 'decides'"),
        ([sample.run(), {"kind": "accuracy"}], "line 2: malformed line of kind 'accuracy'"),
        (misread(pairs=[[0.5, 1]]), "no case 1"),
        (misread(pairs=[[0.5, -1]]), "-1 is no count"),
        (misread(pairs=[[0.5]]), "malformed line of kind 'accuracy'"),
        (misread(pairs=[[0.5, 0, 0]]), "malformed line of kind 'accuracy'"),
        (misread(worst=0.25), "worst is 0.25, of its pairs 0.5"),
        (misread(uninformative=1001), "1001 uninformative elements of 1000"),
        (misread(elements=True), "True is no count"),
        (misread(elements=1.5), "1.5 is no count"),
        (misread(error=-1.0), "-1.0 is no score"),
        (misread(error="inf"), "'inf' is not finite"),
        ([*misread(), sample.cell()], "two lines of kind 'accuracy' for ('float32', 2)"),
        ([*misread(), sample.cell(decade=3) | {"class": "fast"}], "for more than one class"),
        (untold(terms=[{"class": "fast"}]), "line 1: malformed line of kind 'run'"),
        (untold(terms=[sample.term("fast", value="inf")]), "'inf' is not finite"),
        (untold(probes=[{"name": "NaN"}]), "line 1: malformed line of kind 'run'"),
        (untold(allowed={}), "line 1: malformed line of kind 'run'"),
        (untold(allowed=sample.standard()["allowed"] | {"flushes": 1}), "1 is neither true nor false"),
        (untold(allowed=sample.standard()["allowed"] | {"sloppy": True}), "line 1: malformed line of kind 'run'"),
        ([sample.run(probes=[])], "line 1: malformed line of kind 'run' (KeyError('terms'))"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, lines: list[sample.Line], message: str) -> None:
    with pytest.raises(RecordError) as refused:
        read(sample.write(tmp_path / "r.jsonl", lines))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
