"""Where a run was made: versions, machine, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy
import torch

_HERE = Path(__file__).parent
_DISTRIBUTION = "rope-pool-conformance"
_SECONDS = 10


def versions() -> dict[str, str]:
    """Of the suite, empty where it is not installed, and of what it runs on."""
    return {
        "suite": _suite_version(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "platform": _platform(),
    }


def _platform() -> str:
    """The system and what its sine and cosine come from; no release of a kernel, which changes for nothing."""
    if platform.system() == "Linux":
        return f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}"
    return platform.platform()


def _suite_version() -> str:
    try:
        return version(_DISTRIBUTION)
    except PackageNotFoundError:
        return ""


def machine() -> str:
    """Model of the CPU and number of its cores."""
    return f"{_cpu_model()}, {os.cpu_count()} cores"


def _cpu_model() -> str:
    if platform.system() == "Darwin":
        told = _output("sysctl", "-n", "machdep.cpu.brand_string")
    else:
        told = _model_in(Path("/proc/cpuinfo"))
    return told or platform.processor() or platform.machine()


def _model_in(cpuinfo: Path) -> str:
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return ""
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "")


def commit() -> str:
    """The suite's commit, a `+` behind it where tracked files have changed; empty outside a repository of its own."""
    git = ("git", "-C", str(_HERE))
    # A suite that is installed somewhere below a stranger's repository is no part of it.
    if not _output(*git, "ls-files", "__init__.py"):
        return ""
    return _output(*git, "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty=+")


def _output(*command: str) -> str:
    """What a command prints; empty if it cannot be run, or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout.strip()
