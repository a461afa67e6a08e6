"""`python -m ...` without waiting for torch: a process that has imported it forks for each command.

As a script it is that process: a request a line on its input, an exit status a line on its output. It has imported
nothing of this project, so that a command finds what a fresh interpreter finds.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

_POLL_SECONDS = 0.005


class Warm:
    """Commands in one folder, one after another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(
        self, module: str, *arguments: str, environment: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run([python, "-m", module, *arguments], ...)`. Raises TimeoutExpired."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [module, *arguments]
        with tempfile.TemporaryDirectory() as folder:
            streams = [str(Path(folder, name)) for name in ("out", "err")]
            request = {
                "words": words,
                "folder": str(self._folder),
                "environment": dict(environment),
                "streams": streams,
                "timeout": timeout,
            }
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            status = json.loads(self._process.stdout.readline())
            out, err = (Path(stream).read_text(encoding="utf-8") for stream in streams)
        if status is None:
            raise subprocess.TimeoutExpired(words, timeout, out, err)
        return subprocess.CompletedProcess(words, status, out, err)


def _serve() -> None:
    import numpy  # noqa: F401
    import torch  # noqa: F401

    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
        print(json.dumps(_status(child, request["timeout"])), flush=True)


def _become(request: dict[str, Any]) -> NoReturn:
    """What `python -m` does in a process of its own."""
    for number, path in enumerate((os.devnull, *request["streams"])):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    sys.path[1:1] = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    module, *arguments = request["words"]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit()


def _status(child: int, timeout: float) -> int | None:
    """The exit status of a child, negative for a signal; None for one that had to be killed."""
    ends = time.monotonic() + timeout
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_POLL_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    _serve()
