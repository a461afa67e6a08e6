"""Nights are kept whole, once, by any number of processes; a file that is none of ours is left alone."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sample_night import LINES, benchmark, night

from reports.compare import REGRESSION, Change, Changes
from reports.digest import Digest
from reports.history import SCHEMA, History, HistoryError

WORSE = Changes(None, (Change("class lost", "fast is no longer kept", REGRESSION),))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new" / "history.sqlite"


@pytest.fixture
def first(tmp_path: Path) -> Digest:
    return night(tmp_path, benchmarks=(benchmark(), benchmark("oracle", share=None)))


def _store(path: Path, *digests: Digest, status: int = 0, changes: Changes = Changes(None)) -> None:  # noqa: B008
    with History(path) as history:
        for digest in digests:
            history.store(digest, status, changes)


def test_a_night_comes_back_as_it_was_stored(path: Path, first: Digest) -> None:
    endless = replace(
        first, run_id="endless", classes={"fast": replace(first.classes["exact-angle"], worst=float("inf"))}
    )
    _store(path, first, endless)
    with History(path) as history:
        assert history.held(first.identity) == (first, endless)


def test_nights_are_held_by_identity_and_oldest_first(path: Path, first: Digest) -> None:
    other = replace(first, run_id="other", identity=(*first.identity, ("zone", "other")))
    second = replace(first, run_id="second")
    _store(path, first, other, second)
    with History(path) as history:
        assert [each.run_id for each in history.held(first.identity)] == ["first", "second"]
        assert [each.run_id for each in history.held(other.identity)] == ["other"]
        assert [each.run_id for each in history.held(first.identity, before="second")] == ["first"]


def test_storing_a_night_twice_changes_nothing(path: Path, first: Digest) -> None:
    _store(path, first)
    _store(path, replace(first, commit="changed"), status=2, changes=WORSE)
    with History(path) as history:
        assert history.held(first.identity) == (first,)
        night = history.last()
        assert night is not None
        assert night.status == 0


def test_a_night_that_had_not_finished_is_replaced_by_the_finished_one(path: Path, first: Digest) -> None:
    _store(path, replace(first, finished=False, state="incomplete"), status=4)
    with History(path) as history:
        assert history.held(first.identity) == ()
        assert len(history.trend(first.identity).nights) == 1
    _store(path, first)
    with History(path) as history:
        assert history.held(first.identity) == (first,)
        assert len(history.trend(first.identity).nights) == 1


@pytest.mark.parametrize(
    ("change", "changes"), [({"failing": ("ROT-Q",)}, Changes(None)), ({"finished": False}, Changes(None)), ({}, WORSE)]
)
def test_what_did_not_hold_is_shown_and_is_no_baseline(
    path: Path, first: Digest, change: dict[str, object], changes: Changes
) -> None:
    second = replace(first, run_id="second", **change)  # type: ignore[arg-type]
    _store(path, first)
    _store(path, second, status=1, changes=changes)
    with History(path) as history:
        assert history.held(first.identity) == (first,)
        assert [each.run_id for each in history.trend(first.identity).nights] == ["first", "second"]


def test_an_accepted_night_is_a_baseline(path: Path, first: Digest) -> None:
    second = replace(first, run_id="second")
    _store(path, first)
    _store(path, second, status=2, changes=WORSE)
    with History(path) as history:
        history.accept("second")
        assert history.held(first.identity) == (first, second)
        last = history.last()
        assert last is not None
        assert (last.accepted, last.regressions) == (True, ("fast is no longer kept",))


def test_nights_share_their_manifest_and_keep_their_source(path: Path, first: Digest) -> None:
    fewer = replace(first, run_id="fewer", planned=frozenset(LINES[:1]))
    with History(path) as history:
        for number in range(3):
            history.store(replace(first, run_id=str(number)), 0, Changes(None), b"kernel void f() {}\xff")
        history.store(fewer, 0, Changes(None))
        assert history.source("1") == b"kernel void f() {}\xff"
        assert history.source("fewer") is None
    with sqlite3.connect(path) as database:
        counts = [database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("manifests", "sources")]
    database.close()
    assert counts == [2, 1]


def _foreign(path: Path) -> None:
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE theirs (value)")
    database.commit()
    database.close()


def _newer(path: Path) -> None:
    History(path).__exit__(None, None, None)
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    database.close()


def _damaged(path: Path) -> None:
    with History(path) as history:
        for number in range(200):
            history.store(night(path.parent, f"night-{number}"), 0, Changes(None))
    content = bytearray(path.read_bytes())
    for place in range(4096, len(content), 512):
        content[place : place + 256] = b"\x5a" * 256
    path.write_bytes(content)


def _cut(path: Path) -> None:
    _damaged(path)
    path.write_bytes(path.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (_foreign, "another program"),
        (_newer, f"version {SCHEMA + 1}; this program knows versions up to {SCHEMA}"),
        (lambda path: path.write_text("my notes"), "not an SQLite file"),
        (lambda path: path.write_bytes(b""), "not an SQLite file"),
        (_damaged, "cannot read the history"),
        (_cut, "cannot read the history"),
    ],
)
def test_a_file_that_is_no_history_is_named_and_left_alone(tmp_path: Path, make: object, says: str) -> None:
    path = tmp_path / "history.sqlite"
    make(path)  # type: ignore[operator]
    content = path.read_bytes()
    files = set(tmp_path.iterdir())
    with pytest.raises(HistoryError, match=says) as error:
        _read_and_store(path, tmp_path)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == content
    assert set(tmp_path.iterdir()) <= files | {tmp_path / "last.jsonl"}


def _read_and_store(path: Path, folder: Path) -> None:
    with History(path) as history:
        history.store(night(folder, "last"), 0, Changes(None))


def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="cannot use the history"):
        History(tmp_path)


def test_a_history_that_another_process_made_meanwhile_stays(
    path: Path, first: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    _store(path, first)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "exists", lambda _: False)
        opened = History(path)
    with opened as history:
        assert history.held(first.identity) == (first,)


_STORE_FIFTY = """
import sys
from dataclasses import replace
from pathlib import Path
sys.path[:0] = sys.argv[4:]
from reports.compare import Changes
from reports.history import History
from sample_night import night
name, path, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
first = night(folder, name)
for number in range(50):
    with History(path) as history:
        assert history.held(first.identity) is not None
        history.store(replace(first, run_id=f"{name}-{number}"), 0, Changes(None), name.encode())
"""


def test_two_processes_store_fifty_nights_each(tmp_path: Path) -> None:
    path, here = tmp_path / "history.sqlite", Path(__file__).parent
    words = [str(path), str(tmp_path), str(here), str(here.parents[1])]
    both = [subprocess.Popen([sys.executable, "-c", _STORE_FIFTY, name, *words]) for name in ("one", "two")]
    assert [process.wait(60) for process in both] == [0, 0]
    with History(path) as history:
        nights = history.trend(night(tmp_path).identity, most=1000).nights
    assert {each.run_id for each in nights} == {f"{name}-{number}" for name in ("one", "two") for number in range(50)}
