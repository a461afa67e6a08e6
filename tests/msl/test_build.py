"""Building: the cache, the specialisations, the compiler that may be missing, and the kinds of build."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from msl_harness import CONSTANTS, PRELUDE, compile_text, launch, write

from kernel.msl import Build, CompilerMissing, Program, ShaderError, compile_program

SOURCE = (
    PRELUDE
    + """constant uint HEAD_DIM [[function_constant(0)]];
constant float STEP [[function_constant(3)]];
constant uint HALF_DIM = HEAD_DIM / 2;
template <typename T> struct Shared { static uint value() { static uint first = HALF_DIM; return first; } };
kernel void run(device float* out [[buffer(0)]]) {
    out[0] = HEAD_DIM; out[1] = HALF_DIM; out[2] = STEP; out[3] = Shared<int>::value();
}
"""
)


def values(program: Program, head_dim: int, step: float = 0.25) -> list[float]:
    out = np.zeros(4, np.float32)
    constants = replace(CONSTANTS, head_dim=head_dim, log2_base_over_head_dim=step)
    launch(program, "run", [out], constants=constants)
    return [float(x) for x in out]


def cached(folder: Path) -> list[Path]:
    return sorted((folder / "rope-pool-conformance").iterdir())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def refuse(*_: object) -> bytes:
        raise AssertionError("compiled again")

    return lambda: monkeypatch.setattr("kernel.msl.compile._compile", refuse)


def test_one_library_serves_every_specialisation(
    tmp_path: Path, cache: Path, forbid_compiling: Callable[[], None]
) -> None:
    program = compile_text(tmp_path, SOURCE, {"run": 1})
    forbid_compiling()
    first, second = program.specialise(CONSTANTS), program.specialise(replace(CONSTANTS, head_dim=128))
    assert first is program.specialise(CONSTANTS)
    assert first is not second
    for head_dim in (*range(2, 80, 2), 2):
        assert values(program, head_dim, head_dim / 8) == [
            head_dim,
            head_dim // 2,
            head_dim / 8,
            head_dim // 2,
        ]
    out = np.zeros(4, np.float32)
    first.launch("run", [out.ctypes.data], (1, 1, 1))
    assert out[0] == CONSTANTS.head_dim
    assert len(cached(cache)) == 1


def test_specialisations_are_unloaded_when_no_longer_wanted(tmp_path: Path) -> None:
    program = compile_text(tmp_path, SOURCE, {"run": 1})
    for head_dim in range(1, 60):
        values(program, head_dim)
    loaded = {line.split()[-2] for line in Path("/proc/self/maps").read_text().splitlines() if ".so (deleted)" in line}
    assert 1 <= len(loaded) <= 20


def test_a_program_can_be_sent_to_another_process(tmp_path: Path) -> None:
    program = compile_text(tmp_path, SOURCE, {"run": 1})
    script = (
        "import pickle, sys, numpy as np; from kernel.msl import FunctionConstants\n"
        "program = pickle.loads(bytes.fromhex(sys.argv[1])); out = np.zeros(4, np.float32)\n"
        "program.specialise(FunctionConstants(10, 1, 1, 0.5, 1)).launch('run', [out.ctypes.data], (1, 1, 1))\n"
        "print(out.tolist())"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, pickle.dumps(program).hex()],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == "[10.0, 5.0, 0.5, 5.0]"


def test_a_second_compilation_takes_the_first_ones_library(
    tmp_path: Path, cache: Path, forbid_compiling: Callable[[], None]
) -> None:
    first = compile_text(tmp_path, SOURCE, {"run": 1})
    forbid_compiling()
    assert compile_text(tmp_path, SOURCE, {"run": 1}) == first
    assert first.compiler.split()[0] == "g++"
    assert len(first.source_hash) == 12
    with pytest.raises(AssertionError, match="compiled again"):
        compile_text(tmp_path, SOURCE + "\nkernel void more() {}", {"run": 1})
    with pytest.raises(AssertionError, match="compiled again"):
        compile_text(tmp_path, SOURCE, {"run": 1}, Build(fast_math=True))
    assert len(cached(cache)) == 1


def test_a_change_in_what_may_be_asked_for_is_a_change(tmp_path: Path, cache: Path) -> None:
    text = f"{PRELUDE}kernel void run(device float* out, device ulong* table) {{}}"
    compile_text(tmp_path, text, {"run": 1}, may_ask={"run"})
    with pytest.raises(ShaderError, match="run takes 2 buffers, 1 are required"):
        compile_text(tmp_path, text, {"run": 1})
    assert len(cached(cache)) == 1


def test_a_change_in_the_headers_is_a_change(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_text(tmp_path, SOURCE, {"run": 1})
    monkeypatch.setattr("kernel.msl.compile._own_digest", lambda: "another")
    compile_text(tmp_path, SOURCE, {"run": 1})
    assert len(cached(cache)) == 2


def test_a_change_in_an_included_file_is_a_change(tmp_path: Path, cache: Path) -> None:
    text = f'{PRELUDE}#include "value.h"\nkernel void run(device float* out) {{ out[0] = VALUE; }}'
    out = np.zeros(1, np.float32)
    for value in (1, 2):
        (tmp_path / "value.h").write_text(f"#define VALUE {value}\n")
        launch(compile_text(tmp_path, text, {"run": 1}), "run", [out])
        assert out[0] == value
    assert len(cached(cache)) == 2


@pytest.mark.parametrize("damage", [b"", b"garbage", None], ids=["empty", "garbage", "one bit"])
def test_a_damaged_cache_entry_is_built_anew(damage: bytes | None, tmp_path: Path, cache: Path) -> None:
    program = compile_text(tmp_path, SOURCE, {"run": 1})
    content = bytearray(program.library.read_bytes())
    content[len(content) // 2] ^= 1
    program.library.write_bytes(content if damage is None else damage)
    with pytest.raises(ShaderError, match="gone or damaged; compile the program again"):
        values(program, 62)
    assert values(compile_text(tmp_path, SOURCE, {"run": 1}), 62)[1] == 31
    assert len(cached(cache)) == 1


def test_compilations_at_the_same_time_do_not_disturb_each_other(tmp_path: Path, cache: Path) -> None:
    path = write(tmp_path, SOURCE)
    with ThreadPoolExecutor(4) as pool:
        programs = list(pool.map(lambda _: compile_program(path, {"run": 1}), range(4)))
    assert len(set(programs)) == 1
    assert [entry.suffix for entry in cached(cache)] == [".so"]
    assert values(programs[0], 8)[1] == 4


def test_a_cache_that_cannot_be_created_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ShaderError, match=r"cannot create .*set XDG_CACHE_HOME"):
        compile_text(tmp_path, SOURCE, {"run": 1})


def test_a_missing_compiler_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompilerMissing, match=r"no g\+\+ on PATH: .*apt-get install g\+\+"):
        compile_text(tmp_path, SOURCE, {"run": 1})


@pytest.mark.parametrize(
    ("command", "reason"), [("no-such-compiler", "not on PATH"), ("false", "not a C\\+\\+ compiler")]
)
def test_a_compiler_that_cannot_be_used_is_named(
    command: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", command)
    with pytest.raises(CompilerMissing, match=f"{command}.*{reason}.*apt-get install"):
        compile_text(tmp_path, SOURCE, {"run": 1})


def test_cxx_chooses_the_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = tmp_path / "my compiler"
    wrapper.write_text('#!/bin/sh\necho "$@" >> "$0.log"\nexec g++ "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", f"'{wrapper}' -DEXTRA=3")
    text = f"{PRELUDE}kernel void run(device float* out) {{ out[0] = EXTRA; }}"
    out = np.zeros(1, np.float32)
    launch(compile_text(tmp_path, text, {"run": 1}), "run", [out])
    assert out[0] == 3
    assert "-DEXTRA=3" in (tmp_path / "my compiler.log").read_text()


def test_a_file_name_may_hold_any_character(tmp_path: Path) -> None:
    folder = tmp_path / 'a "b\\ c'
    folder.mkdir()
    program = compile_program(write(folder, SOURCE, "my shader's.metal"), {"run": 1})
    assert values(program, 6)[1] == 3


def test_contraction_fuses_a_product_and_a_sum_only_where_it_is_allowed(tmp_path: Path) -> None:
    text = f"{PRELUDE}kernel void run(device float* x) {{ x[3] = x[0] * x[1] + x[2]; }}"
    a = np.float32(1 + 2.0**-12)
    exact, rounded = 2.0**-24, 0.0
    results = {}
    for contract in (False, True):
        x = np.array([a, a, -(np.float32(a) * np.float32(a)), -7], np.float32)
        launch(compile_text(tmp_path, text, {"run": 1}, Build(contract=contract)), "run", [x])
        results[contract] = float(x[3])
    assert results[False] == rounded
    assert results[True] == (exact if " fma " in Path("/proc/cpuinfo").read_text() else rounded)


@pytest.mark.parametrize("build", [Build(), Build(fast_math=True, contract=True)], ids=str)
def test_subnormals_are_kept_unless_the_build_flushes_them(build: Build, tmp_path: Path) -> None:
    text = f"{PRELUDE}kernel void run(device float* x) {{ x[1] = x[0] * 0.5; }}"
    for flush, want in ((False, 2.0**-141), (True, 0.0)):
        x = np.array([2.0**-140, -7], np.float32)
        launch(compile_text(tmp_path, text, {"run": 1}, replace(build, flush=flush)), "run", [x])
        assert x[1] == np.float32(want)
        assert np.float32(2.0**-140) * np.float32(0.5) == np.float32(2.0**-141)


ULP = 2.0**-23
THIRD = np.float32(1 / 3)  # above 1/3
# Each expression over x, and what it gives rounded to nearest and rounded toward zero.
ROUNDED = {
    "x[0] * x[1]": (1.75 + 2 * ULP, 1.75 + ULP),
    "-x[0] * x[1]": (-1.75 - 2 * ULP, -1.75 - ULP),
    "x[2] + x[3]": (1 + ULP, 1),
    "x[4] - x[3]": (-1 - ULP, -1),
    "float(i[0])": (2**24, 2**24),
    "float(i[1])": (2**24 + 4, 2**24 + 2),
    "-float(i[1])": (-(2**24) - 4, -(2**24) - 2),
    "x[2] / x[5]": (THIRD, np.nextafter(THIRD, np.float32(0))),
    "rint(x[5] * x[6])": (2, 2),
    "rint(x[6])": (0, 0),
    "rint(x[7])": (1, 1),
    "rint(x[8])": (-2, -2),
}
ROUNDED_X = np.array([1.75, 1 + ULP, 1, 0.75 * ULP, -1, 3, 0.5, 0.75, -1.5], np.float32)
ROUNDED_I = np.array([2**24 + 1, 2**24 + 3], np.int32)


def rounded(folder: Path, build: Build) -> list[float]:
    lines = "".join(f"out[{n}] = {expression};\n" for n, expression in enumerate(ROUNDED))
    arguments = "device const float* x, device const int* i, device float* out"
    out = np.zeros(len(ROUNDED), np.float32)
    program = compile_text(folder, f"{PRELUDE}kernel void run({arguments}) {{\n{lines}}}", {"run": 3}, build)
    launch(program, "run", [ROUNDED_X, ROUNDED_I, out])
    return [float(value) for value in out]


@pytest.mark.parametrize("build", [Build(), Build(contract=True), Build(fast_math=True)], ids=str)
def test_arithmetic_rounds_toward_zero_where_the_build_asks(build: Build, tmp_path: Path) -> None:
    nearest, toward_zero = zip(*ROUNDED.values(), strict=True)
    assert rounded(tmp_path, build) == list(nearest)
    assert rounded(tmp_path, replace(build, toward_zero=True)) == list(toward_zero)


def test_what_the_compiler_could_compute_itself_is_rounded_as_the_build_asks(tmp_path: Path) -> None:
    text = f"{PRELUDE}kernel void run(device float* out) {{ out[0] = 1.75f * 0x1.000002p0f; out[1] = 1.0 / 3; }}"
    out = np.zeros(2, np.float32)
    launch(compile_text(tmp_path, text, {"run": 1}, Build(toward_zero=True)), "run", [out])
    assert out.tolist() == [1.75 + ULP, np.nextafter(THIRD, np.float32(0))]


MODES = Build(toward_zero=True, flush=True)


def test_subnormals_are_flushed_as_operands_and_as_results(tmp_path: Path) -> None:
    lines = "out[0] = x[0] * x[1]; out[1] = x[2] * x[3]; out[2] = x[2] - x[4]; out[3] = x[0] + x[2];"
    text = f"{PRELUDE}kernel void run(device const float* x, device float* out) {{ {lines} }}"
    x = np.array([2.0**-127, 8, 1.5 * 2.0**-126, 0.5, 2.0**-126], np.float32)
    for build, want in (
        (Build(), [2.0**-124, 1.5 * 2.0**-127, 2.0**-127, 2.0**-125]),
        (Build(flush=True), [0, 0, 0, 1.5 * 2.0**-126]),
    ):
        out = np.full(4, -7, np.float32)
        launch(compile_text(tmp_path, text, {"run": 2}, build), "run", [x, out])
        assert out.tolist() == want


def test_the_mode_of_the_process_is_restored_after_a_launch(tmp_path: Path) -> None:
    third = torch.tensor(2.0) / torch.tensor(3.0)
    for build in (Build(toward_zero=True), Build(flush=True), MODES, replace(MODES, fast_math=True, contract=True)):
        rounded(tmp_path, build)
        assert torch.tensor(1.75) * torch.tensor(1 + ULP) == 1.75 + 2 * ULP
        assert torch.tensor(2.0) / torch.tensor(3.0) == third
        assert torch.tensor(2.0**-140) * 0.5 == 2.0**-141
        assert np.float32(1.75) * np.float32(1 + ULP) == 1.75 + 2 * ULP


def test_a_mode_of_the_process_lasts_through_a_launch(tmp_path: Path) -> None:
    torch.set_flush_denormal(True)
    try:
        rounded(tmp_path, Build(toward_zero=True))
        assert torch.tensor(2.0**-140) * 0.5 == 0
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize("build", [Build(toward_zero=True), Build(flush=True)], ids=str)
def test_a_mode_needs_a_known_processor(build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++ -U__x86_64__ -U__aarch64__")
    compile_text(tmp_path, SOURCE, {"run": 1})
    with pytest.raises(ShaderError, match="modelled on x86-64 and aarch64 only: build without them"):
        compile_text(tmp_path, SOURCE, {"run": 1}, build)


def test_the_environment_of_the_compiler_is_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    with pytest.raises(ShaderError, match="was not declared in this scope"):
        compile_text(tmp_path, f"{PRELUDE}float x = nothing;", {})
    assert os.environ["LC_ALL"] == "de_DE.UTF-8"
