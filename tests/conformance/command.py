"""The suite as a user runs it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLANTED = "tests/planted/callables.py"
RIGHT = "tests/right/kernels.py"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`python -m ...` in the repository."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def suite(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`pytest ...` of the smoke profile."""
    return run("pytest", "--profile", "smoke", "-p", "no:cacheprovider", *arguments, **environment)


def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("conformance", "replay", *arguments)
