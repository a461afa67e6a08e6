"""A recorded run, read from its JSON lines: `run` first, then `case`, then `requirement`, `end` last."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMAT = 1
FAILURE, WARNING = SEVERITIES = ("failure", "warning")
PASS, FAIL, WARN, NOT_RUN = VERDICTS = ("pass", "FAIL", "warn", "not run")


class RecordError(Exception):
    """The record cannot be read; the text is one line that says why."""


@dataclass(frozen=True)
class Finding:
    """One way in which a call broke a requirement; the texts are those of the judge."""

    requirement: str
    what: str
    where: str
    extent: str
    looks_like: str
    severity: str
    """One of SEVERITIES."""


@dataclass(frozen=True)
class Check:
    """How many elements a case showed for a requirement; worst: largest error as a fraction of its bound."""

    elements: int
    worst: float | None


@dataclass(frozen=True)
class Case:
    """One judgement."""

    test: str
    line: str
    """What replays the case; ` ; ` joins the calls of one process."""
    checks: dict[str, Check]
    findings: tuple[Finding, ...]
    note: str


@dataclass(frozen=True)
class Requirement:
    """The run's verdict on one requirement; cases, failed and warned count distinct case lines."""

    id: str
    tier: str
    sentence: str
    source: str
    cases: int
    elements: int
    worst: float | None
    failed: int
    warned: int
    verdict: str
    """One of VERDICTS."""


@dataclass(frozen=True)
class End:
    """How the run ended: pytest's exit status and counts."""

    exit_status: int
    cases: int
    tests_failed: int
    tests_collected: int
    seconds: float


@dataclass(frozen=True)
class Record:
    """All that a run left behind. `end` is None, and `torn` may be true, for a run that died."""

    run: dict[str, Any]
    cases: tuple[Case, ...]
    requirements: tuple[Requirement, ...]
    end: End | None
    torn: bool
    """Whether the last line is cut off."""

    @property
    def distinct_cases(self) -> int:
        return len({case.line for case in self.cases})


def read(path: Path) -> Record:
    """The record at `path`. Raises RecordError."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise RecordError(f"no such record: {path}") from None
    except UnicodeDecodeError:
        raise RecordError(f"{path} is not a record: it is not UTF-8 text") from None
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    # Every whole line ends in a newline, so what follows the last one is empty, or a line cut off.
    *whole, rest = lines
    objects, torn = [_parsed(path, number, line) for number, line in enumerate(whole, 1)], False
    if rest:
        try:
            objects.append(_parsed(path, len(lines), rest))
        except RecordError:
            torn = True
    _check_run(path, objects)
    return _assemble(path, objects, torn)


def _parsed(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise RecordError(f"{path} is not a record: line {number} is not a JSON object")
    return parsed


def _check_run(path: Path, objects: list[dict[str, Any]]) -> None:
    if not objects or objects[0].get("kind") != "run":
        raise RecordError(f"{path} is not a record: it does not begin with a line of kind 'run'")
    if objects[0].get("format") != FORMAT:
        found = objects[0].get("format")
        raise RecordError(f"{path} has record format {found!r}; this report reads format {FORMAT}")


def _assemble(path: Path, objects: list[dict[str, Any]], torn: bool) -> Record:
    items: dict[str, list[Any]] = {kind: [] for kind in _READERS}
    for number, line in enumerate(objects[1:], 2):
        kind = line.get("kind")
        if items["end"]:
            raise RecordError(f"{path}, line {number}: a line of kind {kind!r} after the end of the run")
        if not isinstance(kind, str) or kind not in _READERS:
            raise RecordError(f"{path}, line {number}: unknown kind {kind!r}")
        try:
            items[kind].append(_READERS[kind](line))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise RecordError(f"{path}, line {number}: malformed line of kind {kind!r} ({error!r})") from error
    end = items["end"][0] if items["end"] else None
    return Record(objects[0], tuple(items["case"]), tuple(items["requirement"]), end, torn)


def _case(line: dict[str, Any]) -> Case:
    return Case(
        test=str(line["test"]),
        line=str(line["line"]),
        checks={id: Check(int(c["elements"]), _worst(c["worst"])) for id, c in line["checks"].items()},
        findings=tuple(map(_finding, line["findings"])),
        note=str(line["note"]),
    )


def _finding(line: dict[str, Any]) -> Finding:
    if line["severity"] not in SEVERITIES:
        raise ValueError(f"unknown severity {line['severity']!r}")
    # The writer leaves empty texts out.
    return Finding(
        requirement=str(line["requirement"]),
        what=str(line["what"]),
        where=str(line.get("where", "")),
        extent=str(line.get("extent", "")),
        looks_like=str(line.get("looks_like", "")),
        severity=line["severity"],
    )


def _requirement(line: dict[str, Any]) -> Requirement:
    if line["verdict"] not in VERDICTS:
        raise ValueError(f"unknown verdict {line['verdict']!r}")
    return Requirement(
        id=str(line["id"]),
        tier=str(line["tier"]),
        sentence=str(line["sentence"]),
        source=str(line["source"]),
        cases=int(line["cases"]),
        elements=int(line["elements"]),
        worst=_worst(line["worst"]),
        failed=int(line["failed"]),
        warned=int(line["warned"]),
        verdict=line["verdict"],
    )


def _end(line: dict[str, Any]) -> End:
    return End(
        exit_status=int(line["exit_status"]),
        cases=int(line["cases"]),
        tests_failed=int(line["tests_failed"]),
        tests_collected=int(line["tests_collected"]),
        seconds=float(line["seconds"]),
    )


def _worst(value: Any) -> float | None:
    # Infinities and NaN are written as text, which float() reads.
    return None if value is None else float(value)


_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {"case": _case, "requirement": _requirement, "end": _end}
