"""Records as large and as varied as those of true runs: green, red, crashed, of two targets, and thirty nights."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import sample_record as sample

from conformance.contract import documented_errors, requirements
from reports.digest import Benchmark, ClassNight, Digest

Line = sample.Line
_DTYPES = {"f16": ("float16", 2.0**-11), "bf16": ("bfloat16", 2.0**-8), "f32": ("float32", 2.0**-24)}
_PAIRS = 64
_DECADES = 11
LIMITS = [
    "Apple's compiler. That it accepts the source, what it optimises, and what it refuses but g++ accepts.",
    "Concurrency. Threads run one at a time, in grid order or in the opposite one.",
    "Threadgroups. Their sizes, their limit of 256 threads, SIMD groups, occupancy.",
    "Performance. Times on this target say nothing about a GPU.",
]


def contract() -> Line:
    """The suite's own contract as a record holds it."""
    errors = {error.requirement: error for error in documented_errors().values()}
    return {
        "kind": "contract",
        "requirements": [
            {"id": entry.id, "tier": entry.tier, "sentence": entry.sentence, "source": entry.source}
            | {name: getattr(errors[entry.id], name) for name in ("trigger", "common", "cure") if entry.id in errors}
            for entry in requirements().values()
        ],
    }


def line(dtype: str, number: int) -> str:
    return (
        f"{dtype} T={1 + number % 257} Hq={8 * (1 + number % 4)} Hkv=8 D=128 P={300 + number} base=500000 "
        f"pos=log:131071 slots=holes values=normal seed={number}"
    )


def envelopes() -> Line:
    positions = [0, *sorted({round(10 ** (step / 4)) for step in range(38)}), 2**31 - 1]
    allowed = {
        "exact-angle": lambda _: 7e-7,
        "float32-angle": lambda p: min(2.0, 7e-7 + 5e-7 * p),
        "fast": lambda p: min(2.0, 1.7e-4 + 9e-7 * p),
    }
    return {
        "kind": "envelopes",
        "envelopes": [
            {"class": name, "rope_base": 500000.0, "head_dim": 128, "positions": positions}
            | {"error": [error(position) for position in positions]}
            for name, error in allowed.items()
        ],
    }


def measure(dtype: str, chance: random.Random, growth: float = 0.0) -> Line:
    """All decades of one dtype; growth: how the error grows with the position, 0 for an exact angle."""
    name, rounding = _DTYPES[dtype]
    decades, worst, beyond = {}, 0.0, None
    for decade in range(_DECADES):
        position = 10.0 ** max(0, decade - 1)
        error = rounding * (0.6 + 0.3 * chance.random()) + growth * position * (decade > 0)
        scores = [
            (0.25 + 0.2 * chance.random()) + growth * position / 7e-7 * 0.8 ** (pair / 2) for pair in range(_PAIRS)
        ]
        worst = max(worst, *scores)
        if beyond is None and max(scores) > 1:
            beyond = round(position) + 7
        silent = 1200 * (decade - 8) if decade > 8 and growth else 0
        decades[str(decade)] = {"elements": 41216, "uninformative": silent, "error": min(error, 2.0)}
        decades[str(decade)]["raised"] = {str(pair): round(score, 6) for pair, score in enumerate(scores)}
    ulps = {str(b): round(9e5 * math.exp(-2.6 * abs(b))) for b in range(-12, 13) if abs(b) < (9 if growth else 3)}
    classes = {"exact-angle": {"worst": worst, "beyond": beyond}, "fast": {"worst": worst / 240, "beyond": None}}
    classes["float32-angle"] = {"worst": worst / 3.1, "beyond": beyond * 10 if beyond and worst > 3.1 else None}
    by_class = {}
    for accuracy, share in (("exact-angle", 1.0), ("float32-angle", 1 / 3.1), ("fast", 1 / 240)):
        by_class[accuracy] = {
            decade: cell | {"raised": {pair: share * score for pair, score in cell["raised"].items()}}
            for decade, cell in decades.items()
        }
    return {"dtype": name, "classes": classes, "decades": by_class, "ulps": {b: n for b, n in ulps.items() if n}}


