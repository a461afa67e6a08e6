"""The host C++ compiler: finding it and running it."""

import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernel.msl.errors import CompilerMissing

_INSTALL = "install g++ (Debian: apt-get install g++) or name it in CXX"
_INSTALL_ANY = "install the command line tools (xcode-select --install) or name a C++ compiler in CXX"


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: its command line so far, and its name and version for the record (``g++ 12.2.0``)."""

    command: tuple[str, ...]
    version: str

    def run(self, arguments: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        """Run it, in the C locale so that its messages can be read by a program."""
        return subprocess.run(
            [*self.command, *map(str, arguments)],
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )


def find_compiler() -> Compiler:
    """Return ``$CXX`` if it is set, else g++ or c++ of PATH. Raises CompilerMissing."""
    compiler = _identify(_command(["g++", "c++"], _INSTALL), _INSTALL)
    if compiler.version.startswith("clang"):
        shown = shlex.join(compiler.command)
        raise CompilerMissing(f"{shown} is clang, which refuses [[host_name]] on an instantiation: {_INSTALL}")
    return compiler


def find_preprocessor() -> Compiler:
    """Return ``$CXX`` if it is set, else g++, c++ or clang++ of PATH, for ``-E`` alone. Raises CompilerMissing."""
    return _identify(_command(["g++", "c++", "clang++"], _INSTALL_ANY), _INSTALL_ANY)


def _command(usual: Sequence[str], cure: str) -> tuple[str, ...]:
    chosen = os.environ.get("CXX", "").strip()
    for candidate in [chosen] if chosen else usual:
        words = shlex.split(candidate)
        program = shutil.which(words[0])
        if program:
            return (program, *words[1:])
    if chosen:
        raise CompilerMissing(f"CXX names {chosen!r}, which is not on PATH: {cure}")
    raise CompilerMissing(f"no {usual[0]} on PATH: {cure}")


@lru_cache
def _identify(command: tuple[str, ...], cure: str) -> Compiler:
    shown = shlex.join(command)
    try:
        answer = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise CompilerMissing(f"{shown} is not a C++ compiler that runs: {cure}") from error
    first, name = answer.partition("\n")[0], "clang" if "clang" in answer else "g++"
    versions = re.findall(r"\d+(?:\.\d+)+", first)
    # Of several numbers g++ tells its own last, clang its own first.
    if not versions:
        raise CompilerMissing(f"{shown} is not a C++ compiler that says its version: {cure}")
    return Compiler(command, f"{name} {versions[0 if name == 'clang' else -1]}")


@lru_cache
def has_fma_flag() -> bool:
    """Whether the CPU needs, and can take, ``-mfma`` to fuse a multiplication with an addition."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return False
    return platform.machine() in ("x86_64", "AMD64") and re.search(r"^flags\b.*\bfma\b", flags, re.M) is not None
