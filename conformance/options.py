"""The options that choose what is tested and how: shared by pytest and by `python -m conformance`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from conformance.suite import Settings
from kernel import targets
from kernel.targets import Target
from reference import ACCURACY_CLASSES

DEFAULT_ACCURACY = "float32-angle"


class AddOption(Protocol):
    """`addoption` of a pytest group, `add_argument` of argparse."""

    def __call__(self, *names: str, **attributes: Any) -> Any: ...


def add_target_options(add: AddOption) -> None:
    """Options that a test run and a replay share."""
    add(
        "--target",
        default="host",
        metavar="NAME",
        help="host (a Metal source on this CPU), package.module:function or path/to/file.py:function",
    )
    add("--shader", type=Path, metavar="FILE", help="Metal source for the target host; ours by default")
    add(
        "--accuracy",
        choices=sorted(ACCURACY_CLASSES),
        default=DEFAULT_ACCURACY,
        help=f"accuracy class that the target is held to; {DEFAULT_ACCURACY} by default",
    )


def load_target(options: Any) -> Target:
    """The target that the options name. Raises TargetError."""
    # Metal's fast math goes with the class that allows for it.
    fast_math = options.accuracy == "fast"
    return targets.load(options.target, options.shader, fast_math=fast_math)


def settings(options: Any, *, strict: bool) -> Settings:
    """How the options want the target judged; a replay has no `launch`, its case tells the plan."""
    return Settings(ACCURACY_CLASSES[options.accuracy], launch=getattr(options, "launch", "all"), strict=strict)


def replay_options(options: Any) -> str:
    """The options of a replay on the same target, as on a command line."""
    words = []
    if options.target != "host":
        words += ["--target", options.target]
    if options.shader is not None:
        words += ["--shader", str(options.shader)]
    if options.accuracy != DEFAULT_ACCURACY:
        words += ["--accuracy", options.accuracy]
    return " ".join(words)
