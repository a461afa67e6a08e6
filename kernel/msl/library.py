"""Compiled libraries on disk: a cache of files that carry their own digest."""

import hashlib
import os
import tempfile
from pathlib import Path

from kernel.msl.errors import ShaderError

_DIGEST_SIZE = hashlib.sha256().digest_size


def cache_directory() -> Path:
    """Return ``$XDG_CACHE_HOME/rope-pool-conformance`` (``~/.cache`` by default), creating it."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(base) / "rope-pool-conformance"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ShaderError(f"cannot create {directory} ({error.strerror}): set XDG_CACHE_HOME") from error
    return directory


def read_library(path: Path) -> bytes | None:
    """Return a stored library's bytes, or None if it is absent or not what was stored."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    body, digest = content[:-_DIGEST_SIZE], content[-_DIGEST_SIZE:]
    return body if hashlib.sha256(body).digest() == digest else None


def store_library(path: Path, body: bytes) -> None:
    """Store a library, atomically: a reader sees the old file or the whole new one."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        file.write(body + hashlib.sha256(body).digest())
    os.replace(file.name, path)
