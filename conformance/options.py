"""The options that choose what is tested and how: shared by pytest and by `python -m conformance`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from conformance import deviations
from conformance.pair.beside import Beside
from conformance.suite import Settings
from kernel import targets
from kernel.targets import DEFAULT_MATH, MATH_MODELS, SHADER_TARGETS, Target, TargetError, default_target
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
    add(
        "--deviations",
        type=Path,
        metavar="FILE",
        help="the target's known deviations; kernel/deviations/NAME.toml by default, where there is one",
    )


def add_pair_options(add: AddOption) -> None:
    """Options that name a second target to compare with."""
    add(
        "--pair",
        metavar="NAME",
        help="a second target, named as for --target, that makes the same cases: every disagreement is told, and which "
        "of the two is nearer to the oracle; none fails the run, as two right kernels may differ within their bounds",
    )
    add(
        "--pair-shader",
        type=Path,
        metavar="FILE",
        help="Metal source for the target that --pair names; ours by default",
    )


def load_beside(options: Any, *, quiet: bool = True) -> Beside | None:
    """The second target that the options name, if any. Raises TargetError."""
    if options.pair is None:
        if options.pair_shader is not None:
            raise TargetError("--pair-shader goes with --pair, which names the target that it is for")
        return None
    try:
        return Beside(targets.load(options.pair, options.pair_shader), quiet=quiet)
    except TargetError as error:
        raise TargetError(f"--pair: {error}") from error


def pair_facts(options: Any, beside: Beside | None) -> dict[str, dict[str, str]]:
    """What tells a record of the second target; empty without one."""
    if beside is None:
        return {}
    described = beside.target.describe()
    shader = {"shader path": str(options.pair_shader)} if options.pair_shader else {}
    return {"pair": {"target": described.name, "device": described.device, **described.facts, **shader}}


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


def settings(options: Any, target: Target, *, strict: bool) -> Settings:
    """How the options want the target judged; a replay has no `launch`, its case tells the plan.

    Raises DeviationError.
    """
    name = accuracy(options)
    tighter = tuple(a for a in ACCURACY_CLASSES.values() if a is not FAST) if name == AUTO else ()
    decides = FAST if name == AUTO else ACCURACY_CLASSES[name]
    described = target.describe()
    known = deviations.load(described.name, described.device, options.deviations)
    launch = getattr(options, "launch", "all")
    return Settings(decides, tighter, launch=launch, strict=strict, deviations=known)


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
    if options.deviations is not None:
        words += ["--deviations", str(options.deviations)]
    return " ".join(words)


def pair_replay_options(options: Any) -> str:
    """The options of a replay on both targets of a pair, as on a command line."""
    words = [replay_options(options), "--pair", options.pair]
    if options.pair_shader is not None:
        words += ["--pair-shader", str(options.pair_shader)]
    return " ".join(filter(None, words))
