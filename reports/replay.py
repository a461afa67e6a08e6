"""The command that makes the calls of a case again."""

from __future__ import annotations

import shlex
from typing import Any

# What `python -m conformance replay` assumes when an option is left out. The target that it assumes depends on the
# machine and the accuracy class on the target, so these are always told.
_DEFAULT_MATH = "libm"


def replay_command(case: str, run: dict[str, Any], accuracy: str = "", *, pair: bool = False) -> str:
    """The command that makes the calls of `case` again on the target of `run`, ready for a POSIX shell.

    Args:
        accuracy: the class to hold it to; by default the run's.
        pair: whether on the run's second target too.
    """
    second = run["pair"] if pair else {}
    words = ["python", "-m", "conformance", "replay", case]
    for option, value, default in (
        ("--target", run.get("target", ""), ""),
        ("--shader", run.get("shader path", ""), ""),
        ("--math", run.get("math", _DEFAULT_MATH), _DEFAULT_MATH),
        ("--accuracy", accuracy or run.get("accuracy", ""), ""),
        ("--deviations", run.get("deviations path", ""), ""),
        ("--pair", second.get("target", ""), ""),
        ("--pair-shader", second.get("shader path", ""), ""),
    ):
        if str(value) != default:
            words += [option, str(value)]
    return shlex.join(words)
