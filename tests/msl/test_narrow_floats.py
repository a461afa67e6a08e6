"""half and bfloat against numpy and torch: every bit pattern, and every rounding decision on the way back."""

from pathlib import Path

import numpy as np
import pytest
import torch
from msl_harness import PRELUDE, compile_text, launch
from numpy.typing import NDArray

from kernel.msl import Build, Program

BITS = np.arange(1 << 16, dtype=np.uint16)
ENTRIES = {
    f"{name}_{suffix}": count
    for suffix in ("f16", "bf16")
    for name, count in {
        "widen": 2,
        "narrow": 2,
        "from_int": 2,
        "from_ulong": 2,
        "copy": 2,
        "arithmetic": 3,
    }.items()
}
SOURCE = (
    PRELUDE
    + """
#define AT uint i [[thread_position_in_grid]]
#define KERNELS(S, T) \\
    kernel void widen_##S(device const T* in, device float* out, AT) { out[i] = in[i]; } \\
    kernel void narrow_##S(device const float* in, device T* out, AT) { out[i] = T(in[i]); } \\
    kernel void from_int_##S(device const int* in, device T* out, AT) { out[i] = static_cast<T>(in[i]); } \\
    kernel void from_ulong_##S(device const ulong* in, device T* out, AT) { out[i] = T(in[i]); } \\
    kernel void copy_##S(device const T* in, device T* out, AT) { T x = in[i]; T y; y = x; out[i] = y; } \\
    kernel void arithmetic_##S(device const T* a, device const T* b, device T* out, AT) { \\
        out[4 * i] = a[i] + b[i]; \\
        out[4 * i + 1] = a[i] - b[i]; \\
        out[4 * i + 2] = a[i] * b[i]; \\
        out[4 * i + 3] = a[i] / b[i]; \\
    }
KERNELS(f16, half)
KERNELS(bf16, bfloat)
"""
)


BUILDS = [Build(), Build(fast_math=True)]


