"""Records of many cases, as long runs write them: other shapes, tests, dtypes and scores from line to line."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import sample_record as sample
from sample_record import Line

ALWAYS = ("CALL", "OUT-SHAPE", "MEM-INPUT", "MEM-ALIAS", "MEM-EARLIER", "MEM-MARGIN")
SCORED = ("ROT-Q", "ROT-K", "ROT-ZERO", "SLOT-ROT", "ROT-BIAS", "ROT-FREQ")
SLOTS = ("SLOT-K", "SLOT-V", "SLOT-REST", "SLOT-SKIP")
ROBUST = ("ROB-LAYOUT", "ROB-POSITION", "ROB-DUP")
CONTRACT = {
    **dict.fromkeys(ALWAYS[:2], "documented"),
    **dict.fromkeys(ALWAYS[2:], "memory"),
    **dict.fromkeys((*SCORED, *SLOTS), "numeric"),
    **dict.fromkeys(ROBUST, "robustness"),
}
TESTS = {
    "test_rotation.py": ("test_shapes", "test_sizes", "test_long_contexts", "test_positions", "test_values"),
    "test_slots.py": ("test_kinds_of_slots", "test_negative_slots", "test_pool_sizes", "test_rows_past_65535"),
    "test_layout.py": ("test_strides", "test_offsets"),
    "test_sweeps.py": ("test_every_position", "test_every_bit_pattern"),
}
DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
PAIRS = 64
_REACHES = (15, 131071, 1048576, 2**31 - 1)


def write(path: Path, cases: int = 100_000, *, failing: float = 0.0, seed: int = 0) -> Path:
    """A whole record of so many distinct cases, a quarter of them generated; failing: the share that fails."""
    with path.open("wb") as file:
        for line in lines(cases, failing, random.Random(seed)):
            file.write(orjson.dumps(line) + b"\n")
    return path


def lines(cases: int, failing: float, draw: random.Random) -> Iterator[Line]:
    generated = cases // 4
    yield sample.run("large")
    yield sample.contract(CONTRACT)
    yield sample.envelopes()
    yield sample.plan(tests=cases - generated + 1, cases=cases - generated, examples=generated)
    books: dict[str, Counter[str]] = {name: Counter() for name in ("cases", "elements", "failed")}
    raised: dict[tuple[str, str, str, str], float] = {}
    failed_tests: set[str] = set()
    for number in range(cases):
        drawn = number < generated
        case = _case(number, draw, drawn=drawn, fails=draw.random() < failing, raised=raised)
        for id, check in case["checks"].items():
            books["cases"][id] += 1
            books["elements"][id] += check["elements"]
        books["failed"].update({found["requirement"] for found in case["findings"]})
        failed_tests |= {case["test"]} if case["findings"] else set()
        yield case
        if not drawn or number == generated - 1:
            outcome = "failed" if case["test"] in failed_tests else "passed"
            yield sample.finished(case["test"], outcome, seconds=round(0.1 * _score(draw), 4))
    for id in CONTRACT:
        failed = books["failed"][id]
        verdict = "FAIL" if failed else "pass" if books["cases"][id] else "not run"
        counts = {"cases": books["cases"][id], "elements": books["elements"][id], "failed": failed}
        yield sample.requirement(id, verdict, **counts)
    counts = {"cases": cases, "tests_failed": len(failed_tests), "tests_collected": cases - generated + 1}
    yield sample.end(exit_status=1 if failed_tests else 0, seconds=3600.0, **counts)


def _case(number: int, draw: random.Random, *, drawn: bool, fails: bool, raised: dict[Any, float]) -> Line:
    dtype = draw.choice(list(DTYPES))
    tokens, heads, width = draw.choice((1, 3, 16, 64)), draw.choice((4, 8, 32)), draw.choice((8, 64, 128))
    reach, plan = draw.choice(_REACHES), draw.choice(("split/1", "split/3/reversed", "rect/5", "split/9"))
    line = (
        f"{dtype} T={tokens} Hq={heads} Hkv={heads // 4} D={width} P={tokens + 8} base={draw.choice((10000, 500000))} "
        f"pos=uniform:{reach} slots={draw.choice(('holes', 'permuted'))} values=normal seed={number} plan={plan}"
    )
    file = draw.choice(list(TESTS))
    planned = f"conformance/{file}::{draw.choice(TESTS[file])}[{line}]"
    checks = _checks(draw, tokens * heads * width, fails)
    return {
        "kind": "case",
        "test": "conformance/test_properties.py::test_generated_calls" if drawn else planned,
        "line": line,
        "cases": [_fields(dtype, tokens, heads, width, reach, number, plan)],
        "drawn": drawn,
        "expected_error": 0,
        "verdict": "fail" if fails else "pass",
        "seconds": 0.0123,
        "checks": checks,
        "findings": _findings(draw, checks) if fails else [],
        "note": "",
        **({"measure": _measure(draw, DTYPES[dtype], reach, raised)} if draw.random() < 0.7 else {}),
        **({"pools": [sample.pool(rows=tokens + 8, tokens=max(3, tokens))]} if fails and draw.random() < 0.5 else {}),
    }


def _checks(draw: random.Random, elements: int, fails: bool) -> Line:
    exact = (*ALWAYS, *SLOTS, *((draw.choice(ROBUST),) if draw.random() < 0.1 else ()))
    scored = {id: {"elements": elements, "worst": _score(draw)} for id in SCORED}
    if fails:
        scored["ROT-Q"]["worst"] = 1 + draw.lognormvariate(2, 2)
    return {id: {"elements": elements, "worst": None} for id in exact} | scored


def _score(draw: random.Random) -> float:
    return draw.random() ** 3


def _findings(draw: random.Random, checks: Line) -> list[Line]:
    worst = checks["ROT-Q"]["worst"]
    texts = {
        "where": f"token {draw.randrange(64)}, head {draw.randrange(8)}",
        "extent": f"{draw.randrange(999)} of 999",
    }
    rotation = sample.finding("ROT-Q", f"q_rot is {worst:.3g} times its bound", looks_like="GPT-J pairs", **texts)
    slots = sample.finding(draw.choice(SLOTS), f"{draw.randrange(9)} rows of k_pool are not what was written", **texts)
    return [rotation, slots] if draw.random() < 0.5 else [rotation]


def _measure(draw: random.Random, dtype: str, reach: int, raised: dict[Any, float]) -> Line:
    decades = range(len(str(reach)) - 1, len(str(reach)) + 1)
    return {
        "dtype": dtype,
        "classes": {name: {"worst": _score(draw), "beyond": None} for name in sample.CLASSES},
        "decades": {
            name: {
                str(decade): {
                    "elements": 65536,
                    "uninformative": 0,
                    "error": 1e-5 * draw.random(),
                    "raised": _raised(draw, (name, dtype, str(decade)), raised),
                }
                for decade in decades
            }
            for name in sample.CLASSES
        },
        "ulps": {str(bucket): draw.randrange(1, 10**6) for bucket in range(-2, 3)},
    }


def _raised(draw: random.Random, cell: tuple[str, ...], raised: dict[Any, float]) -> dict[str, float]:
    """A new record of a pair, as of scores that are drawn at random: ever fewer of them."""
    pair, score = str(draw.randrange(PAIRS)), _score(draw)
    if score <= raised.get((cell, pair), -1.0):
        return {}
    raised[cell, pair] = score
    return {pair: score}


def _fields(dtype: str, tokens: int, heads: int, width: int, reach: int, seed: int, plan: str) -> Line:
    return {
        "dtype": dtype,
        "num_tokens": tokens,
        "num_qo_heads": heads,
        "num_kv_heads": heads // 4,
        "head_dim": width,
        "pool_size": tokens + 8,
        "rope_base": 10000.0,
        "positions": f"uniform:{reach}",
        "slots": "holes",
        "values": "normal",
        "seed": seed,
        "v_bits": "arbitrary",
        "layout": "dense",
        "memory": "margins",
        "fault": "",
        "situation": "",
        "token": -1,
        "plan": plan,
    }
