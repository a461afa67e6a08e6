"""The page says what the records say, escapes it, and its commands can be pasted."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import sample_record as sample
import shown_runs
from sample_night import night
from shown_page import Page, page

from reports.compare import Change, Changes
from reports.findings import MOST_PICTURES, SHOWN_PER_REQUIREMENT
from reports.history import Trend
from reports.naming import Anchors, names
from reports.page import SHOWN_BROKEN
from reports.record import read
from reports.replay import replay_command
from reports.trends import MOST_NIGHTS

HOSTILE = (
    "<script>alert(1)</script>",
    "</script></style><img src=x onerror=alert(1)>",
    "\"'><b>&amp;",
    "$x^2$ {{ 7*7 }}",
)


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """A page with findings of every weight, and of past nights."""
    folder = tmp_path_factory.mktemp("forty")
    return page(folder, shown_runs.forty(), trends=[Trend((), shown_runs.nights(night(folder)))])


def commands(shown: Page) -> list[str]:
    """The replay commands of the page."""
    return [text for text in shown.texts.get("code", []) if text.startswith("python -m ")]


def test_green(tmp_path: Path) -> None:
    shown = page(tmp_path, sample.green())
    assert shown.text("h1") == "rope_pool_fused.metal on host conforms"
    assert shown.text("title") == "rope_pool_fused.metal on host conforms"
    assert "article" not in shown.tags
    assert "The sentence of ROT-Q" in shown.text("table")
    assert shown.texts["h2"] == [
        "Summary",
        "Requirements",
        "Accuracy",
        "All cases",
        "Timings",
        "What was allowed",
        "What was tested, and what that cannot show",
    ]


def test_every_fact_of_the_run_is_printed(tmp_path: Path) -> None:
    first, *others = sample.green()
    facts = page(tmp_path, [first | {"math": "libm", "strict": True, "custom": [1, "two"]}, *others]).facts
    assert facts["math"] == "libm"
    assert facts["strict"] == "yes"
    assert facts["custom"] == "1, two"
    assert facts["cases"] == "1"
    assert facts["elements judged"] == "192"
    assert facts["shader"] == "rope_pool_fused.metal 8f69daa1a0ee"
    assert facts["versions"].startswith("suite 0.1.0, python 3.11.2, torch")
    assert {"kind", "format", "terms", "probes"}.isdisjoint(facts)


def test_red(tmp_path: Path) -> None:
    texts = {"where": "token 0, head 1", "extent": "46 of 72", "looks_like": "position plus head index"}
    lines = sample.red(sample.finding("ROT-Q", **texts))
    next(line for line in lines if line["kind"] == "case")["note"] = "seen once"
    shown = page(tmp_path, lines)
    assert shown.text("h1") == "rope_pool_fused.metal on host does not conform"
    assert ("a", "class", "chip fail") in shown.attributes
    told = shown.text("article")
    for text in (*texts.values(), "seen once", "q_rot is beyond the float32-angle bound", sample.CASE):
        assert text in told
    assert replay_command(sample.CASE, lines[0]) in commands(shown)


def test_links_lead_somewhere_and_ids_are_unique(tmp_path: Path, forty: Page) -> None:
    for shown in (forty, page(tmp_path, sample.found()), page(tmp_path, *sample.two_targets())):
        assert len(set(shown.ids)) == len(shown.ids)
        assert all(link.startswith("#") for link in shown.links)
        assert {link.removeprefix("#") for link in shown.links} <= set(shown.ids)
        labels = {id for _, name, value in shown.attributes if name == "aria-labelledby" for id in value.split()}
        assert labels <= set(shown.ids)


def test_what_does_not_decide_stands_apart(tmp_path: Path) -> None:
    shown = page(tmp_path, sample.found())
    assert shown.text("h1") == "rope_pool_fused.metal on host conforms"
    assert shown.texts["h2"][2:4] == ["Robustness findings", "Warnings"]
    robustness, warnings = shown.texts["article"]
    assert "neither candidate" in robustness
    assert "changed at position 0" in warnings
    assert "Robustness findings, which do not decide:\nROB-DUP" in shown.text("p")
    assert "FAIL" not in shown.text("table")


def test_findings_by_tier(tmp_path: Path) -> None:
    rows = [text for text in page(tmp_path, sample.found()).texts["tr"] if text.startswith(("numeric", "robustness"))]
    assert [row.split("\n")[1:6] for row in rows[:2]] == [["0", "0", "1", "0", "1"], ["0", "1", "0", "0", "1"]]


def test_a_run_that_died_says_so_first_and_shows_what_it_holds(tmp_path: Path) -> None:
    lines = [*sample.begun(), sample.case("f32 T=1", sample.finding("ROT-Q", "cut short"), ROT_Q="inf")]
    shown = page(tmp_path, lines, rest='{"ki')
    assert "the run died" in shown.text("header")
    assert "cut short" in shown.text("article")
    assert "inf" in shown.text("table")
    assert "died, last line cut off" in shown.text("table")
    assert shown.html.index("Read this first") < shown.html.index("<h1")


def test_fewer_cases_than_planned_are_told_at_the_top(tmp_path: Path) -> None:
    head = page(tmp_path, sample.crashed(2)).text("header")
    assert "Of 4 planned cases 2 were recorded." in head
    assert "Read this first" not in page(tmp_path, sample.green()).text("header")


def test_what_broke_in_the_suite_is_shown(tmp_path: Path) -> None:
    broken = [sample.finished(f"test_x.py::test[{n}]", "broken", text=f"OSError: {n}") for n in range(SHOWN_BROKEN + 3)]
    shown = page(tmp_path, [*sample.begun(), sample.trouble(text="ImportError: torch"), *broken])
    assert "What broke in the suite itself" in shown.texts["h2"]
    assert "ImportError: torch" in shown.text("pre")
    assert "OSError: 3" in shown.text("pre")
    assert "4 more errors not shown" in shown.text("section")


def test_verdicts_of_several_targets_stand_side_by_side(tmp_path: Path) -> None:
    shown = page(tmp_path, *sample.two_targets())
    assert shown.text("h1") == "host conforms; my_kernels.py:rope does not conform"
    assert "idrequirementhostmy_kernels.py:rope" in shown.texts["tr"]
    [row] = [text for text in shown.texts["tr"] if "The sentence of ROT-Q" in text]
    assert re.findall("pass|FAIL", row) == ["pass", "FAIL"]
    assert {"--target my_kernels.py:rope" in command for command in commands(shown)} == {True, False}


def test_many_runs_are_counted_in_the_heading(tmp_path: Path) -> None:
    records = [sample.green(str(n), target=f"t{n}") for n in range(3)] + [sample.red(name="red", target="other")]
    assert page(tmp_path, *records).text("h1") == "Of 4 runs 3 conform, 1 do not conform"


def test_runs_of_one_target_are_told_apart(tmp_path: Path) -> None:
    records = [
        sample.green(str(n), target=t, math=m) for n, (t, m) in enumerate((("host", "a"), ("host", "b"), ("x", "a")))
    ]
    runs = read(sample.write_each(tmp_path, *records))
    assert names(runs) == ("host, math a", "host, math b", "x")
    assert names([runs[0], runs[0]]) == ("host, run 1", "host, run 2")


def test_ids_are_never_the_same_for_two_places() -> None:
    anchors = Anchors()
    places = [("found", "0", "A"), ("found", "0-A"), ("found", "0", "A b"), ("found", "0", "A/b"), ("found..2",)]
    assert len({anchors.of(*place) for place in places}) == len(places)
    assert anchors.of("found", "0", "A") == anchors.of("found", "0", "A")
    assert not re.search(r"[^\w.-]", "".join(anchors.of(*place) for place in places))


def test_the_cure_of_a_documented_error_is_told(tmp_path: Path) -> None:
    shown = page(tmp_path, shown_runs.green())
    assert "q.view(num_tokens, num_qo_heads, head_dim); squeeze(0) of a leading axis of 1" in shown.text("details")
    assert "q, k or v has a rank other than 3" in shown.text("details")


def test_each_kind_of_finding_is_shown_once_by_its_smallest_case(tmp_path: Path) -> None:
    def told(line: str, tokens: int, what: str) -> sample.Line:
        return sample.case(line, sample.finding("ROT-Q", what), tokens=tokens)

    cases = [told(f"f32 T={9 - n}", 9 - n, f"largest error {n}.5, 1.2e+0{n} units") for n in range(5)]
    cases += [told(f"f32 T=1 kind={'abcdefghij'[n]}", 1, f"kind {'abcdefghij'[n]}") for n in range(10)]
    shown = page(tmp_path, [*sample.begun(), *cases])
    replays = [shlex.split(text)[4] for text in commands(shown)]
    assert len(shown.texts["article"]) == SHOWN_PER_REQUIREMENT
    assert "f32 T=1 kind=a" in replays[1]
    assert "f32 T=9" not in shown.text("article")
    assert f"{11 - SHOWN_PER_REQUIREMENT} more kinds of finding on ROT-Q not shown" in shown.text("section")
    assert "15 of 15 cases" in shown.text("section")
    only = page(tmp_path, [*sample.begun(), *cases[:5]]).texts["article"]
    assert len(only) == 1
    assert "f32 T=5" in only[0]


def test_a_failing_pool_is_drawn_once(tmp_path: Path) -> None:
    findings = sample.finding("ROT-Q", "one"), sample.finding("ROB-DUP", "two")
    shown = page(
        tmp_path, [*sample.begun(), sample.case(sample.CASE, *findings, pools=(sample.pool(), sample.pool("v_pool")))]
    )
    assert "k_pool: of 8 rows 1 written, 1 wrong, 1 stale, 2 stray; 1 of 3 tokens skipped." in shown.text("figcaption")
    [picture] = [svg for svg in shown.texts["svg"] if "rows of k_pool" in svg]
    for word in ("rows of v_pool", "written", "wrong", "stale", "stray", "skipped"):
        assert word in picture
    assert "drawn further up" in shown.text("article")
    assert "6 to 7" in shown.text("table")


def test_there_are_not_too_many_pictures(tmp_path: Path) -> None:
    many = [
        sample.case(f"f32 T={n}", sample.finding(f"NEW-{n}"), pools=(sample.pool(),)) for n in range(MOST_PICTURES + 5)
    ]
    shown = page(tmp_path, [*sample.begun(), *many])
    assert sum("rows of k_pool" in svg for svg in shown.texts["svg"]) == MOST_PICTURES
    assert shown.html.count("drawn further up") == 0


def test_limits_of_the_target(tmp_path: Path) -> None:
    limits = ["GPU scheduling. Order and more.", "float <atomics>"]
    shown = page(tmp_path, sample.green(limits=limits))
    assert "This target cannot show: GPU scheduling; float <atomics>." in shown.text("p")
    assert set(limits) <= set(shown.texts["li"])
    assert "limits" not in shown.texts["dt"]


def test_what_the_target_cannot_show_is_marked(tmp_path: Path) -> None:
    lines = sample.green()
    ids = [requirement["id"] for line in lines if line["kind"] == "contract" for requirement in line["requirements"]]
    assert "not evidenced here" not in page(tmp_path, lines).text()
    limits = [f"The argument checks. Those are others'. Not evidenced: {ids[0][:-1]}*, NONE-1."]
    shown = page(tmp_path, [lines[0] | {"limits": limits}, *lines[1:]])
    marked = [row for row in shown.texts["tr"] if "not evidenced here" in row]
    assert [row.split()[0] for row in marked] == [id for id in ids if id.startswith(ids[0][:-1])]


def test_what_changed_is_told_regressions_first(tmp_path: Path) -> None:
    changes = Change("cases new", "12 more", "neutral"), Change("slower", "by a third", "regression")
    shown = page(tmp_path, sample.green(), changes=[Changes(night(tmp_path, commit="abc"), changes)])
    first, regression, neutral = [item for item in shown.texts["li"] if "12 more" in item or "by a third" in item]
    assert first.strip() == "Regression, slower: by a third"
    assert shown.text("h1") == "rope_pool_fused.metal on host conforms, with 1 regression"
    assert 'class="incomplete"' in shown.html
    assert "slower by a third" in regression
    assert "cases new 12 more" in neutral
    assert "commit abc" in shown.text()
    assert "No earlier run" not in shown.text()


def test_nothing_that_changed(tmp_path: Path) -> None:
    given: dict[str, list[Changes | None]] = {
        "No earlier run was given to compare with.": [None],
        "nothing to compare with": [Changes(None)],
        "Nothing changed.": [Changes(night(tmp_path))],
    }
    for words, changes in given.items():
        assert words in page(tmp_path, sample.green(), changes=changes).text()
    assert next(iter(given)) in page(tmp_path, sample.green()).text()


def test_trends_of_past_nights(tmp_path: Path) -> None:
    nights = shown_runs.nights(night(tmp_path), MOST_NIGHTS + 10)
    shown = page(tmp_path, sample.green(), trends=[Trend(nights[0].identity, nights), Trend((), ())])
    assert "Trends over past nights" in shown.texts["h2"]
    assert f"{MOST_NIGHTS} nights of one identity; 10 earlier not shown" in shown.text("summary")
    for word in ("kernel llama-3-8b float16 64 tokens", "oracle llama-3-8b 256 tokens", "incomplete", "ROT-Q, ROT-K"):
        assert word in shown.text("table")
    assert any("Worst error over bound, night by night" in svg for svg in shown.texts["svg"])
    assert "Trends" not in page(tmp_path, sample.green(), trends=[Trend((), ())]).text("nav")


def test_timings_of_functions(tmp_path: Path) -> None:
    tests = [sample.finished(f"a.py::test_{n % 20}[{n}]", seconds=0.01 * n) for n in range(100)]
    shown = page(tmp_path, [*sample.begun(), *tests])
    table = next(text for text in shown.texts["table"] if "slowest test" in text)
    assert "49.5 s in all" in table
    assert "a.py::test_19[99]" in table
    assert "8 other functions: 17.4 s." in shown.text()


def packed(shown: Page) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(shown.texts["script"][0])))


def test_all_cases_are_packed_for_the_search(tmp_path: Path) -> None:
    lines = [
        *sample.begun(target="mine.py:rope", **{"shader path": "a dir/x.metal"}),
        sample.case("f32 T=1 ; f32 T=2", drawn=True, ROT_Q=0.123456),
        sample.case("f32 T=3", sample.finding("ROT-Q"), ROT_Q="inf"),
        sample.case("f32 T=4", sample.warning("ROT-Q"), ROT_Q=None),
    ]
    [columns] = packed(page(tmp_path, lines))
    assert columns["lines"] == ["f32 T=1 ; f32 T=2", "f32 T=3", "f32 T=4"]
    assert (columns["verdict"], columns["drawn"], columns["worst"]) == ("021", "100", [0.123, "inf", None])
    assert columns["tests"][columns["test"][0]] == "test_shapes"
    command = columns["before"] + shlex.quote("f32 T=3") + columns["after"]
    assert command == replay_command("f32 T=3", lines[0])


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_the_record_are_escaped(tmp_path: Path, text: str) -> None:
    told = sample.finding("ROT-Q", text, where=text, extent=text, looks_like=text)
    measure = sample.measure(9.5, beyond=7, worst=9.5)
    lines = [
        *sample.begun(target=text, device=text, limits=[text], machine=text, commit=text, **{"shader path": text}),
        sample.case(text, told, note=text, test=f"a.py::{text}[{text}]", pools=(sample.pool(text),), measure=measure),
        sample.finished(f"a.py::{text}[x]", "broken", text=text),
        sample.trouble(where=text, text=text),
    ]
    lines[1] = sample.contract({"ROT-Q": "numeric"}, sentence=text, source=text, trigger=text, common=text, cure=text)
    before = night(tmp_path, started=text, commit=text)
    shown = page(
        tmp_path,
        lines,
        sample.green("other", target=f"{text} two"),
        changes=[Changes(before, (Change(text, text, "regression"),))],
        trends=[Trend(((text, text),), (before, before))],
    )
    assert {"img", "b"}.isdisjoint(shown.tags)
    assert not [name for _, name, _ in shown.attributes if name.startswith("on")]
    # The page's own: the packed cases and the one script.
    assert len(shown.texts["script"]) == 2
    expected = {"h1": 2, "dd": 8, "dt": 1, "li": 3, "pre": 4, "table": 6, "article": 6, "figcaption": 1, "option": 2}
    for tag, times in expected.items():
        # The replay command quotes its words for the shell.
        assert shown.text(tag).replace(shlex.quote(text), text).count(text) >= times, tag


def test_one_script_may_run_and_nothing_is_fetched(forty: Page) -> None:
    [policy] = [value for tag, name, value in forty.attributes if tag == "meta" and value.startswith("default-src")]
    [script] = re.findall(r"<script>(.*?)</script>", forty.html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in policy
    outside = html.unescape(forty.html).replace("http://www.w3.org/2000/svg", "")
    for word in ("<link", "<img", "http:", "https:", "@import", "url(h", "src="):
        assert word not in outside, word
    assert "</" not in script


def test_tables_and_pictures_can_be_read_without_seeing_them(forty: Page) -> None:
    assert forty.html.count("<table") == forty.html.count("<caption")
    assert all(("th", "scope", scope) in forty.attributes for scope in ("col", "row", "rowgroup"))
    assert "<th>" not in forty.html
    pictures = len(forty.texts["svg"])
    assert pictures > 40
    assert forty.attributes.count(("svg", "role", "img")) == pictures == len(forty.texts["desc"])
    assert all(forty.texts["desc"])


def test_a_run_that_died_at_once(tmp_path: Path) -> None:
    shown = page(tmp_path, [sample.run()])
    assert "no verdict" in shown.text("h1")
    assert "svg" not in shown.tags
    for words in ("The record holds no measure of accuracy.", "No test finished.", "The record names no requirement."):
        assert words in shown.text()


def test_a_part_of_the_suite_gives_no_verdict(tmp_path: Path) -> None:
    lines = [line for line in sample.green() if line["kind"] != "requirement"]
    for line in lines:
        if line["kind"] == "case":
            del line["checks"]["ROT-Q"]
    lines[3] = sample.plan(whole=False)
    told = [sample.requirement("ROT-Q", "not run"), sample.requirement("ROB-DUP", worst=None)]
    assert (
        page(tmp_path, [*lines[:-1], *told, lines[-1]]).text("h1")
        == "rope_pool_fused.metal on host gives no verdict: not all that decides ran"
    )
