"""The steps of a night: processes of their own, and files that appear whole."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_POLL_SECONDS = 0.1
_GRACE_SECONDS = 20.0
# pytest, argparse and we ourselves begin so, pytest its usage too.
_ERROR = re.compile(r"(?:^|: )error: (?!usage:)(.+)", re.IGNORECASE)


class NightlyError(Exception):
    """The night, or a step of it, cannot be made; the text is one line that says why."""


class KilledError(NightlyError):
    """A step was killed: nothing is wrong with it, and the night can go on from there."""


def python(log: Path, *words: str, cwd: Path | None = None) -> int:
    """Run `python -m ...`, its output shown and kept in `log`; its exit status. Raises KilledError.

    It writes into the file and not to us: should we be killed, it does not die of a closed pipe. It appends, so that
    two that write for a moment leave no hole.
    """
    log.write_bytes(b"")
    with log.open("ab") as written, log.open("rb") as shown:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=cwd,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
        )
        try:
            while process.poll() is None:
                _show(shown.read())
                time.sleep(_POLL_SECONDS)
        except KeyboardInterrupt as interrupt:
            # Ctrl-C reached it too; SIGTERM, which `terminable` turns into this with its number, did not.
            if interrupt.args:
                process.send_signal(signal.SIGINT)
            _wait(process)
            raise
        finally:
            _show(shown.read())
    if process.returncode < 0:
        killed = f"{words[0]} was killed by {signal.Signals(-process.returncode).name}"
        raise KilledError(f"{killed}; the same command continues this night")
    return process.returncode


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends a night in order, as Ctrl-C does."""

    def interrupt(number: int, frame: Any) -> None:  # noqa: ARG001
        raise KeyboardInterrupt(number)

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def complaint(log: Path) -> str:
    """The line in which a step says why it failed."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    said = [match[1] for line in lines if (match := _ERROR.search(line))]
    return (said or lines or ["no reason given"])[-1]


def read(path: Path) -> dict[str, Any]:
    """A file of ours; empty where there is none."""
    with contextlib.suppress(OSError, ValueError):
        return dict(json.loads(path.read_text(encoding="utf-8")))
    return {}


def write(path: Path, content: dict[str, Any] | str) -> None:
    """Write a file at once, so that no half of it is ever seen."""
    making = path.with_name(f".{path.name}")
    making.write_text(content if isinstance(content, str) else json.dumps(content, indent=1) + "\n", encoding="utf-8")
    making.replace(path)


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Let a step end in order, and kill it when it does not."""
    try:
        process.wait(_GRACE_SECONDS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def _show(output: bytes) -> None:
    if output:
        sys.stdout.buffer.write(output)
        sys.stdout.buffer.flush()
