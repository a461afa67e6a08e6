"""Files written at once, so that no half of one is ever seen."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def replace(path: Path, content: str | bytes) -> None:
    """Write a file, in UTF-8, or leave what was there; folders are made. Raises OSError, which names the file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, content if isinstance(content, bytes) else content.encode(errors="replace"))
    except OSError as error:
        # The name of a temporary file tells nobody what could not be written.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _replace(path: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            # Such a file is its owner's alone; a report is to be read by others.
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
