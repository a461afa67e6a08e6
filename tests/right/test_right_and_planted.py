"""The right kernels are right, and no planted fault is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

from tests.planted import angle, rotation
from tests.planted.callables import FAULTS
from tests.planted.fault import Fault
from tests.right.arguments import FLOAT_DTYPES, VALUE_ERRORS, Call
from tests.right.kernels import RIGHT, float32_angle, float32_angle_fresh
from tests.right.observe import Observation, arguments, observe
from tests.right.probes import (
    LAYOUTS,
    OTHERS,
    SIZES,
    Probe,
    draw,
    probes,
    right_calls,
    wide_bf16,
    wrong_calls,
)
from tests.right.recipe import INTEGER, Kernel, Outputs, Recipe, kernel

# Half a unit in the last place at 1, plus 2^-13 for fast cosine and sine, for |x1| + |x2| up to about 8.
TOLERANCE = {torch.float16: 5e-3, torch.bfloat16: 2e-2, torch.float32: 2e-3}
SAFE_FAULTS = [fault for fault in FAULTS.values() if not fault.ends_process]
# Rounding twice errs by hardly more than rounding once.
BEYOND_THE_MODEL = {"overflow_clamped", "nan_spreads_over_token", "rounded_twice"}
NUMERIC_FAULTS = [
    fault for module in (rotation, angle) for fault in module.FAULTS if fault.name not in BEYOND_THE_MODEL
]


def model(x: Tensor, call: Call) -> Tensor:
    """The rotation in plain float64, good while positions are small."""
    base = float(torch.tensor(call.rope_base, dtype=torch.float32))
    exponent = torch.arange(0, call.head_dim, 2, dtype=torch.float64) / call.head_dim
    theta = call.positions.to(torch.float64)[:, None, None] * base**-exponent
    x1, x2 = x.to(torch.float64).chunk(2, dim=-1)
    return torch.cat((x1 * theta.cos() - x2 * theta.sin(), x1 * theta.sin() + x2 * theta.cos()), dim=-1)


def run(fn: Kernel, call: Call) -> Outputs:
    return fn(**vars(call))


def same_bits(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.view(INTEGER[a.dtype]), b.view(INTEGER[b.dtype]))


def error_against_model(fn: Kernel, call: Call) -> float:
    """The largest error of q_rot and k_rot; infinite where a shape or a NaN is wrong or the call raised."""
    wanted = [model(call.q, call), model(call.k, call)]
    try:
        got = run(fn, call)[:2]
    except (RuntimeError, TypeError):
        return torch.inf
    if [x.shape for x in got] != [y.shape for y in wanted]:
        return torch.inf
    errors = [(x.to(torch.float64) - y).abs().nan_to_num(torch.inf).flatten() for x, y in zip(got, wanted, strict=True)]
    return max(torch.cat(errors).tolist(), default=0.0)


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("base", [2.25, 10000.0, 500000.5])
def test_right_kernel_agrees_with_the_model(name: str, dtype: torch.dtype, base: float) -> None:
    call = draw(num_tokens=33, head_dim=64, pool_size=64, dtype=dtype, rope_base=base)
    assert error_against_model(RIGHT[name], call) < TOLERANCE[dtype] * 4


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
def test_right_kernel_stores_bit_copies_and_nothing_else(name: str, dtype: torch.dtype) -> None:
    call = draw(dtype=dtype, slots=(6, -1, 3))
    call.v.view(INTEGER[dtype])[2, 0, 0] = draw(dtype=dtype).k_pool.view(INTEGER[dtype])[0, 0, 0]
    before = replace(call, k_pool=call.k_pool.clone(), v_pool=call.v_pool.clone())
    _, k_rot, k_pool, v_pool = run(RIGHT[name], call)
    for pool, old, source in ((k_pool, before.k_pool, k_rot), (v_pool, before.v_pool, before.v)):
        old[6], old[3] = source[0], source[2]
        assert same_bits(pool, old)


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernel_writes_in_place_unless_it_is_the_fresh_one(name: str) -> None:
    call = draw()
    before = call.k_pool.clone(), call.v_pool.clone()
    _, _, k_pool, v_pool = run(RIGHT[name], call)
    fresh = RIGHT[name] is float32_angle_fresh
    assert (k_pool is not call.k_pool and v_pool is not call.v_pool) == fresh
    assert (same_bits(call.k_pool, before[0]) and same_bits(call.v_pool, before[1])) == fresh


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("head_dim", [2, 10, 96, 128])
def test_a_token_alone_has_the_bits_that_it_has_in_a_batch(name: str, head_dim: int) -> None:
    fields = {"num_qo_heads": 1, "num_kv_heads": 1, "head_dim": head_dim, "pool_size": 67}
    batch = draw(num_tokens=67, **fields)
    batch.positions.mul_(40009)
    q_rot, k_rot, _, _ = run(RIGHT[name], batch)
    for start, stop in ((0, 1), (5, 6), (66, 67), (1, 4), (3, 20), (0, 33)):
        part = slice(start, stop)
        changes = {a: getattr(batch, a)[part] for a in ("q", "k", "v", "positions", "slots")}
        q_part, k_part, _, _ = run(RIGHT[name], replace(batch, **changes))
        assert same_bits(q_part, q_rot[part])
        assert same_bits(k_part, k_rot[part])


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_right_kernel_sees_values_and_not_layout(name: str, layout: str) -> None:
    call = OTHERS[layout]()
    tensors = {a: x.clone(memory_format=torch.contiguous_format) for a, x in arguments(call).items()}
    dense = replace(call, **tensors)  # type: ignore[arg-type]
    for got, wanted in zip(run(RIGHT[name], call), run(RIGHT[name], dense), strict=True):
        assert same_bits(got, wanted)


def on_copies_of_the_pools(**arguments: Tensor) -> Outputs:
    call = Call(**arguments)  # type: ignore[arg-type]
    return Recipe().run(replace(call, k_pool=call.k_pool.clone(), v_pool=call.v_pool.clone()))


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_refuse_alike_and_change_nothing(name: str) -> None:
    seen = set()
    pairs = zip(observe(RIGHT[name], wrong_calls()), observe(on_copies_of_the_pools, wrong_calls()), strict=True)
    for (raised, *got), (wanted, *unchanged) in pairs:
        assert raised == wanted
        if raised:
            assert got[:3] == unchanged[:3]
            seen.add(str(raised)[:45])
    assert len(seen) == len(VALUE_ERRORS)


@cache
def right_observations() -> tuple[Observation, ...]:
    return tuple(observe(float32_angle, probes()))


def differs(fn: Kernel) -> bool:
    """Whether some probe tells the kernel from the right one; stops at the first that does."""
    return any(got != wanted for got, wanted in zip(observe(fn, probes()), right_observations(), strict=True))


def test_probes_find_no_fault_in_a_second_right_kernel() -> None:
    assert not differs(kernel(Recipe(), "again", None))


@pytest.mark.parametrize("fault", SAFE_FAULTS, ids=lambda fault: fault.name)
def test_planted_fault_shows(fault: Fault) -> None:
    assert differs(fault.call)


@cache
def right_errors() -> tuple[float, ...]:
    """The largest error of any right kernel on each probe."""
    return tuple(max(error_against_model(fn, probe()) for fn in RIGHT.values()) for probe in numeric_probes())


def numeric_probes() -> list[Probe]:
    accepted = zip(right_calls(), SIZES, strict=True)
    return [probe for probe, fields in accepted if fields.get("slots") != (8, 2, 9)] + [wide_bf16]


def test_right_kernels_accept_every_numeric_probe() -> None:
    assert max(right_errors()) < torch.inf


@pytest.mark.parametrize("fault", NUMERIC_FAULTS, ids=lambda fault: fault.name)
def test_numeric_fault_errs_more_than_any_right_kernel(fault: Fault) -> None:
    for probe, allowed in zip(numeric_probes(), right_errors(), strict=True):
        if error_against_model(fault.call, probe()) > 2 * allowed:
            return
    pytest.fail("its error is within twice that of the right kernels on every probe")


def test_at_least_sixty_faults_each_with_a_sentence() -> None:
    assert len(FAULTS) >= 60
    assert all(fault.what.endswith(".") for fault in FAULTS.values())
    assert len({fault.what for fault in FAULTS.values()}) == len(FAULTS)
