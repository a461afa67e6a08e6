"""No false alarm: right callables of every class, in place and fresh, pass the suite's cases."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from drive import first_finding, suite_for
from kernels import RIGHT
from torch import Tensor

from kernel.memory import bits
from kernel.targets import CallableTarget
from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE

CLASSES = {"float32": FLOAT32_ANGLE, "fast": FAST, "exact": EXACT_ANGLE}


def through_numpy(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """Writes the given pools in place and returns them as another library would hand them back."""
    outputs = RIGHT["float32_angle"](*arrays, **arguments)
    return tuple(torch.from_numpy(bits(t).numpy()).view(t.dtype) for t in outputs)


KERNELS = {**RIGHT, "float32_through_numpy": through_numpy}


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_passes(name: str) -> None:
    suite = suite_for(CallableTarget(name, KERNELS[name]), CLASSES[name.partition("_")[0]])
    try:
        assert suite.in_place is (name != "float32_angle_fresh")
        assert first_finding(suite, every=4) == ""
        assert suite.ledger.not_run() == []
    finally:
        suite.close()
