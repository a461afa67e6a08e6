"""The index of all cases, packed so that the page can search it."""

from __future__ import annotations

import base64
import gzip
import math
from collections.abc import Sequence

import orjson

from reports.model import CaseIndex, Run
from reports.replay import replay_command

VERDICTS = ("pass", "warn", "fail")
# No command holds it before its case does.
_PLACE = "CASE"
_COMPRESSION = 6


def pack(runs: Sequence[Run], names: Sequence[str]) -> str:
    """The cases of all runs as base64 of gzipped JSON: one object for each run, its columns parallel.

    `tests` names the test functions; `test` is the function of each case; `verdict` and `drawn` hold a digit for
    each; `worst` its score, null for none and text for one that is not finite. The command that replays a case is
    `before`, the case quoted for a POSIX shell, `after`.
    """
    columns = [_columns(run, name) for run, name in zip(runs, names, strict=True)]
    packed = gzip.compress(orjson.dumps(columns), _COMPRESSION, mtime=0)
    return base64.b64encode(packed).decode("ascii")


def _columns(run: Run, name: str) -> dict[str, object]:
    index: CaseIndex = run.index
    tests = {test: place for place, test in enumerate(dict.fromkeys(index.tests))}
    before, _, after = replay_command(_PLACE, run.facts).partition(_PLACE)
    return {
        "name": _encodable(name),
        "before": before,
        "after": _encodable(after),
        "tests": [_encodable(test) for test in tests],
        "test": [tests[test] for test in index.tests],
        "lines": [_encodable(line) for line in index.lines],
        "verdict": "".join(str(VERDICTS.index(verdict)) for verdict in index.verdicts),
        "drawn": "".join("1" if drawn else "0" for drawn in index.drawn),
        "worst": [_short(worst) for worst in index.worst],
    }


def _encodable(text: str) -> str:
    """A record may hold half a surrogate pair, which UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _short(worst: float | None) -> float | str | None:
    if worst is None:
        return None
    return float(f"{worst:.3g}") if math.isfinite(worst) else str(worst)
