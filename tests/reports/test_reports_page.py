"""The page says what the record says, escapes it, and its commands can be pasted."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import sample_record as sample
from shown_page import page

from reports.__main__ import main
from reports.page import SHOWN_PER_REQUIREMENT, render
from reports.record import read
from reports.replay import replay_command


def test_green(tmp_path: Path) -> None:
    shown = page(tmp_path, sample.green())
    assert shown.text("h1") == "host conforms"
    assert "li" not in shown.tags
    assert "The sentence of ROT-Q" in shown.text("table")
    assert shown.texts["h2"] == [
        "What was tested",
        "Requirements",
        "Accuracy",
        "What was allowed",
        "What this target cannot show",
    ]


def test_every_fact_of_the_run_is_printed(tmp_path: Path) -> None:
    first, *others = sample.green()
    shown = page(tmp_path, [first | {"math": "libm", "strict": True}, *others])
    facts = dict(zip(shown.texts["dt"], shown.texts["dd"], strict=True))
    assert facts["math"] == "libm"
    assert facts["strict"] == "yes"
    assert facts["cases"] == "1 distinct, 1 judgements"
    assert facts["elements judged"] == "96"
    assert {"kind", "format"}.isdisjoint(facts)


def test_red(tmp_path: Path) -> None:
    texts = {"where": "token 0, head 1", "extent": "46 of 72", "looks_like": "position plus head index"}
    lines = sample.red(sample.finding("ROT-Q", **texts))
    lines[1]["note"] = "seen once"
    shown = page(tmp_path, lines)
    assert shown.text("h1") == "host does not conform: ROT-Q"
    told = shown.text("article")
    for text in (*texts.values(), "seen once", "q_rot is beyond the float32-angle bound"):
        assert text in told
    assert shown.texts["pre"] == [replay_command(sample.CASE, lines[0])]


def test_links_lead_somewhere_and_ids_are_unique(tmp_path: Path) -> None:
    for lines in (sample.green(), sample.red(), sample.found()):
        shown = page(tmp_path, lines)
        assert len(set(shown.ids)) == len(shown.ids)
        assert {link.removeprefix("#") for link in shown.links} <= set(shown.ids)
        assert all(link.startswith("#") for link in shown.links)
    assert "#failed-ROB-DUP" in shown.links


def test_what_does_not_decide_stands_apart(tmp_path: Path) -> None:
    shown = page(tmp_path, sample.found())
    assert shown.texts["h2"][2:4] == ["Robustness findings", "Warnings"]
    _, _, robustness, warnings, *_ = shown.texts["section"]
    assert "neither candidate" in robustness
    assert "changed at position 0" not in robustness
    assert "changed at position 0" in warnings
    assert "Robustness findings, which do not decide: ROB-DUP" in shown.text("header")
    assert "FAIL" not in shown.text("table")


def test_a_torn_record_says_so_first_and_shows_what_it_holds(tmp_path: Path) -> None:
    lines = [sample.run(), sample.case("f32 T=1", sample.finding("ROT-Q", "cut short"), ROT_Q="inf")]
    shown = page(tmp_path, lines, rest='{"ki')
    assert "incomplete" in shown.text("h1")
    assert "It holds 1 distinct case" in shown.text("header")
    assert "cut short" in shown.text("article")
    assert "inf" in shown.text("table")
    assert "none given" in shown.text("table")


def test_the_most_telling_findings_come_first(tmp_path: Path) -> None:
    def told(line: str, looks_like: str) -> sample.Line:
        return sample.case(line, sample.finding("ROT-Q", looks_like=looks_like))

    cases = [told(f"f32 T=1{'0' * n} x", f"largest error {n}.5, 1.2e+0{n} units") for n in range(9)]
    cases += [told("f32 T=1 but a much longer line", "GPT-J pairs"), told("f32 T=1 longer", "GPT-J pairs")]
    shown = page(
        tmp_path,
        [
            sample.run(),
            *cases,
            sample.requirement("ROT-Q", "numeric", "FAIL", failed=11, cases=12),
            sample.end(exit_status=1, tests_failed=11, cases=11),
        ],
    )
    replays = [shlex.split(text)[4] for text in shown.texts["pre"]]
    assert len(replays) == SHOWN_PER_REQUIREMENT
    assert replays[:4] == ["f32 T=1 x", "f32 T=1 longer", "f32 T=10 x", "f32 T=100 x"]
    assert "11 of 12 cases" in shown.text("section")
    assert f"{11 - SHOWN_PER_REQUIREMENT} more cases not shown" in shown.text("section")


def test_limits_of_the_target(tmp_path: Path) -> None:
    first, *others = sample.green()
    shown = page(tmp_path, [first | {"limits": ["GPU scheduling", "float <atomics>"]}, *others])
    assert shown.texts["li"] == ["GPU scheduling", "float <atomics>"]
    assert "limits" not in shown.texts["dt"]


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "</pre></style><img src=x onerror=alert(1)>", "\"'><b>&amp;"]
)
def test_texts_of_the_record_are_escaped(tmp_path: Path, text: str) -> None:
    lines: list[sample.Line] = [
        sample.run(target=text, device=text, limits=[text], **{text: text}),
        sample.case(text, sample.finding(text, text, where=text, extent=text, looks_like=text), note=text),
        sample.requirement(text, "numeric", "FAIL", failed=1, sentence=text, source=text),
        sample.requirement("ROT-K", text),
        sample.end(exit_status=1, tests_failed=1),
    ]
    shown = page(tmp_path, lines)
    assert {"script", "img", "b"}.isdisjoint(shown.tags)
    for tag, times in (("h1", 2), ("dd", 6), ("dt", 1), ("li", 1), ("pre", 1), ("table", 4), ("strong", 1)):
        # The replay command quotes its words for the shell.
        assert shown.text(tag).replace(shlex.quote(text), text).count(text) >= times, tag


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    html = render(read(sample.write(tmp_path / "r.jsonl", sample.red())))
    for outside in ("<script", "<link", "<img", "http:", "https:", "@import", "url("):
        assert outside not in html


@pytest.mark.parametrize(
    ("facts", "options"),
    [
        ({"target": "host", "math": "libm", "accuracy": "float32-angle"}, ["--accuracy", "float32-angle"]),
        ({"target": "host", "math": "metal-fast", "accuracy": "fast"}, ["--math", "metal-fast", "--accuracy", "fast"]),
        ({}, []),
        (
            {"target": "my kernels.py:rope", "accuracy": "fast"},
            ["--target", "my kernels.py:rope", "--accuracy", "fast"],
        ),
        (
            {"target": "host", "shader": "a.metal 67319d", "shader path": "my dir/a.metal"},
            ["--shader", "my dir/a.metal"],
        ),
    ],
)
@pytest.mark.parametrize("case", [sample.CASE, "f32 T=1 ; f32 T=2", 'it\'s $(a) `case`; rm -rf \\ "x"'])
def test_replay_commands_survive_the_shell(facts: dict[str, str], options: list[str], case: str) -> None:
    words = shlex.split(replay_command(case, facts))
    assert words == ["python", "-m", "conformance", "replay", case, *options]


def test_the_command_writes_next_to_the_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sample.write(tmp_path / "r.jsonl", sample.red())
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'r.html'}\n"
    assert "does not conform" in (tmp_path / "r.html").read_text()
    assert main([str(path), "-o", str(tmp_path / "other.html")]) == 0
    assert (tmp_path / "other.html").read_text() == (tmp_path / "r.html").read_text()


def test_half_a_surrogate_pair_is_written(tmp_path: Path) -> None:
    path = sample.write(tmp_path / "r.jsonl", sample.red(sample.finding("ROT-Q", "half \ud800 pair")))
    assert main([str(path)]) == 0
    assert "half ? pair" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("r.jsonl", ["none.jsonl"], "no such record"),
        ("r.jsonl", [], "required"),
        ("r.jsonl", ["r.jsonl", "--colour"], "unrecognized"),
        ("r.jsonl", ["r.jsonl", "-o", "nowhere/r.html"], "cannot write nowhere/r.html"),
        ("r.html", ["r.html"], "would overwrite its record"),
    ],
)
def test_usage_errors_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = sample.write(tmp_path / name, sample.green())
    before = path.read_bytes()
    with pytest.raises(SystemExit) as left:
        main(arguments)
    printed = capsys.readouterr()
    assert left.value.code == 4
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert path.read_bytes() == before
