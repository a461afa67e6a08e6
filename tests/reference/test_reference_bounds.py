"""The bound: right kernels stay inside it, worst ones fill it, and no more is unspecified than is stated."""

from __future__ import annotations

import math

import pytest
import torch
from regimes import regimes

from conformance.evidence.models import MODELS, Model
from reference import (
    ACCURACY_CLASSES,
    EXACT_ANGLE,
    FAST,
    FLOAT32_ANGLE,
    FORMATS,
    Accuracy,
    cos_sin,
    element_bound,
    error_bound,
    rotate,
    round_once,
    score,
    turn_bound,
)

DTYPES = tuple(FORMATS)
CLASSES = tuple(ACCURACY_CLASSES.values())
BANDS = {
    "small": 0,
    "2^10": 2**10 - 32,
    "2^17": 2**17 - 32,
    "2^20": 2**20 - 32,
    "2^24": 2**24 + 1,
    "2^31": 2**31 - 65,
}
SHAPES = ((1.0, 6), (1.0001, 64), (100.0, 2), (1e4, 128), (5e5, 80), (1e6, 96), (1e9, 256))


def band(start: int) -> torch.Tensor:
    """64 positions from `start`, every third one negated; from 2^24 odd ones, which float32 does not hold."""
    positions = torch.arange(start, start + 64)
    positions = positions | 1 if start > 2**24 else positions
    positions[::3] *= -1
    return positions.to(torch.int32)


def largest_score(model: Model, dtype: torch.dtype, start: int) -> tuple[float, int]:
    worst, elements, positions = 0.0, 0, band(start)
    for seed, (base, head_dim) in enumerate(SHAPES):
        x = regimes(seed, positions, base, head_dim, dtype)
        out = model.rotate(x, positions, base)
        bound = error_bound(x, positions, base, model.accuracy, model.arithmetic)
        worst = max(worst, float(score(out, bound).max()))
        elements += out.numel()
    return worst, elements


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_right_kernels_are_accepted(model: Model, dtype: torch.dtype) -> None:
    scores = {name: largest_score(model, dtype, start) for name, start in BANDS.items()}
    assert sum(elements for _, elements in scores.values()) > 1_600_000
    assert {name: worst for name, (worst, _) in scores.items() if not worst <= 1} == {}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("model", [m for m in MODELS if m.errs_on_purpose], ids=lambda model: model.name)
def test_the_bound_is_tight(model: Model, dtype: torch.dtype) -> None:
    assert largest_score(model, dtype, BANDS["2^10"])[0] > 0.9


@pytest.mark.parametrize("accuracy", CLASSES, ids=lambda accuracy: accuracy.name)
def test_rounding_the_oracle_once_needs_no_allowance(accuracy: Accuracy) -> None:
    positions = band(BANDS["2^17"])
    for dtype in DTYPES:
        x = regimes(1, positions, 1e4, 64, dtype)
        out = round_once(rotate(x, positions, 1e4), dtype)
        assert float(score(out, error_bound(x, positions, 1e4, accuracy)).max()) < 1e-6


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("accuracy", [EXACT_ANGLE, FLOAT32_ANGLE], ids=lambda accuracy: accuracy.name)
def test_at_position_0_the_output_must_be_the_input(accuracy: Accuracy, dtype: torch.dtype) -> None:
    x = torch.rand(16, 4, 64, generator=torch.Generator().manual_seed(2)).add(1.0).to(dtype)
    bound = error_bound(x, torch.zeros(16, dtype=torch.int32), 1e4, accuracy)
    assert float(score(x, bound).max()) <= 1
    for side in (-math.inf, math.inf):
        assert float(score(torch.nextafter(x, torch.tensor(side, dtype=dtype)), bound).min()) > 1


@pytest.mark.parametrize(("dtype", "sum_error"), [(torch.bfloat16, 2.0**-24), (torch.float32, 0.0)])
def test_the_formula_on_one_element(dtype: torch.dtype, sum_error: float) -> None:
    """The float32 recipe at i = 0, position 3: no frequency error, so d is 0 but for flushing."""
    c, s = (abs(t.item()) for t in cos_sin(torch.tensor([3]), 1e4, 2))
    x1, x2 = 1.0, 0.75
    bound = error_bound(torch.tensor([[[x1, x2]]]).to(dtype), torch.tensor([3]), 1e4, FLOAT32_ANGLE)
    eps_c, eps_s = 4 * 2.0**-24, 4 * 2.0**-26
    # |x1 c| lies in [1/2, 1), |x2 s| in [1/16, 1/8), |y1| in [1, 2).
    y1 = -x1 * c - x2 * s
    assert bound.exact[0, 0, 0].item() == pytest.approx(y1, abs=1e-15)
    wanted = x1 * eps_c + x2 * eps_s + 0.5 * (2.0**-24 + 2.0**-27) + sum_error
    assert bound.error[0, 0, 0].item() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("accuracy", [FLOAT32_ANGLE, FAST], ids=lambda accuracy: accuracy.name)
