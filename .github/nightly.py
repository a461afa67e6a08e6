"""What the nightly workflow asks of GitHub, by its `gh`: last night's files, and an issue for each regression.

Standard library only: it runs before anything is installed. What a kernel said goes to `gh` through a pipe and into a
code block, never into a shell, a title's markup or a mention.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

LABEL = "nightly-regression"
_MOST_TITLE, _MOST_BODY = 200, 60_000


def main(arguments: list[str]) -> int:
    """0: done; 1: `gh` refused, or a file of the night is not what it should be; 2: not a command of ours."""
    try:
        match arguments:
            case ["restore", name, folder]:
                restore(name, Path(folder))
            case ["tell", *folders] if folders:
                tell(list(map(Path, folders)))
            case _:
                print("usage: nightly.py restore ARTIFACT FOLDER | tell NIGHT...", file=sys.stderr)
                return 2
    except subprocess.CalledProcessError as error:
        print(f"error: {' '.join(error.cmd[:3])}: {error.stderr.strip()}", file=sys.stderr)
        return 1
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def restore(name: str, folder: Path) -> None:
    """Download the newest artifact of that name that this branch left; nothing on the first night.

    An artifact of a fork, or of another branch, is not taken: anyone could have written it.
    """
    repository, branch = os.environ["GITHUB_REPOSITORY"], os.environ["GITHUB_REF_NAME"]
    found = json.loads(_gh("api", f"repos/{repository}/actions/artifacts?name={name}&per_page=100"))["artifacts"]
    ours = [one for one in found if not one["expired"] and _is_ours(one["workflow_run"], branch)]
    if not ours:
        print(f"no {name} yet: the first night of {branch}")
        return
    run = str(max(ours, key=lambda one: one["created_at"])["workflow_run"]["id"])
    _gh("run", "download", run, "--name", name, "--dir", str(folder))
    print(f"{name} of run {run}")


def _is_ours(run: dict[str, Any], branch: str) -> bool:
    return bool(run["head_branch"] == branch and run["head_repository_id"] == run["repository_id"])


def tell(nights: list[Path]) -> None:
    """One open issue for each kind of regression of each target: a comment if there is one, else a new issue."""
    issues: dict[str, list[str]] = {}
    for night in nights:
        for regression in _regressions(night):
            text = f"{night.name}: {regression['text']}"
            issues.setdefault(_title(regression["target"], regression["kind"]), []).append(text)
    if not issues:
        print("no regressions")
        return
    _gh("label", "create", LABEL, "--force", "--color", "B60205", "--description", "Found by the nightly run")
    listed = _gh("issue", "list", "--label", LABEL, "--state", "open", "--limit", "500", "--json", "number,title")
    open_issues = {issue["title"]: str(issue["number"]) for issue in json.loads(listed)}
    summaries = [path.read_text(encoding="utf-8") for night in nights if (path := night / "summary.txt").exists()]
    for title, texts in issues.items():
        body = _body(texts, summaries)
        if number := open_issues.get(title):
            _gh("issue", "comment", number, "--body-file", "-", text=body)
        else:
            _gh("issue", "create", "--title", title, "--label", LABEL, "--body-file", "-", text=body)
        print(f"{'commented' if number else 'opened'}: {title}")


def _regressions(night: Path) -> list[dict[str, str]]:
    """What the night found; a night that could not run compared nothing, and its own job says so."""
    path = night / "regressions.json"
    if not path.exists():
        print(f"{night.name}: nothing was compared")
        return []
    return list(json.loads(path.read_text(encoding="utf-8"))["regressions"])


def _title(target: str, kind: str) -> str:
    """The same for the same target and kind, whatever the figures."""
    return " ".join(f"Nightly regression: {kind} ({target})".split())[:_MOST_TITLE]


def _body(texts: list[str], summaries: list[str]) -> str:
    report = f"Report, record and JUnit XML are artifacts of [this run]({os.environ['RUN_URL']})."
    return f"{report}\n\n{_code(chr(10).join(texts))}\n\nThe night in short:\n\n{_code(chr(10).join(summaries))}\n"


def _code(text: str) -> str:
    """A code block that the text cannot end: nothing in it is markup, a link or a mention."""
    text = text[: _MOST_BODY // 2].rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"


def _gh(*words: str, text: str = "") -> str:
    """What `gh` prints. Raises CalledProcessError."""
    return subprocess.run(["gh", *words], input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
