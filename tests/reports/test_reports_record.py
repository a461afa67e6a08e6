"""Records are read line by line, torn ones as far as they go, and what is none is refused in a line."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import sample_record as sample

from conformance.case import Case
from conformance.finding import Finding, Judgement, PoolPicture
from conformance.ledger import Ledger
from conformance.measure import Decade, Kept, Measure
from conformance.record import Recorder
from reference import Arithmetic
from reports import lines
from reports.lines import MOST_TEXT
from reports.model import NOT_RUN, PASS, Run
from reports.record import RecordError, read


def read_one(tmp_path: Path, record: list[sample.Line], rest: str = "") -> Run:
    [run] = read([sample.write(tmp_path / "r.jsonl", record, rest)])
    return run


def refusal(tmp_path: Path, record: list[sample.Line], rest: str = "") -> str:
    with pytest.raises(RecordError) as refused:
        read_one(tmp_path, record, rest)
    message = str(refused.value)
    assert len(message.splitlines()) == 1
    return message


def test_what_a_whole_record_says(tmp_path: Path) -> None:
    run = read_one(tmp_path, sample.green(seed="7"))
    assert (run.facts["target"], run.decides, run.tightest) == ("host", "exact-angle", "")
    rotation, duplicates = run.requirements
    assert (rotation.id, rotation.tier, rotation.verdict, rotation.cases) == ("ROT-Q", "numeric", PASS, 1)
    assert (rotation.worst, rotation.worst_case, rotation.planned) == (0.5, sample.CASE, (0.5, sample.CASE))
    assert (duplicates.verdict, duplicates.worst, duplicates.worst_case) == (PASS, None, "")
    assert (run.index.lines, run.index.tests) == ((sample.CASE,), ("test_shapes",))
    assert (run.index.verdicts, run.index.worst, run.index.drawn) == (("pass",), (0.5,), (False,))
    assert (run.judgements, run.found, run.troubles) == (1, (), ())
    [part] = run.parts
    assert (part.seed, part.tests, part.planned_cases, part.distinct_cases, part.torn) == ("7", 1, 1, 1, False)
    assert part.plan is not None
    assert part.plan.whole
    assert part.end is not None
    assert part.end.exit_status == 0
    [test] = run.tests
    assert (test.id, test.outcome, test.failed) == (sample.id_of(sample.CASE), "passed", ())
    assert {envelope.accuracy for envelope in run.envelopes} == set(sample.CLASSES)


def test_the_cases_with_findings_are_kept_whole(tmp_path: Path) -> None:
    texts = {"where": "token 0", "looks_like": "GPT-J pairs"}
    case = sample.case(sample.CASE, sample.finding("ROT-Q", **texts), note="seen once", pools=(sample.pool(),))
    run = read_one(tmp_path, [*sample.begun(), case])
    [found] = run.found
    assert (found.line, found.note, found.test, found.size) == (
        sample.CASE,
        "seen once",
        sample.id_of(sample.CASE),
        3 * (4 + 2 * 2) * 8,
    )
    [finding] = found.findings
    assert (finding.where, finding.looks_like, finding.extent, finding.severity) == (
        "token 0",
        "GPT-J pairs",
        "",
        "failure",
    )
    [pool] = found.pools
    assert (pool.pool, pool.stray, pool.skipped) == ("k_pool", ((6, 8),), ((2, 3),))


def test_a_line_that_stands_twice_is_one_case(tmp_path: Path) -> None:
    """With the requirements, the milder verdict and the smaller score of neither lost."""
    again = sample.case(sample.CASE, sample.warning("ROT-Q"), ROT_Q=0.75, ROB_DUP=None, drawn=True)
    run = read_one(tmp_path, [*sample.begun(), sample.case(), again])
    assert (run.judgements, len(run.index.lines)) == (2, 1)
    assert (run.index.verdicts, run.index.worst, run.index.drawn) == (("warn",), (0.75,), (False,))
    rotation, duplicates = run.requirements
    assert (rotation.cases, rotation.warned, rotation.elements, rotation.worst) == (1, 1, 192, 0.75)
    assert rotation.planned == (0.5, sample.CASE)
    assert duplicates.cases == 1


def test_what_a_line_failed_once_it_failed(tmp_path: Path) -> None:
    """And what was generated first and planned later was planned."""
    passed, failed = sample.case(drawn=True), sample.case(sample.CASE, sample.finding("ROT-Q"))
    for cases in ([passed, failed], [failed, passed]):
        run = read_one(tmp_path, [*sample.begun(), *cases])
        assert (run.index.verdicts, run.index.drawn) == (("fail",), (False,))
        assert (run.requirements[0].failed, run.parts[0].failed_cases) == (1, 1)


def test_a_requirement_is_not_run_without_cases(tmp_path: Path) -> None:
    run = read_one(tmp_path, [*sample.begun(), sample.case()])
    assert run.requirements[1].verdict == NOT_RUN


def test_what_only_cases_know_comes_last(tmp_path: Path) -> None:
    run = read_one(tmp_path, [*sample.begun(), sample.case("f32 T=1", sample.finding("NEW"), ROT_K=0.5)])
    assert [(entry.id, entry.tier) for entry in run.requirements[2:]] == [("ROT-K", "unknown"), ("NEW", "unknown")]


def test_errors_bring_their_cure(tmp_path: Path) -> None:
    run = read_one(tmp_path, [sample.run(), sample.contract({"ERR-01": "documented", "ROT-Q": "numeric"})])
    assert [entry.cure for entry in run.requirements] == ["reshape", ""]


@pytest.mark.parametrize(("text", "score"), [("inf", math.inf), ("nan", math.inf), (0, 0.0), (2, 2.0)])
def test_a_score_that_is_no_number_is_beyond_every_bound(tmp_path: Path, text: str | int, score: float) -> None:
    run = read_one(tmp_path, [*sample.begun(), sample.case(ROT_Q=text)])
    assert run.requirements[0].worst == score
    assert run.index.worst == (score,)


def test_measures_are_folded(tmp_path: Path) -> None:
    """Counts summed, the worst of each pair with its case, the smallest position beyond a class."""
    wide = sample.measure(0.25, 0.5, 0.75, uninformative=10, error=1e-6)
    left = sample.measure(9.5, 0.125, beyond=6, decade=2)
    run = read_one(tmp_path, sample.measured(wide, left, sample.measure("inf", beyond=70, decade=3)))
    cells = {cell.decade: cell for cell in run.cells}
    first, second, third = (sample.CASE.replace("seed=0", f"seed={seed}") for seed in range(3))
    assert cells[2].pairs == ((9.5, second), (0.5, first), (0.75, first))
    assert (cells[2].elements, cells[2].uninformative, cells[2].error) == (2000, 10, 1e-6)
    assert (cells[2].worst, cells[2].planned) == (9.5, (9.5, second))
    assert cells[3].pairs == ((math.inf, third),)
    exact, single, _ = run.classes
    assert (exact.kept, exact.worst, exact.beyond, exact.case) == (False, math.inf, 6, second)
    assert (single.kept, single.worst, single.beyond) == (False, 0.0, None)
    assert run.ulps == {"float32": {-1: 120, 0: 2700, 1: 180}}


def test_cells_are_sorted_by_class_dtype_and_decade(tmp_path: Path) -> None:
    measures = [
        sample.measure(0.5, accuracy=accuracy, dtype=dtype, decade=decade)
        for accuracy in ("fast", "exact-angle")
        for dtype in ("float32", "float16")
        for decade in (10, 2)
    ]
    cells = read_one(tmp_path, sample.measured(*measures)).cells
    keys = [(cell.accuracy, cell.dtype, cell.decade) for cell in cells]
    assert keys[:3] == [("exact-angle", "float16", 2), ("exact-angle", "float16", 10), ("exact-angle", "float32", 2)]
    assert [key[0] for key in keys] == ["exact-angle"] * 4 + ["fast"] * 4


def test_a_pair_that_nothing_judged_is_none(tmp_path: Path) -> None:
    lone = sample.measure(0.5)
    lone["decades"]["exact-angle"]["2"]["raised"] = {"2": 0.5}
    [cell] = read_one(tmp_path, sample.measured(lone)).cells
    assert [pair is None for pair in cell.pairs] == [True, True, False]


def test_the_worst_of_the_planned_cases_is_told_apart(tmp_path: Path) -> None:
    def one(line: str, score: float, drawn: bool) -> sample.Line:
        return sample.case(line, ROT_Q=score, drawn=drawn, measure=sample.measure(score))

    run = read_one(tmp_path, [*sample.begun(), one("f32 T=1", 0.75, True), one("f32 T=2", 0.5, False)])
    assert run.requirements[0].planned == (0.5, "f32 T=2")
    assert run.requirements[0].worst == 0.75
    assert (run.cells[0].worst, run.cells[0].planned) == (0.75, (0.5, "f32 T=2"))


def test_a_torn_last_line_leaves_the_rest(tmp_path: Path) -> None:
    run = read_one(tmp_path, sample.crashed(), rest='{"kind": "case", "te')
    [part] = run.parts
    assert part.torn
    assert part.end is None
    assert (part.distinct_cases, part.tests) == (2, 2)


def test_a_last_line_that_only_lacks_its_newline_is_whole(tmp_path: Path) -> None:
    path = sample.write(tmp_path / "r.jsonl", sample.green())
    path.write_text(path.read_text().rstrip("\n"))
    [run] = read([path])
    assert not run.parts[0].torn
    assert run.parts[0].end is not None


@pytest.mark.parametrize("kept", range(1, 5))
def test_a_run_that_died_early_is_read(tmp_path: Path, kept: int) -> None:
    run = read_one(tmp_path, sample.green()[:kept])
    assert (run.parts[0].plan is None) == (kept < 4)
    assert len(run.requirements) == (2 if kept > 1 else 0)


def test_a_resumed_run_counts_once_what_it_made_again(tmp_path: Path) -> None:
    """The test that died stands once, as it finished last, and what befell the run before is over."""
    first, second = (sample.CASE.replace("seed=0", f"seed={seed}") for seed in range(2))
    run = read_one(
        tmp_path,
        [
            *sample.begun(),
            sample.case(first),
            sample.finished(sample.id_of(first), "broken", text="Timeout"),
            sample.case(second),
            sample.trouble("interrupted"),
            sample.requirement("ROT-Q"),
            sample.end(exit_status=2),
            sample.resumed(),
            sample.case(first),
            sample.finished(sample.id_of(first)),
            sample.case(second),
            sample.finished(sample.id_of(second)),
            sample.requirement("ROT-Q", cases=2),
            sample.end(cases=2),
        ],
    )
    [part] = run.parts
    assert (part.resumed, part.tests, part.distinct_cases, run.judgements) == (1, 2, 2, 4)
    assert [test.outcome for test in run.tests] == ["passed", "passed"]
    assert [entry.cases for entry in part.verdicts] == [2]
    assert part.end is not None
    assert part.end.exit_status == 0
    assert run.troubles == ()


def test_a_test_tells_what_its_cases_failed(tmp_path: Path) -> None:
    run = read_one(tmp_path, sample.red(sample.finding("ROT-Q"), sample.warning("ROB-DUP")))
    assert run.tests[0].failed == ("ROT-Q",)


def test_one_line_holds_any_text(tmp_path: Path) -> None:
    # str.splitlines would cut a line at U+2028.
    path = sample.write(tmp_path / "r.jsonl", [sample.run(device="a")])
    path.write_text(path.read_text().replace('"a"', '"a\u2028b"'), encoding="utf-8")
    [run] = read([path])
    assert run.facts["device"] == "a\u2028b"


def test_half_a_surrogate_pair_can_be_printed(tmp_path: Path) -> None:
    run = read_one(tmp_path, sample.red(sample.finding("ROT-Q", "half \ud800 pair, whole \U0001f600")))
    assert run.found[0].findings[0].what == "half ? pair, whole \U0001f600"


def test_very_long_texts_are_cut(tmp_path: Path) -> None:
    long = "a" * 10_000_000 + "the end"
    case = sample.case(sample.CASE, sample.finding("ROT-Q", long, looks_like=long), note=long)
    record = [*sample.begun(), case, sample.finished(outcome="broken", text=long), sample.trouble(text=long)]
    run = read_one(tmp_path, record)
    [found] = run.found
    for text in (found.findings[0].what, found.findings[0].looks_like, found.note, run.tests[0].text):
        assert text.startswith("aaa")
        assert text.endswith("the end")
        assert "characters left out" in text
        assert len(text) < MOST_TEXT + 100
    assert len(run.troubles[0].text) < MOST_TEXT + 100


def test_tracebacks_of_many_broken_tests_are_cut_to_their_end(tmp_path: Path) -> None:
    text = "x" * 3000 + "OSError: disk full"
    broken = [sample.finished(f"a.py::test[{number}]", "broken", text=text) for number in range(150)]
    troubles = [sample.trouble(text=str(number)) for number in range(150)]
    run = read_one(tmp_path, [*sample.begun(), *broken, *troubles])
    assert len(run.tests) == 150
    assert len(run.tests[0].text) > 3000
    assert len(run.tests[-1].text) == 200
    assert run.tests[-1].text.endswith("disk full")
    assert len(run.troubles) == 100


def malformed(kind: str, **fields: object) -> list[sample.Line]:
    """A record whose last line has other fields than it should."""
    makers = {
        "run": sample.run,
        "contract": sample.contract,
        "envelopes": sample.envelopes,
        "plan": sample.plan,
        "case": sample.case,
        "test": sample.finished,
        "trouble": sample.trouble,
        "requirement": lambda: sample.requirement("ROT-Q"),
        "end": sample.end,
        "resumed": sample.resumed,
    }
    line = makers[kind]() | fields  # type: ignore[operator]
    if kind == "run":
        return [line]
    record = sample.begun()
    return [*(each for each in record if each["kind"] != kind), line]


ENVELOPE = sample.envelopes()["envelopes"][0]
REQUIREMENT = sample.contract()["requirements"][0]
FAILED = {"findings": [sample.finding("ROT-Q")], "verdict": "fail"}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("run", {"run": "zz"}),
        ("run", {"run": 7}),
        ("run", {"target": None}),
        ("run", {"strict": "yes"}),
        ("run", {"decides": "none of them"}),
        ("run", {"classes": ["fast", "fast"], "decides": "fast"}),
        ("run", {"versions": {"torch": 2}}),
        ("run", {"limits": "GPU"}),
        ("run", {"terms": [sample.term("fast", value="nan")]}),
        ("run", {"allowed": {"flushes": False}}),
        ("contract", {"requirements": [REQUIREMENT, REQUIREMENT]}),
        ("contract", {"requirements": [REQUIREMENT | {"tier": 3}]}),
        ("envelopes", {"envelopes": [ENVELOPE | {"positions": [1, 0], "error": [0.5, 0.5]}]}),
        ("envelopes", {"envelopes": [ENVELOPE | {"error": [0.5]}]}),
        ("plan", {"tests": 1.0}),
        ("plan", {"cases": -1}),
        ("plan", {"whole": 1}),
        ("case", {"line": None}),
        ("case", {"drawn": 0}),
        ("case", {"checks": {"ROT-Q": {"elements": "96", "worst": 0.5}}}),
        ("case", {"checks": {"ROT-Q": {"elements": True, "worst": 0.5}}}),
        ("case", {"checks": {"ROT-Q": {"elements": 96, "worst": -0.5}}}),
        ("case", {"checks": {"ROT-Q": {"elements": 96, "worst": "tensor(0.5)"}}}),
        ("case", {"checks": {"ROT-Q": {"elements": 96, "worst": True}}}),
        ("case", {"checks": [1]}),
        ("case", {"verdict": "fail"}),
        ("case", {"verdict": "warn", "findings": [sample.finding("ROT-Q")]}),
        ("case", FAILED | {"findings": [sample.finding("ROT-Q") | {"severity": "bad"}]}),
        ("case", FAILED | {"findings": [sample.finding("ROT-Q") | {"what": ["text"]}]}),
        ("case", FAILED | {"cases": [{}]}),
        ("case", FAILED | {"pools": [sample.pool(stray=[[7, 9]])]}),
        ("case", FAILED | {"pools": [sample.pool(stray=[[5, 5]])]}),
        ("case", FAILED | {"pools": [sample.pool(stray=[[5, 7], [6, 8]])]}),
        ("case", FAILED | {"pools": [sample.pool(skipped=[[3, 4]])]}),
        ("case", {"measure": sample.measure(0.5, dtype="float64")}),
        ("case", {"measure": sample.measure(0.5, accuracy="unknown")}),
        ("case", {"measure": sample.measure(0.5, decade=11)}),
        ("case", {"measure": sample.measure(0.5, ulps={13: 1})}),
        ("case", {"measure": sample.measure(0.5, uninformative=1001)}),
        ("case", {"measure": sample.measure(0.5, error="inf")}),
        ("case", {"measure": sample.measure(0.5, beyond=6)}),
        ("case", {"measure": sample.measure(1.5)}),
        ("case", {"measure": sample.measure(-0.5)}),
        ("test", {"outcome": "skipped"}),
        ("test", {"seconds": -1.0}),
        ("test", {"text": None}),
        ("trouble", {"what": "bad luck"}),
        ("requirement", {"verdict": "fine"}),
        ("requirement", {"failed": None}),
        ("resumed", {"started": 0}),
        ("end", {"exit_status": "0"}),
        ("end", {"seconds": "nan"}),
    ],
)
def test_malformed_lines_are_refused(tmp_path: Path, kind: str, fields: dict[str, object]) -> None:
    record = malformed(kind, **fields)
    message = refusal(tmp_path, record)
    assert f"r.jsonl, line {len(record)}: malformed line of kind '{kind}'" in message


def test_what_is_malformed_above_is_well_formed_else(tmp_path: Path) -> None:
    for kind in ("run", "contract", "envelopes", "plan", "case", "test", "trouble", "requirement", "resumed", "end"):
        read_one(tmp_path, malformed(kind))
    read_one(tmp_path, malformed("case", **FAILED, pools=[sample.pool()], measure=sample.measure(0.5)))


def raised(pair: str) -> sample.Line:
    measure = sample.measure(0.5)
    measure["decades"]["exact-angle"]["2"]["raised"] = {pair: 0.5}
    return sample.case(measure=measure)


@pytest.mark.parametrize("pair", ["-1", "01", "1.0", "x", str(2**40)])
def test_pairs_that_no_head_has_are_refused(tmp_path: Path, pair: str) -> None:
    """The last one would fill the memory."""
    assert "malformed" in refusal(tmp_path, [*sample.begun(), raised(pair)])


@pytest.mark.parametrize("kind", ["contract", "envelopes", "plan"])
def test_what_stands_once_is_refused_twice(tmp_path: Path, kind: str) -> None:
    record = sample.begun()
    again = next(line for line in record if line["kind"] == kind)
    assert f"line 5: malformed line of kind '{kind}'" in refusal(tmp_path, [*record, again])


def test_two_verdicts_on_one_requirement_are_refused(tmp_path: Path) -> None:
    *record, last = sample.green()
    assert "line 9" in refusal(tmp_path, [*record, sample.requirement("ROT-Q"), last])


@pytest.mark.parametrize(
    ("record", "rest", "message"),
    [
        ([], "", "does not begin with a line of kind 'run'"),
        ([], '{"kind": "ru', "does not begin with a line of kind 'run'"),
        ([sample.case()], "", "does not begin with a line of kind 'run'"),
        ([sample.run(format=1)], "", "was made by an older suite: it has record format 1; run the suite again"),
        ([sample.run(format=3)], "", "has record format 3; this report reads format 2"),
        ([sample.run(), {"kind": "remark"}], "", "line 2: unknown kind 'remark'"),
        ([sample.run(), {"kind": ["case"]}], "", "line 2: unknown kind ['case']"),
        ([sample.run(), {"kind": "case"}], "", "line 2: malformed line of kind 'case' (KeyError('line'))"),
        ([*sample.green(), sample.case()], "", "line 10: a line of kind 'case' after the end"),
        ([sample.run()], "nonsense\n", "line 2 is not a JSON object"),
        ([sample.run()], "[1]\n", "line 2 is not a JSON object"),
        ([sample.run()], "\n", "line 2 is not a JSON object"),
        ([sample.run()], '{"kind": "end", "seconds": NaN}\n', "line 2 is not a JSON object"),
        ([sample.run()], "[" * 100_000 + "\n", "line 2 is not a JSON object"),
        ([sample.run()], '{"a":' * 5000 + "1" + "}" * 5000 + "\n", "line 2 is not a JSON object"),
    ],
)
def test_what_is_no_record_is_refused(tmp_path: Path, record: list[sample.Line], rest: str, message: str) -> None:
    assert message in refusal(tmp_path, record, rest)


def test_other_files_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "b.jsonl"
    binary.write_bytes(b"\x80\xff\x00\n")
    for path, message in (
        (binary, "not UTF-8"),
        (tmp_path / "none.jsonl", "no such record"),
        (tmp_path, "cannot read"),
    ):
        with pytest.raises(RecordError, match=message):
            read([path])


def test_what_is_refused_is_told_in_short(tmp_path: Path) -> None:
    message = refusal(tmp_path, [sample.run(run="x\n" * 1_000_000)])
    assert len(message) < len(str(tmp_path)) + 400


def test_format_1_is_told_before_anything_else(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps({"kind": "run", "format": 1, "target": "host"}) + "\n")
    with pytest.raises(RecordError, match="older suite"):
        read([path])


def test_sizes_are_of_all_calls_of_a_judgement() -> None:
    call = {"num_tokens": 3, "num_qo_heads": 4, "num_kv_heads": 2, "head_dim": 8, "token": -1}
    assert lines.size([call, call | {"token": 0}]) == 3 * 64 + 64


def test_reads_what_the_suite_writes(tmp_path: Path) -> None:
    """Every kind of line that conformance.record writes but a crash's."""
    case, ledger, judgement = Case(), Ledger(), Judgement()
    judgement.looked("ROT-Q", 96, math.inf)
    judgement.found(Finding("ROT-Q", "q_rot is beyond its bound", where="token 0", looks_like="GPT-J pairs"))
    judgement.pools.append(PoolPicture("k_pool", 8, [[0, 1]], [], [[2, 4]], [], 3, [[2, 3]]))
    judgement.measured(Measure("float16", {("exact-angle", 2): Decade(96, 0, 1e-7)}, {"exact-angle": Kept(1.5, 70)}))
    ledger.add(str(case), judgement)
    recorder = Recorder(tmp_path / "r.jsonl")
    recorder.start({name: value for name, value in sample.run().items() if name not in ("kind", "format", "run")})
    recorder.contract()
    recorder.envelopes(Arithmetic())
    recorder.plan({"tests": 1, "cases": 1, "examples": 0, "whole": True})
    raised = {("exact-angle", 2): {1: math.inf}}
    recorder.case("test_x", [case], judgement, raised, drawn=False, expected_error=0, seconds=0.1, note="seen once")
    recorder.test("test_x", "failed", 0.5, "")
    recorder.trouble("interrupted", "test_y", "KeyboardInterrupt")
    for entry in ledger.entries.values():
        recorder.requirement(entry)
    recorder.end({"exit_status": 2, "cases": 1, "tests_failed": 1, "tests_collected": 1, "seconds": 0.5})

    [run] = read([tmp_path / "r.jsonl"])

    [found] = run.found
    assert (found.line, found.note, found.pools[0].stale) == (str(case), "seen once", ((2, 4),))
    assert found.size == case.num_tokens * (case.num_qo_heads + 2 * case.num_kv_heads) * case.head_dim
    assert [told.requirement for told in found.findings] == ["ROT-Q"]
    [part] = run.parts
    assert {told.id: told.verdict for told in part.verdicts} == {entry.id: entry.verdict for entry in run.requirements}
    assert {entry.id: entry.sentence for entry in run.requirements} == {
        id: entry.requirement.sentence for id, entry in ledger.entries.items()
    }
    assert {entry.id for entry in run.requirements if entry.cure} == {f"ERR-{number:02}" for number in range(1, 12)}
    assert run.cells[0].pairs == (None, (math.inf, str(case)))
    assert run.classes[0].beyond == 70
    assert {envelope.accuracy for envelope in run.envelopes} >= {"exact-angle"}
    assert (run.troubles[0].where, part.torn) == ("test_y", False)
