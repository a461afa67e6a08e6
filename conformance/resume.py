"""A record read back, so that the run that was cut off can go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

FORMAT = 2
# Statuses of pytest for a run that was not stopped: nothing failed, something failed, nothing was collected.
_COMPLETE = (0, 1, 5)
_BEGINNING = b'{"kind": "run"'
# An end line is much shorter.
_TAIL = 1 << 12
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError)
_DONE = ("passed", "failed")
# These differ between two runs of the same.
_OWN = {"kind", "format", "run", "started"}
_ANEW = "run without --resume to start anew"


class RecordError(Exception):
    """A record that cannot be begun or continued; the text is a line that says why and what to do."""


@dataclass
class Past:
    """What a record holds of the run that is to go on."""

    length: int = 0
    """Bytes of its whole lines."""
    kinds: set[str] = field(default_factory=set)
    """Of its lines."""
    plan: dict[str, Any] | None = None
    tests: dict[str, tuple[str, float]] = field(default_factory=dict)
    """Outcome and seconds of each test, by id, as it finished last."""
    seconds: float = 0.0
    """That all of its finished tests took."""
    end: dict[str, Any] | None = None

    @property
    def finished(self) -> bool:
        """Whether the run came to its end after all of its tests: it was neither killed nor stopped."""
        if self.end is None or self.plan is None:
            return False
        return self.end["exit_status"] in _COMPLETE and len(self.tests) >= self.plan["tests"]

    @property
    def done(self) -> set[str]:
        """Ids of the tests that need not be made again; a broken one is."""
        return {id for id, (outcome, _) in self.tests.items() if outcome in _DONE}

    def count(self, outcome: str) -> int:
        """How many tests ended so."""
        return sum(own == outcome for own, _ in self.tests.values())

    def add(self, line: dict[str, Any]) -> None:
        """Take in a line that follows the first."""
        kind = line["kind"]
        self.kinds.add(kind)
        if kind == "plan":
            self.plan = {name: value for name, value in line.items() if name != "kind"}
        elif kind == "test":
            self.tests[line["id"]] = line["outcome"], float(line["seconds"])
            self.seconds += line["seconds"]
        elif kind == "end":
            self.end = line
        elif kind == "resumed":
            self.end = None


def seed(path: Path | None) -> str:
    """The seed of the run that a record is of; empty where there is none to read."""
    if path is None or not path.is_file():
        return ""
    with path.open("rb") as file:
        first = next(_whole_lines(file, path.name), {})
    return str(first.get("seed", ""))


def is_cut_off(file: IO[bytes]) -> bool:
    """Whether a file holds something that is no finished record; a first line cut off is nothing."""
    file.seek(0, 2)
    size = file.tell()
    file.seek(max(0, size - _TAIL))
    tail = file.read()
    last = tail.rstrip(b"\n").rpartition(b"\n")[2]
    if not tail.endswith(b"\n"):
        return not _is_torn_beginning(file)
    return not last.startswith(b'{"kind": "end"')


def _is_torn_beginning(file: IO[bytes]) -> bool:
    """Whether all that a file holds is the beginning of a record's first line, or nothing."""
    file.seek(0)
    first = file.readline()
    length = min(len(first), len(_BEGINNING))
    return not first.endswith(b"\n") and first[:length] == _BEGINNING[:length]


def read(file: IO[bytes], name: str, facts: dict[str, Any], remember: Callable[[dict[str, Any]], None]) -> Past | None:
    """What the record in `file` holds; None where it holds no run yet.

    Args:
        name: of the file, for messages.
        facts: what the `run` line of this run would say.
        remember: is given each `case` line.

    Raises RecordError for what is no record of this same run.
    """
    if _is_torn_beginning(file):
        return None
    file.seek(0)
    lines = _whole_lines(file, name)
    _check_same_run(next(lines, {}), name, facts)
    past = Past(length=file.tell())
    for number, line in enumerate(lines, 2):
        try:
            past.add(line)
            if line["kind"] == "case":
                remember(line)
        except _MALFORMED as error:
            text = f"{name}, line {number}, cannot be read ({error!r}): {_ANEW}"
            raise RecordError(text) from error
        past.length = file.tell()
    return past


def _whole_lines(file: IO[bytes], name: str) -> Iterator[dict[str, Any]]:
    """The lines up to the last newline; what follows it was cut off."""
    for text in file:
        if not text.endswith(b"\n"):
            return
        try:
            line = json.loads(text)
        except ValueError:
            line = None
        if not isinstance(line, dict):
            raise RecordError(_not_ours(name))
        yield line


def _not_ours(name: str) -> str:
    return f"{name} is no record of a run: name another file with --record"


def _check_same_run(run: dict[str, Any], name: str, facts: dict[str, Any]) -> None:
    if run.get("kind") != "run":
        raise RecordError(_not_ours(name))
    if run.get("format") != FORMAT:
        raise RecordError(f"the record {name} was made by another version of the suite: {_ANEW}")
    there = {key: value for key, value in run.items() if key not in _OWN}
    differing = [key for key in {**there, **facts} if there.get(key) != facts.get(key)]
    if differing:
        told = "; ".join(_difference(key, there.get(key), facts.get(key)) for key in differing)
        raise RecordError(f"the record {name} is of another run: {told}; give that one's options, or {_ANEW}")


def _difference(key: str, there: Any, here: Any) -> str:
    if isinstance(there, str) and isinstance(here, str):
        return f"{key} was {there or 'not given'}, is {here or 'not given'}"
    return f"{key} differs"
