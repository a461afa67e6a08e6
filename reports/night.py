"""`python -m reports night`: a night is concluded, compared, stored and reported; `suspects` and `accept` beside it."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports import junit, page
from reports.compare import REGRESSION, REQUIREMENT_FAILED, Change, Changes, Rerun, compare, suspects
from reports.digest import Benchmark, BenchmarkError, Digest, read_benchmarks
from reports.files import replace
from reports.history import History, HistoryError
from reports.model import Run
from reports.record import RecordError, read
from reports.summary import Night, summary

HELD, FAILED, REGRESSED, NO_BASELINE, COULD_NOT_RUN = range(5)
# Of several runs and steps in one night, the exit status that says most comes first.
_PRECEDENCE = (FAILED, REGRESSED, COULD_NOT_RUN, NO_BASELINE, HELD)
REPORT, JUNIT, SUMMARY, REGRESSIONS = "index.html", "junit.xml", "summary.txt", "regressions.json"


class NightError(Exception):
    """The night cannot be reported; the text is one line that says why."""


def add_commands(commands: Any) -> None:
    """Add `night`, `suspects` and `accept` to the subcommands of a parser."""
    night = commands.add_parser(
        "night", help="compare a run with the stored history, store it, write report, JUnit XML and summary"
    )
    _add_night(night)
    night.add_argument("--rerun", type=Path, metavar="JSON", help="the suspected benchmarks, base and head in turn")
    night.add_argument("--source", type=Path, metavar="FILE", help="the shader under test, kept for later reruns")
    night.add_argument("--again", default="", metavar="TEXT", help="the command that makes this night again")
    night.add_argument("--note", action="append", default=[], metavar="TEXT", help="something to tell in the summary")
    night.add_argument(
        "--could-not-run", action="append", default=[], metavar="TEXT", help="a step that could not run, and why"
    )
    night.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    night.set_defaults(run=_guarded(_night))
    suspected = commands.add_parser("suspects", help="name the benchmarks that seem slower than on the baseline")
    _add_night(suspected)
    suspected.add_argument("-o", "--output", type=Path, required=True, metavar="JSON")
    suspected.add_argument("--shader", type=Path, metavar="FILE", help="where the baseline's shader is to be written")
    suspected.set_defaults(run=_guarded(_suspects))
    accept = commands.add_parser("accept", help="make the last night a baseline, whatever was told against it")
    accept.add_argument("--history", type=Path, required=True, metavar="FILE")
    accept.set_defaults(run=_guarded(_accept))


def _add_night(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("records", type=Path, nargs="+", metavar="RECORD")
    parser.add_argument("--benchmarks", type=Path, metavar="JSON", help="what --benchmark-json wrote")
    parser.add_argument("--history", type=Path, required=True, metavar="FILE", help="SQLite file, made if need be")
    parser.add_argument(
        "--options",
        default="",
        metavar="TEXT",
        help="those that chose the tests: only nights of the same ones are compared",
    )


def _guarded(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The command, with one line and COULD_NOT_RUN for what the user can mend."""

    def guarded(parsed: argparse.Namespace) -> int:
        try:
            return command(parsed)
        except (RecordError, HistoryError, BenchmarkError, NightError) as error:
            print(f"error: {' '.join(str(error).splitlines())}", file=sys.stderr)
        except OSError as error:
            print(f"error: cannot write {error.filename}: {error.strerror}", file=sys.stderr)
        return COULD_NOT_RUN

    return guarded


def status_of(digest: Digest, changes: Changes) -> int:
    """The exit status of one run.

    FAILED: a requirement that decides failed, even where the run did not finish, or a known deviation is out of date.
    COULD_NOT_RUN: nothing failed and the
    run did not finish; it is stored, and is no baseline. REGRESSED, NO_BASELINE or HELD otherwise.
    """
    if digest.failing or digest.outdated:
        return FAILED
    if not digest.finished:
        return COULD_NOT_RUN
    if changes.baseline is None:
        return NO_BASELINE
    return REGRESSED if changes.regressions else HELD


@dataclass(frozen=True)
class _Inputs:
    """A night's records and benchmarks, read."""

    runs: tuple[Run, ...]
    digests: tuple[Digest, ...]

    @classmethod
    def read(cls, records: Sequence[Path], benchmarks: Path | None, options: str) -> _Inputs:
        timed = () if benchmarks is None else read_benchmarks(benchmarks)
        runs = read(records)
        if timed and len(runs) > 1:
            raise NightError(f"benchmarks belong to one run, and these records hold {len(runs)}")
        return cls(runs, tuple(Digest.of(run, timed, options) for run in runs))


