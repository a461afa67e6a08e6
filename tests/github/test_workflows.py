"""The workflows: what they may do, and what the nightly one asks of GitHub, with a gh that only takes notes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SCRIPTS = (ROOT / ".ci" / "run", ROOT / ".github" / "macos", ROOT / ".github" / "night")
EVIL = "```\n@octocat <script>alert(1)</script> $(touch evil) `touch evil` ${{ github.token }}\n````"


@dataclass(frozen=True)
class Run:
    status: int
    calls: list[list[str]]
    texts: list[str]
    """What each call was given on its standard input."""
    output: str


@pytest.fixture
def nightly(tmp_path: Path) -> Callable[..., Run]:
    """`.github/nightly.py` in an empty folder."""

    def run(*arguments: str, **answers: Any) -> Run:
        calls, answered = tmp_path / "calls", tmp_path / "answers"
        calls.write_text("")
        answered.write_text(json.dumps({name.replace("_", " "): answer for name, answer in answers.items()}))
        environment = {
            "PATH": f"{Path(__file__).parent}{os.pathsep}{os.environ['PATH']}",
            "GH_CALLS": str(calls),
            "GH_ANSWERS": str(answered),
            "GITHUB_REPOSITORY": "us/suite",
            "GITHUB_REF_NAME": "main",
            "RUN_URL": "https://github.com/us/suite/actions/runs/7",
        }
        script = [sys.executable, str(ROOT / ".github" / "nightly.py"), *arguments]
        done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        made = [json.loads(line) for line in calls.read_text().splitlines()]
        output = done.stdout + done.stderr
        return Run(done.returncode, [call["words"] for call in made], [call["text"] for call in made], output)

    return run


def _night(folder: Path, *regressions: tuple[str, str, str]) -> str:
    folder.mkdir()
    found = [{"target": target, "kind": kind, "text": text} for target, kind, text in regressions]
    (folder / "regressions.json").write_text(json.dumps({"regressions": found}))
    (folder / "summary.txt").write_text(f"the night of {folder.name}\n")
    return str(folder)


def test_a_regression_opens_one_issue_or_adds_to_it(nightly: Callable[..., Run], tmp_path: Path) -> None:
    lost = ("host", "class lost", "exact-angle is no longer kept")
    linux = _night(tmp_path / "linux", lost, ("host", "slower", "1.4 times"), ("host", "slower", "1.9 times"))
    mac = _night(tmp_path / "mac", lost)
    known = [{"number": 12, "title": "Nightly regression: slower (host)"}]
    run = nightly("tell", linux, mac, issue_list=known)
    assert run.status == 0, run.output
    label, listed, opened, added = run.calls
    assert label[:2] == ["label", "create"]
    assert listed[:2] == ["issue", "list"]
    title = "Nightly regression: class lost (host)"
    assert opened == ["issue", "create", "--title", title, "--label", label[2], "--body-file", "-"]
    assert added == ["issue", "comment", "12", "--body-file", "-"]
    assert "linux: exact-angle is no longer kept\nmac: exact-angle is no longer kept" in run.texts[2]
    assert "linux: 1.4 times\nlinux: 1.9 times" in run.texts[3]
    assert "the night of linux" in run.texts[3]
    assert "https://github.com/us/suite/actions/runs/7" in run.texts[3]


def test_an_issue_of_another_target_is_not_taken(nightly: Callable[..., Run], tmp_path: Path) -> None:
    night = _night(tmp_path / "linux", ("host", "slower", "1.4 times"))
    known = [{"number": 12, "title": "Nightly regression: slower (host, other.metal)"}]
    assert [call[:2] for call in nightly("tell", night, issue_list=known).calls][-1] == ["issue", "create"]


def test_what_a_kernel_said_is_text(nightly: Callable[..., Run], tmp_path: Path) -> None:
    run = nightly("tell", _night(tmp_path / "linux", (f"a\nb {EVIL}", "slower", EVIL)), issue_list=[])
    assert run.status == 0, run.output
    assert not list(tmp_path.rglob("evil"))
    title = run.calls[2][3]
    assert "\n" not in title
    # The fence is longer than any run of backticks within.
    [block, _] = re.findall(r"^(`{5})text\n(.*?)\n\1$|^(```)text\n(.*?)\n\3$", run.texts[2], re.S | re.M)
    assert block[1] == f"linux: {EVIL}"


def test_a_long_text_fits_into_an_issue(nightly: Callable[..., Run], tmp_path: Path) -> None:
    run = nightly("tell", _night(tmp_path / "linux", ("host" * 100, "slower", "x" * 100_000)), issue_list=[])
    assert len(run.calls[2][3]) <= 256
    assert len(run.texts[2]) <= 65_536


def test_without_regressions_nothing_is_asked(nightly: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    run = nightly("tell", _night(tmp_path / "linux"), str(tmp_path / "broken"))
    assert (run.status, run.calls) == (0, [])
    assert "broken: nothing was compared" in run.output


def test_a_refusal_is_one_line(nightly: Callable[..., Run], tmp_path: Path) -> None:
    run = nightly("tell", _night(tmp_path / "linux", ("host", "slower", "1.4 times")), issue_list="refused")
    assert (run.status, run.output) == (1, "error: gh issue list: HTTP 403: forbidden\n")


def _artifact(id: int, created: str, *, branch: str = "main", fork: bool = False, expired: bool = False) -> Any:
    run = {"id": id, "head_branch": branch, "repository_id": 1, "head_repository_id": 2 if fork else 1}
    return {"created_at": created, "expired": expired, "workflow_run": run}


def test_the_last_night_of_this_branch_is_restored(nightly: Callable[..., Run]) -> None:
    artifacts = [
        _artifact(1, "2026-11-01T02:00:00Z"),
        _artifact(2, "2026-11-02T02:00:00Z"),
        _artifact(3, "2026-11-03T02:00:00Z", expired=True),
        _artifact(4, "2026-11-04T02:00:00Z", fork=True),
        _artifact(5, "2026-11-05T02:00:00Z", branch="other"),
    ]
    asked = {"api repos/us/suite/actions/artifacts": {"artifacts": artifacts}}
    run = nightly("restore", "nightly-kept-Linux", "out/nightly", **asked)
    assert run.status == 0, run.output
    assert run.calls[1] == ["run", "download", "2", "--name", "nightly-kept-Linux", "--dir", "out/nightly"]


def test_the_first_night_restores_nothing(nightly: Callable[..., Run]) -> None:
    run = nightly("restore", "kept", "out", **{"api repos/us/suite/actions/artifacts": {"artifacts": []}})
    assert (run.status, len(run.calls), run.output) == (0, 1, "no kept yet: the first night of main\n")


def test_a_history_that_cannot_be_restored_ends_the_night(nightly: Callable[..., Run]) -> None:
    asked = {"api repos/us/suite/actions/artifacts": {"artifacts": [_artifact(1, "")]}, "run download": "refused"}
    assert nightly("restore", "kept", "out", **asked).status == 1


@pytest.mark.parametrize(("status", "answer"), [(0, 0), (1, 1), (2, 2), (3, 0), (4, 4)])
def test_only_a_night_without_a_baseline_is_forgiven(tmp_path: Path, status: int, answer: int) -> None:
    for name, text in {
        ".venv/bin/python": f"#!/bin/sh\nmkdir -p out/nightly/n && echo told > out/nightly/n/summary.txt\n"
        f"ln -s n out/nightly/latest\nexit {status}\n",
        "Makefile": ".venv/.installed:\n\t@touch $@\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / ".venv/bin/python").chmod(0o755)
    (tmp_path / ".github").mkdir()
    script = shutil.copy(ROOT / ".github" / "night", tmp_path / ".github")
    told = tmp_path / "told.md"
    environment = os.environ | {"GITHUB_STEP_SUMMARY": str(told)}
    assert subprocess.run([script], env=environment, capture_output=True, check=False).returncode == answer
    assert told.read_text() == "```text\ntold\n```\n"
    assert (tmp_path / "out/report/summary.txt").read_text() == "told\n"


def test_the_workflows_keep_their_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*command, *map(str, WORKFLOWS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_careful(path: Path) -> None:
    text = path.read_text()
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", used) for used in re.findall(r"uses: (\S+)", text))
    # An expression in a script is pasted into it: such values go by the environment.
    assert not [line for line in re.findall(r"run: (.*)", text) if "${{" in line or line.strip() in "|>"]
    assert "permissions:\n  contents: read\n" in text
    assert text.count("persist-credentials: false") == text.count("actions/checkout@")
    writes = re.findall(r"(\w+): write", text)
    assert writes == (["issues"] if path.name == "nightly.yml" else [])


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_a_script_stops_at_the_first_failure(path: Path) -> None:
    assert "\nset -euo pipefail\n" in path.read_text()
    assert os.access(path, os.X_OK)
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
