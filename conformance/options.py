"""The options that choose what is tested and how: shared by pytest and by `python -m conformance`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from conformance.suite import Settings
from kernel import targets
from kernel.targets import DEFAULT_MATH, MATH_MODELS, SHADER_TARGETS, Target, default_target
from reference import ACCURACY_CLASSES, EXACT_ANGLE, FAST, FLOAT32_ANGLE

AUTO = "auto"
# SGLang's kernel, and MLX's own on a GPU, call fast::cos and fast::sin.
FAST_TARGETS = ("mlx", "sgl")


class AddOption(Protocol):
    """`addoption` of a pytest group, `add_argument` of argparse."""

    def __call__(self, *names: str, **attributes: Any) -> Any: ...


def add_target_options(add: AddOption) -> None:
    """Options that a test run and a replay share."""
    add(
        "--target",
        default=default_target(),
        metavar="NAME",
        help="host (a Metal source on this CPU), mps (on an Apple GPU), cuda (on an NVIDIA GPU), mlx (MLX's own rope), "
        "sgl (the installed sgl_kernel), package.module:function or path/to/file.py:function; %(default)s by default",
    )
    add("--shader", type=Path, metavar="FILE", help="Metal source for the targets host, mps and cuda; ours by default")
    add(
        "--math",
        choices=sorted(MATH_MODELS),
        help="for the target host, what an unqualified cos, sin or exp2 is: the C library's (libm, the default), or "
        "fast:: in a fast-math build (metal-fast); for mps, Metal's precise:: with safe math, or fast:: with fast "
        "math; for cuda, CUDA's functions, or its fast intrinsics with --fmad, --ftz and approximate division",
    )
    add(
        "--accuracy",
        choices=(*ACCURACY_CLASSES, AUTO),
        help=f"accuracy class that the target is held to: {EXACT_ANGLE.name} by default for our own shader, "
        f"{FAST.name} for {' and '.join(FAST_TARGETS)}, {FLOAT32_ANGLE.name} for any other target; {AUTO} holds it to "
        f"{FAST.name} and tells the tightest class kept",
    )


def load_target(options: Any) -> Target:
    """The target that the options name. Raises TargetError."""
    return targets.load(options.target, options.shader, options.math)


def accuracy(options: Any) -> str:
    """The accuracy class that the target is held to, or `auto`."""
    if options.accuracy is not None:
        return str(options.accuracy)
    if options.target in FAST_TARGETS:
        return FAST.name
    ours = options.target in SHADER_TARGETS and options.shader is None
    return EXACT_ANGLE.name if ours else FLOAT32_ANGLE.name


def settings(options: Any, *, strict: bool) -> Settings:
    """How the options want the target judged; a replay has no `launch`, its case tells the plan."""
    name = accuracy(options)
    tighter = tuple(a for a in ACCURACY_CLASSES.values() if a is not FAST) if name == AUTO else ()
    decides = FAST if name == AUTO else ACCURACY_CLASSES[name]
    return Settings(decides, tighter, launch=getattr(options, "launch", "all"), strict=strict)


def replay_options(options: Any) -> str:
    """The options of a replay on the same target, as on a command line."""
    words = []
    if (options.target, default_target()) != ("host", "host"):
        words += ["--target", options.target]
    if options.shader is not None:
        words += ["--shader", str(options.shader)]
    if options.math not in (None, DEFAULT_MATH):
        words += ["--math", options.math]
    if options.accuracy is not None:
        words += ["--accuracy", options.accuracy]
    return " ".join(words)
