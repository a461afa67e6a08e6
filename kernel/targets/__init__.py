"""The systems under test, one file each, and how an option names them."""

from __future__ import annotations

from pathlib import Path

from kernel.msl import Build
from kernel.targets.base import Answer, Description, Outputs, Target, TargetError
from kernel.targets.callable import CallableTarget
from kernel.targets.host import DEFAULT_SHADER, HostTarget

__all__ = [
    "DEFAULT_SHADER",
    "Answer",
    "CallableTarget",
    "Description",
    "HostTarget",
    "Outputs",
    "Target",
    "TargetError",
    "load",
]


def load(name: str = "host", shader: Path | None = None, *, fast_math: bool = False) -> Target:
    """The target that `name` stands for: `host`, `package.module:function` or `path/to/file.py:function`.

    Args:
        shader: for `host`, the Metal source to compile; ours by default.
        fast_math: for `host`, build as with Metal's fast math: unqualified math means `fast::`.

    Raises:
        TargetError: the target cannot be used; one line says why and what to do.
    """
    if name == "host":
        return HostTarget.compile(shader or DEFAULT_SHADER, Build(fast_math=fast_math))
    if shader is not None:
        raise TargetError(f"--shader goes with the target host, not with {name}")
    if ":" not in name:
        raise TargetError(f"unknown target {name!r}: use host, package.module:function or path/to/file.py:function")
    return CallableTarget.load(name)
