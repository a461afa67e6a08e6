"""A recorded run, read from its JSON lines: `run` first, `end` last, and between them what was found.

Between them: `case` (one judgement), `class` (how one accuracy class fared), `accuracy` (one dtype and position
decade), `requirement` (one verdict). Records of older suites have no `class` and no `accuracy` lines.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

from reports.model import (
    SEVERITIES,
    VERDICTS,
    Allowed,
    Case,
    Cell,
    Check,
    ClassResult,
    End,
    Finding,
    Probe,
    Record,
    Requirement,
    Standard,
    Term,
)

FORMAT = 1
# Scores of pairs are written with six decimals.
_PAIR_ROUNDING = 1e-6


class RecordError(Exception):
    """The record cannot be read; the text is one line that says why."""


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
    standard = _read_line(path, 1, "run", _standard, objects[0])
    for number, line in enumerate(objects[1:], 2):
        kind = line.get("kind")
        if items["end"]:
            raise RecordError(f"{path}, line {number}: a line of kind {kind!r} after the end of the run")
        if not isinstance(kind, str) or kind not in _READERS:
            raise RecordError(f"{path}, line {number}: unknown kind {kind!r}")
        items[kind].append(_read_line(path, number, kind, _READERS[kind], line))
    _check_once(path, "class", (result.name for result in items["class"]))
    _check_once(path, "class", ("decides" for result in items["class"] if result.decides))
    _check_once(path, "accuracy", ((cell.dtype, cell.decade) for cell in items["accuracy"]))
    if len({cell.accuracy for cell in items["accuracy"]}) > 1:
        raise RecordError(f"{path}: lines of kind 'accuracy' for more than one class")
    return Record(
        run=objects[0],
        standard=standard,
        cases=tuple(items["case"]),
        classes=tuple(items["class"]),
        cells=tuple(items["accuracy"]),
        requirements=tuple(items["requirement"]),
        end=items["end"][0] if items["end"] else None,
        torn=torn,
    )


def _read_line(
    path: Path, number: int, kind: str, reader: Callable[[dict[str, Any]], Any], line: dict[str, Any]
) -> Any:
    try:
        return reader(line)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise RecordError(f"{path}, line {number}: malformed line of kind {kind!r} ({error!r})") from error


def _check_once(path: Path, kind: str, keys: Iterable[Hashable]) -> None:
    """No two lines of a kind may say the same thing twice."""
    seen: set[Hashable] = set()
    for key in keys:
        if key in seen:
            raise RecordError(f"{path}: two lines of kind {kind!r} for {key!r}")
        seen.add(key)


def _standard(run: dict[str, Any]) -> Standard | None:
    if not {"terms", "probes", "allowed"} & set(run):
        return None
    return Standard(
        terms=tuple(map(_term, run["terms"])),
        probes=tuple(Probe(str(p["name"]), str(p["measured"]), str(p["control"])) for p in run["probes"]),
        allowed=Allowed(**{name: _flag(value) for name, value in run["allowed"].items()}),
    )


def _term(entry: dict[str, Any]) -> Term:
    return Term(
        accuracy=str(entry["class"]),
        name=str(entry["name"]),
        value=_finite(entry["value"]),
        unit=str(entry["unit"]),
        source=str(entry["source"]),
        reason=str(entry["reason"]),
    )


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


def _class(line: dict[str, Any]) -> ClassResult:
    result = ClassResult(
        name=str(line["name"]),
        decides=_flag(line["decides"]),
        kept=_flag(line["kept"]),
        worst=_score(line["worst"]),
        beyond=None if line["beyond"] is None else _count(line["beyond"]),
        case=str(line["case"]),
    )
    left = result.beyond is not None
    if left != (result.worst > 1) or left != bool(result.case) or (left and result.kept):
        raise ValueError("kept, worst, beyond and case contradict each other")
    return result


def _cell(line: dict[str, Any]) -> Cell:
    cell = Cell(
        accuracy=str(line["class"]),
        dtype=str(line["dtype"]),
        decade=_count(line["decade"]),
        positions=str(line["positions"]),
        elements=_count(line["elements"]),
        uninformative=_count(line["uninformative"]),
        error=_finite(line["error"]),
        worst=_score(line["worst"]),
        cases=tuple(map(str, line["cases"])),
        pairs=tuple(None if pair is None else _pair(*pair, cases=line["cases"]) for pair in line["pairs"]),
    )
    if cell.uninformative > cell.elements:
        raise ValueError(f"{cell.uninformative} uninformative elements of {cell.elements}")
    worst = max((pair[0] for pair in cell.pairs if pair), default=0.0)
    if not math.isclose(worst, cell.worst, rel_tol=_PAIR_ROUNDING, abs_tol=_PAIR_ROUNDING):
        raise ValueError(f"worst is {cell.worst}, of its pairs {worst}")
    return cell


def _pair(score: Any, place: Any, *, cases: list[Any]) -> tuple[float, int]:
    if _count(place) >= len(cases):
        raise ValueError(f"no case {place}")
    return _score(score), place


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


def _score(value: Any) -> float:
    number = float(value)
    if not number >= 0:
        raise ValueError(f"{value!r} is no score")
    return number


def _finite(value: Any) -> float:
    number = _score(value)
    if math.isinf(number):
        raise ValueError(f"{value!r} is not finite")
    return number


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


_READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "case": _case,
    "class": _class,
    "accuracy": _cell,
    "requirement": _requirement,
    "end": _end,
}