@pytest.fixture(params=[*BUILDS, Build(toward_zero=True, flush=True)], ids=["default", "fast math", "modes"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    return compile_text(tmp_path, SOURCE, ENTRIES, request.param)


def widened(bits: NDArray[np.uint16], suffix: str) -> NDArray[np.float32]:
    """The values of bit patterns, by numpy for half and by definition for bfloat."""
    if suffix == "f16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrowed(values: NDArray[np.float64], suffix: str) -> NDArray[np.uint16]:
    """Bit patterns of float64 values rounded once, to nearest even; NaN becomes the pattern of a quiet NaN."""
    if suffix == "f16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).view(np.uint16)
    exponent = np.maximum(np.frexp(values)[1], -125)
    with np.errstate(invalid="ignore", over="ignore"):
        unit = np.ldexp(1.0, exponent - 8)
        rounded = np.where(np.isfinite(values), np.rint(values / unit) * unit, values).astype(np.float32)
    return (np.where(np.isnan(values), np.float32(np.nan), rounded).view(np.uint32) >> 16).astype(np.uint16)


def is_nan(bits: NDArray[np.uint16], suffix: str) -> NDArray[np.bool_]:
    return (bits & 0x7FFF) > (0x7C00 if suffix == "f16" else 0x7F80)


def assert_same(got: NDArray[np.uint16], want: NDArray[np.uint16], suffix: str) -> None:
    """Equal bit patterns, but any NaN for a NaN."""
    assert got.size > 0
    nan = is_nan(want, suffix)
    assert np.array_equal(is_nan(got, suffix), nan)
    wrong = np.flatnonzero(~nan & (got != want))
    assert wrong.size == 0, f"{wrong.size} differ, first at {wrong[0]}: {got[wrong[0]]:#x}, not {want[wrong[0]]:#x}"


def hard_floats(suffix: str) -> NDArray[np.float32]:
    """Every value of the narrow type, every half-way point between two, and the floats next to both."""
    finite = widened(BITS, suffix)
    finite = np.sort(finite[np.isfinite(finite)])
    halfway = ((finite[:-1].astype(np.float64) + finite[1:]) / 2).astype(np.float32)
    overflow = np.float32(65520 if suffix == "f16" else 3.3961775e38)
    base = np.concatenate([finite, halfway, [overflow, -overflow, np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-45, -1e-45]])
    base = base.astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([base, np.nextafter(base, np.float32(np.inf)), np.nextafter(base, np.float32(-np.inf))])


@pytest.mark.parametrize("suffix", ["f16", "bf16"])
def test_every_bit_pattern_widens_exactly(program: Program, suffix: str) -> None:
    out = np.zeros(BITS.size, np.float32)
    launch(program, f"widen_{suffix}", [BITS, out], (BITS.size, 1, 1))
    want = widened(BITS, suffix)
    nan = np.isnan(want)
    assert np.array_equal(np.isnan(out), nan)
    assert np.array_equal(out.view(np.uint32)[~nan], want.view(np.uint32)[~nan])


@pytest.mark.parametrize("suffix", ["f16", "bf16"])
def test_floats_round_to_nearest_even_at_every_decision(program: Program, suffix: str) -> None:
    values = hard_floats(suffix)
    out = np.zeros(values.size, np.uint16)
    launch(program, f"narrow_{suffix}", [values, out], (values.size, 1, 1))
    assert_same(out, narrowed(values.astype(np.float64), suffix), suffix)
    by_torch = torch.from_numpy(values).to(torch.float16 if suffix == "f16" else torch.bfloat16)
    assert_same(out, by_torch.view(torch.int16).numpy().view(np.uint16), suffix)


@pytest.mark.parametrize("suffix", ["f16", "bf16"])
def test_integers_round_once(program: Program, suffix: str) -> None:
    random = np.random.default_rng(7)
    step = np.array([-1, 0, 1])
    ties = (((1 << 8) + np.arange(256))[:, None, None] * 2 + 1 << np.arange(22)[:, None]) + step
    ints = np.concatenate([ties.ravel(), -ties.ravel(), random.integers(-(2**31), 2**31, 5000), [-(2**31)]])
    ints32 = ints.astype(np.int32)
    out = np.zeros(ints.size, np.uint16)
    launch(program, f"from_int_{suffix}", [ints32, out], (ints.size, 1, 1))
    assert_same(out, narrowed(ints32.astype(np.float64), suffix), suffix)

    # One above a tie of bfloat at 2^63, which float64 cannot hold: rounding twice would lose it.
    above = np.array([(1 << 63) + (1 << 55) + 1, (1 << 63) + (1 << 55), (1 << 63) + (1 << 55) - 1], np.uint64)
    large = np.zeros(3, np.uint16)
    launch(program, f"from_ulong_{suffix}", [above, large], (3, 1, 1))
    assert large.tolist() == ([0x7C00] * 3 if suffix == "f16" else [0x5F01, 0x5F00, 0x5F00])


@pytest.mark.parametrize("suffix", ["f16", "bf16"])
def test_a_copy_keeps_every_bit_pattern(program: Program, suffix: str) -> None:
    out = np.zeros(BITS.size, np.uint16)
    launch(program, f"copy_{suffix}", [BITS, out], (BITS.size, 1, 1))
    assert np.array_equal(out, BITS)


@pytest.mark.parametrize("build", BUILDS, ids=["default", "fast math"])
@pytest.mark.parametrize("suffix", ["f16", "bf16"])
def test_arithmetic_rounds_each_result_once(suffix: str, build: Build, tmp_path: Path) -> None:
    program = compile_text(tmp_path, SOURCE, ENTRIES, build)
    random = np.random.default_rng(11)
    a, b = random.integers(0, 1 << 16, (2, 200_000)).astype(np.uint16)
    near = random.integers(-40, 40, a.size)
    b[: a.size // 2] = (a.astype(np.int64) + near)[: a.size // 2].astype(np.uint16)
    out = np.zeros((a.size, 4), np.uint16)
    launch(program, f"arithmetic_{suffix}", [a, b, out], (a.size, 1, 1))
    with np.errstate(invalid="ignore"):
        x, y = widened(a, suffix).astype(np.float64), widened(b, suffix).astype(np.float64)
    usable = np.isfinite(x) & np.isfinite(y) & (y != 0)
    assert usable.sum() > 100_000
    x, y = x[usable], y[usable]
    for column, exact in enumerate([x + y, x - y, x * y, x / y]):
        assert_same(out[usable, column], narrowed(exact, suffix), suffix)


def test_a_build_may_flush_subnormal_halves(tmp_path: Path) -> None:
    program = compile_text(tmp_path, SOURCE, ENTRIES, Build(flush_half=True))
    want = widened(BITS, "f16")
    subnormal = (np.abs(want) < 2.0**-14) & (want != 0)
    assert subnormal.sum() == 2 * 1023
    want[subnormal] = np.copysign(np.float32(0), want[subnormal])
    wide, narrow = np.zeros(BITS.size, np.float32), np.zeros(BITS.size, np.uint16)
    launch(program, "widen_f16", [BITS, wide], (BITS.size, 1, 1))
    assert np.array_equal(wide[~np.isnan(want)].view(np.uint32), want[~np.isnan(want)].view(np.uint32))
    launch(program, "narrow_f16", [widened(BITS, "f16"), narrow], (BITS.size, 1, 1))
    assert_same(narrow, want.astype(np.float16).view(np.uint16), "f16")
    launch(program, "copy_f16", [BITS, narrow], (BITS.size, 1, 1))
    assert np.array_equal(narrow, BITS)
