"""Small records, line by line as a run writes them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

Line = dict[str, Any]
CASE = "bf16 T=3 Hq=4 Hkv=2 D=8 P=8 base=10000 pos=rise:0 slots=holes values=normal seed=0"
CLASSES = ("exact-angle", "float32-angle", "fast")
CONTRACT = {"ROT-Q": "numeric", "ROB-DUP": "robustness"}


def run(name: str = "run", **facts: Any) -> Line:
    """A `run` line; `name` gives the run id."""
    return {
        "kind": "run",
        "format": 2,
        "run": hashlib.md5(name.encode()).hexdigest(),
        "started": "2026-12-01T15:30:00Z",
        "target": "host",
        "device": "CPU x86_64",
        "compiler": "g++ 12.2.0",
        "shader": "rope_pool_fused.metal 8f69daa1a0ee",
        "math": "libm",
        "accuracy": "auto",
        "classes": list(CLASSES),
        "decides": "exact-angle",
        "arithmetic": "float32 rounded to nearest",
        "launch": "all",
        "pools": "written in place",
        "profile": "default",
        "seed": "derandomised",
        "strict": False,
        "limits": [],
        **standard(),
        "versions": {"suite": "0.1.0", "python": "3.11.2", "torch": "2.9.0", "numpy": "2.3.5", "platform": "Linux"},
        "machine": "a CPU, 2 cores",
        "commit": "0123456789ab",
    } | facts


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


def contract(tiers: dict[str, str] | None = None, **texts: str) -> Line:
    """The requirements of `tiers`, id by id; `texts` are fields of each of them."""
    return {
        "kind": "contract",
        "requirements": [
            {"id": id, "tier": tier, "sentence": f"The sentence of {id}", "source": "a docstring"}
            | ({"trigger": "a rank", "common": "a batch axis", "cure": "reshape"} if id.startswith("ERR-0") else {})
            | texts
            for id, tier in (CONTRACT if tiers is None else tiers).items()
        ],
    }


def envelopes(*accuracies: str) -> Line:
    """Envelopes that rise with the position, each class ten times the one before."""
    positions = [0, *(10**n for n in range(10)), 2**31 - 1]
    return {
        "kind": "envelopes",
        "envelopes": [
            {
                "class": name,
                "rope_base": base,
                "head_dim": 128,
                "positions": positions,
                "error": [1e-7 * 10**rank * (1 + position) ** (0.3 * rank) for position in positions],
            }
            for rank, name in enumerate(accuracies or CLASSES)
            for base in (10000.0, 500000.0)
        ],
    }


def plan(**fields: Any) -> Line:
    return {"kind": "plan", "tests": 1, "cases": 1, "examples": 0, "whole": True} | fields


def resumed() -> Line:
    return {"kind": "resumed", "started": "2026-12-01T15:40:00Z"}


def finding(requirement: str, what: str = "q_rot is beyond the float32-angle bound", **texts: str) -> Line:
    return {"requirement": requirement, "what": what, "severity": "failure"} | texts


def warning(requirement: str, what: str = "changed at position 0", **texts: str) -> Line:
    return finding(requirement, what, **texts) | {"severity": "warning"}


def case(
    line: str = CASE,
    *findings: Line,
    test: str = "",
    note: str = "",
    drawn: bool = False,
    tokens: int = 3,
    measure: Line | None = None,
    pools: tuple[Line, ...] = (),
    **worst: float | str | None,
) -> Line:
    """A judgement; `worst` names the checks, by default one of ROT_Q. tokens: of its one call of 64 elements each."""
    checks = {id.replace("_", "-"): {"elements": 96, "worst": value} for id, value in (worst or {"ROT_Q": 0.5}).items()}
    severities = {found["severity"] for found in findings}
    return {
        "kind": "case",
        "test": test or id_of(line),
        "line": line,
        "cases": [
            {"dtype": "bf16", "num_tokens": tokens, "num_qo_heads": 4, "num_kv_heads": 2, "head_dim": 8, "token": -1}
        ],
        "drawn": drawn,
        "expected_error": 0,
        "verdict": "fail" if "failure" in severities else "warn" if "warning" in severities else "pass",
        "seconds": 0.25,
        "checks": checks,
        "findings": list(findings),
        "note": note,
        **({"measure": measure} if measure else {}),
        **({"pools": list(pools)} if pools else {}),
    }


def id_of(line: str) -> str:
    """Id of the test that makes the case of `line`."""
    return f"conformance/test_rotation.py::test_shapes[{line}]"


def measure(
    *scores: float | str,
    accuracy: str = "exact-angle",
    dtype: str = "float32",
    decade: int = 2,
    ulps: dict[int, int] | None = None,
    worst: float | str | None = None,
    beyond: int | None = None,
    **fields: Any,
) -> Line:
    """What was measured of a case in one decade; scores: of its pairs. The class is left from `beyond` on.

    fields: of the decade.
    """
    # Infinities are written as text.
    largest = max(scores, key=float, default=0.0)
    found = {"elements": 1000, "uninformative": 0, "error": 1.5e-7} | fields
    return {
        "dtype": dtype,
        "classes": {accuracy: {"worst": largest if worst is None else worst, "beyond": beyond}},
        "decades": {
            accuracy: {str(decade): found | {"raised": {str(pair): value for pair, value in enumerate(scores)}}}
        },
        "ulps": {str(bucket): times for bucket, times in (ulps or {0: 900, 1: 60, -1: 40}).items()},
    }


def together(*measures: Line) -> Line:
    """One measure of several: of other classes or decades, one dtype."""
    first = json.loads(json.dumps(measures[0]))
    for other in measures[1:]:
        first["classes"] |= other["classes"]
        for name, decades in other["decades"].items():
            first["decades"].setdefault(name, {}).update(decades)
    return first


def pool(name: str = "k_pool", **fields: Any) -> Line:
    """A pool of 8 rows after a call of 3 tokens, the last one skipped: a right row, a wrong, a stale, a stray one."""
    return {
        "pool": name,
        "rows": 8,
        "written": [[0, 1]],
        "wrong": [[2, 3]],
        "stale": [[4, 5]],
        "stray": [[6, 8]],
        "tokens": 3,
        "skipped": [[2, 3]],
    } | fields


def finished(id: str = "", outcome: str = "passed", **fields: Any) -> Line:
    """A finished test, by default the one of CASE."""
    return {"kind": "test", "id": id or id_of(CASE), "outcome": outcome, "seconds": 0.5, "text": ""} | fields


def trouble(what: str = "collection", where: str = "conformance/test_rotation.py", text: str = "ImportError") -> Line:
    return {"kind": "trouble", "what": what, "where": where, "text": text}


def requirement(id: str, verdict: str = "pass", **fields: Any) -> Line:
    """What the run itself says of a requirement; `not run` counts no cases."""
    counts = {"cases": 1, "elements": 96, "worst": 0.5} if verdict != "not run" else {"cases": 0, "elements": 0}
    return (
        {"kind": "requirement", "id": id, "worst": None, "failed": 0, "warned": 0, "verdict": verdict} | counts | fields
    )


def end(**fields: Any) -> Line:
    counts = {"exit_status": 0, "cases": 1, "tests_failed": 0, "tests_collected": 1, "seconds": 2.5}
    return {"kind": "end"} | counts | fields


def begun(name: str = "run", tiers: dict[str, str] | None = None, **facts: Any) -> list[Line]:
    """What a run writes before its first case; `facts` of the run."""
    return [run(name, **facts), contract(tiers), envelopes(), plan()]


def green(name: str = "run", **facts: Any) -> list[Line]:
    """A run in which all is well."""
    return [
        *begun(name, **facts),
        case(ROT_Q=0.5, ROB_DUP=None),
        finished(),
        requirement("ROT-Q"),
        requirement("ROB-DUP", worst=None),
        end(),
    ]


def measured(*measures: Line) -> list[Line]:
    """A run in which all is well: a case for each measure, by default one that keeps the class that decides."""
    given = measures or (measure(0.5, 0.25),)
    lines = [CASE.replace("seed=0", f"seed={seed}") for seed in range(len(given))]
    return [
        *begun()[:-1],
        plan(tests=len(given), cases=len(given)),
        *(
            each
            for line, one in zip(lines, given, strict=True)
            for each in (case(line, measure=one, ROT_Q=0.5, ROB_DUP=None), finished(id_of(line)))
        ),
        requirement("ROT-Q", cases=len(given)),
        requirement("ROB-DUP", cases=len(given), worst=None),
        end(cases=len(given), tests_collected=len(given)),
    ]


def red(*findings: Line, name: str = "run", **facts: Any) -> list[Line]:
    """A run whose one case fails ROT-Q, by the findings given."""
    return [
        *begun(name, **facts),
        case(CASE, *(findings or [finding("ROT-Q")]), ROT_Q=9.5, ROB_DUP=None),
        finished(outcome="failed"),
        requirement("ROT-Q", "FAIL", failed=1, worst=9.5),
        requirement("ROB-DUP", worst=None),
        end(exit_status=1, tests_failed=1),
    ]


def found(**facts: Any) -> list[Line]:
    """A run with a robustness finding and a warning, which do not decide."""
    return [
        *begun(tiers={"ROT-ZERO": "numeric", "ROB-DUP": "robustness"}, **facts),
        case(CASE, finding("ROB-DUP", "neither candidate"), warning("ROT-ZERO"), ROT_ZERO=0.5, ROB_DUP=None),
        finished(),
        requirement("ROT-ZERO", "warn", warned=1),
        requirement("ROB-DUP", "FAIL", failed=1),
        end(),
    ]


def crashed(rest: int = 2) -> list[Line]:
    """A run of four planned tests that was killed in its third; see `write` for its torn line."""
    lines = [CASE.replace("seed=0", f"seed={seed}") for seed in range(4)]
    return [
        *begun()[:-1],
        plan(tests=4, cases=4),
        *(each for line in lines[:rest] for each in (case(line), finished(id_of(line)))),
    ]


def write(path: Path, lines: list[Line], rest: str = "") -> Path:
    """Write a record; `rest` follows its last newline, as where a run was cut off."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + rest)
    return path


def write_each(directory: Path, *records: list[Line]) -> list[Path]:
    """Write several records, `r0.jsonl` first."""
    return [write(directory / f"r{number}.jsonl", lines) for number, lines in enumerate(records)]


def two_targets() -> list[list[Line]]:
    """Records of a target that conforms and of another one that does not."""
    return [
        green("one"),
        red(name="other", target="my_kernels.py:rope", device="GPU", shader="other.metal 0011223344ff"),
    ]