def _begun(name: str, cases: int, **facts: Any) -> list[Line]:
    facts = {
        "limits": LIMITS,
        "terms": [_term("exact-angle"), _term("fast", source="ours: nobody promises it")],
    } | facts
    return [sample.run(name, **facts), contract(), envelopes(), sample.plan(tests=cases, cases=cases)]


def _term(accuracy: str, **fields: Any) -> Line:
    return sample.term(accuracy, name="angle_error", value=2.0**-22, unit="rad", reason="four roundings") | fields


def _cases(count: int, chance: random.Random, growth: float = 0.0) -> list[Line]:
    """Cases that hold, each of a test of its own; the first of each dtype measured."""
    lines: list[Line] = []
    ids = [id for id in requirements() if not id.startswith("ROT")]
    for number in range(count):
        dtype = tuple(_DTYPES)[number % 3]
        own = line(dtype, number)
        test = f"conformance/test_{('rotation', 'slots', 'layout')[number % 3]}.py::test_{number % 14}[{own}]"
        worst = {"ROT_Q": round(0.2 + 0.4 * chance.random(), 4), "ROT_K": round(0.2 + 0.3 * chance.random(), 4)}
        worst |= {id: round(0.5 * chance.random(), 4) for id in ("ROT_ZERO", "ROT_BIAS", "ROT_FREQ", "ROT_NONFINITE")}
        worst |= {ids[(number + k) % len(ids)].replace("-", "_"): None for k in range(6)}
        made = sample.case(own, test=test, measure=measure(dtype, chance, growth) if number < 6 else None, **worst)
        lines += [made, sample.finished(test, seconds=round(chance.expovariate(8), 4))]
    return lines


def _closed(lines: list[Line], **end: Any) -> list[Line]:
    """With the verdicts and the end that the cases give."""
    judged = {made["line"]: made for made in lines if made["kind"] == "case"}
    failed = [made for made in lines if made["kind"] == "test" and made["outcome"] != "passed"]
    for id in requirements():
        checks = [made["checks"][id] for made in judged.values() if id in made["checks"]]
        found = [{f["severity"] for f in made["findings"] if f["requirement"] == id} for made in judged.values()]
        fails, warns = sum("failure" in s for s in found), sum(s == {"warning"} for s in found)
        worst = max((float(check["worst"]) for check in checks if check["worst"] is not None), default=None)
        verdict = "FAIL" if fails else "not run" if not checks else "warn" if warns else "pass"
        counts = {"cases": len(checks), "elements": sum(check["elements"] for check in checks)}
        lines.append(sample.requirement(id, verdict, worst=worst, failed=fails, warned=warns, **counts))
    tests = sum(made["kind"] == "test" for made in lines)
    counts = {"cases": len(judged), "tests_collected": tests, "tests_failed": len(failed), "seconds": 74.2}
    return [*lines, sample.end(**(counts | {"exit_status": int(bool(failed))} | end))]


def green(cases: int = 120, name: str = "green", **facts: Any) -> list[Line]:
    """A run that conforms."""
    return _closed([*_begun(name, cases, **facts), *_cases(cases, random.Random(1))])


_WHERE = ("token 0, head 1, element 5", "k_pool row 17", "tokens 256 to 511", "v_pool rows 3, 9")
_WHAT = (
    "{} is beyond the exact-angle bound: largest error 0.0131, 26.8 ulp",
    "a row of {} whose slot is named still holds what it held",
    "a row of {} that no slot names was changed",
)
_LOOKS = ("position rounded to bfloat16", "interleaved pairing (2i, 2i+1) in place of NeoX (i, i + head_dim/2)", "")