def _night(parsed: argparse.Namespace) -> int:
    inputs = _Inputs.read(parsed.records, parsed.benchmarks, parsed.options)
    rerun = Rerun() if parsed.rerun is None else _read_rerun(parsed.rerun)
    nights = []
    with History(parsed.history) as history:
        for run, digest in zip(inputs.runs, inputs.digests, strict=True):
            past = history.held(digest.identity, before=digest.run_id)
            changes = compare(past, digest, rerun)
            nights.append(Night(run, digest, changes, len(past), status_of(digest, changes)))
        for night in nights:
            history.store(night.digest, night.status, night.changes, _source(parsed.source, night.digest))
        trends = [history.trend(digest.identity) for digest in inputs.digests]
    found = {night.status for night in nights} | ({COULD_NOT_RUN} if parsed.could_not_run else set())
    status = next(each for each in _PRECEDENCE if each in found)
    notes = [*(f"could not run: {text}" for text in parsed.could_not_run), *parsed.note]
    text = summary(nights, status, parsed.output, parsed.again, notes)
    differences = [night.changes for night in nights]
    replace(parsed.output / REPORT, page.render(inputs.runs, changes=differences, trends=trends))
    replace(parsed.output / JUNIT, junit.render(inputs.runs))
    replace(parsed.output / REGRESSIONS, _regressions(nights))
    replace(parsed.output / SUMMARY, text)
    print(text, end="")
    return status


def _regressions(nights: Sequence[Night]) -> str:
    """What was told against the night, for a tracker of issues."""
    found = [
        {"target": _name(night.digest), "subject": change.subject, "kind": change.kind, "text": change.text}
        for night in nights
        for change in (*night.changes.regressions, *_standing_failures(night))
    ]
    return json.dumps({"regressions": found, "summary": SUMMARY}, indent=1) + "\n"


def _standing_failures(night: Night) -> list[Change]:
    """Requirements that fail and did so before, or where nothing is known of before; deviations out of date."""
    told = {change.subject for change in night.changes.regressions if change.kind == REQUIREMENT_FAILED}
    failing = [id for id in night.digest.failing if id not in told]
    return [
        *(Change(REQUIREMENT_FAILED, f"{id} fails", REGRESSION, id) for id in failing),
        *(Change("deviation outdated", text, REGRESSION, text) for text in night.digest.outdated),
    ]


def _name(digest: Digest) -> str:
    """What was tested, in words that no change of it alters."""
    facts = dict(digest.identity)
    return ", ".join(facts[name] for name in ("target", "shader", "source", "device") if name in facts)


def _suspects(parsed: argparse.Namespace) -> int:
    """Write which benchmarks are to be measured again, against which commit, and that night's shader."""
    [digest] = _Inputs.read(parsed.records, parsed.benchmarks, parsed.options).digests[:1]
    with History(parsed.history) as history:
        past = history.held(digest.identity, before=digest.run_id)
        names = suspects(past, digest)
        base = next((night for night in reversed(past) if night.benchmarks), None)
        source = None if base is None or parsed.shader is None else history.source(base.run_id)
    if source is not None:
        replace(parsed.shader, source)
    replace(parsed.output, json.dumps({"names": names, "commit": base.commit if base else ""}))
    return 0


def _accept(parsed: argparse.Namespace) -> int:
    """Make the last night a baseline, and say what was accepted."""
    if not parsed.history.exists():
        raise NightError(f"no such history: {parsed.history}")
    with History(parsed.history) as history:
        night = history.last()
        if night is None:
            raise NightError(f"the history {parsed.history} holds no night")
        name = f"the night of {night.digest.started} ({_name(night.digest)})"
        if not night.digest.finished:
            raise NightError(f"{name} did not finish: it can be no baseline")
        history.accept(night.digest.run_id)
    print(f"accepted as baseline: {name}")
    for text in (*(f"fails: {id}" for id in night.digest.failing), *night.regressions):
        print(f"  {text}")
    return 0


def _read_rerun(path: Path) -> Rerun:
    """`why` there is none, or `rounds`: pairs of benchmark files of base and head, beside this file."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        rounds = [tuple(read_benchmarks(path.parent / name) for name in pair) for pair in told["rounds"]]
        base, head = (_by_name([each[side] for each in rounds]) for side in (0, 1))
        return Rerun(base, head, str(told["why"]))
    except OSError as error:
        raise NightError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise NightError(f"{path} tells of no rerun ({error!r})") from error


def _by_name(rounds: Sequence[Sequence[Benchmark]]) -> dict[str, tuple[Benchmark, ...]]:
    names = dict.fromkeys(one.name for each in rounds for one in each)
    return {name: tuple(one for each in rounds for one in each if one.name == name) for name in names}


def _source(path: Path | None, digest: Digest) -> bytes | None:
    """The source under test, if the file is still what ran: the record names the beginning of its hash."""
    if path is None:
        return None
    content, ran = path.read_bytes(), digest.shader.rpartition(" ")[2]
    return content if ran and hashlib.sha256(content).hexdigest().startswith(ran) else None
