"""`python -m reports build`: one page from records, written whole or not at all; user errors in a line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sample_record as sample

from reports import build, files, page
from reports.__main__ import main


def test_the_page_is_written_next_to_the_first_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = sample.write(tmp_path / "r.jsonl", sample.red())
    assert main(["build", str(path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'index.html'}\n"
    assert "does not conform" in (tmp_path / "index.html").read_text()


def test_folders_of_the_page_are_made(tmp_path: Path) -> None:
    path = sample.write(tmp_path / "r.jsonl", sample.green())
    output = tmp_path / "a" / "b" / "page.html"
    assert main(["build", str(path), "-o", str(output)]) == 0
    assert output.stat().st_mode & 0o777 == 0o666 & ~umask()
    assert list(output.parent.iterdir()) == [output]


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_several_targets_are_on_one_page(tmp_path: Path) -> None:
    paths = sample.write_each(tmp_path, *sample.two_targets())
    assert main(["build", *map(str, paths)]) == 0
    html = (tmp_path / "index.html").read_text()
    assert "host" in html
    assert "my_kernels.py:rope" in html


def test_half_a_surrogate_pair_is_written(tmp_path: Path) -> None:
    path = sample.write(tmp_path / "r.jsonl", sample.red(sample.finding("ROT-Q", "half \ud800 pair")))
    assert main(["build", str(path)]) == 0
    assert "half ? pair" in (tmp_path / "index.html").read_text()


def test_what_changed_since_a_previous_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, now = sample.write_each(tmp_path, sample.green("before"), sample.red(name="now"))
    assert main(["build", str(now), "--previous", str(before)]) == 0
    html = (tmp_path / "index.html").read_text()
    assert "ROT-Q fails; it was" in html
    assert main(["build", str(now)]) == 0
    assert "ROT-Q fails; it was" not in (tmp_path / "index.html").read_text()
    assert capsys.readouterr().err == ""


def test_what_changed_since_the_nights_of_a_history(tmp_path: Path) -> None:
    history = tmp_path / "history.sqlite"
    before, now = sample.write_each(tmp_path, sample.green("before"), sample.red(name="now"))
    assert main(["night", str(before), "--history", str(history), "-o", str(tmp_path / "night")]) == 3
    held = history.read_bytes()
    assert main(["build", str(now), "--history", str(history)]) == 0
    assert "ROT-Q fails; it was" in (tmp_path / "index.html").read_text()
    assert history.read_bytes() == held


@pytest.mark.parametrize(
    ("earlier", "message"),
    [
        (sample.green("other", device="GPU"), "not compared with before.jsonl: another device\n"),
        ([{"kind": "run", "format": 1}], "not compared: before.jsonl"),
    ],
    ids=["another device", "an older suite's"],
)
def test_an_earlier_record_that_cannot_be_compared_is_told(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    earlier: list[sample.Line],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    sample.write(tmp_path / "r.jsonl", sample.green())
    sample.write(tmp_path / "before.jsonl", earlier)
    assert main(["build", "r.jsonl", "--previous", "before.jsonl"]) == 0
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert (tmp_path / "index.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required"),
        (["r.jsonl"], "invalid choice: 'r.jsonl'"),
        (["build"], "required: RECORD"),
        (["build", "r.jsonl", "--colour"], "unrecognized"),
        (["build", "none.jsonl"], "no such record: none.jsonl"),
        (["build", "r.jsonl", "r.jsonl"], "r.jsonl is given twice"),
        (["build", "r.jsonl", "-o", "r.jsonl"], "would overwrite its own source r.jsonl"),
        (["build", "r.jsonl", "-o", "sub/../r.jsonl"], "would overwrite its own source"),
        (["build", "r.jsonl", "-o", "folder"], "cannot write folder: Is a directory"),
        (["build", "r.jsonl", "-o", "r.jsonl/page.html"], "cannot write r.jsonl/page.html: "),
        (["build", "r.jsonl", "--previous", "none.jsonl"], "no such record: none.jsonl"),
        (["build", "r.jsonl", "--previous", "index.html"], "would overwrite its own source index.html"),
        (["build", "r.jsonl", "--history", "none.sqlite"], "no such history: none.sqlite"),
        (["build", "r.jsonl", "--history", "r.jsonl", "-o", "page.html"], "r.jsonl"),
    ],
)
def test_user_errors_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = sample.write(tmp_path / "r.jsonl", sample.green())
    sample.write(tmp_path / "other.jsonl", sample.green("other", device="GPU"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "sub").mkdir()
    before = path.read_bytes()
    try:
        status: object = main(arguments)
    except SystemExit as left:
        status = left.code
    printed = capsys.readouterr()
    assert status == 4
    assert message in printed.err
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder", "other.jsonl", "r.jsonl", "sub"]


def test_a_build_that_fails_leaves_the_old_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = sample.write(tmp_path / "r.jsonl", sample.green())
    assert main(["build", str(path)]) == 0
    old = (tmp_path / "index.html").read_text()

    def interrupted(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    for module, name in ((page, "render"), (files.os, "replace")):
        with monkeypatch.context() as patched:
            patched.setattr(module, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                main(["build", str(path)])
        assert (tmp_path / "index.html").read_text() == old
        assert sorted(each.name for each in tmp_path.iterdir()) == ["index.html", "r.jsonl"]


def test_the_module_is_a_command(tmp_path: Path) -> None:
    path = sample.write(tmp_path / "r.jsonl", sample.green())
    done = subprocess.run([sys.executable, "-m", "reports", "build", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (build.WRITTEN, "")
    assert done.stdout == f"{tmp_path / 'index.html'}\n"
