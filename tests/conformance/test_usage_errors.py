"""What cannot be tested ends the run before any test: one line, exit code 4."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command import suite

from kernel import targets
from kernel.targets import DEFAULT_SHADER, MATH_MODELS, TargetError

USAGE_ERROR = 4


def _ends_with(message: str, *arguments: str, **environment: str) -> None:
    run = suite("conformance", *arguments, **environment)
    assert run.returncode == USAGE_ERROR, run.stdout + run.stderr
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    assert "passed" not in run.stdout


def _changed(folder: Path, find: str, replace: str) -> tuple[str, int]:
    """A changed copy of our shader and the line that changed."""
    text = DEFAULT_SHADER.read_text()
    assert text.count(find) == 1
    path = folder / "mine.metal"
    path.write_text(text.replace(find, replace))
    return str(path), text[: text.index(find)].count("\n") + 1


def test_a_shader_that_does_not_compile(tmp_path: Path) -> None:
    shader, line = _changed(tmp_path, "precise::cos(angle)", "precise::cos(angel)")
    _ends_with(f"mine.metal:{line}:", "--shader", shader)


def test_a_shader_that_uses_what_is_not_modelled(tmp_path: Path) -> None:
    shader, line = _changed(tmp_path, "precise::sin(angle)", "simd_sum(angle)")
    _ends_with(f"mine.metal:{line}:", "--shader", shader)


def test_a_shader_that_lacks_an_entry_point(tmp_path: Path) -> None:
    shader, _ = _changed(tmp_path, "INSTANTIATE(bf16, bfloat, ushort)\n", "")
    _ends_with("rope_q_bf16", "--shader", shader)


def test_a_missing_compiler(tmp_path: Path) -> None:
    _ends_with("apt-get install g++", PATH=str(tmp_path), CXX="", XDG_CACHE_HOME=str(tmp_path))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("metal", "unknown target 'metal'"),
        ("no.such.module:function", "cannot import target no.such.module:function"),
        ("no/such/file.py:function", "no file no/such/file.py"),
        ("tests/right/kernels.py:missing", "has no callable 'missing'; it has"),
    ],
)
def test_a_target_that_is_not_there(target: str, message: str) -> None:
    with pytest.raises(TargetError, match=re.escape(message)):
        targets.load(target)


def test_a_shader_for_a_callable() -> None:
    with pytest.raises(TargetError, match="--shader goes with the target host"):
        targets.load("reference:rope_pool_fused", Path("x.metal"))


@pytest.mark.parametrize("math", MATH_MODELS)
def test_a_math_model_for_a_callable(math: str) -> None:
    _ends_with("--math goes with the target host", "--target", "reference:rope_pool_fused", "--math", math)


def test_an_unknown_target_ends_the_run() -> None:
    _ends_with("unknown target 'metal'", "--target", "metal")


def test_a_record_that_cannot_be_written(tmp_path: Path) -> None:
    _ends_with("cannot write the record", "--record", str(tmp_path))


def test_a_launch_plan_for_a_callable() -> None:
    _ends_with("--launch goes with the target host", "--target", "reference:rope_pool_fused", "--launch", "rect")


def test_more_than_one_process() -> None:
    _ends_with("run it without -n", "-p", "split", PYTHONPATH=str(Path(__file__).parent / "plugins"))


def test_an_unknown_requirement(tmp_path: Path) -> None:
    stray = tmp_path / "test_stray.py"
    stray.write_text("import pytest\n@pytest.mark.requirement('ROT-X')\ndef test_x(): assert True\n")
    _ends_with("unknown requirements: ROT-X", str(stray))


def test_a_requirement_without_a_test(tmp_path: Path) -> None:
    (tmp_path / "added.py").write_text(
        "from conformance.contract import Requirement, requirements\n"
        "requirements()['NEW-01'] = Requirement('NEW-01', 'documented', 'a sentence', 'a source')\n"
    )
    _ends_with("requirements without a test: NEW-01", "-p", "added", PYTHONPATH=str(tmp_path))
