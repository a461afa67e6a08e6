"""The benchmarks' effort, their file and their table; pytest-benchmark keeps the times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance import origin
from conformance.bench.timing import Effort
from conformance.suite import Suite


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.hasplugin("benchmark"):
        raise pytest.UsageError("benchmarks need pytest-benchmark: pip install pytest-benchmark")
    if config.option.benchmark_disable:
        raise pytest.UsageError("--benchmark-disable leaves nothing to tell; --benchmark-max-time 0 is a short run")
    if config.option.launch != "all":
        raise pytest.UsageError("--launch: a benchmark leaves the launch plan to the target, as a server does")
    # The table below tells what its own would: quantiles, and the share of the copy ceiling.
    config.option.benchmark_quiet = True


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    named = parent.session.isinitpath(file_path)
    return pytest.Module.from_parent(parent, path=file_path) if file_path.match("bench_*.py") and not named else None


@pytest.fixture(scope="session")
def effort(request: pytest.FixtureRequest) -> Effort:
    option = request.config.option
    return Effort(float(option.benchmark_max_time), option.benchmark_min_rounds)


@pytest.fixture(scope="session")
def facts(suite: Suite) -> dict[str, Any]:
    """What is timed, and where."""
    described = suite.target.describe()
    made = {"machine": origin.machine(), "versions": origin.versions()}
    return {"target": described.name, "device": described.device, **described.facts, **made}


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_json(output_json: dict[str, Any]) -> None:
    for entry in output_json["benchmarks"]:
        # A thousand rounds of each benchmark, every night.
        entry["stats"].pop("data", None)


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    done = [benchmark for benchmark in config._benchmarksession.benchmarks if not benchmark.has_error]
    if not done:
        return
    terminalreporter.write_sep("=", "milliseconds of a call")
    rows = [("benchmark", "p20", "p50", "p80", ""), *map(_row, done)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        name, *rest = (text.rjust(width) for text, width in zip(row, widths, strict=True))
        terminalreporter.write_line("  ".join((row[0].ljust(len(name)), *rest)).rstrip())


def _row(benchmark: Any) -> tuple[str, ...]:
    told = benchmark.extra_info
    times = (_milliseconds(told[name]) for name in ("p20", "p50", "p80"))
    if "share" in told:
        return benchmark.name, *times, f"{told['share']:.1%} of the copy ceiling"
    return benchmark.name, *times, f"{told['ratio']:.2f} times plain float64"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"
