"""Small records, line by line as a run writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Line = dict[str, Any]
CASE = "bf16 T=3 Hq=4 Hkv=2 D=8 P=8 base=10000 pos=rise:0 slots=holes values=normal seed=0"


def run(**facts: Any) -> Line:
    return {"kind": "run", "format": 1, "target": "host", "accuracy": "float32-angle", "strict": False} | facts


def finding(requirement: str, what: str = "q_rot is beyond the float32-angle bound", **texts: str) -> Line:
    return {"requirement": requirement, "what": what, "severity": "failure"} | texts


def case(line: str = CASE, *findings: Line, test: str = "", note: str = "", **worst: float | str | None) -> Line:
    """A judgement; `worst` names the checks, by default one of ROT_Q."""
    checks = {id.replace("_", "-"): {"elements": 96, "worst": value} for id, value in (worst or {"ROT_Q": 0.5}).items()}
    return {
        "kind": "case",
        "test": test or f"test_shapes[{line}]",
        "line": line,
        "cases": [],
        "expected_error": 0,
        "verdict": "fail" if findings else "pass",
        "checks": checks,
        "findings": list(findings),
        "note": note,
    }


def standard(**facts: Any) -> Line:
    """The facts of a `run` line that tell what rotations were held to."""
    arithmetic = ("toward_zero", "narrows_toward_zero", "flushes", "flushes_half", "honours_nonfinite")
    return {
        "terms": [term("exact-angle", value=2.0**-22, unit="rad")],
        "probes": [probe()],
        "allowed": dict.fromkeys(arithmetic, False),
    } | facts


def term(accuracy: str, **fields: Any) -> Line:
    default = {"name": "trig_ulp", "value": 4.0, "unit": "ulp", "source": "a specification", "reason": "precise sin"}
    return {"class": accuracy} | default | fields


def probe(**fields: str) -> Line:
    return {"name": "float32 sum", "measured": "to nearest", "control": "toward zero seen in the control"} | fields


def kept(name: str = "exact-angle", *, decides: bool = True, worst: float = 0.5) -> Line:
    return {
        "kind": "class",
        "name": name,
        "decides": decides,
        "kept": True,
        "worst": worst,
        "beyond": None,
        "case": "",
    }


def left(name: str = "exact-angle", *, decides: bool = True, beyond: int = 6, case: str = CASE) -> Line:
    return kept(name, decides=decides, worst=9.5) | {"kept": False, "beyond": beyond, "case": case}


def cell(*pairs: list[Any] | None, dtype: str = "float32", decade: int = 2, **fields: Any) -> Line:
    """An `accuracy` line; `pairs` are scores with the index of their case, 0 for CASE."""
    return {
        "kind": "accuracy",
        "class": "exact-angle",
        "dtype": dtype,
        "decade": decade,
        "positions": ["0", "1-9", "10^1-10^2", "10^2-10^3"][decade],
        "elements": 1000,
        "uninformative": 0,
        "error": 1.5e-7,
        "worst": max((float(pair[0]) for pair in pairs if pair), default=0.0),
        "cases": [CASE],
        "pairs": list(pairs),
    } | fields


def requirement(id: str, tier: str, verdict: str = "pass", **fields: Any) -> Line:
    return {
        "kind": "requirement",
        "id": id,
        "tier": tier,
        "sentence": f"The sentence of {id}",
        "source": "a docstring",
        "cases": 1,
        "elements": 96,
        "worst": 0.5,
        "failed": 0,
        "warned": 0,
        "verdict": verdict,
    } | fields


def end(**fields: Any) -> Line:
    counts = {"exit_status": 0, "cases": 1, "tests_failed": 0, "tests_collected": 1, "seconds": 2.5}
    return {"kind": "end"} | counts | fields


def green() -> list[Line]:
    """A run in which all is well."""
    return [run(), case(), requirement("ROT-Q", "numeric"), requirement("ROB-DUP", "robustness"), end()]


def measured(*lines: Line) -> list[Line]:
    """A run in which all is well, with `class` and `accuracy` lines, by default a class kept and a cell."""
    first, *judged, last = green()
    return [first | {"accuracy": "exact-angle"} | standard(), *judged, *(lines or (kept(), cell([0.5, 0]))), last]


def red(*findings: Line) -> list[Line]:
    """A run whose one case fails ROT-Q, by the findings given."""
    return [
        run(),
        case(CASE, *(findings or [finding("ROT-Q")])),
        requirement("ROT-Q", "numeric", "FAIL", failed=1),
        end(exit_status=1, tests_failed=1),
    ]


def found() -> list[Line]:
    """A run with a robustness finding and a warning, which do not decide."""
    warning = finding("ROT-ZERO", "changed at position 0") | {"severity": "warning"}
    return [
        run(),
        case(CASE, finding("ROB-DUP", "neither candidate"), warning),
        requirement("ROT-ZERO", "numeric", "warn", warned=1),
        requirement("ROB-DUP", "robustness", "FAIL", failed=1),
        end(),
    ]


def write(path: Path, lines: list[Line], rest: str = "") -> Path:
    """Write a record; `rest` follows its last newline, as where a run was cut off."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + rest)
    return path
