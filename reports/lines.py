"""The lines of a record, one by one: JSON objects made into data, whatever is malformed refused.

Every reader raises KeyError, TypeError, ValueError or AttributeError for a line that is not what it should be.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from reports.model import (
    DEVIATION,
    DTYPES,
    OUTCOMES,
    OUTPUTS,
    SEVERITIES,
    SIDES,
    VERDICTS,
    Allowed,
    Deviation,
    Difference,
    End,
    Envelope,
    Finding,
    Plan,
    PoolPicture,
    Probe,
    Ranges,
    Requirement,
    Standard,
    Term,
    Trouble,
    Verdict,
)

MOST_TEXT = 4_000
"""Characters kept of a text that a kernel or an exception may have made as long as it likes."""
TROUBLES = ("collection", "internal", "interrupted")
LAST_DECADE = 10
LAST_BUCKET = 12
# Far above the pairs of any head, far below what would fill memory.
_MOST_PAIRS = 1 << 16
_RUN_ID = re.compile("[0-9a-f]{32}")

Line = dict[str, Any]


def run(line: Line) -> Standard:
    """What a `run` line says that rotations are held to; its other facts are checked."""
    if not _RUN_ID.fullmatch(text(line["run"])):
        raise ValueError(f"{line['run']!r} is no run id")
    for name in ("target", "device", "started", "seed", "accuracy", "decides"):
        text(line[name])
    flag(line["strict"])
    if "pair" in line:
        for name in ("target", "device", *line["pair"]):
            text(line["pair"][name])
    texts(line["limits"])
    for name in line["versions"].values():
        text(name)
    classes = texts(line["classes"])
    if line["decides"] not in classes or len(set(classes)) < len(classes):
        raise ValueError(f"the classes are {classes}, and {line['decides']!r} decides")
    return Standard(
        terms=tuple(map(_term, line["terms"])),
        probes=tuple(Probe(text(p["name"]), text(p["measured"]), text(p["control"])) for p in line["probes"]),
        allowed=Allowed(**{name: flag(value) for name, value in line["allowed"].items()}),
    )


def _term(entry: Line) -> Term:
    return Term(
        accuracy=text(entry["class"]),
        name=text(entry["name"]),
        value=finite(entry["value"]),
        unit=text(entry["unit"]),
        source=text(entry["source"]),
        reason=text(entry["reason"]),
    )


def contract(line: Line) -> tuple[Requirement, ...]:
    """The requirements, nothing counted yet."""
    entries = tuple(map(_entry, line["requirements"]))
    if len({entry.id for entry in entries}) < len(entries):
        raise ValueError("two requirements of one id")
    return entries


def _entry(entry: Line) -> Requirement:
    return Requirement(
        **{name: text(entry[name]) for name in ("id", "tier", "sentence", "source")},
        **{name: text(entry.get(name, "")) for name in ("trigger", "common", "cure")},
        cases=0,
        elements=0,
        worst=None,
        worst_case="",
        planned=None,
        failed=0,
        warned=0,
        deviated=0,
    )


def deviations(line: Line) -> tuple[Deviation, ...]:
    """The failures that are known, none seen yet."""
    return tuple(_deviation(number, entry) for number, entry in enumerate(line["deviations"], 1))


def _deviation(number: int, entry: Line) -> Deviation:
    reason, issue, expires = (clipped(entry[name]) for name in ("reason", "issue", "expires"))
    seen = dict.fromkeys(texts(entry["requirements"]), 0)
    return Deviation(number, reason, issue, expires, tuple(texts(entry["hides"])), seen)


def envelopes(line: Line) -> tuple[Envelope, ...]:
    return tuple(map(_envelope, line["envelopes"]))


def _envelope(entry: Line) -> Envelope:
    positions, error = tuple(map(count, entry["positions"])), tuple(map(score, entry["error"]))
    if len(positions) != len(error) or any(one >= next for one, next in pairwise(positions)):
        raise ValueError("an envelope is an error for each of some growing positions")
    return Envelope(text(entry["class"]), finite(entry["rope_base"]), count(entry["head_dim"]), positions, error)


def plan(line: Line) -> Plan:
    return Plan(count(line["tests"]), count(line["cases"]), count(line["examples"]), flag(line["whole"]))


def outcome(line: Line) -> tuple[str, str, float, str]:
    """Id, outcome, seconds and text of a finished test."""
    return text(line["id"]), one_of(OUTCOMES, line["outcome"]), finite(line["seconds"]), clipped(line["text"])


def trouble(line: Line) -> Trouble:
    return Trouble(one_of(TROUBLES, line["what"]), clipped(line["where"]), clipped(line["text"]))


def verdict(line: Line) -> Verdict:
    return Verdict(
        id=text(line["id"]),
        cases=count(line["cases"]),
        elements=count(line["elements"]),
        worst=None if line["worst"] is None else score(line["worst"]),
        failed=count(line["failed"]),
        warned=count(line["warned"]),
        verdict=one_of(VERDICTS, line["verdict"]),
        deviated=count(line.get("deviated", 0)),
    )


def end(line: Line) -> End:
    return End(
        exit_status=count(line["exit_status"]),
        cases=count(line["cases"]),
        tests_failed=count(line["tests_failed"]),
        tests_collected=count(line["tests_collected"]),
        seconds=finite(line["seconds"]),
        outdated=tuple(map(clipped, line.get("outdated", ()))),
    )


def finding(line: Line) -> Finding:
    # The writer leaves empty texts and the number 0 out.
    severity, deviation = one_of(SEVERITIES, line["severity"]), count(line.get("deviation", 0))
    if (severity == DEVIATION) != (deviation > 0):
        raise ValueError(f"a finding of severity {severity!r} and deviation {deviation}")
    return Finding(
        requirement=text(line["requirement"]),
        what=clipped(line["what"]),
        where=clipped(line.get("where", "")),
        extent=clipped(line.get("extent", "")),
        looks_like=clipped(line.get("looks_like", "")),
        severity=severity,
        deviation=deviation,
    )


def differences(value: Any) -> tuple[Difference, ...]:
    """Where two targets differ in a case."""
    if type(value) is not list:
        raise ValueError(f"{value!r} is no list")
    return tuple(map(_difference, value))


def _difference(line: Line) -> Difference:
    told = Difference(
        output=one_of(OUTPUTS, line["output"]),
        first=clipped(line["first"]),
        second=clipped(line["second"]),
        wanted=clipped(line["wanted"]),
        nearer=one_of(SIDES, line["nearer"]),
        dtype=clipped(line["dtype"]),
        where=clipped(line["where"]),
        ulps=_count_or_none(line["ulps"]),
        elements=count(line["elements"]),
        size=count(line["size"]),
        nearer_first=count(line["nearer_first"]),
        nearer_second=count(line["nearer_second"]),
        largest_ulps=_count_or_none(line["largest_ulps"]),
        call=count(line["call"]),
    )
    if not told.nearer_first + told.nearer_second <= told.elements <= told.size:
        raise ValueError(f"{told.elements} of {told.size} elements differ")
    return told


def size(cases: Iterable[Line]) -> int:
    """Elements of q, k and v over all calls of a judgement."""
    return sum(
        (count(case["num_tokens"]) if case["token"] < 0 else 1)
        * (count(case["num_qo_heads"]) + 2 * count(case["num_kv_heads"]))
        * count(case["head_dim"])
        for case in cases
    )


def pool(line: Line) -> PoolPicture:
    rows, tokens = count(line["rows"]), count(line["tokens"])
    return PoolPicture(
        pool=text(line["pool"]),
        rows=rows,
        **{name: _ranges(line[name], rows) for name in ("written", "wrong", "stale", "stray")},
        tokens=tokens,
        skipped=_ranges(line["skipped"], tokens),
    )


def _ranges(value: Any, limit: int) -> Ranges:
    ranges = tuple((count(first), count(end)) for first, end in value)
    bounds = [bound for pair in ranges for bound in pair]
    if any(first >= end for first, end in ranges) or any(one > other for one, other in pairwise(bounds)):
        raise ValueError(f"{value!r} are no rising ranges")
    if bounds and bounds[-1] > limit:
        raise ValueError(f"{value!r} leave the {limit} that there are")
    return ranges


def pair(name: str) -> int:
    return _whole(name, 0, _MOST_PAIRS - 1)


def decade(name: str) -> int:
    return _whole(name, 0, LAST_DECADE)


def bucket(name: str) -> int:
    return _whole(name, -LAST_BUCKET, LAST_BUCKET)


def _whole(name: str, least: int, most: int) -> int:
    number = int(name)
    if not least <= number <= most or str(number) != name:
        raise ValueError(f"{name!r} is no number from {least} to {most}")
    return number


def dtype(value: Any) -> str:
    return one_of(DTYPES, value)


def one_of(known: tuple[str, ...], value: Any) -> str:
    if value not in known:
        raise ValueError(f"{value!r} is none of {', '.join(known)}")
    return text(value)


def text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError(f"{value!r} is no text")
    return value


def texts(value: Any) -> list[str]:
    if type(value) is not list:
        raise ValueError(f"{value!r} is no list")
    return [text(each) for each in value]


def clipped(value: Any) -> str:
    """A text, the middle of a very long one left out."""
    whole = text(value)
    if len(whole) <= MOST_TEXT:
        return whole
    half = MOST_TEXT // 2
    return f"{whole[:half]} ... {len(whole) - 2 * half:,} characters left out ... {whole[-half:]}"


def score(value: Any) -> float:
    """An error as a fraction of its bound; one that is no number is beyond every bound."""
    if type(value) is float and value >= 0:
        return value
    number = _number(value)
    if math.isnan(number):
        return math.inf
    if number < 0:
        raise ValueError(f"{value!r} is no score")
    return number


def finite(value: Any) -> float:
    if type(value) is float and 0 <= value < math.inf:
        return value
    number = _number(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{value!r} is no finite number of 0 or more")
    return number


def _number(value: Any) -> float:
    # Infinities and NaN are written as text.
    if type(value) in (int, float) or value in ("inf", "-inf", "nan"):
        return float(value)
    raise ValueError(f"{value!r} is no number")


def count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no count")
    return value


def _count_or_none(value: Any) -> int | None:
    return None if value is None else count(value)


def flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"{value!r} is neither true nor false")
    return value
