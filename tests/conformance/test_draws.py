"""Generated cases: the seed that draws them, and the failures that are tried first ever after."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import suite

from conformance.draws import KeptFailures

PROPERTY = "conformance/test_properties.py::test_generated_calls"
# Wrong for one draw in about fifty, unless mended.
RARELY_WRONG = """
import os
import reference
import torch

def kernel(*arrays, **arguments):
    outputs = reference.rope_pool_fused(*arrays, **arguments)
    if len(arrays[0]) % 16 == 5 and arrays[0].dtype == torch.float16 and not os.environ.get("MENDED"):
        outputs[0].zero_()
    return outputs
"""
# Two seeds: one finds the fault after other cases, the other does not find it.
FINDS, MISSES = "4", "1"


@dataclass(frozen=True)
class Run:
    status: int
    seed: str
    lines: list[str]
    """The cases in their order."""
    failed: list[str]
    output: str


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Nights of one kernel with one database; each dictionary key says what the kernel is in that night."""
    folder = tmp_path_factory.mktemp("nights")
    (folder / "rarely_wrong.py").write_text(RARELY_WRONG)
    found = _night(folder, FINDS)
    again = _night(folder, MISSES)
    mended = _night(folder, None, MENDED="1")
    repeated = _night(folder, mended.seed, MENDED="1")
    relapsed = _night(folder, MISSES)
    return {"found": found, "again": again, "mended": mended, "repeated": repeated, "relapsed": relapsed}


def _night(folder: Path, seed: str | None, **environment: str) -> Run:
    record = folder / "record.jsonl"
    run = suite(
        *("-p", "few_examples", "--profile", "nightly", "--target", f"{folder / 'rarely_wrong.py'}:kernel"),
        *("--record", str(record), "--examples-database", str(folder / "examples"), PROPERTY),
        *(("--hypothesis-seed", seed) if seed else ()),
        PYTHONPATH=str(Path(__file__).parent / "plugins"),
        **environment,
    )
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    cases = [line for line in lines if line["kind"] == "case"]
    failed = [case["line"] for case in cases if case["verdict"] == "fail"]
    return Run(run.returncode, lines[0]["seed"], [case["line"] for case in cases], failed, run.stdout + run.stderr)


def test_a_failure_found_once_is_tried_first_ever_after(nights: dict[str, Run]) -> None:
    assert nights["found"].status == 1, nights["found"].output
    failure = nights["found"].failed[0]
    assert nights["found"].lines[0] != failure
    # Hypothesis makes a failing case once more.
    assert set(nights["again"].lines) == {failure}
    assert nights["mended"].status == 0, nights["mended"].output
    assert nights["mended"].lines[0] == failure
    assert len(nights["mended"].lines) == 40
    assert set(nights["relapsed"].lines) == {failure}


def test_a_printed_seed_draws_the_same_cases(nights: dict[str, Run]) -> None:
    mended, repeated = nights["mended"], nights["repeated"]
    assert f"seed: {mended.seed}" in mended.output
    assert repeated.lines == mended.lines
    assert nights["found"].lines[:20] != mended.lines[1:21]


def test_only_failures_are_kept(tmp_path: Path) -> None:
    database = KeptFailures(tmp_path)
    for key in (b"test", b"test.pareto"):
        database.save(key, b"drawn")
        database.delete(key, b"drawn")
    database.move(b"test", b"test.secondary", b"drawn")
    assert list(database.fetch(b"test")) == [b"drawn"]
    assert not [*database.fetch(b"test.pareto"), *database.fetch(b"test.secondary")]
