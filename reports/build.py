"""`python -m reports build`: write the HTML report of recorded runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reports import files, page
from reports.compare import compare
from reports.digest import Digest
from reports.history import History, HistoryError, Trend
from reports.record import RecordError, read

WRITTEN, NOT_WRITTEN = 0, 4
REPORT = "index.html"


class BuildError(Exception):
    """The report cannot be built; the text is one line that says why."""


def add_command(commands: Any) -> None:
    """Add `build` to the subcommands of a parser."""
    parser = commands.add_parser(
        "build",
        help="write the HTML report of recorded runs",
        description="Write the HTML report of recorded runs; records of one target under one standard are merged.",
    )
    parser.add_argument("records", type=Path, nargs="+", metavar="RECORD", help="what pytest --record wrote")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help=f"{REPORT} next to the first record by default"
    )
    parser.add_argument("--history", type=Path, metavar="FILE", help="past nights: trends, and what changed since")
    parser.add_argument("--previous", type=Path, metavar="RECORD", help="an earlier record: what changed since")
    parser.set_defaults(run=_build)


def _build(parsed: argparse.Namespace) -> int:
    """WRITTEN, whatever the report says; NOT_WRITTEN if something cannot be read or written."""
    output = parsed.output or parsed.records[0].parent / REPORT
    try:
        _check_output(output, [*parsed.records, *filter(None, (parsed.history, parsed.previous))])
        files.replace(output, _page(parsed))
    except (RecordError, HistoryError, BuildError) as error:
        reason = str(error)
    except OSError as error:
        reason = f"cannot write {output}: {error.strerror}"
    else:
        print(output)
        return WRITTEN
    print(f"error: {' '.join(reason.splitlines())}", file=sys.stderr)
    return NOT_WRITTEN


def _check_output(output: Path, inputs: Sequence[Path]) -> None:
    if output.resolve() in {path.resolve() for path in inputs}:
        raise BuildError(f"the report would overwrite its own source {output}; name another file with -o")


def _page(parsed: argparse.Namespace) -> str:
    runs = read(parsed.records)
    if not (parsed.history or parsed.previous):
        return page.render(runs)
    now = [Digest.of(run) for run in runs]
    past, trends = _past(parsed.history, now) if parsed.history else ([() for _ in now], [])
    if parsed.previous:
        past = _previous(parsed.previous, now)
    changes = [compare(before, digest) for before, digest in zip(past, now, strict=True)]
    return page.render(runs, changes=changes, trends=trends)


def _past(path: Path, now: Sequence[Digest]) -> tuple[list[tuple[Digest, ...]], list[Trend]]:
    """For each run the nights that held before it; and their trends."""
    if not path.exists():
        raise BuildError(f"no such history: {path}")
    with History(path) as history:
        held = [history.held(digest.identity, before=digest.run_id) for digest in now]
        return held, [history.trend(digest.identity) for digest in now]


def _previous(path: Path, now: Sequence[Digest]) -> list[tuple[Digest, ...]]:
    """For each run the one of the earlier record that it can be compared with; told where there is none."""
    if not path.exists():
        raise BuildError(f"no such record: {path}")
    try:
        earlier = [Digest.of(run) for run in read([path])]
    except RecordError as error:
        print(f"not compared: {error}", file=sys.stderr)
        return [() for _ in now]
    found = [tuple(before for before in earlier if before.identity == digest.identity) for digest in now]
    if not any(found):
        differing = sorted({name for name, _ in set(earlier[0].identity) ^ set(now[0].identity)})
        print(f"not compared with {path}: another {', '.join(differing)}", file=sys.stderr)
    return found
