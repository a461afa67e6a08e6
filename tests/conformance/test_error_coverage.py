"""Every path to a documented ValueError, and every two causes, has a case: read from a recorded run."""

from __future__ import annotations

import itertools
import json

import pytest
from command import RIGHT, run

BASE = {"q": (4, 4, 8), "k": (4, 2, 8), "v": (4, 2, 8), "positions": (4,), "slots": (4,)}
BASE |= {"k_pool": (6, 2, 8), "v_pool": (6, 2, 8)}
ARGUMENTS = ("head_dim", "num_qo_heads", "num_kv_heads")
FLOATS = ("q", "k", "v", "k_pool", "v_pool")
# Any q sets num_tokens and any k_pool sets pool_size: these two axes alone break nothing.
FREE = {("q", 0), ("k_pool", 0)}

Cause = tuple[str, object]
AXES: list[Cause] = [(t, axis) for t, shape in BASE.items() for axis in range(len(shape)) if (t, axis) not in FREE]
CAUSES: list[Cause] = [
    *((tensor, "rank") for tensor in BASE),
    *AXES,
    *((tensor, "dtype") for tensor in FLOATS),
    *(("argument", name) for name in ARGUMENTS),
]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """The case lines of the error tests, default profile."""
    path = tmp_path_factory.mktemp("record") / "errors.jsonl"
    target = f"{RIGHT}:float32_angle"
    done = run("pytest", "conformance/test_errors.py", "--target", target, "--record", str(path), "-q")
    assert done.returncode == 0, done.stdout
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["kind"] == "case" and line["expected_error"]]


def _shape(text: str) -> tuple[int, ...]:
    return () if text == "scalar" else tuple(map(int, text.split("x")))


def _causes(fault: str) -> frozenset[Cause]:
    """What a recorded fault breaks."""
    found: set[Cause] = set()
    for word in fault.split("+"):
        if ":" in word:
            tensor, _, text = word.partition(":")
            shape, own = _shape(text), BASE[tensor]
            if len(shape) != len(own):
                found.add((tensor, "rank"))
            else:
                found |= {(tensor, axis) for axis, (a, b) in enumerate(zip(shape, own, strict=True)) if a != b}
        elif "@" in word:
            found.add((word.partition("@")[0], "dtype"))
        else:
            found.add(("argument", word.partition("=")[0]))
    return frozenset(found)


def _faults(recorded: list[dict[str, object]]) -> dict[str, int]:
    """Recorded faults of the plain batch, and the number that each must raise."""
    lines = [(line["cases"][0], line["expected_error"]) for line in recorded]  # type: ignore[index]
    return {case["fault"]: number for case, number in lines if case["fault"] and case["num_tokens"] == 4}


def test_all_passed_and_each_number_was_raised(recorded: list[dict[str, object]]) -> None:
    assert {line["verdict"] for line in recorded} == {"pass"}
    assert {line["expected_error"] for line in recorded} == set(range(1, 12))


def test_each_array_in_each_rank(recorded: list[dict[str, object]]) -> None:
    single = [fault.partition(":") for fault in _faults(recorded) if ":" in fault and "+" not in fault]
    seen = {(tensor, len(_shape(text))) for tensor, _, text in single}
    wanted = {(tensor, rank) for tensor, shape in BASE.items() for rank in range(6) if rank != len(shape)}
    assert wanted <= seen


def test_each_axis_longer_and_shorter(recorded: list[dict[str, object]]) -> None:
    seen = set()
    for fault in _faults(recorded):
        [cause, *others] = _causes(fault)
        if not others and cause in AXES:
            tensor, axis = cause
            assert isinstance(axis, int)
            shape = _shape(fault.partition(":")[2])
            seen.add((tensor, axis, shape[axis] > BASE[tensor][axis]))
    assert seen >= {(tensor, axis, longer) for tensor, axis in AXES for longer in (False, True)}


def _can_meet(one: Cause, other: Cause) -> bool:
    """A rank and an axis of one array cannot be wrong at once: another rank has other axes."""
    kinds = {one[1], other[1]}
    return one[0] != other[0] or "rank" not in kinds or "dtype" in kinds


def test_every_pair_of_causes(recorded: list[dict[str, object]]) -> None:
    seen = {_causes(fault) for fault in _faults(recorded)}
    wanted = {frozenset(pair) for pair in itertools.combinations(CAUSES, 2) if _can_meet(*pair)}
    assert len(wanted) > 350
    assert wanted <= seen


def test_every_pair_of_numbers(recorded: list[dict[str, object]]) -> None:
    faults = _faults(recorded)
    alone = {_causes(fault): number for fault, number in faults.items() if len(_causes(fault)) == 1}
    pairs = set()
    for fault, number in faults.items():
        causes = _causes(fault)
        if len(causes) == 2 and all(frozenset([cause]) in alone for cause in causes):
            numbers = {alone[frozenset([cause])] for cause in causes}
            assert number == min(numbers), fault
            pairs.add(frozenset(numbers))
    assert pairs >= {frozenset(pair) for pair in itertools.combinations(range(1, 12), 2)}