@pytest.mark.parametrize(("head_dim", "i"), [(128, 1), (128, 37), (80, 1), (80, 33)])
def test_the_angle_error_of_the_recipe(head_dim: int, i: int, accuracy: Accuracy) -> None:
    """At position 1, base 1e4, whose log2 of 13.29 has an ulp of 2^-20; each rounding shown as it arises."""
    step_error = 2.0**-20 / head_dim
    if head_dim == 80:
        step_error += 2.0**-27  # half an ulp of 13.29 / 80 = 0.166
    exponent = 2 * i * math.log2(1e4) / head_dim
    exponent_error = 2 * i * step_error
    if i != 1:
        exponent_error += math.ldexp(0.5, math.frexp(exponent)[1] - 24)
    frequency = 2.0**-exponent
    ulp = math.ldexp(1.0, math.frexp(frequency)[1] - 24)
    ulps = 4 if accuracy == FLOAT32_ANGLE else 3 + math.floor(2 * exponent)
    wanted = frequency * math.log(2) * exponent_error + ulps * ulp + ulp / 2
    got = turn_bound(torch.tensor([1]), 1e4, head_dim, accuracy).angle_error[0, 0]
    assert got[i].item() == got[i + head_dim // 2].item() == pytest.approx(wanted, rel=1e-5)


def test_positions_that_float32_does_not_hold_cost_half_their_ulp() -> None:
    held, not_held = 2**24 + 2, 2**24 + 1
    turns = [turn_bound(torch.tensor([p]), 1e4, 2, FLOAT32_ANGLE) for p in (held, not_held)]
    assert turns[0].angle_error.max().item() < 1e-30
    assert turns[1].angle_error.max().item() == pytest.approx(1.0)


def test_fast_trig_is_known_to_2_to_the_minus_13_up_to_pi_and_less_beyond() -> None:
    turn = turn_bound(torch.tensor([3, 4, 2**30]), 1e4, 2, FAST)
    errors = turn.sin_error[:, 0, 0].tolist()
    assert errors == pytest.approx([2.0**-13, 2.0**-13 + 4 * 2.0**-22, 2.0 + 2.0**-13], rel=1e-9)


@pytest.mark.parametrize("accuracy", CLASSES, ids=lambda accuracy: accuracy.name)
@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_and_infinity_leave_their_pair_alone_unspecified(dtype: torch.dtype, accuracy: Accuracy) -> None:
    positions = torch.tensor([0, 5, 2**24 + 1])
    x = torch.randn(3, 2, 8, generator=torch.Generator().manual_seed(4)).to(dtype)
    clean = error_bound(x, positions, 1e4, accuracy)
    x[0, 0, 1], x[1, 1, 6], x[2, 0, 3] = math.nan, math.inf, -math.inf
    bound = error_bound(x, positions, 1e4, accuracy)
    unspecified = torch.zeros(3, 2, 8, dtype=torch.bool)
    for token, head, i in ((0, 0, 1), (1, 1, 2), (2, 0, 3)):
        unspecified[token, head, [i, i + 4]] = True
    assert torch.equal(bound.error.isinf(), unspecified)
    assert torch.equal(bound.error[~unspecified], clean.error[~unspecified])
    assert torch.equal(bound.exact[~unspecified], clean.exact[~unspecified])
    assert (bound.exact[unspecified] == 0).all()
    for anything in (math.nan, math.inf, 1.0):
        out = round_once(clean.exact, dtype).masked_fill(unspecified, anything)
        assert float(score(out, bound).max()) <= 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_float32_overflow_is_unspecified_and_conversion_overflow_is_not(dtype: torch.dtype) -> None:
    """Position 1, head_dim 2: y1 = x1 cos 1 - x2 sin 1, y2 = x1 sin 1 + x2 cos 1."""
    top = torch.finfo(dtype).max
    x = torch.tensor([[[top, top]], [[top / 2, top / 2]], [[top / 2, -top / 2]]]).to(dtype)
    bound = error_bound(x, torch.ones(3, dtype=torch.int32), 1e4, FLOAT32_ANGLE)
    assert bound.error.isinf().squeeze(1).tolist() == [[False, True], [False, False], [False, False]]
    # 0.999 of the float32 threshold is past that of bfloat16, which is 0.998 of it.
    near = 0.999 * 2.0**128 / (math.sin(1) + math.cos(1))
    x = torch.full((1, 1, 2), near, dtype=torch.float32).to(dtype)
    bound = error_bound(x, torch.ones(1, dtype=torch.int32), 1e4, EXACT_ANGLE)
    assert bound.error.isfinite().all()
    y2 = bound.exact[0, 0, 1].item()
    inf_is_right = y2 >= FORMATS[dtype].overflow
    out = torch.tensor([[[bound.exact[0, 0, 0].item(), math.inf]]]).to(dtype)
    assert (float(score(out, bound).max()) <= 1) == inf_is_right


def test_a_cosine_above_1_may_overflow_a_product() -> None:
    top = torch.finfo(torch.float32).max
    x = torch.tensor([[[top, 0.0]]])
    position = torch.zeros(1, dtype=torch.int32)
    for accuracy in CLASSES:
        assert error_bound(x, position, 1e4, accuracy).error[0, 0].isinf().tolist() == [True, False]
    assert error_bound(x / 2, position, 1e4, FAST).error.isfinite().all()


def test_a_product_may_overflow_where_the_sum_does_not() -> None:
    """At angle 0.01 the fast cosine may exceed 1: x1 cos overflows, x1 cos - x2 sin is 0.99 of the maximum."""
    x = torch.full((1, 1, 128), torch.finfo(torch.float32).max)
    position = torch.ones(1, dtype=torch.int32)
    for accuracy, overflows in ((FAST, True), (FLOAT32_ANGLE, False)):
        assert error_bound(x, position, 1e4, accuracy).error[0, 0, 32].isinf().item() is overflows


@pytest.mark.parametrize("accuracy", CLASSES, ids=lambda accuracy: accuracy.name)
def test_an_unknown_angle_leaves_the_length_of_the_pair(accuracy: Accuracy) -> None:
    positions = band(BANDS["2^31"])
    x = torch.randn(64, 2, 64, generator=torch.Generator().manual_seed(9))
    bound = error_bound(x, positions, 1e4, accuracy)
    radius = torch.hypot(*x.double().chunk(2, -1)).repeat(1, 1, 2)
    # The fast cosine and sine may each be off by 2 and a little more.
    trig = 2.001 * x.double().abs().unflatten(-1, (2, -1)).sum(-2).repeat(1, 1, 2) if accuracy == FAST else 0.0
    assert (bound.error <= (bound.exact.abs() + radius) * (1 + 2.0**-20) + trig).all()


def test_float16_overflow_is_specified() -> None:
    x = torch.full((1, 1, 2), 65504.0, dtype=torch.float16)
    bound = error_bound(x, torch.ones(1, dtype=torch.int32), 1e4, FAST)
    assert bound.error.isfinite().all()
    right = torch.tensor([[[bound.exact[0, 0, 0].item(), math.inf]]]).half()
    assert float(score(right, bound).max()) <= 1
    assert float(score(right.clamp(max=65504.0), bound).max()) > 1


@pytest.mark.parametrize("shape", [(0, 4, 64), (3, 0, 64)])
def test_empty(shape: tuple[int, int, int]) -> None:
    x = torch.empty(shape, dtype=torch.bfloat16)
    bound = error_bound(x, torch.zeros(shape[0], dtype=torch.int32), 1e4, FLOAT32_ANGLE)
    assert bound.exact.shape == bound.error.shape == score(x, bound).shape == shape


def test_blocks_heads_and_strides_do_not_matter() -> None:
    """A bound is elementwise: one call, one token at a time, and a strided view agree bit for bit."""
    x = torch.randn(300, 4, 128, generator=torch.Generator().manual_seed(5)).bfloat16()
    positions = torch.arange(2**24 - 100, 2**24 + 200, dtype=torch.int32)
    whole = error_bound(x, positions, 1e4, FAST)
    strided = element_bound(x.transpose(0, 1).contiguous().transpose(0, 1), turn_bound(positions, 1e4, 128, FAST))
    assert torch.equal(whole.error, strided.error)
    assert torch.equal(whole.exact, strided.exact)
    for token in range(0, 300, 23):
        row = slice(token, token + 1)
        single = error_bound(x[row], positions[row], 1e4, FAST)
        assert torch.equal(single.error, whole.error[row])
        assert torch.equal(score(x[row], single), score(x, whole)[row])


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_input_stays_as_it_was(dtype: torch.dtype) -> None:
    x, positions = torch.randn(3, 2, 8).to(dtype), torch.tensor([0, 1, 2], dtype=torch.int32)
    before = x.clone(), positions.clone()
    score(x, error_bound(x, positions, 1e4, FAST))
    assert torch.equal(x, before[0])
    assert torch.equal(positions, before[1])