def forty(name: str = "forty", **facts: Any) -> list[Line]:
    """A run with forty findings, of all tiers and both severities."""
    chance = random.Random(2)
    deciding = [id for id, entry in requirements().items() if entry.tier != "robustness"]
    open_ones = [id for id, entry in requirements().items() if entry.tier == "robustness"]
    wanted = [(id, "failure") for id in deciding[::2][:16] + open_ones[:3]] + [(id, "warning") for id in deciding[1::6]]
    lines = [*_begun(name, 160, **facts), *_cases(120, chance, 2e-15)]
    for number in range(40):
        id, severity = wanted[number % len(wanted)]
        own = line(tuple(_DTYPES)[number % 3], 1000 + number)
        what = f"{_WHAT[number % 3].format(('q_rot', 'k_pool', 'v_pool')[number % 3])}, kind {'abcdefgh'[number // 19]}"
        extent = f"{1 + number} of 4096 elements; upper half of head_dim; even tokens"
        told = sample.finding(id, what, where=_WHERE[number % 4], extent=extent, looks_like=_LOOKS[number % 3])
        pools = (_pool("k_pool", number), _pool("v_pool", number + 1)) if number % 3 else ()
        test = f"conformance/test_slots.py::test_found[{own}]"
        decides = severity == "failure" and id not in open_ones
        check = {id.replace("-", "_"): round(1.5 + chance.random(), 3) if id.startswith("ROT") else None}
        lines.append(
            sample.case(own, told | {"severity": severity}, test=test, pools=pools, tokens=1 + number, **check)
        )
        lines.append(sample.finished(test, "failed" if decides else "passed", seconds=0.2))
    return _closed(lines)


def _pool(name: str, number: int) -> Line:
    rows = 64 if number % 2 else 4096
    step = rows // 16
    return {
        "pool": name,
        "rows": rows,
        "written": [[step * n, step * n + step // 2 + 1] for n in range(9)],
        "wrong": [[10 * step, 10 * step + 1]] if number % 4 else [],
        "stale": [[11 * step, 12 * step]] if number % 3 else [],
        "stray": [[14 * step, 14 * step + 2]],
        "tokens": 48,
        "skipped": [[5, 8], [40, 41]],
    }


def crashed() -> list[Line]:
    """A run that died in the middle, after a collection error and a broken test."""
    lines = [
        *_begun("crashed", 400),
        sample.trouble(text="Traceback (most recent call last):\n  ImportError: no torch"),
    ]
    lines += _cases(90, random.Random(3))
    broken = sample.finished("conformance/test_errors.py::test_documented[x]", "broken", text="E   OSError: [Errno 28]")
    return [*lines, broken]


def two_targets() -> list[list[Line]]:
    return [
        green(name="one"),
        forty("two", target="my_kernels.py:rope", device="NVIDIA H200", shader="", math="", accuracy="fast"),
    ]


def nights(digest: Digest, count: int = 30) -> tuple[Digest, ...]:
    """Past nights like that of `digest`, oldest first: one failed, one died, the times scatter."""
    chance = random.Random(4)
    made = []
    for night in range(count):
        state = {11: "fails", 19: "incomplete"}.get(night, "conforms")
        scatter = 1 + 0.05 * chance.random() + (0.25 if night > 24 else 0)
        made.append(
            replace(
                digest,
                run_id=f"{night:032x}",
                started=f"2026-11-{1 + night:02}T03:00:00Z",
                commit=f"{night * 7919:012x}",
                state=state,
                failing=("ROT-Q", "ROT-K") if state == "fails" else (),
                cases=4800 + 3 * night - (4000 if state == "incomplete" else 0),
                classes={
                    name: ClassNight(
                        rank > 0, (2.4 if state == "fails" else 0.46 + 0.03 * chance.random()) / 3**rank, None
                    )
                    for rank, name in enumerate(sample.CLASSES)
                },
                benchmarks=tuple(
                    Benchmark(name, 0.9 * t * scatter, t * scatter, 1.1 * t * scatter, share and share / scatter)
                    for name, t, share in _benchmarks()
                ),
                seconds=3600 * scatter,
            )
        )
    return tuple(made)


def _benchmarks() -> list[tuple[str, float, float | None]]:
    made: list[tuple[str, float, float | None]] = [
        (f"kernel {model} {dtype} {tokens} tokens", 2e-5 * tokens**0.8, 0.2 + 0.1 * math.log10(tokens))
        for model in ("llama-3-8b", "qwen-2-7b")
        for dtype in ("float16", "bfloat16", "float32")
        for tokens in (1, 64, 256, 2048)
    ]
    return [*made, ("oracle llama-3-8b 256 tokens", 0.031, None)]
