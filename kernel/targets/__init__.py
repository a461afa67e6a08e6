"""The systems under test, one file each, and how an option names them."""

from __future__ import annotations

from pathlib import Path

from kernel.msl import Build
from kernel.probes import Behaviour, Probe
from kernel.targets.base import Answer, Description, Outputs, Target, TargetError
from kernel.targets.callable import CallableTarget
from kernel.targets.host import DEFAULT_SHADER, HostTarget

__all__ = [
    "DEFAULT_MATH",
    "DEFAULT_SHADER",
    "MATH_MODELS",
    "Answer",
    "Behaviour",
    "CallableTarget",
    "Description",
    "HostTarget",
    "Outputs",
    "Probe",
    "Target",
    "TargetError",
    "load",
]


DEFAULT_MATH = "libm"
MATH_MODELS = {DEFAULT_MATH: Build(), "metal-fast": Build(fast_math=True, contract=True)}


def load(name: str = "host", shader: Path | None = None, math: str | None = None) -> Target:
    """The target that `name` stands for: `host`, `package.module:function` or `path/to/file.py:function`.

    Args:
        shader: for `host`, the Metal source to compile; ours by default.
        math: for `host`, one of MATH_MODELS; DEFAULT_MATH by default.

    Raises:
        TargetError: the target cannot be used; one line says why and what to do.
    """
    if name == "host":
        return HostTarget.compile(shader or DEFAULT_SHADER, MATH_MODELS[math or DEFAULT_MATH])
    for option, value in (("--shader", shader), ("--math", math)):
        if value is not None:
            raise TargetError(f"{option} goes with the target host, not with {name}")
    if ":" not in name:
        raise TargetError(f"unknown target {name!r}: use host, package.module:function or path/to/file.py:function")
    return CallableTarget.load(name)
