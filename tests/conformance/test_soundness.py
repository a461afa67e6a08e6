"""No false alarm: right kernels of each class, built with and without FMA, over more than 10^7 judged elements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from drive import suite_for
from kernels import RIGHT
from shader_faults import SECOND

from conformance.case import Case
from conformance.suite import NonConformanceError
from kernel.msl import Build
from kernel.targets import DEFAULT_SHADER, CallableTarget, HostTarget, Target
from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE, Accuracy

BANDS = ("uniform:64", "around:131071", "around:1048576", "log")
# q and k of T=40, 8 heads each, head_dim 128 and 80, in each dtype, band and draw, by each kernel.
CASES = [
    Case(dtype, 40, 8, 8, head_dim, 64, base, positions, "holes", "mixed", seed)
    for seed, (dtype, head_dim, (base, positions)) in enumerate(
        itertools.product(
            ("f16", "bf16", "f32"), (128, 80), zip((10000.0, 500000.0, 1000000.5, 1.5), BANDS, strict=True)
        )
    )
]
FLOAT32 = {"ours": DEFAULT_SHADER, "second": SECOND}
BUILDS = [Build(fast_math=fast, contract=contract) for fast in (False, True) for contract in (False, True)]


def _fast_shader(folder: Path) -> Path:
    """Ours with the trigonometry of the published kernel: fast sine and cosine, unqualified exp2."""
    text = DEFAULT_SHADER.read_text()
    assert text.count("precise::") == 3
    path = folder / "fast.metal"
    path.write_text(text.replace("precise::exp2", "exp2").replace("precise::", "fast::"))
    return path


def _kernels(folder: Path) -> Iterator[tuple[str, Target, Accuracy]]:
    for (name, shader), build in itertools.product(FLOAT32.items(), BUILDS):
        yield f"{name} {build}", HostTarget.compile(shader, build), FLOAT32_ANGLE
    for build in BUILDS[2:]:
        yield f"fast {build}", HostTarget.compile(_fast_shader(folder), build), FAST
    for name in ("exact", "exact_fma"):
        yield name, CallableTarget(name, RIGHT[name]), EXACT_ANGLE


def test_right_kernels_of_every_class_conform(tmp_path: Path) -> None:
    judged = 0
    for name, target, accuracy in _kernels(tmp_path):
        suite = suite_for(target, accuracy)
        for n, case in enumerate(CASES):
            plan = f"{('split', 'rect')[n % 2]}/{1 + n % 3}" if target.has_launch_plans else ""
            assert not suite.check(case.but(plan=plan)).failed, name
        suite.close()
        judged += sum(suite.ledger.entries[id].elements for id in ("ROT-Q", "ROT-K"))
    assert judged > 10**7


@pytest.mark.parametrize("name", ["fast", "fast_fma"])
def test_fast_trigonometry_is_not_taken_for_precise(name: str) -> None:
    """The control: the same judge alarms where a kernel is held to a class that is not its own."""
    suite = suite_for(CallableTarget(name, RIGHT[name]), FLOAT32_ANGLE)
    with pytest.raises(NonConformanceError, match="ROT-Q"):
        suite.check(CASES[-1])
    suite.close()
