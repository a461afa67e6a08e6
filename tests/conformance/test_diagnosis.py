"""Words for what is wrong: the mistake behind the numbers, and the pattern of the wrong elements."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import reference
from conformance import diagnose
from conformance.case import Case
from conformance.inputs import logical_call
from conformance.pattern import extent

# Every position and base tells each mistake from every other.
CASE = Case("f32", 4, 4, 2, 16, 9, 12345.5, "list:70001/2049/131071/65539", values="normal")


def _diagnosis(out: Tensor) -> str:
    call = logical_call(CASE)
    bound = reference.error_bound(call.q, call.positions, call.rope_base, reference.FLOAT32_ANGLE)
    wrong = reference.score(out, bound) > 1
    assert bool(wrong.any())
    rotation = diagnose.Rotation(call.q, call.positions.to(torch.int64), call.rope_base, out)
    return diagnose.looks_like(rotation, bound, wrong)


_TWICE = [mistake for mistake in diagnose._MISTAKES if "twice" in mistake.words]


@pytest.mark.parametrize("mistake", [m for m in diagnose._MISTAKES if m not in _TWICE], ids=lambda m: m.words)
def test_each_known_mistake_is_named(mistake: diagnose._Mistake) -> None:
    call = logical_call(CASE.but(positions="list:-5/-2049/3/-70001") if "sign of" in mistake.words else CASE)
    rotation = diagnose.Rotation(call.q, call.positions.to(torch.int64), call.rope_base, call.q)
    out = mistake.result(rotation).to(torch.float32)
    bound = reference.error_bound(call.q, call.positions, call.rope_base, reference.FLOAT32_ANGLE)
    wrong = reference.score(out, bound) > 1
    made = diagnose.Rotation(call.q, rotation.positions, call.rope_base, out)
    assert diagnose.looks_like(made, bound, wrong) == mistake.words


@pytest.mark.parametrize("positions", ["list:2147483647/-2147483648/-1/0", "list:0/0/0/0"])
@pytest.mark.parametrize("mistake", diagnose._MISTAKES, ids=lambda mistake: mistake.words)
def test_each_mistake_can_be_formed_at_any_position(mistake: diagnose._Mistake, positions: str) -> None:
    call = logical_call(CASE.but(positions=positions))
    result = mistake.result(diagnose.Rotation(call.q, call.positions.to(torch.int64), call.rope_base, call.q))
    assert result.shape == call.q.shape
    # Past 65,504 a float16 is infinite.
    assert bool(result.isfinite().all()) or "float16" in mistake.words


@pytest.mark.parametrize("mistake", _TWICE)
def test_rounding_twice_is_named(mistake: diagnose._Mistake) -> None:
    call = logical_call(CASE.but(dtype="bf16", num_tokens=16, positions="uniform:4096", head_dim=64, pool_size=16))
    rotation = diagnose.Rotation(call.q, call.positions.to(torch.int64), call.rope_base, call.q)
    out = mistake.result(rotation).to(torch.bfloat16)
    bound = reference.error_bound(call.q, call.positions, call.rope_base, reference.FLOAT32_ANGLE)
    wrong = reference.score(out, bound) > 1
    made = diagnose.Rotation(call.q, rotation.positions, call.rope_base, out)
    assert diagnose.looks_like(made, bound, wrong) == mistake.words


def test_a_position_past_the_range_of_float16_is_named() -> None:
    call = logical_call(CASE.but(positions="list:70001/2049/131071/4095"))
    rotation = diagnose.Rotation(call.q, call.positions.to(torch.int64), call.rope_base, call.q)
    out = diagnose._coarse(rotation, torch.float16).to(torch.float32)
    assert bool(out.isnan().any())
    bound = reference.error_bound(call.q, call.positions, call.rope_base, reference.FLOAT32_ANGLE)
    made = diagnose.Rotation(call.q, rotation.positions, call.rope_base, out)
    assert diagnose.looks_like(made, bound, reference.score(out, bound) > 1) == "position rounded to float16"


def test_truncation_is_named() -> None:
    call = logical_call(CASE.but(dtype="bf16"))
    bound = reference.error_bound(call.q, call.positions, call.rope_base, reference.FLOAT32_ANGLE)
    truncated = (bound.exact.to(torch.float32).view(torch.int32) & ~0xFFFF).view(torch.float32).to(torch.bfloat16)
    wrong = reference.score(truncated, bound) > 1
    rotation = diagnose.Rotation(call.q, call.positions.to(torch.int64), call.rope_base, truncated)
    assert diagnose.looks_like(rotation, bound, wrong) == "rounded toward zero in place of to nearest"


def test_a_subnormal_error_is_told_in_ulps_of_its_dtype() -> None:
    exact = torch.tensor([3 * 2.0**-24], dtype=torch.float64)
    bound = reference.Bound(exact, torch.full_like(exact, 2.0**-40))
    said = diagnose.error_size(torch.tensor([5 * 2.0**-24], dtype=torch.float16), bound, torch.tensor([True]))
    assert said == "largest error 1.19e-07, 2 ulp"


def test_one_wrong_element_is_given_no_name() -> None:
    out = reference.round_once(reference.rotate(*_arguments()), torch.float32)
    out[1, 2, 9] *= 1.5
    assert _diagnosis(out) == ""


def _arguments() -> tuple[Tensor, Tensor, float]:
    call = logical_call(CASE)
    return call.q, call.positions, call.rope_base


def test_noise_is_given_no_name() -> None:
    exact = reference.rotate(logical_call(CASE).q, logical_call(CASE).positions, CASE.rope_base)
    assert _diagnosis((exact * (1 + 1e-4)).to(torch.float32)) == ""


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ((2,), "24 of 96 elements; all in token 2"),
        ((slice(None), 1), "32 of 96 elements; all in head 1"),
        ((slice(None), slice(1, None)), "64 of 96 elements; every head but 0"),
        ((slice(None), slice(None), slice(4, None)), "48 of 96 elements; upper half of head_dim"),
        ((slice(None), slice(None), slice(0, 4)), "48 of 96 elements; lower half of head_dim"),
        ((slice(2, None),), "48 of 96 elements; tokens from 2 on"),
        ((slice(1, 3),), "48 of 96 elements; tokens 1 to 2"),
        ((slice(None), slice(None), [1, 5]), "24 of 96 elements; all in pair 1"),
        ((slice(None), slice(None), 6), "12 of 96 elements; upper half of head_dim; all in element 6"),
        ((slice(None), slice(None), [4, 5, 7]), "36 of 96 elements; upper half of head_dim; every element but 6"),
        ((slice(None), slice(None), slice(6, None)), "24 of 96 elements; upper half of head_dim; elements from 6 on"),
        ((slice(None, None, 2),), "48 of 96 elements; even tokens"),
        ((slice(None),), "96 of 96 elements; every element"),
    ],
)
def test_a_pattern_in_words(select: tuple[object, ...], words: str) -> None:
    wrong = torch.zeros(4, 3, 8, dtype=torch.bool)
    wrong[select] = True  # type: ignore[index]
    assert extent(wrong) == words


def test_skipped_tokens_in_words() -> None:
    wrong = torch.zeros(4, 3, 8, dtype=torch.bool)
    wrong[[1, 3]] = True
    skipped = torch.tensor([False, True, False, True])
    assert extent(wrong, skipped) == "48 of 96 elements; exactly the tokens with a negative slot"
