"""The record: one JSON object per line, flushed as it happens, so that a crash loses nothing.

Lines: `run` (first: what was tested and how), `case` (one judgement), `class` (how one accuracy class fared),
`accuracy` (one dtype and position decade), `requirement` (one verdict each), `end` (last: exit status, counts,
seconds).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import IO, Any

from conformance.case import Case, joined
from conformance.finding import Judgement
from conformance.ledger import Entry

FORMAT = 1


class Recorder:
    """Writes a record; does nothing without a path."""

    def __init__(self, path: Path | None) -> None:
        """Raises OSError when the file cannot be written."""
        self._file: IO[str] | None = None
        self.error = ""
        """Why the record is incomplete; empty while it is whole."""
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="utf-8")

    def run(self, facts: dict[str, Any]) -> None:
        """What is tested: target, device, accuracy class, profile, seed."""
        self._write({"kind": "run", "format": FORMAT, **facts})

    def case(self, test: str, cases: list[Case], judgement: Judgement, expected_error: int, note: str) -> None:
        """One judgement. cases: the case, or the calls of one process in order.

        expected_error: number of the documented error that the case must raise, 0 for none.
        """
        self._write(
            {
                "kind": "case",
                "test": test,
                "line": joined(cases),
                "cases": [case.to_json() for case in cases],
                "expected_error": expected_error,
                "verdict": "fail" if judgement.failed else "warn" if judgement.findings else "pass",
                "checks": {
                    id: {"elements": check.elements, "worst": check.worst} for id, check in judgement.checks.items()
                },
                "findings": [finding.to_json() for finding in judgement.findings],
                "note": note,
            }
        )

    def accuracy(self, line: dict[str, Any]) -> None:
        """A `class` or an `accuracy` line."""
        self._write(line)

    def requirement(self, entry: Entry) -> None:
        """The verdict on one requirement."""
        requirement = entry.requirement
        self._write(
            {
                "kind": "requirement",
                "id": requirement.id,
                "tier": requirement.tier,
                "sentence": requirement.sentence,
                "source": requirement.source,
                "cases": len(entry.cases),
                "elements": entry.elements,
                "worst": entry.worst,
                "failed": len(entry.failed),
                "warned": len(entry.warned),
                "verdict": entry.verdict,
            }
        )

    def end(self, facts: dict[str, Any]) -> None:
        """Close the record."""
        self._write({"kind": "end", **facts})
        self._file = None

    def _write(self, line: dict[str, Any]) -> None:
        if not self._file:
            return
        try:
            self._file.write(json.dumps(_finite(line), allow_nan=False) + "\n")
            self._file.flush()
        except OSError as error:
            # The run goes on; its end says that the record is not whole.
            self.error, self._file = str(error), None


def _finite(value: Any) -> Any:
    """JSON has no infinities: they are written as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value
