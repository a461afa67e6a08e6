"""What a run records: every kind of line, typed, complete enough to make the run's books again."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import RIGHT, suite
from kernels import RIGHT as RIGHT_KERNELS
from torch import Tensor

from conformance import envelope, origin
from conformance.case import Case
from conformance.contract import requirements
from conformance.finding import Finding, Judgement
from conformance.record import Recorder
from conformance.suite import NonConformanceError, Settings, Suite
from kernel.targets import CallableTarget
from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE, GRANTED

SLOTS = "conformance/test_slots.py"
TARGET = ("--target", f"{RIGHT}:float32_angle")
Line = dict[str, Any]


def read(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def of_kind(kind: str, path: Path) -> list[Line]:
    return [line for line in read(path) if line["kind"] == kind]


def recorder(path: Path) -> Recorder:
    made = Recorder(path)
    made.start({"target": "kernel"})
    return made


def recording_suite(path: Path, kernel: Callable[..., Any], *, auto: bool = False) -> Suite:
    settings = Settings(FAST, (EXACT_ANGLE, FLOAT32_ANGLE)) if auto else Settings(FLOAT32_ANGLE)
    return Suite(CallableTarget("kernel", kernel), settings, recorder(path))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    """The record of a run of the generated and the slot tests."""
    path = tmp_path_factory.mktemp("whole") / "run.jsonl"
    run = suite(SLOTS, "conformance/test_properties.py", "conformance/test_process.py", *TARGET, "--record", str(path))
    assert run.returncode == 0, run.stdout
    return read(path)


def test_the_lines_of_a_run_come_in_their_order(whole: list[Line]) -> None:
    kinds = [line["kind"] for line in whole]
    assert kinds[:4] == ["run", "contract", "envelopes", "plan"]
    verdicts = len(requirements())
    assert set(kinds[4 : -1 - verdicts]) == {"case", "test"}
    assert kinds[-1 - verdicts :] == ["requirement"] * verdicts + ["end"]


def test_the_first_line_says_what_is_tested_how_and_where(whole: list[Line]) -> None:
    run = whole[0]
    assert run["format"] == 2
    assert len(bytes.fromhex(run["run"])) == 16
    assert (run["target"], run["profile"], run["seed"]) == (TARGET[1], "smoke", "derandomised")
    assert (run["classes"], run["decides"], run["strict"]) == (["float32-angle"], "float32-angle", False)
    assert run["versions"]["torch"] == str(torch.__version__)
    assert run["machine"] == origin.machine()
    assert {term["class"] for term in run["terms"]} == {"float32-angle"}


def test_the_contract_tells_of_each_error_what_cures_it(whole: list[Line]) -> None:
    told = {entry["id"]: entry for entry in whole[1]["requirements"]}
    assert list(told) == list(requirements())
    assert all(told["ERR-04"][name] for name in ("tier", "sentence", "source", "trigger", "common", "cure"))
    assert "cure" not in told["ROT-Q"]


def test_all_that_is_planned_is_made(whole: list[Line]) -> None:
    [plan] = [line for line in whole if line["kind"] == "plan"]
    tests = [line for line in whole if line["kind"] == "test"]
    cases = [line for line in whole if line["kind"] == "case"]
    assert plan["tests"] == len(tests) == len({test["id"] for test in tests})
    assert {test["outcome"] for test in tests} == {"passed"}
    assert plan["cases"] == len({case["test"] for case in cases if not case["drawn"]})
    drawn = {case["line"] for case in cases if case["drawn"]}
    assert 0 < len(drawn) <= plan["examples"] == 30
    assert {case["test"].partition("[")[0] for case in cases if case["drawn"]} == {
        "conformance/test_properties.py::test_generated_calls",
        "conformance/test_properties.py::test_generated_layouts",
    }
    assert not plan["whole"]
    assert any(" ; " in case["line"] for case in cases)
    assert whole[-1]["tests_collected"] == plan["tests"]
    assert 0 < sum(case["seconds"] for case in cases) < sum(test["seconds"] for test in tests)


def test_a_test_without_a_case_to_choose_plans_none(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    # Pools larger than memory are not for a kernel that returns fresh ones.
    run = suite(SLOTS, "-k", "kinds or offsets", "--target", f"{RIGHT}:float32_angle_fresh", "--record", str(path))
    assert "1 skipped" in run.stdout
    [plan] = of_kind("plan", path)
    assert plan["cases"] == len({line["test"] for line in of_kind("case", path)})
    assert plan["tests"] == len(of_kind("test", path)) > plan["cases"]


def test_an_envelope_grows_with_the_position_where_its_class_does() -> None:
    told = {entry["class"]: entry for entry in envelope.envelopes(GRANTED)}
    assert list(told) == ["exact-angle", "float32-angle", "fast"]
    for entry in told.values():
        assert (entry["positions"][0], entry["positions"][-1]) == (1, 2**31 - 1)
        assert entry["positions"] == sorted(set(entry["positions"]))
        assert len(entry["error"]) == len(entry["positions"]) > 36
    # 2^-22 rad, 4 ulp of cos and sin, two products.
    assert set(told["exact-angle"]["error"]) < set(np.arange(5.9e-7, 6.6e-7, 1e-10).round(10))
    near = told["float32-angle"]["positions"].index(100000)
    # What the README's table says of position 131,071, on the way there.
    assert told["float32-angle"]["error"][near] == pytest.approx(0.04 * 100000 / 131071, rel=0.1)
    assert told["float32-angle"]["error"][-1] == told["fast"]["error"][-1] == 2.0


@pytest.mark.parametrize(
    "value", [torch.tensor(1.0), np.float64(1.0), np.int64(1), np.bool_(True), {1: 2}, {1}, b"x", Path("x"), object()]
)
def test_what_json_has_no_type_for_is_refused(value: object, tmp_path: Path) -> None:
    made = recorder(tmp_path / "r.jsonl")
    with pytest.raises(TypeError, match="a record has no place for"):
        made.plan({"tests": [value]})
    made.close()
    assert len(read(tmp_path / "r.jsonl")) == 1


def test_infinities_and_nan_are_texts(tmp_path: Path) -> None:
    made = recorder(tmp_path / "r.jsonl")
    made.plan({"values": [math.inf, -math.inf, math.nan, 0.5, None, True]})
    made.close()
    assert read(tmp_path / "r.jsonl")[1]["values"] == ["inf", "-inf", "nan", 0.5, None, True]


def test_markup_and_half_surrogates_stand_as_they_are(tmp_path: Path) -> None:
    made, text = recorder(tmp_path / "r.jsonl"), "</script><b>\n\ud800"
    judgement = Judgement([Finding("CALL", text)])
    made.case(text, [Case()], judgement, {}, drawn=False, expected_error=0, seconds=0.0, note="")
    made.close()
    assert read(tmp_path / "r.jsonl")[1]["findings"][0]["what"] == text


def _off(q_rot: Tensor) -> Tensor:
    return q_rot * (1 + 2.0**-6)


def _wrong_now_and_then(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    q_rot, *others = RIGHT_KERNELS["float32_angle"](*arrays, **arguments)
    return _off(q_rot) if int(arrays[3][0]) % 3 == 1 else q_rot, *others


def test_the_books_of_a_run_are_made_again_from_its_record(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    run = recording_suite(path, _wrong_now_and_then, auto=True)
    for seed in range(60):
        dtype, start = ("f16", "bf16", "f32")[seed % 3], 37**seed % 2**31
        case = Case(dtype, 1 + seed % 7, head_dim=2 * (1 + seed % 40), positions=f"equal:{start}", seed=seed)
        try:
            run.check(case.but(slots="holes", values=("normal", "mixed", "huge")[seed // 3 % 3]))
        except NonConformanceError:
            assert start % 3 == 1
    run.close()
    again = recording_suite(tmp_path / "again.jsonl", _wrong_now_and_then, auto=True)
    again.close()
    for line in of_kind("case", path):
        again.remember(line)
    assert any(entry.failed for entry in run.ledger.entries.values())
    assert again.ledger.entries == run.ledger.entries
    assert again.ledger.cases == run.ledger.cases
    assert again.accuracy.classes == run.accuracy.classes
    assert again.accuracy.measured == run.accuracy.measured == 60
    cells, made = run.accuracy._cells, again.accuracy._cells
    assert cells.keys() == made.keys()
    for key, cell in cells.items():
        one, other = cell.seen, made[key].seen
        assert (one.elements, one.uninformative, one.error) == (other.elements, other.uninformative, other.error)
        assert torch.equal(one.worst, other.worst)
        assert torch.equal(cell.cases, made[key].cases)


def test_the_ulps_of_a_right_kernel_are_few(tmp_path: Path) -> None:
    run = recording_suite(tmp_path / "r.jsonl", RIGHT_KERNELS["exact"])
    run.check(Case("bf16", 64, values="normal", slots="none", positions="rise:5"))
    run.close()
    [line] = of_kind("case", tmp_path / "r.jsonl")
    ulps = line["measure"]["ulps"]
    assert set(ulps) <= {"-1", "0", "1"}
    assert ulps["0"] > 0.99 * sum(ulps.values()) > 0.5 * 64 * 6 * 64


def _spoils(k_pool: Tensor, before: Tensor) -> None:
    k_pool[5] = before[5]
    k_pool[3, 0, 0] += 1
    k_pool[6:8] = 7


def _spoiled(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    before = arrays[5].clone()
    outputs = RIGHT_KERNELS["float32_angle"](*arrays, **arguments)
    _spoils(outputs[2], before)
    return outputs


@pytest.mark.parametrize("filed", [False, True])
def test_a_failing_pool_is_pictured(filed: bool, tmp_path: Path) -> None:
    run = recording_suite(tmp_path / "r.jsonl", _spoiled)
    case = Case("f32", 5, pool_size=9, slots="list:2/5/-1/3/0", values="normal")
    # Under another layout all failures are filed under one requirement.
    case = case.but(layout="q:offset") if filed else case
    if filed:
        run.check(case)
    else:
        with pytest.raises(NonConformanceError):
            run.check(case)
    run.close()
    [line] = of_kind("case", tmp_path / "r.jsonl")
    found = {finding["requirement"] for finding in line["findings"]}
    assert found == ({"ROB-LAYOUT"} if filed else {"SLOT-K", "SLOT-REST"})
    k_pool, v_pool = line["pools"]
    common = {"rows": 9, "tokens": 5, "skipped": [[2, 3]]}
    spoiled = {"written": [[0, 1], [2, 3]], "wrong": [[3, 4]], "stale": [[5, 6]], "stray": [[6, 8]]}
    assert k_pool == {"pool": "k_pool", **common, **spoiled}
    right = {"written": [[0, 1], [2, 4], [5, 6]], "wrong": [], "stale": [], "stray": []}
    assert v_pool == {"pool": "v_pool", **common, **right}


def test_a_right_pool_is_not_pictured(tmp_path: Path) -> None:
    run = recording_suite(tmp_path / "r.jsonl", RIGHT_KERNELS["float32_angle"])
    run.check(Case())
    run.close()
    assert "pools" not in of_kind("case", tmp_path / "r.jsonl")[0]


def _broken_run(tmp_path: Path, body: str, *arguments: str) -> tuple[subprocess.CompletedProcess[str], list[Line]]:
    """A run with a test of this body beside the suite's own, and its record."""
    own, path = tmp_path / "test_own.py", tmp_path / "run.jsonl"
    own.write_text(f"import pytest\n\n@pytest.mark.requirement('CALL')\ndef test_own():\n    {body}\n")
    run = suite(SLOTS, str(own), "-k", "kinds or own", *TARGET, "--record", str(path), *arguments)
    return run, read(path)


