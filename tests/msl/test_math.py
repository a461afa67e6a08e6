"""precise:: and fast:: functions against float64, at the accuracies of the Metal specification, section 8."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from msl_harness import PRELUDE, compile_text, launch
from numpy.typing import NDArray

from kernel.msl import Build

Float64 = NDArray[np.float64]


def run(folder: Path, function: str, values: NDArray[np.float32], build: Build | None = None) -> Float64:
    text = f"{PRELUDE}kernel void run(device const float* in, device float* out, uint i [[thread_position_in_grid]])"
    program = compile_text(folder, f"{text} {{ out[i] = {function}(in[i]); }}\n", {"run": 2}, build)
    out = np.zeros_like(values)
    launch(program, "run", [values, out], (values.size, 1, 1))
    return out.astype(np.float64)


def floats(low: float, high: float) -> NDArray[np.float32]:
    return np.linspace(low, high, 200_001).astype(np.float32)


@pytest.mark.parametrize("build", [Build(), Build(fast_math=True), Build(contract=True)], ids=str)
@pytest.mark.parametrize(
    ("function", "exact", "values", "ulps"),
    [
        ("precise::sin", np.sin, floats(-1000, 1000), 4),
        ("precise::cos", np.cos, floats(-1000, 1000), 4),
        ("precise::exp2", np.exp2, floats(-120, 120), 4),
        ("precise::exp", np.exp, floats(-80, 80), 4),
        ("precise::log2", np.log2, floats(1e-3, 1000), 4),
        ("precise::rsqrt", lambda x: 1 / np.sqrt(x), floats(1e-3, 1000), 0.5001),
        ("precise::sqrt", np.sqrt, floats(1e-3, 1000), 0.5),
        ("precise::tan", np.tan, floats(-1.5, 1.5), 6),
        ("precise::sinpi", lambda x: np.sin(np.pi * x), floats(-0.5, 0.5), 4),
        ("precise::cospi", lambda x: np.sin(np.pi * (0.5 - np.abs(x))), floats(-0.5, 0.5), 4),
        ("fast::exp2", np.exp2, floats(-0.49, 0.49), 3),
    ],
)
def test_a_function_is_within_its_ulps(
    function: str,
    exact: Callable[[Float64], Float64],
    values: NDArray[np.float32],
    ulps: float,
    build: Build,
    tmp_path: Path,
) -> None:
    want = exact(values.astype(np.float64))
    got = run(tmp_path, function, values, build)
    ulp = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(got - want) / ulp) <= ulps


@pytest.mark.parametrize(("function", "exact"), [("fast::sin", np.sin), ("fast::cos", np.cos)])
def test_fast_sin_and_cos_use_most_of_the_error_they_are_allowed(
    function: str, exact: Callable[[Float64], Float64], tmp_path: Path
) -> None:
    values = floats(-np.pi, np.pi)
    values = values[np.abs(values.astype(np.float64)) <= np.pi]
    error = np.max(np.abs(run(tmp_path, function, values) - exact(values.astype(np.float64))))
    assert 2.0**-13.5 < error <= 2.0**-13


def test_fast_cos_equals_fast_sin_where_a_quarter_turn_is_lost(tmp_path: Path) -> None:
    values = np.array([2.0**27, 2.0**29 + 64], np.float32)
    assert np.array_equal(run(tmp_path, "fast::cos", values), run(tmp_path, "fast::sin", values))


def test_fast_exp2_covers_the_whole_range(tmp_path: Path) -> None:
    values = np.array([-np.inf, -149, -126.5, 0, 127.5, 128, np.inf], np.float32)
    got = run(tmp_path, "fast::exp2", values)
    want = np.where(values >= 128, np.inf, np.exp2(np.minimum(values, 127.5).astype(np.float64)))
    assert np.allclose(got, want, rtol=3e-7, atol=2.0**-149)


def test_fast_pow_has_the_special_cases_of_pow(tmp_path: Path) -> None:
    values = np.array([-2, -1, 0, 1, 3], np.float32)
    assert np.allclose(run(tmp_path, "[](float x) { return fast::pow(x, 3.0); }", values), values**3.0, rtol=1e-6)
    assert np.isnan(run(tmp_path, "[](float x) { return fast::pow(x, 0.5); }", values[:1]))[0]


@pytest.mark.parametrize(("build", "meaning"), [(Build(), "precise"), (Build(fast_math=True), "fast")], ids=str)
@pytest.mark.parametrize("function", ["sin", "cos", "exp2"])
def test_the_build_decides_what_an_unqualified_function_means(
    build: Build, meaning: str, function: str, tmp_path: Path
) -> None:
    values = floats(-3, 3)
    unqualified = run(tmp_path, function, values, build)
    assert np.array_equal(unqualified, run(tmp_path, f"{meaning}::{function}", values, build))
    other = "fast" if meaning == "precise" else "precise"
    assert not np.array_equal(unqualified, run(tmp_path, f"{other}::{function}", values, build))
    assert np.array_equal(unqualified, run(tmp_path, f"metal::{function}", values, build))
