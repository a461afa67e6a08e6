"""Recorded runs, read from their JSON lines one by one; records of one run are merged.

A record: `run`, `contract`, `deviations` (if any are known), `envelopes`, `plan`; then `case`, `test`, `trouble` as
they happened, and `resumed` where a run that had died was continued; then `requirement` and `end`. No more is held of a
record than its Run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from reports import lines
from reports.fold import Fold
from reports.lines import Line
from reports.model import BROKEN, Deviation, End, Envelope, Finished, Part, Plan, Requirement, Run, Trouble, Verdict

FORMAT = 2
# Tracebacks of more broken tests than this are cut to their end, and no more troubles than this are told.
_MOST_TOLD = 100
_SHORT = 200
# What may differ between records of one run: they are made by several workers and machines, from any path.
_OF_THE_PART = {
    *("kind", "format", "run", "started", "seed", "machine", "commit"),
    *("shader path", "deviations path", "pools", "probes"),
}


_TORN: Line = {}
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError)


class RecordError(Exception):
    """The record cannot be read; the text is one line that says why."""

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.splitlines()))


def read(paths: Sequence[Path]) -> tuple[Run, ...]:
    """The runs recorded at `paths`, in that order.

    Records of one target under one standard, by the same versions, are parts of one Run. Raises RecordError: for a
    record that is none, and for two of the same run.
    """
    runs: list[_Merged] = []
    seen: dict[str, Path] = {}
    for path in paths:
        given = _lines(path)
        facts = _run_line(path, next(given, None))
        if facts["run"] in seen:
            raise RecordError(_twice(seen[facts["run"]], path))
        seen[facts["run"]] = path
        second = next(given, None)
        merged = next((run for run in runs if run.takes(facts, second)), None)
        if merged is None:
            runs.append(merged := _Merged(facts))
        merged.read(path, facts, given if second is None else chain([second], given))
    return tuple(merged.run() for merged in runs)


def _twice(one: Path, other: Path) -> str:
    if one.resolve() == other.resolve():
        return f"{other} is given twice"
    return f"{one} and {other} are records of the same run"


def _lines(path: Path) -> Iterator[Line]:
    """The objects of a record's lines; _TORN for a last line that is cut off."""
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                # Every whole line ends in a newline; what follows the last one may be a line cut off.
                try:
                    yield _parsed(path, number, raw)
                except RecordError:
                    if raw.endswith(b"\n"):
                        raise
                    yield _TORN
    except FileNotFoundError:
        raise RecordError(f"no such record: {path}") from None
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error


def _parsed(path: Path, number: int, raw: bytes) -> Line:
    try:
        parsed = orjson.loads(raw)
    except ValueError:
        parsed = _parsed_leniently(path, raw)
    if not isinstance(parsed, dict):
        raise RecordError(f"{path} is not a record: line {number} is not a JSON object")
    return parsed


def _parsed_leniently(path: Path, raw: bytes) -> Any:
    """What is JSON, though its texts hold half surrogate pairs, which nothing can print; None for anything else."""
    try:
        parsed = json.loads(raw.decode(), parse_constant=_refused)
        return orjson.loads(json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode(errors="replace"))
    except UnicodeDecodeError:
        raise RecordError(f"{path} is not a record: it is not UTF-8 text") from None
    except (ValueError, RecursionError):
        return None


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _run_line(path: Path, line: Line | None) -> Line:
    if line is None or line.get("kind") != "run":
        raise RecordError(f"{path} is not a record: it does not begin with a line of kind 'run'")
    found = line.get("format")
    if found == 1:
        raise RecordError(f"{path} was made by an older suite: it has record format 1; run the suite again")
    if found != FORMAT:
        raise RecordError(f"{path} has record format {found!r}; this report reads format {FORMAT}")
    _read(path, 1, line, lines.run)
    return line


def _read(path: Path, number: int, line: Line, reader: Callable[[Line], Any]) -> Any:
    try:
        return reader(line)
    except _MALFORMED as error:
        reason = repr(error)
        reason = reason if len(reason) <= _SHORT else f"{reason[:_SHORT]}..."
        raise RecordError(f"{path}, line {number}: malformed line of kind {line['kind']!r} ({reason})") from error


class _Merged:
    """A run that its records are added to, one after another."""

    def __init__(self, facts: Line) -> None:
        self.facts = facts
        self.identity = _identity(facts)
        self.contract: tuple[Requirement, ...] | None = None
        self._envelopes: tuple[Envelope, ...] = ()
        self._deviations: tuple[Deviation, ...] = ()
        self._bits: dict[str, int] = {}
        self._fold: Fold | None = None
        self._parts: list[Part] = []
        self._tests: list[Finished] = []
        self._troubles: list[Trouble] = []

    def takes(self, facts: Line, second: Line | None) -> bool:
        """Whether a record that begins so is part of this run; second: its contract, if it came so far."""
        if _identity(facts) != self.identity:
            return False
        if self.contract is None or second is None or second.get("kind") != "contract":
            return True
        return _read_or_none(second) in (None, self.contract)

    def read(self, path: Path, facts: Line, rest: Iterator[Line]) -> None:
        """Add the record whose lines after the first are `rest`."""
        fold = Fold(self._bits, tuple(facts["classes"]))
        reader = _Reader(path, fold, len(self._parts))
        for number, line in enumerate(rest, 2):
            reader.take(number, line)
        self.contract = self.contract or reader.contract
        self._envelopes = self._envelopes or reader.envelopes or ()
        self._deviations = self._deviations or reader.deviations or ()
        self._parts.append(reader.part(facts))
        self._tests += reader.finished()
        self._troubles += reader.troubles
        if self._fold is None:
            self._fold = fold
        else:
            self._fold.merge(fold)

    def run(self) -> Run:
        """All that was added."""
        assert self._fold is not None
        return Run(
            facts=self.facts,
            parts=tuple(self._parts),
            standard=lines.run(self.facts),
            requirements=self._fold.requirements(self.contract or ()),
            index=self._fold.distinct.index(),
            judgements=self._fold.judgements,
            found=self._fold.kept.cases(),
            classes=tuple(self._fold.measured.classes(self.facts["decides"])),
            cells=tuple(self._fold.measured.cells()),
            envelopes=self._envelopes,
            ulps=self._fold.measured.ulps(),
            tests=tuple(self._tests),
            troubles=tuple(self._troubles),
            pair=self._fold.pair.result() if "pair" in self.facts else None,
            deviations=self._fold.deviations(self._deviations),
        )