def test_a_test_that_breaks_is_told_with_its_traceback(tmp_path: Path) -> None:
    run, lines = _broken_run(tmp_path, "raise RuntimeError('</script>')")
    assert run.returncode == 1
    [broken] = [line for line in lines if line["kind"] == "test" and line["outcome"] != "passed"]
    assert broken["id"].endswith("::test_own")
    assert broken["outcome"] == "broken"
    assert "RuntimeError: </script>" in broken["text"]


def test_ctrl_c_is_recorded(tmp_path: Path) -> None:
    run, lines = _broken_run(tmp_path, "raise KeyboardInterrupt")
    assert run.returncode == 2
    [trouble] = [line for line in lines if line["kind"] == "trouble"]
    assert (trouble["what"], trouble["text"]) == ("interrupted", "KeyboardInterrupt")
    assert trouble["where"].endswith("::test_own")
    assert lines[-1]["exit_status"] == 2
    assert not any(line["kind"] == "test" and "test_own" in line["id"] for line in lines)


def test_an_internal_error_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "torn.py").write_text("def pytest_runtest_protocol(item):\n    raise RuntimeError('</script>')\n")
    path = tmp_path / "run.jsonl"
    run = suite(SLOTS, *TARGET, "--record", str(path), "-p", "torn", PYTHONPATH=str(tmp_path))
    assert run.returncode == 3
    [trouble] = of_kind("trouble", path)
    assert trouble["what"] == "internal"
    assert "RuntimeError: </script>" in trouble["text"]
    assert of_kind("end", path)[0]["exit_status"] == 3


