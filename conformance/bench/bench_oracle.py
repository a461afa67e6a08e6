"""The oracle beside plain float64 torch, which is only as right as a float64 angle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

import reference
from conformance.bench.timing import Effort, beside, timed
from conformance.case import Case
from conformance.inputs import logical_call
from kernel import Call

_SHAPE = Case(num_qo_heads=32, num_kv_heads=8, head_dim=128, rope_base=500000.0, pool_size=4096, values="normal")
CASES = {
    "decode-64": _SHAPE.but(num_tokens=64, positions="decode:32768"),
    "prefill-2048": _SHAPE.but(num_tokens=2048, positions="rise:0"),
}
PARTS: dict[str, Callable[[Call], object]] = {
    "cos-sin": lambda call: reference.cos_sin(call.positions, call.rope_base, call.head_dim),
    "rotation": lambda call: reference.rotate(call.q, call.positions, call.rope_base),
    "bound": lambda call: reference.error_bound(call.q, call.positions, call.rope_base, reference.FLOAT32_ANGLE),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("part", PARTS)
def test_oracle(benchmark: BenchmarkFixture, effort: Effort, facts: dict[str, Any], part: str, name: str) -> None:
    call = logical_call(CASES[name])
    plain = _plain_cos_sin if part == "cos-sin" else _plain_rotation
    times, beside_it = beside(benchmark, effort, lambda: PARTS[part](call), timed(lambda: plain(call)))
    benchmark.extra_info.update(
        versions=facts["versions"], case=str(CASES[name]), ratio=times.p50 / beside_it.p50, **asdict(times)
    )


def _plain_cos_sin(call: Call) -> tuple[Tensor, Tensor]:
    pairs = torch.arange(call.head_dim // 2, dtype=torch.float64)
    angle = call.positions.double()[:, None] * call.rope_base ** (-2.0 * pairs / call.head_dim)
    return angle.cos(), angle.sin()


def _plain_rotation(call: Call) -> Tensor:
    cos, sin = (t[:, None] for t in _plain_cos_sin(call))
    first, second = call.q.double().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
