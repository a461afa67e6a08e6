"""The systems under test, one file each, and how an option names them."""

from __future__ import annotations

import platform
from pathlib import Path

import torch

from kernel.msl import Build
from kernel.probes import Behaviour, Probe
from kernel.targets.base import Answer, Description, DeviceLostError, Outputs, Target, TargetError
from kernel.targets.callable import CallableTarget
from kernel.targets.cuda import CudaTarget
from kernel.targets.host import DEFAULT_SHADER, HostTarget
from kernel.targets.mlx import MlxTarget
from kernel.targets.mps import MpsTarget
from kernel.targets.sgl import SglTarget

__all__ = [
    "DEFAULT_MATH",
    "DEFAULT_SHADER",
    "MATH_MODELS",
    "SHADER_TARGETS",
    "Answer",
    "Behaviour",
    "CallableTarget",
    "CudaTarget",
    "Description",
    "DeviceLostError",
    "HostTarget",
    "Outputs",
    "Probe",
    "Target",
    "TargetError",
    "default_target",
    "load",
]


DEFAULT_MATH = "libm"
MATH_MODELS = {DEFAULT_MATH: Build(), "metal-fast": Build(fast_math=True, contract=True)}
SHADER_TARGETS = ("host", "mps", "cuda")


def default_target() -> str:
    """The target where none is named: `mps` on Apple silicon with a PyTorch that has it, else `host`."""
    apple = (platform.system(), platform.machine()) == ("Darwin", "arm64")
    return "mps" if apple and torch.backends.mps.is_built() else "host"


def load(name: str | None = None, shader: Path | None = None, math: str | None = None) -> Target:
    """The target that `name` stands for: a known one, `package.module:function` or `path/to/file.py:function`.

    Args:
        name: `default_target()` by default.
        shader: for SHADER_TARGETS, the Metal source to compile; ours by default.
        math: for SHADER_TARGETS, one of MATH_MODELS; DEFAULT_MATH by default.

    Raises:
        TargetError: the target cannot be used; one line says why and what to do.
    """
    name = name or default_target()
    if name == "mps":
        return MpsTarget.load(shader or DEFAULT_SHADER, MATH_MODELS[math or DEFAULT_MATH].fast_math)
    if name == "cuda":
        return CudaTarget.compile(shader or DEFAULT_SHADER, MATH_MODELS[math or DEFAULT_MATH])
    if name == "host":
        return HostTarget.compile(shader or DEFAULT_SHADER, MATH_MODELS[math or DEFAULT_MATH])
    for option, value in (("--shader", shader), ("--math", math)):
        if value is not None:
            raise TargetError(f"{option} goes with the target {' or '.join(SHADER_TARGETS)}, not with {name}")
    if name == "mlx":
        return MlxTarget.load()
    if name == "sgl":
        return SglTarget.load()
    if ":" not in name:
        raise TargetError(
            f"unknown target {name!r}: "
            "use host, mps, cuda, mlx, sgl, package.module:function or path/to/file.py:function"
        )
    return CallableTarget.load(name)
