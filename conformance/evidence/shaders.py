"""Our Metal shaders as right kernels: each in the arithmetics that a host build can take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from conformance.standard import arithmetic_of
from kernel import Call, LaunchPlan
from kernel.msl import Build
from kernel.targets import DEFAULT_SHADER, HostTarget
from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE, Accuracy, Arithmetic

FLOAT32_SHADER = DEFAULT_SHADER.with_name("rope_pool_fused_float32.metal")
BUILDS = {
    "plain": Build(),
    "FMA": Build(contract=True),
    "fast math, FMA": Build(fast_math=True, contract=True),
    "flushing": Build(flush=True, flush_half=True),
    "toward zero": Build(toward_zero=True),
    "toward zero, FMA, flushing": Build(toward_zero=True, contract=True, flush=True, flush_half=True),
}


@dataclass(frozen=True)
class ShaderKernel:
    """A shader in one build, held to a class under the arithmetic that the suite measures of that build."""

    name: str
    accuracy: Accuracy
    arithmetic: Arithmetic
    target: HostTarget

    @property
    def errs_on_purpose(self) -> bool:
        """Fast functions are modelled to err by about all that the specification allows."""
        return self.accuracy == FAST

    def rotate(self, x: Tensor, positions: Tensor, rope_base: float) -> Tensor:
        """x [num_tokens, num_heads, head_dim] rotated, the first half of the heads as q, the second as k."""
        q, k = (half.contiguous() for half in x.chunk(2, dim=1))
        pool = torch.empty(1, k.shape[1], k.shape[2], dtype=k.dtype)
        nowhere = torch.full_like(positions, -1)
        call = Call(q, k, k, positions, nowhere, pool, pool, x.shape[-1], q.shape[1], k.shape[1], rope_base)
        q_rot, k_rot, *_ = self.target.run(call, LaunchPlan("rect", q.shape[1])).outputs
        return torch.cat((q_rot, k_rot), dim=1)


def in_every_build(shader: Path, accuracy: Accuracy, name: str) -> Iterator[ShaderKernel]:
    """The kernels of one shader. Raises TargetError where it cannot be compiled."""
    for build_name, build in BUILDS.items():
        target = HostTarget.compile(shader, build)
        yield ShaderKernel(f"{name}, {build_name}", accuracy, arithmetic_of(target.measure()), target)


def our_shaders(folder: Path) -> list[ShaderKernel]:
    """Ours of every class; the fast one is the float32 one with fast functions, written to `folder`."""
    fast = folder / "rope_pool_fused_fast.metal"
    fast.write_text(FLOAT32_SHADER.read_text(encoding="utf-8").replace("precise::", "fast::"), encoding="utf-8")
    shaders = ((DEFAULT_SHADER, EXACT_ANGLE), (FLOAT32_SHADER, FLOAT32_ANGLE), (fast, FAST))
    return [kernel for path, accuracy in shaders for kernel in in_every_build(path, accuracy, path.stem)]
