"""The score: an output is right if some real within E of the exact value rounds to it."""

from __future__ import annotations

import math

import pytest
import torch

from reference import FORMATS, GRANTED, Arithmetic, Bound, allowed_interval, plain_error_bound, round_once, score

DTYPES = tuple(FORMATS)
F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
NAN, INF = math.nan, math.inf


def one(value: float, exact: float, error: float, dtype: torch.dtype, arithmetic: Arithmetic = GRANTED) -> float:
    bound = Bound(torch.tensor([exact], dtype=torch.float64), torch.tensor([error], dtype=torch.float64), arithmetic)
    return float(score(torch.tensor([value], dtype=torch.float64).to(dtype), bound))


@pytest.mark.parametrize(
    ("value", "exact", "error", "wanted"),
    [
        (1.0, 1.0, 1e-9, 0.0),
        # Above 1 the float16 grid is 2^-10, below it 2^-11: half-way at +2^-11 and -2^-12.
        (1.0, 1.0 + 2.0**-11, 1e-9, 0.0),
        (1.0, 1.0 - 2.0**-12, 1e-9, 0.0),
        (1.0, 1.0 + 2.0**-11 + 2.0**-20, 2.0**-20, 1.0),
        (1.0, 1.0 - 2.0**-12 - 2.0**-20, 2.0**-20, 1.0),
        (1.0, 1.0 - 2.0**-12 - 2.0**-20, 2.0**-21, 2.0),
        (-1.0, -1.0 - 2.0**-11 - 2.0**-20, 2.0**-20, 1.0),
        (-1.0, -1.0 + 2.0**-12 + 2.0**-20, 2.0**-20, 1.0),
        (1.5, 1.5 - 2.0**-11 - 2.0**-20, 2.0**-20, 1.0),
        # The wrong sign costs the distance to zero and back.
        (-1.0, 1.0, 0.5, 2 * (2.0 - 2.0**-12)),
        # Overflow: 65504 up to 65520, infinity from there on.
        (65504.0, 65520.0, 1e-3, 0.0),
        (INF, 65520.0, 1e-3, 0.0),
        (INF, 65519.0, 0.5, 2.0),
        (INF, 1e9, 1e-3, 0.0),
        (-INF, -65521.0, 1e-3, 0.0),
        (-INF, 65521.0, 1.0, 2 * 65520.0 + 1),
        (65504.0, 65521.0, 0.5, 2.0),
        (65504.0, 70000.0, 10.0, 448.0),
        # Zero: a value that may be below 2^-14 may be flushed, either sign; above, no more.
        (0.0, 2.0**-14 - 2.0**-30, 1e-12, 0.0),
        (-0.0, 2.0**-20, 1e-12, 0.0),
        (0.0, -(2.0**-20), 1e-12, 0.0),
        (0.0, 2.0**-14 + 2.0**-20, 2.0**-20, 1.0),
        (0.0, 2.0**-14 + 2.0**-20, 2.0**-21, 2.0),
        # Subnormals keep the spacing 2^-24 of the smallest normal binade.
        (2.0**-24, 1.5 * 2.0**-24, 1e-12, 0.0),
        (2.0**-24, 2.0**-23, 2.0**-26, 2.0),
        (2.0**-14, 2.0**-14 - 2.0**-25, 1e-12, 0.0),
        (2.0**-14, 2.0**-14 - 2.0**-25 - 2.0**-30, 2.0**-30, 1.0),
        (NAN, 1.0, 1e9, INF),
        (NAN, 0.0, INF, 0.0),
        (INF, 0.0, INF, 0.0),
        (3.0, 0.0, INF, 0.0),
    ],
)
def test_score_in_float16(value: float, exact: float, error: float, wanted: float) -> None:
    assert one(value, exact, error, F16) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize(("dtype", "unit"), [(BF16, 2.0**-7), (F32, 2.0**-23)])
def test_score_at_a_power_of_two_and_at_the_top(dtype: torch.dtype, unit: float) -> None:
    assert one(1.0, 1.0 + unit / 2 + unit / 64, unit / 64, dtype) == 1.0
    assert one(1.0, 1.0 - unit / 4 - unit / 64, unit / 64, dtype) == 1.0
    threshold, step = FORMATS[dtype].overflow, FORMATS[dtype].overflow_grid * unit / 64
    assert one(INF, threshold - step, step, dtype) == 1.0
    assert one(INF, threshold - step, step / 2, dtype) == 2.0
    assert one(0.0, 2.0**-126 - 2.0**-140, 2.0**-149, dtype) == 0.0
    assert one(0.0, 2.0**-126 + 2.0**-140, 2.0**-141, dtype) == 2.0


