"""The suite as a user runs it: a process of its own."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

from warm import Warm

ROOT = Path(__file__).resolve().parents[2]
PLANTED = "tests/planted/callables.py"
RIGHT = "tests/right/kernels.py"


_warm = functools.cache(Warm)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m ...` in the repository; not as a part of these tests, under whose pytest-xdist nothing is timed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return _warm(ROOT).run(*arguments, environment=own | environment, timeout=300)


def suite(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`pytest ...` of the smoke profile."""
    return run("pytest", "--profile", "smoke", "-p", "no:cacheprovider", *arguments, **environment)


def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("conformance", "replay", *arguments)