def test_a_collection_error_is_recorded(tmp_path: Path) -> None:
    broken, path = tmp_path / "test_broken.py", tmp_path / "run.jsonl"
    broken.write_text("import no_such_module\n")
    run = suite(SLOTS, str(broken), *TARGET, "--record", str(path))
    assert run.returncode == 2
    collection, interrupted = of_kind("trouble", path)
    assert collection["what"] == "collection"
    assert collection["where"].endswith("test_broken.py")
    assert "No module named 'no_such_module'" in collection["text"]
    assert (interrupted["what"], interrupted["where"]) == ("interrupted", "")
    assert of_kind("end", path)[0]["exit_status"] == 2


def test_no_repository_is_no_commit_and_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(origin, "_HERE", tmp_path)
    assert origin.commit() == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert origin.commit() == ""


def test_a_commit_is_told_with_whether_the_tree_is_clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    def commit(name: str) -> None:
        (tmp_path / name).touch()
        git("add", name)
        git("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-m", name)

    git("init")
    monkeypatch.setattr(origin, "_HERE", tmp_path)
    commit("a_strangers_file.py")
    # Below a repository, but no part of it.
    assert origin.commit() == ""
    commit("__init__.py")
    git("tag", "v1")
    clean = origin.commit()
    assert len(bytes.fromhex(clean)) == 6
    (tmp_path / "__init__.py").write_text("changed")
    assert origin.commit() == f"{clean}+"
