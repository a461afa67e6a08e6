"""The benchmarks: what they say of a time, and that a wrong kernel has none."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command import suite

from conformance.bench import conftest
from conformance.bench.timing import Effort, Quantiles, bytes_moved, copies
from conformance.case import Case
from conformance.inputs import build

SHORT = ("--benchmark-max-time", "0")


def _timed(path: Path) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in json.loads(path.read_text())["benchmarks"]}


def test_a_time_says_what_was_timed_and_where(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    run = suite("conformance/bench", *SHORT, "-k", "decode-1-f16 or cos-sin-decode", "--benchmark-json", str(path))
    assert run.returncode == 0, run.stdout + run.stderr
    timed = _timed(path)
    assert set(timed) == {
        "test_kernel[llama-3-8b-decode-1-f16]",
        "test_kernel[gpt-oss-20b-decode-1-f16]",
        "test_oracle[cos-sin-decode-64]",
    }
    kernel = timed["test_kernel[llama-3-8b-decode-1-f16]"]
    told = kernel["extra_info"]
    assert told["target"] == "host"
    assert told["shader"].startswith("rope_pool_fused.metal ")
    assert set(told["versions"]) >= {"python", "torch", "numpy", "platform"}
    assert kernel["stats"]["min"] <= told["p20"] <= told["p50"] <= told["p80"] <= kernel["stats"]["max"]
    assert told["p50"] == pytest.approx(kernel["stats"]["median"])
    assert told["bandwidth"] == pytest.approx(told["bytes"] / told["p50"])
    assert told["share"] == pytest.approx(told["bandwidth"] / told["copy_ceiling"])
    assert "data" not in kernel["stats"]
    oracle = timed["test_oracle[cos-sin-decode-64]"]["extra_info"]
    assert oracle["ratio"] > 0
    assert "share" not in oracle
    for name, entry in timed.items():
        [line] = [line for line in run.stdout.splitlines() if line.startswith(name)]
        assert line.split()[2] == f"{entry['extra_info']['p50'] * 1e3:.3g}"


def test_a_wrong_kernel_fails_and_has_no_time(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    target = "tests/planted/callables.py:f16_through_bf16"
    chosen = ("-k", "decode-1-f16 or decode-1-f32", "--benchmark-json", str(path))
    run = suite("conformance/bench", "--target", target, *SHORT, *chosen)
    assert run.returncode == 1, run.stdout + run.stderr
    assert set(_timed(path)) == {"test_kernel[llama-3-8b-decode-1-f32]", "test_kernel[gpt-oss-20b-decode-1-f32]"}
    assert "FAILED conformance/bench/bench_kernel.py::test_kernel[llama-3-8b-decode-1-f16]" in run.stdout
    assert "q_rot is beyond the float32-angle bound" in run.stdout


def test_the_suite_neither_needs_pytest_benchmark_nor_runs_benchmarks() -> None:
    run = suite("conformance", "--collect-only", "-q", "-p", "no:benchmark")
    assert re.search(r"^\d+ tests collected", run.stdout, re.MULTILINE), run.stderr
    assert "bench" not in run.stdout


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"plugin": False}, "benchmarks need pytest-benchmark"),
        ({"launch": "rect"}, "--launch: a benchmark leaves the launch plan to the target"),
        ({"benchmark_disable": True}, "--benchmark-disable leaves nothing to tell"),
    ],
)
def test_benchmarks_that_cannot_be_run_say_why(option: dict[str, Any], message: str) -> None:
    given = SimpleNamespace(**{"plugin": True, "launch": "all", "benchmark_disable": False} | option)
    plugins = SimpleNamespace(hasplugin=lambda name: name == "benchmark" and given.plugin)
    config: Any = SimpleNamespace(pluginmanager=plugins, option=given)
    with pytest.raises(pytest.UsageError, match=message):
        conftest.pytest_configure(config)


def test_quantiles_lie_between_the_rounds() -> None:
    assert Quantiles.of([5.0, 1.0, 4.0, 2.0, 3.0, 6.0]) == Quantiles(2.0, 3.5, 5.0)


def test_rounds_follow_the_time_of_one() -> None:
    effort = Effort(seconds=1.0, least=5)
    assert [effort.rounds(once) for once in (1e-9, 0.01, 0.5)] == [1000, 100, 5]


def test_what_a_kernel_must_move() -> None:
    case = Case("f16", 4, 3, 2, 64, 8, slots="list:0/-1/5/2")
    # q and q_rot; k, v and k_rot; two rows for each of three tokens; positions and slots.
    assert bytes_moved(build(case).call) == 2 * 4 * 3 * 64 * 2 + 3 * 4 * 2 * 64 * 2 + 2 * 3 * 2 * 64 * 2 + 2 * 4 * 4


def test_a_larger_copy_takes_longer() -> None:
    small, large = copies(1 << 16), copies(1 << 24)
    assert 0 < min(small() for _ in range(5)) < min(large() for _ in range(5))
