"""The history: every night in one SQLite file, to compare later ones with.

Three tables: `nights`, a digest each; `manifests`, the planned cases that many nights share; `sources`, the text of
shaders, so that a later night can run an earlier one's again. Any number of processes may read and write at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import struct
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from reports.compare import Changes
from reports.digest import Digest

SCHEMA = 1
# "rope" in ASCII, by which SQLite's header tells our files from others.
_APPLICATION = 0x726F7065
_BUSY_SECONDS = 60.0
# How many past nights tell how much a figure scatters.
SCATTER = 30
TREND = 90

_MAGIC = b"SQLite format 3\0"
# https://www.sqlite.org/fileformat.html, "The Database Header": big-endian, user version at 60, application id at 68.
_HEADER_BYTES = 100
_USER_VERSION, _APPLICATION_ID = 60, 68

_TABLES = """
CREATE TABLE manifests (hash TEXT PRIMARY KEY, lines BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE sources (hash TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE nights (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    identity TEXT NOT NULL,
    status INTEGER NOT NULL,
    held INTEGER NOT NULL,
    accepted INTEGER NOT NULL DEFAULT 0,
    regressions TEXT NOT NULL,
    digest BLOB NOT NULL,
    manifest TEXT NOT NULL REFERENCES manifests(hash),
    source TEXT REFERENCES sources(hash)
);
CREATE INDEX nights_by_identity ON nights(identity, id);
"""


class HistoryError(Exception):
    """The history cannot be used; the text is one line that says why. The file is left as it was."""


@dataclass(frozen=True)
class Night:
    """A stored night."""

    digest: Digest
    status: int
    """The exit status that it got."""
    accepted: bool
    regressions: tuple[str, ...]
    """What was told against it."""


@dataclass(frozen=True)
class Trend:
    """The nights of one identity, oldest first."""

    identity: tuple[tuple[str, str], ...]
    nights: tuple[Digest, ...]


class History:
    """An open history; use it in a `with` statement.

    A night that held, or was accepted, is a baseline for later ones of its identity. Every other one is kept and
    shown, and is none.
    """

    def __init__(self, path: Path) -> None:
        """Open the history at `path`, made where there is none. Raises HistoryError."""
        self._path = path
        try:
            if not path.exists():
                _create(path)
            _check_header(path)
            self._database = _connected(path)
        except OSError as error:
            raise HistoryError(f"cannot use the history {path}: {error.strerror}") from error
        except sqlite3.Error as error:
            raise HistoryError(f"cannot read the history {path}: {error}") from error

    def __enter__(self) -> History:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def held(self, identity: Sequence[tuple[str, str]], before: str = "", most: int = SCATTER) -> tuple[Digest, ...]:
        """The last nights of an identity that held or were accepted, oldest first.

        Args:
            before: a run id; only nights stored before it count, so that a night is never its own baseline.
        """
        rows = self._rows(
            "identity = ? AND (held OR accepted) AND id < coalesce((SELECT id FROM nights WHERE run_id = ?), 9e18)",
            (_identity_text(identity), before),
            most,
        )
        return tuple(night.digest for night in self._nights(rows))

    def trend(self, identity: Sequence[tuple[str, str]], most: int = TREND) -> Trend:
        """The last nights of an identity, whatever became of them."""
        rows = self._rows("identity = ?", (_identity_text(identity),), most)
        return Trend(tuple(identity), tuple(night.digest.without_cases() for night in self._nights(rows)))

    def last(self) -> Night | None:
        """The night stored last."""
        return next(iter(self._nights(self._rows("1", (), 1))), None)

    def source(self, run_id: str) -> bytes | None:
        """The text of the source that a night ran; None if it was not kept."""
        row = self._one("SELECT content FROM sources JOIN nights ON source = hash WHERE run_id = ?", (run_id,))
        return None if row is None else zlib.decompress(row[0])

    def store(self, digest: Digest, status: int, changes: Changes, source: bytes | None = None) -> None:
        """Keep a night. One that is kept already stays as it is, unless it had not finished then.

        Args:
            status: the exit status that it gets.
            source: the text of the source under test, where there is one.
        """
        fields = {
            "run_id": digest.run_id,
            "identity": _identity_text(digest.identity),
            "status": status,
            "held": digest.held and not changes.regressions,
            "regressions": json.dumps([change.text for change in changes.regressions]),
            "digest": zlib.compress(json.dumps(digest.to_json()).encode()),
        }
        with self._writing() as database:
            row = database.execute("SELECT id, digest FROM nights WHERE run_id = ?", (digest.run_id,)).fetchone()
            if row is not None and json.loads(zlib.decompress(row[1]))["finished"]:
                return
            fields["manifest"] = _keep(database, "manifests", "lines", "\n".join(sorted(digest.planned)).encode())
            fields["source"] = None if source is None else _keep(database, "sources", "content", source)
            fields["id"] = None if row is None else row[0]
            names = ", ".join(fields)
            values = ", ".join(f":{name}" for name in fields)
            database.execute(f"INSERT OR REPLACE INTO nights ({names}) VALUES ({values})", fields)

    def accept(self, run_id: str) -> None:
        """Make a stored night a baseline, whatever was told against it."""
        with self._writing() as database:
            database.execute("UPDATE nights SET accepted = 1 WHERE run_id = ?", (run_id,))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction that has the right to write from its beginning, so that it never waits in its middle."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise HistoryError(f"cannot write the history {self._path}: {error}") from error

    def _rows(self, condition: str, values: tuple[Any, ...], most: int) -> list[tuple[Any, ...]]:
        """The last `most` nights that meet a condition, oldest first."""
        query = (
            "SELECT digest, status, accepted, regressions, manifest FROM nights "
            f"WHERE {condition} ORDER BY id DESC LIMIT {most}"
        )
        try:
            return self._database.execute(query, values).fetchall()[::-1]
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from error

    def _nights(self, rows: list[tuple[Any, ...]]) -> Iterator[Night]:
        manifests: dict[str, frozenset[str]] = {}
        for digest, status, accepted, regressions, manifest in rows:
            if manifest not in manifests:
                manifests[manifest] = self._manifest(manifest)
            try:
                fields = json.loads(zlib.decompress(digest))
                night = Digest.from_json(fields, manifests[manifest])
            except (zlib.error, ValueError, KeyError, TypeError) as error:
                raise HistoryError(
                    f"the history {self._path} is damaged: a night cannot be read ({error!r})"
                ) from error
            yield Night(night, status, bool(accepted), tuple(json.loads(regressions)))

    def _damaged(self, why: str) -> HistoryError:
        return HistoryError(f"cannot read the history {self._path}: {why}")

    def _manifest(self, hash: str) -> frozenset[str]:
        row = self._one("SELECT lines FROM manifests WHERE hash = ?", (hash,))
        text = "" if row is None else zlib.decompress(row[0]).decode()
        return frozenset(text.split("\n")) if text else frozenset()

    def _one(self, query: str, values: tuple[Any, ...]) -> Any:
        try:
            return self._database.execute(query, values).fetchone()
        except sqlite3.Error as error:
            raise self._damaged(str(error)) from error


def _create(path: Path) -> None:
    """A whole new history appears at once: two processes may both make one, and the first stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".history-") as folder:
        made = Path(folder) / "history.sqlite"
        database = sqlite3.connect(made)
        database.executescript(_TABLES)
        database.execute(f"PRAGMA application_id = {_APPLICATION}")
        database.execute(f"PRAGMA user_version = {SCHEMA}")
        database.execute("PRAGMA journal_mode = WAL")
        database.close()
        with contextlib.suppress(FileExistsError):
            os.link(made, path)


def _check_header(path: Path) -> None:
    """Whether the file is a history of ours, before SQLite may touch it. Raises HistoryError."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES or not header.startswith(_MAGIC):
        raise HistoryError(f"{path} is no history: it is not an SQLite file")
    if struct.unpack_from(">I", header, _APPLICATION_ID)[0] != _APPLICATION:
        raise HistoryError(f"{path} is no history: it is an SQLite file of another program")
    version = struct.unpack_from(">I", header, _USER_VERSION)[0]
    if version > SCHEMA:
        raise HistoryError(f"{path} is a history of version {version}; this program knows versions up to {SCHEMA}")


def _connected(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        database.execute("PRAGMA foreign_keys = ON")
        [found] = database.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(" ".join(str(found).split()))
    except sqlite3.Error:
        database.close()
        raise
    return database


def _keep(database: sqlite3.Connection, table: str, column: str, content: bytes) -> str:
    """Keep a content once, under its hash."""
    hash = hashlib.sha256(content).hexdigest()
    database.execute(f"INSERT OR IGNORE INTO {table} (hash, {column}) VALUES (?, ?)", (hash, zlib.compress(content)))
    return hash


def _identity_text(identity: Sequence[tuple[str, str]]) -> str:
    return json.dumps(dict(identity), sort_keys=True)
