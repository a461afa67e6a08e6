"""Records of long runs are read and shown in the time and memory that a small machine has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import large_record
import pytest

from reports.kept import MOST_KEPT
from reports.model import FAIL
from reports.record import read
from reports.verdict import conclude

CASES = 100_000
MEGABYTE = 2**20
# Prints the largest size that a command came to, in bytes, and the seconds that it worked.
_MEASURED = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss * (1 if sys.platform == "darwin" else 1024), used.ru_utime + used.ru_stime)
"""


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return large_record.write(tmp_path_factory.mktemp("large") / "r.jsonl", CASES)


def test_many_cases_are_reported_in_little_time_and_memory(record: Path) -> None:
    """10 s and 500 MB, 5 MB of page; of the processor's time, as the machine may have more to do."""
    page = record.with_name("index.html")
    command = [sys.executable, "-c", _MEASURED, sys.executable, "-m", "reports", "build", str(record), "-o", str(page)]
    *_, used = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    size, seconds = map(float, used.split())
    assert size < 500 * MEGABYTE
    assert seconds < 10
    assert page.stat().st_size < 5 * MEGABYTE


def test_many_cases_are_all_counted(record: Path) -> None:
    [run] = read([record])
    assert conclude(run).notices == ()
    assert (len(run.index.lines), run.judgements, sum(run.index.drawn)) == (CASES, CASES, CASES // 4)
    assert {entry.id: entry.cases for entry in run.requirements}["CALL"] == CASES


def test_many_failing_cases_do_not_fill_the_memory(tmp_path: Path) -> None:
    [run] = read([large_record.write(tmp_path / "r.jsonl", 5_000, failing=1.0)])
    verdict = conclude(run)
    assert verdict.notices == ()
    assert verdict.failing == tuple(entry.id for entry in run.requirements if entry.verdict == FAIL)
    assert run.requirements[[entry.id for entry in run.requirements].index("ROT-Q")].failed == 5_000
    assert len(run.found) <= MOST_KEPT * len(verdict.failing)
