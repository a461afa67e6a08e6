"""Our shader keeps the exact angle at every int32 position and float32 base, in every build; the other does not."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from drive import finds, first_finding, suite_for
from numpy.typing import NDArray
from shader_faults import FIXED_POINT, FLOAT32_SHADER, READS_PAST_THE_TABLE, WRITES_THE_TABLE, ShaderFault

from conformance.case import Case
from conformance.suite import NonConformanceError
from kernel import Call, LaunchPlan
from kernel.msl import Build
from kernel.targets import HostTarget
from reference import EXACT_ANGLE, FLOAT32_ANGLE

# Where int32 ends, where float32 stops to hold every integer, and, as numerators of the convergents of pi/2, where
# pair 0 comes nearest to a quarter turn.
POSITIONS = (
    *(0, 1, -1, 2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31)),
    *(3, 11, 344, 355, 51819, 573204, 4846147, 5419351, 42781604, 122925461, 411557987, 534483448, -534483448),
)
BASES = (1.0, 1.5, 10000.0, 500000.0, 1e9, 1.5e38)
CASES = [
    Case(
        dtype,
        num_tokens=len(POSITIONS),
        head_dim=(2, 64, 80, 128)[n % 4],
        pool_size=32,
        rope_base=base,
        positions=f"list:{'/'.join(map(str, POSITIONS))}",
        slots="holes",
        values=values,
        plan=f"{('split', 'rect')[n % 2]}/{1 + n % 3}",
    )
    for n, (dtype, base, values) in enumerate(
        itertools.product(("f16", "bf16", "f32"), BASES, ("mixed", "cancel", "normal", "ones", "wide"))
    )
]
BUILDS = [Build(fast_math=fast, contract=contract) for fast in (False, True) for contract in (False, True)]
LONG_CONTEXT = Case("f32", 32, head_dim=128, pool_size=40, positions="uniform:131071", values="normal")


@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_it_conforms_at_every_position_and_base(build: Build) -> None:
    suite = suite_for(HostTarget.compile(build=build), EXACT_ANGLE)
    for case in CASES:
        assert not suite.check(case).failed
    suite.close()
    assert suite.ledger.entries["ROB-POSITION"].elements > 10**6


def test_it_conforms_to_the_suite() -> None:
    suite = suite_for(HostTarget.compile(), EXACT_ANGLE)
    assert first_finding(suite, every=4) == ""
    suite.close()


def test_the_float32_shader_is_of_its_class_and_of_no_tighter_one() -> None:
    target = HostTarget.compile(FLOAT32_SHADER)
    suite = suite_for(target, FLOAT32_ANGLE)
    assert first_finding(suite, every=4) == ""
    suite.close()
    suite = suite_for(target, EXACT_ANGLE)
    with pytest.raises(NonConformanceError, match="q_rot is beyond the exact-angle bound"):
        suite.check(LONG_CONTEXT)
    suite.close()


# Bases of which the oracle, that of rotary embeddings, knows nothing: below 1, and the largest and smallest float32.
EVERY_BASE = (*BASES, 3e38, 0.5, 1e-3, 1e-38, 2.0**-149)
HEAD_DIM = 16
Floats = NDArray[np.float64]


@functools.cache
def exact_turn(base: float) -> tuple[Floats, Floats]:
    """cos and sin at POSITIONS, [num_tokens, HEAD_DIM/2]."""
    with mpmath.workprec(400):
        frequencies = [
            mpmath.power(float(np.float32(base)), mpmath.mpf(-2 * i) / HEAD_DIM) for i in range(HEAD_DIM // 2)
        ]
        turned = [[(mpmath.cos(p * w), mpmath.sin(p * w)) for w in frequencies] for p in POSITIONS]
    both = np.array(turned, dtype=np.float64)
    return both[..., 0], both[..., 1]


def kernels_turn(target: HostTarget, base: float, plan: LaunchPlan) -> tuple[Floats, Floats]:
    """The kernel's cos and sin at POSITIONS: what becomes of (1, 0)."""
    count = len(POSITIONS)
    x = torch.zeros(count, 1, HEAD_DIM)
    x[..., : HEAD_DIM // 2] = 1
    positions, slots = torch.tensor(POSITIONS, dtype=torch.int32), torch.full((count,), -1, dtype=torch.int32)
    pool = torch.zeros(1, 1, HEAD_DIM)
    q, k, _, _ = target.run(Call(x, x, x, positions, slots, pool, pool.clone(), HEAD_DIM, 1, 1, base), plan).outputs
    assert torch.equal(q, k)
    turned = q[:, 0].numpy().astype(np.float64)
    return turned[:, : HEAD_DIM // 2], turned[:, HEAD_DIM // 2 :]


@pytest.mark.parametrize("toward_zero", [False, True], ids=["to nearest", "toward zero"])
@pytest.mark.parametrize("build", BUILDS, ids=str)
def test_its_angle_is_exact_to_2_to_the_minus_22(build: Build, toward_zero: bool) -> None:
    target = HostTarget.compile(build=replace(build, toward_zero=toward_zero))
    for base, plan in itertools.product(EVERY_BASE, map(LaunchPlan.parse, ("split", "rect"))):
        cos, sin = kernels_turn(target, base, plan)
        exact_cos, exact_sin = exact_turn(base)
        assert np.abs(sin * exact_cos - cos * exact_sin).max() < 2.0**-22
        assert np.abs(np.hypot(cos, sin) - 1).max() < 2.0**-22
        assert cos[0].tolist() == [1.0] * (HEAD_DIM // 2)
        assert sin[0].tolist() == [0.0] * (HEAD_DIM // 2)


@pytest.mark.parametrize("fault", FIXED_POINT, ids=lambda fault: fault.name)
def test_each_fault_of_the_fixed_point_angle_is_found(fault: ShaderFault, tmp_path: Path) -> None:
    suite = suite_for(fault.compile(tmp_path), fault.accuracy)
    try:
        assert first_finding(suite, first="ROT"), fault.what
    finally:
        suite.close()


@pytest.mark.parametrize(
    ("fault", "requirement"),
    [(WRITES_THE_TABLE, "MEM-INPUT"), (READS_PAST_THE_TABLE, "MEM-READ")],
    ids=["writes", "reads past"],
)
def test_a_kernel_that_misuses_its_table_is_found(fault: ShaderFault, requirement: str, tmp_path: Path) -> None:
    suite = suite_for(fault.compile(tmp_path), fault.accuracy)
    try:
        assert finds(suite, requirement)
    finally:
        suite.close()