@pytest.mark.parametrize("other", [NAN, INF, -INF, 0.0, 1.0])
def test_elements_are_judged_apart(other: float) -> None:
    """A NaN or an infinity elsewhere changes nothing for a flushed zero, for a right and for a wrong value."""
    bound = Bound(
        torch.tensor([1.0, 2.0**-20, 1.0, 1.0], dtype=torch.float64),
        torch.tensor([INF, 2.0**-30, 2.0**-20, 2.0**-20], dtype=torch.float64),
    )
    scores = score(torch.tensor([other, 0.0, 1.0, 1.5]).half(), bound)
    assert scores[:3].tolist() == [0.0, 0.0, 0.0]
    assert scores[3] > 1


def bounds_around(dtype: torch.dtype) -> Bound:
    """Exact values on, half-way between and off the grid, all over the range, with small and large errors."""
    fmt = FORMATS[dtype]
    generator = torch.Generator().manual_seed(11)
    shape = (20_000,)
    exponent = torch.randint(fmt.min_exponent - fmt.precision, fmt.max_exponent + 1, shape, generator=generator)
    significand = 1 + torch.rand(shape, generator=generator, dtype=torch.float64)
    significand[::3] = (significand[::3] / fmt.unit).round() * fmt.unit
    significand[1::3] = ((significand[1::3] / fmt.unit).floor() + 0.5) * fmt.unit
    significand[::7] = 1.0
    sign = torch.randint(0, 2, shape, generator=generator) * 2 - 1
    exact = torch.ldexp(significand, exponent) * sign
    share = torch.exp2(torch.rand(shape, generator=generator, dtype=torch.float64) * 12 - 8)
    return Bound(exact, exact.abs() * fmt.unit * share + 2.0**-160)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_rounds_from_within_the_error_is_accepted(dtype: torch.dtype) -> None:
    bound = bounds_around(dtype)
    for share in (-1 + 2**-30, -0.5, 0.0, 0.5, 1 - 2**-30):
        out = round_once(bound.exact + share * bound.error, dtype)
        assert float(score(out, bound).max()) <= 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_interval_holds_what_the_score_accepts_and_no_more(dtype: torch.dtype) -> None:
    """Every value inside the interval is accepted and its outer neighbours are not; flushing aside."""
    bound = bounds_around(dtype)
    low, high = allowed_interval(bound, dtype)
    fmt = FORMATS[dtype]
    normal = bound.exact.abs() - bound.error > fmt.smallest_normal
    assert int(normal.sum()) > 10_000
    for edge, outward in ((low, -INF), (high, INF)):
        assert float(score(edge, bound)[normal].max()) <= 1 + 1e-9
        outside = torch.nextafter(edge, torch.tensor(outward, dtype=dtype))
        moved = normal & (outside != edge)
        assert int(moved.sum()) > 10_000
        assert float(score(outside, bound)[moved].min()) > 1 - 1e-9
    # In steps of one, so that an edge off by a half-way tie cannot hide.
    strict = moved & ((bound.exact.abs() / bound.error) < 2.0**30)
    assert (
        float((score(torch.nextafter(high, torch.tensor(INF, dtype=dtype)), bound)[strict] > 1).double().mean()) > 0.999
    )
    flushed = bound.exact.abs() + bound.error < fmt.smallest_normal
    assert ((low <= 0) & (high >= 0))[flushed].all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_bound_covers_the_interval(dtype: torch.dtype) -> None:
    bound = bounds_around(dtype)
    plain = plain_error_bound(bound, dtype) * (1 + 1e-12)
    for edge in allowed_interval(bound, dtype):
        distance = (edge.double() - bound.exact).abs()
        finite = edge.isfinite()
        assert (distance <= plain)[finite].all()
        assert float((distance / plain)[finite].max()) > 0.9


