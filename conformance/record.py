"""The record: one JSON object per line, flushed as it happens, so that a crash loses nothing.

Lines: `run` (first: what is tested, how and where), `contract`, `deviations` (failures that are known, if any are),
`envelopes`, `plan` (what is to be done); then as they happen `case` (one judgement), `test` (one that finished) and
`trouble`; `resumed` where a run that was cut off was continued; `requirement` (one verdict each) and `end` (last: exit
status, counts, seconds).
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import math
import os
import shutil
import stat
import uuid
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from conformance import resume
from conformance.case import Case, joined
from conformance.contract import documented_errors, requirements
from conformance.deviations import Deviations
from conformance.envelope import envelopes
from conformance.finding import Judgement
from conformance.ledger import Entry
from conformance.measure import Raised
from conformance.resume import FORMAT, Past, RecordError
from reference import Arithmetic


class Recorder:
    """Writes a record; does nothing without a path.

    `start` or `resume` comes before everything else.
    """

    def __init__(self, path: Path | None) -> None:
        """Opens the file and changes nothing in it.

        Raises OSError when it cannot be written, RecordError when another run is writing it.
        """
        self.path = path
        self._file = _locked(path) if path is not None else None
        self._held: set[str] = set()
        """Kinds of lines that a continued record holds."""
        self._cut: int | None = None
        """Where a continued record goes on, until it does."""
        self.error = ""
        """Why the record is incomplete; empty while it is whole."""

    def start(self, facts: dict[str, Any]) -> Path | None:
        """Begin with what is tested; where the record of a run that was cut off is kept, if the file held one."""
        if self._file is None:
            return None
        kept = None
        if _is_regular(self._file):
            kept = self._keep_cut_off()
            self._go_on_at(0)
        self._write({"kind": "run", "format": FORMAT, "run": uuid.uuid4().hex, "started": _now(), **facts})
        return kept

    def _keep_cut_off(self) -> Path | None:
        assert self._file is not None
        assert self.path is not None
        if not resume.is_cut_off(self._file):
            return None
        names = (f"{self.path.name}.cut-off{f'-{n}' if n > 1 else ''}" for n in count(1))
        kept = next(path for path in map(self.path.with_name, names) if not path.exists())
        # Copied through this handle: closing another one of the same file would give up the lock.
        self._file.seek(0)
        with kept.open("wb") as copy:
            shutil.copyfileobj(self._file, copy)
        return kept

    def _go_on_at(self, length: int) -> None:
        """Drop what the file holds past so many bytes."""
        assert self._file is not None
        self._file.seek(length)
        self._file.truncate()

    def resume(self, facts: dict[str, Any], remember: Callable[[dict[str, Any]], None]) -> Past | None:
        """Continue the record of this same run; None where it holds no run yet: `start` must follow then.

        Nothing is written before the next line is, and nothing at all to a record that is finished.

        Args:
            facts: what `start` is given.
            remember: is given each of its case lines.

        Raises RecordError for the record of another run and for what is no record.
        """
        if self._file is None or not _is_regular(self._file):
            return None
        past = resume.read(self._file, str(self.path), json.loads(_encoded(facts)), remember)
        if past is not None:
            self._held, self._cut = past.kinds, past.length
            if past.finished:
                self.close()
        return past

    def contract(self) -> None:
        """The sentences that the run judges."""
        if self._lacks("contract"):
            errors = {error.requirement: error for error in documented_errors().values()}
            told: list[dict[str, str]] = [asdict(requirement) for requirement in requirements().values()]
            for entry in told:
                if error := errors.get(entry["id"]):
                    entry |= {"trigger": error.trigger, "common": error.common, "cure": error.cure}
            self._write({"kind": "contract", "requirements": told})

    def deviations(self, deviations: Deviations) -> None:
        """The failures that are known; no line where there are none."""
        if deviations.listed and self._lacks("deviations"):
            listed = [one.to_json() for one in deviations.listed]
            self._write({"kind": "deviations", "file": deviations.file, "deviations": listed})

    def envelopes(self, arithmetic: Arithmetic) -> None:
        """What the accuracy classes allow."""
        if self._lacks("envelopes"):
            self._write({"kind": "envelopes", "envelopes": envelopes(arithmetic)})

    def plan(self, plan: dict[str, Any]) -> None:
        """What is to be done."""
        if self._lacks("plan"):
            self._write({"kind": "plan", **plan})

    def _lacks(self, kind: str) -> bool:
        return self._file is not None and kind not in self._held

    def case(
        self,
        test: str,
        cases: list[Case],
        judgement: Judgement,
        raised: Raised,
        *,
        drawn: bool,
        expected_error: int,
        seconds: float,
        note: str,
    ) -> None:
        """One judgement.

        Args:
            cases: the case, or the calls of one process in order.
            raised: the scores of its measure that are larger than any before.
            drawn: whether hypothesis made it.
            expected_error: number of the documented error that the case must raise, 0 for none.
        """
        if self._file is None:
            return
        line: dict[str, Any] = {
            "kind": "case",
            "test": test,
            "line": joined(cases),
            "cases": [case.to_json() for case in cases],
            "drawn": drawn,
            "expected_error": expected_error,
            "verdict": judgement.verdict,
            "seconds": round(seconds, 4),
            "checks": {id: asdict(check) for id, check in judgement.checks.items()},
            "findings": [finding.to_json() for finding in judgement.findings],
            "note": note,
        }
        if judgement.measure is not None:
            line["measure"] = judgement.measure.to_json(raised)
        if judgement.pools:
            line["pools"] = [asdict(pool) for pool in judgement.pools]
        if judgement.pair is not None:
            line["pair"] = [difference.to_json() for difference in judgement.pair]
        self._write(line)

    def test(self, id: str, outcome: str, seconds: float, text: str) -> None:
        """A test that finished: `passed`, `failed` or, by an error of its own that `text` tells, `broken`."""
        self._write({"kind": "test", "id": id, "outcome": outcome, "seconds": round(seconds, 4), "text": text})

    def trouble(self, what: str, where: str, text: str) -> None:
        """What befell the run itself: `collection`, `internal` or `interrupted`."""
        self._write({"kind": "trouble", "what": what, "where": where, "text": text})

    def requirement(self, entry: Entry) -> None:
        """The verdict on one requirement."""
        self._write(
            {
                "kind": "requirement",
                "id": entry.requirement.id,
                "cases": len(entry.cases),
                "elements": entry.elements,
                "worst": entry.worst,
                "failed": len(entry.failed),
                "warned": len(entry.warned),
                "deviated": len({case for book in entry.deviated.values() for case in book}),
                "verdict": entry.verdict,
            }
        )

    def end(self, facts: dict[str, Any]) -> None:
        """How the run ended; the last line."""
        self._write({"kind": "end", **facts})
        self.close()

    def close(self) -> None:
        """Write nothing more."""
        if self._file is not None:
            # What could not be written before cannot be written now.
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is None:
            return
        encoded = _encoded(line)
        try:
            if self._cut is not None:
                self._go_on_at(self._cut)
                self._cut = None
                self._file.write(_encoded({"kind": "resumed", "started": _now()}))
            self._file.write(encoded)
            self._file.flush()
        except OSError as error:
            # The run goes on; its end says that the record is not whole.
            self.error = str(error)
            self.close()


def _locked(path: Path) -> io.BufferedRandom | io.BufferedWriter:
    """The file, made if need be, for this process alone; what is no regular file is shared."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        return path.open("wb")
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
    try:
        # Unlike flock's, this lock is not inherited by workers, which may outlive a run that is killed.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        file.close()
        raise RecordError(f"another run is writing the record {path}: let it end, or name another file") from None
    return file


def _is_regular(file: io.BufferedRandom | io.BufferedWriter) -> bool:
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _encoded(line: dict[str, Any]) -> bytes:
    """The line as JSON. Raises TypeError for what JSON has no type for: nothing is turned into text on the quiet."""
    return f"{json.dumps(_plain(line), allow_nan=False)}\n".encode()


def _plain(value: Any) -> Any:
    """The value with infinities and NaN as text: JSON has none. Exact types, as numpy's floats pass for Python's."""
    kind = type(value)
    if kind is float:
        return value if math.isfinite(value) else str(value)
    if kind in (str, int, bool) or value is None:
        return value
    if kind in (list, tuple):
        return [_plain(item) for item in value]
    if kind is dict and all(type(key) is str for key in value):
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"a record has no place for {kind.__name__}: {value!r}")