def _identity(facts: Line) -> bytes:
    own = {name: value for name, value in facts.items() if name not in _OF_THE_PART}
    return orjson.dumps(own, option=orjson.OPT_SORT_KEYS)


def _read_or_none(line: Line) -> tuple[Requirement, ...] | None:
    """A contract; None for one that is malformed, which whichever run takes it will refuse."""
    try:
        return lines.contract(line)
    except _MALFORMED:
        return None


class _Reader:
    """One record, line by line."""

    def __init__(self, path: Path, fold: Fold, index: int) -> None:
        self._path, self._fold, self._index = path, fold, index
        self.contract: tuple[Requirement, ...] | None = None
        self.envelopes: tuple[Envelope, ...] | None = None
        self.deviations: tuple[Deviation, ...] | None = None
        self.troubles: list[Trouble] = []
        self._plan: Plan | None = None
        self._outcomes: dict[str, tuple[str, float, str]] = {}
        self._broken = 0
        self._resumed = 0
        self._verdicts: dict[str, Verdict] = {}
        self._end: End | None = None
        self._torn = False
        self._readers: dict[str, Callable[[Line], None]] = {
            "contract": self._take_contract,
            "envelopes": self._take_envelopes,
            "deviations": self._take_deviations,
            "plan": self._take_plan,
            "resumed": self._take_resumed,
            "case": self._fold.add,
            "test": self._take_test,
            "trouble": self._take_trouble,
            "requirement": self._take_verdict,
            "end": self._take_end,
        }

    def take(self, number: int, line: Line) -> None:
        """Add a line. Raises RecordError."""
        if line is _TORN:
            self._torn = True
            return
        kind = line.get("kind")
        if not isinstance(kind, str) or kind not in self._readers:
            raise RecordError(f"{self._path}, line {number}: unknown kind {kind!r}")
        if self._end is not None and kind != "resumed":
            raise RecordError(f"{self._path}, line {number}: a line of kind {kind!r} after the end of the run")
        _read(self._path, number, line, self._readers[kind])

    def _take_contract(self, line: Line) -> None:
        _once(self.contract)
        self.contract = lines.contract(line)

    def _take_envelopes(self, line: Line) -> None:
        _once(self.envelopes)
        self.envelopes = lines.envelopes(line)

    def _take_deviations(self, line: Line) -> None:
        _once(self.deviations)
        self.deviations = lines.deviations(line)

    def _take_plan(self, line: Line) -> None:
        _once(self._plan)
        self._plan = lines.plan(line)

    def _take_resumed(self, line: Line) -> None:
        """What befell the run before does not count: it went on, and what it then lacks is seen by its plan."""
        lines.text(line["started"])
        self._resumed += 1
        self.troubles.clear()
        self._verdicts.clear()
        self._end = None

    def _take_test(self, line: Line) -> None:
        id, outcome, seconds, text = lines.outcome(line)
        if outcome == BROKEN:
            self._broken += 1
            text = text if self._broken <= _MOST_TOLD else text[-_SHORT:]
        self._outcomes[sys.intern(id)] = outcome, seconds, text

    def _take_trouble(self, line: Line) -> None:
        trouble = lines.trouble(line)
        if len(self.troubles) < _MOST_TOLD:
            self.troubles.append(trouble)

    def _take_verdict(self, line: Line) -> None:
        verdict = lines.verdict(line)
        _once(self._verdicts.get(verdict.id))
        self._verdicts[verdict.id] = verdict

    def _take_end(self, line: Line) -> None:
        self._end = lines.end(line)

    def finished(self) -> Iterator[Finished]:
        """The tests that finished; of one that was made again, as it finished last."""
        for id, (outcome, seconds, text) in self._outcomes.items():
            failed = tuple(self._fold.named(self._fold.failed_by.get(id, 0)))
            yield Finished(id, outcome, seconds, text, failed, self._index)

    def part(self, facts: Line) -> Part:
        """What tells whether the record is whole and agrees with itself."""
        distinct = self._fold.distinct
        return Part(
            path=str(self._path),
            facts=facts,
            run_id=facts["run"],
            started=facts["started"],
            seed=facts["seed"],
            plan=self._plan,
            resumed=self._resumed,
            distinct_cases=len(distinct.places),
            failed_cases=sum(map(bool, distinct.failed)),
            planned_cases=len(self._fold.planned),
            tests=len(self._outcomes),
            verdicts=tuple(self._verdicts.values()),
            counted=self._fold.requirements(self.contract or ()),
            end=self._end,
            torn=self._torn,
        )


def _once(before: object) -> None:
    if before is not None:
        raise ValueError("it stands twice")