def test_half_way_edges_belong_to_the_interval() -> None:
    """1 + n * 2^-11 for n = 1, 3, 5 lie half-way on the float16 grid above 1, 1 - 2^-12 on that below."""
    exact = torch.tensor([1.0, 1.0 + 2.0**-9, 1.0], dtype=torch.float64)
    bound = Bound(exact, torch.tensor([2.0**-11, 2.0**-11, 2.0**-12], dtype=torch.float64))
    low, high = allowed_interval(bound, F16)
    assert low.tolist() == [1 - 2.0**-11, 1 + 2.0**-10, 1 - 2.0**-11]
    assert high.tolist() == [1 + 2.0**-10, 1 + 3 * 2.0**-10, 1.0]
    assert float(torch.maximum(score(low, bound), score(high, bound)).max()) <= 1


def test_plain_bound_is_the_error_and_half_an_ulp() -> None:
    exact = torch.tensor([1.5, -1.5, 2.0, 2.0**-20], dtype=torch.float64)
    plain = plain_error_bound(Bound(exact, torch.full((4,), 2.0**-30, dtype=torch.float64)), F16)
    half_ulps = torch.tensor([2.0**-11, 2.0**-11, 2.0**-10], dtype=torch.float64)
    assert torch.equal(plain[:3], half_ulps + 2.0**-30)
    assert plain[3] == exact[3]


def test_unspecified_interval() -> None:
    bound = Bound(torch.zeros(1, dtype=torch.float64), torch.full((1,), INF, dtype=torch.float64))
    low, high = allowed_interval(bound, BF16)
    assert (low.item(), high.item()) == (-INF, INF)


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        score(torch.zeros(2, 1, 4), Bound(torch.zeros(1, 1, 4).double(), torch.ones(1, 1, 4).double()))


TRUNCATES = Arithmetic(narrows_toward_zero=True)
KEEPS = Arithmetic(flushes=False, flushes_half=False)


@pytest.mark.parametrize(
    ("value", "exact", "error", "wanted"),
    [
        # A value up to the next point outward may have been cut; inward half-way is the end as ever.
        (1.0, 1.0 + 2.0**-10, 1e-9, 0.0),
        (1.0, 1.0 + 2.0**-10 + 2.0**-20, 2.0**-20, 1.0),
        (-1.0, -1.0 - 2.0**-10 - 2.0**-20, 2.0**-20, 1.0),
        (1.0, 1.0 - 2.0**-12 - 2.0**-20, 2.0**-20, 1.0),
        # The largest finite value stands for all beyond it; infinity is right from half-way on.
        (65504.0, 1e9, 1e-3, 0.0),
        (-65504.0, -1e9, 1e-3, 0.0),
        (INF, 65520.0, 1e-3, 0.0),
        (INF, 65519.0, 0.5, 2.0),
    ],
)
def test_score_where_the_output_may_be_truncated(value: float, exact: float, error: float, wanted: float) -> None:
    assert one(value, exact, error, F16, TRUNCATES) == pytest.approx(wanted)


@pytest.mark.parametrize("arithmetic", [TRUNCATES, Arithmetic(toward_zero=True)])
def test_float32_is_truncated_by_its_last_sum_and_sixteen_bits_by_their_conversion(arithmetic: Arithmetic) -> None:
    step = {F32: 2.0**-23, F16: 2.0**-10}
    cut = {dtype: one(1.0, 1.0 + 0.9 * step[dtype], 1e-12, dtype, arithmetic) for dtype in step}
    assert {dtype for dtype, needed in cut.items() if needed <= 1} == {F16 if arithmetic is TRUNCATES else F32}


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_target_that_keeps_subnormals_may_not_flush_them(dtype: torch.dtype) -> None:
    tiny = FORMATS[dtype].smallest_normal
    step = tiny * FORMATS[dtype].unit
    assert one(0.0, tiny / 2, step / 8, dtype) == 0
    assert one(0.0, tiny / 2, step / 8, dtype, KEEPS) > 1
    assert one(0.0, step / 2, step / 8, dtype, KEEPS) == 0


@pytest.mark.parametrize("arithmetic", [TRUNCATES, Arithmetic(toward_zero=True), KEEPS], ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_allowed_interval_agrees_with_the_score_under_every_arithmetic(
    dtype: torch.dtype, arithmetic: Arithmetic
) -> None:
    generator = torch.Generator().manual_seed(3)
    exact = torch.randn(4000, generator=generator, dtype=torch.float64)
    bound = Bound(exact, exact.abs() * 2.0**-13 + 2.0**-40, arithmetic)
    low, high = allowed_interval(bound, dtype)
    for end, outward in ((low, -INF), (high, INF)):
        assert float(score(end, bound).max()) <= 1
        assert float(score(torch.nextafter(end, torch.full_like(end, outward)), bound).min()) > 1
