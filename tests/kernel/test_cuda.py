"""Target `cuda`, with a CuPy whose modules g++ compiles: the units that it makes are judged by real cases."""

from __future__ import annotations

import importlib
import mmap
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import suite as suite_command
from drive import checks, suite_for
from shader_faults import FLOAT32_SHADER, SECOND, WRITES_PAST_THE_HEAD, WRITES_THE_TABLE, ShaderFault

from conformance.case import Case
from conformance.suite import NonConformanceError
from conformance.worker import Worker
from kernel import Call, LaunchPlan
from kernel.memory import Margined, Overwritten, bits
from kernel.msl import Build, FunctionConstants, ShaderError
from kernel.msl.compile import HEADERS
from kernel.msl.cuda import Unit, cuda_unit
from kernel.targets import (
    DEFAULT_SHADER,
    MATH_MODELS,
    CudaTarget,
    DeviceLostError,
    HostTarget,
    TargetError,
    gpu,
    load,
    staging,
)
from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE, Accuracy

STAND_IN = Path(__file__).parent / "cupy_on_cpu"
CONSTANTS = FunctionConstants(64, 4, 2, 0.25, 3)
WILD = ShaderFault(
    "wild", "", "const int slot = slots[gid.y];\n    for", "*(device int*)0x10000 = 1;\n    const int slot = -1; for"
)


@pytest.fixture(autouse=True)
def _cupy_on_cpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.syspath_prepend(str(STAND_IN))
    yield
    gpu.loaded.cache_clear()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where sources are written: one place, so that each is compiled once."""
    return tmp_path_factory.mktemp("shaders")


def call(tokens: int = 5, head_dim: int = 64, dtype: torch.dtype = torch.bfloat16) -> Call:
    generator = torch.Generator().manual_seed(tokens)
    q, k, v = (torch.randn(tokens, heads, head_dim, generator=generator).to(dtype) for heads in (4, 2, 2))
    positions = torch.arange(tokens, dtype=torch.int32) * 1001 - 7
    slots = torch.arange(tokens, dtype=torch.int32).flip(0) - 1
    pool = torch.full((tokens + 2, 2, head_dim), 0.5, dtype=dtype)
    return Call(q, k, v, positions, slots, pool, pool.clone(), head_dim, 4, 2, 10000.0)


def run_text(folder: Path, text: str, words: int, build: Build | None = None) -> list[int]:
    """The first words that a kernel `run` of one buffer writes, as the unit of its source has it."""
    source = folder / "my.metal"
    source.write_text(f"#include <metal_stdlib>\nusing namespace metal;\n{text}")
    module = gpu.Module(cuda_unit(source, {"run": 1}, build or Build()))
    module.specialise(CONSTANTS)
    out = Margined.empty(torch.Size((words,)), torch.int32)
    image = gpu.Image(module, out)
    module.launch("run", [image.address], (1, 1, 1))
    start = int(out.tensor.storage_offset())
    return (image.fetch()[start : start + words] & 0xFFFFFFFF).tolist()


def finding(target: CudaTarget, accuracy: Accuracy) -> tuple[str, int]:
    """The first finding of every 150th case of each test, but for pools larger than memory; and the elements judged."""
    suite = suite_for(target, accuracy)
    try:
        for check in checks("all", sparse=False, every=150):
            check.run(suite)
    except NonConformanceError as failure:
        return str(failure), 0
    finally:
        suite.close()
    return "", sum(entry.elements for entry in suite.ledger.entries.values())


@pytest.mark.parametrize(
    ("shader", "accuracy"), [(DEFAULT_SHADER, EXACT_ANGLE), (SECOND, FLOAT32_ANGLE)], ids=["ours", "second"]
)
def test_shaders_conform_in_their_classes(shader: Path, accuracy: Accuracy) -> None:
    found, elements = finding(load("cuda", shader), accuracy)
    assert found == ""
    assert elements > 10**5


def test_fast_functions_conform_in_their_class_and_in_no_other(folder: Path) -> None:
    unqualified = folder / "unqualified.metal"
    unqualified.write_text(FLOAT32_SHADER.read_text().replace("precise::", ""))
    target = load("cuda", unqualified, "metal-fast")
    assert finding(target, FAST)[0] == ""
    assert "ROT-" in finding(target, EXACT_ANGLE)[0]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (WRITES_PAST_THE_HEAD, "ROT-Q"),
        (WRITES_THE_TABLE, "MEM-INPUT"),
        (WILD, "crashed on the GPU: CUDA_ERROR_ILLEGAL_ADDRESS"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_planted_fault_is_found(fault: ShaderFault, said: str, folder: Path) -> None:
    found, _ = finding(CudaTarget.compile(fault.write(folder), Build()), EXACT_ANGLE)
    assert said in found


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("plan", ["split/1", "split/3/reversed", "rect/2"])
def test_it_gives_the_bits_of_the_host_target(dtype: torch.dtype, plan: str) -> None:
    """Both have the C library's functions here, and one of the two orders of the grid."""
    ours, host = (t.run(call(dtype=dtype), LaunchPlan.parse(plan)) for t in (load("cuda"), HostTarget.compile()))
    assert all(torch.equal(bits(a), bits(b)) for a, b in zip(ours.outputs, host.outputs, strict=True))
    assert ours.overwritten == host.overwritten == ()


def test_the_reversed_order_begins_with_the_last_position(folder: Path) -> None:
    """Here, where threads run one by one, the last one's write stays."""
    source = folder / "order.metal"
    position = "uint3 at [[thread_position_in_grid]]"
    source.write_text(f"kernel void run(device uint* out, {position}) {{ out[0] = at.x + at.y * 10 + at.z * 100; }}")
    module, out = gpu.Module(cuda_unit(source, {"run": 1}, Build())), Margined.empty(torch.Size((1,)), torch.int32)
    seen = []
    for reverse in (False, True):
        image = gpu.Image(module, out)
        module.launch("run", [image.address], (3, 4, 5), reverse)
        seen.append(int(staging.take(image.fetch(), image.array)))
    assert seen == [2 + 30 + 400, 0]


def test_an_array_is_aligned_as_a_metal_buffer_is_wherever_it_begins() -> None:
    module = gpu.Module(cuda_unit(DEFAULT_SHADER, {}, Build()))
    storage = torch.arange(99, dtype=torch.int16)
    for start in range(40):
        image = gpu.Image(module, Margined(storage, storage[start : start + 3]))
        assert image.address % 64 == 0
        assert torch.equal(image.fetch(), storage)


def test_more_tokens_than_a_grid_has_groups_are_all_rotated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_MOST_GROUPS", 2)
    ours, host = (t.run(call(tokens=50)) for t in (load("cuda"), HostTarget.compile()))
    assert all(torch.equal(bits(a), bits(b)) for a, b in zip(ours.outputs, host.outputs, strict=True))


def test_a_write_beside_a_buffer_and_one_into_an_input_are_told(folder: Path) -> None:
    past = CudaTarget.compile(WRITES_PAST_THE_HEAD.write(folder), Build())
    told = {o.buffer: o for o in past.run(call(), LaunchPlan()).overwritten}
    assert told["q_out"] == Overwritten("q_out", 1, 5 * 4 * 64)
    table = CudaTarget.compile(WRITES_THE_TABLE.write(folder), Build())
    # Five threads change each entry.
    assert table.run(call(), LaunchPlan("split", 4)).overwritten == (Overwritten("frequencies", 32, 0, "inside"),)


def test_a_kernels_fault_costs_its_case_and_the_process(folder: Path) -> None:
    target = CudaTarget.compile(WILD.write(folder), Build())
    worker = Worker(target)
    died = worker.run(Case(plan="rect/1")).died
    assert died == "crashed on the GPU: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"
    assert worker.run(Case(plan="split/1")).outputs is not None
    worker.renew()
    with pytest.raises(DeviceLostError):
        target.run(call(), LaunchPlan("rect"))
    sys.modules["cupy"]._lost.clear()


def test_a_new_shape_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    target = load("cuda")
    target.run(call())
    monkeypatch.setattr(sys.modules["cupy"], "RawModule", None)
    seconds = []
    for head_dim in (2, 6, 16, 80):
        given = call(tokens=1, head_dim=head_dim)
        start = time.perf_counter()
        q_rot = target.run(given).outputs[0]
        seconds.append(time.perf_counter() - start)
        assert torch.equal(bits(q_rot), bits(HostTarget.compile().run(given).outputs[0]))
    assert min(seconds) < 0.02


CONSTANT_SOURCE = """
constant uint HEAD_DIM [[function_constant(0)]], HEADS [[function_constant(1)]];
static constant float STEP [[function_constant(3)]];
constant uint HALF_DIM = HEAD_DIM / 2, PLAIN = 7;
constant const float TWICE = 2.5 * STEP;
namespace inner {
constant bool EVEN = (HALF_DIM % 2u) == 0u;
namespace { constant float2 PAIR = float2(TWICE, 0.5); }
constant uint2 sizes[2] = {uint2(HALF_DIM, 1), uint2(
    PLAIN, HEADS)};
}
constant uint LENGTH = 3;
constant constexpr float QUARTER = 0.25;
constant float table[LENGTH] = {1, 2, 4};
[[kernel]] void run(device uint* out [[buffer(0)]]) {
    const float floats[] = {STEP, TWICE, inner::PAIR.x, inner::PAIR.y, QUARTER, table[2]};
    out[0] = HALF_DIM; out[1] = HEADS; out[2] = inner::EVEN; out[3] = inner::sizes[1].x + inner::sizes[1][1];
    for (int i = 0; i < 6; ++i) out[4 + i] = as_type<uint>(floats[i]);
}
"""


def test_variables_that_depend_on_function_constants_have_their_values(folder: Path) -> None:
    seen = run_text(folder, CONSTANT_SOURCE, 10)
    floats = [struct.unpack("f", struct.pack("I", word))[0] for word in seen[4:]]
    assert seen[:4] == [32, 4, 1, 11]
    assert floats == [0.25, 0.625, 0.625, 0.5, 0.25, 4]


def test_names_of_the_root_and_of_cuda_are_told_apart(folder: Path) -> None:
    text = """
    namespace mine { inline float twice(float x) { return ::metal::fma(x, 2, 0); } }
    static float max(float a) { return ::mine::twice(a) + ::metal::max(a, 1.f); }
    template <typename T> struct Box { typedef T type; };
    kernel void run(device uint* out [[buffer(0)]]) {
        typename Box<uint>::type x = ::uint(3.5);
        out[0] = x; out[1] = uint(::max(1.5)); out[2] = sizeof(0.1) + sizeof(1e3) + sizeof(0x1p-3) + sizeof(.5h);
    }
    """
    assert run_text(folder, text, 3) == [3, 4, 14]


@pytest.mark.parametrize(
    ("function", "exact", "ulps"),
    [
        ("rsqrt", lambda x: 1 / np.sqrt(x), 0.51),
        ("exp10", lambda x: 10.0**x, 0.51),
        ("sinpi", lambda x: np.sin(np.pi * x), 0.51),
    ],
    ids=["rsqrt", "exp10", "sinpi"],
)
def test_precise_functions_that_cuda_lacks_are_computed_in_double(
    function: str, exact: Any, ulps: float, folder: Path
) -> None:
    """Not by the float functions of the same names, which would hide them."""
    text = f"""kernel void run(device uint* out [[buffer(0)]]) {{
        for (int i = 0; i < 200; ++i) out[i] = as_type<uint>(precise::{function}(0.001f + i * 0.0024f));
    }}"""
    got = np.array(run_text(folder, text, 200), np.uint32).view(np.float32).astype(np.float64)
    x = (np.float32(0.001) + np.arange(200, dtype=np.float32) * np.float32(0.0024)).astype(np.float64)
    assert np.all(np.abs(got - exact(x)) <= ulps * np.spacing(np.abs(exact(x)).astype(np.float32)))


def test_fast_and_precise_stay_apart_whatever_the_build(folder: Path) -> None:
    text = """kernel void run(device uint* out [[buffer(0)]]) {
        const float x = 0.7, own = cos(x), precise = precise::cos(x), fast = fast::cos(x);
        out[0] = own == precise; out[1] = own == fast; out[2] = fast == precise;
    }"""
    for math, same in (("libm", [1, 0, 0]), ("metal-fast", [0, 1, 0])):
        assert run_text(folder, text, 3, MATH_MODELS[math]) == same


def options(build: Build) -> set[str]:
    return set(cuda_unit(DEFAULT_SHADER, {}, build).options)


def test_builds_choose_single_switches_of_the_compiler() -> None:
    exact, fast = options(Build()), options(MATH_MODELS["metal-fast"])
    assert {"--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"} <= exact
    assert {"--fmad=true", "--ftz=true", "--prec-div=false", "--prec-sqrt=false"} <= fast
    assert not any("fast" in option for option in exact | fast)
    with pytest.raises(ShaderError, match="no CUDA compiler rounds every operation toward zero"):
        options(Build(toward_zero=True))


def test_one_source_makes_one_unit() -> None:
    """Else CuPy, which keeps what it has compiled by its text, would compile it in every run."""
    first, second = (cuda_unit(DEFAULT_SHADER, {"rope_q_f16": 3}, Build(), {"rope_q_f16"}) for _ in range(2))
    assert first.text == second.text
    assert hash(first) == hash(second)


def test_the_probes_measure_the_device() -> None:
    measured = load("cuda").measure()
    assert all(probe.control.endswith("seen in the control") for probe in measured.probes)
    assert (measured.rounding, measured.contraction, measured.flushes) == ("to nearest", False, False)


def test_the_description_names_the_gpu_and_what_it_cannot_evidence() -> None:
    described = load("cuda").describe()
    assert described.name == "cuda"
    assert described.device == "stand-in, compute capability 9.0"
    assert described.facts["compiler"] == "NVRTC 13.0"
    assert described.facts["driver"] == "CUDA 13.0"
    assert any(limit.startswith("Apple's arithmetic.") for limit in described.not_evidenced)


# Logs of NVRTC 13.0.88, their paths shortened.
HEADER = "HEADERS/msl/prelude.h"
LOGS = {
    'FOLDER/my.metal(4): error: identifier "threadgroup_barrier" is undefined\n  threadgroup_barrier(1);\n  ^\n': (
        "my.metal:4: threadgroup_barrier is not modelled on the target cuda (kernel/LIMITS.md)"
    ),
    'FOLDER/my.metal(4): error: class "msl_unit::metal::vec<float, 2>" has no member "z"\n': (
        'my.metal:4: error: class "metal::vec<float, 2>" has no member "z"'
    ),
    f'{HEADER}(52): error: static assertion failed with "as_type needs two types of the same size"\n'
    '    detected during instantiation of "To msl_unit::as_type<To,From>(const From &)" at line 4 of FOLDER/my.metal\n'
    '\n1 error detected in the compilation of "k.cu".\n': (
        "my.metal:4: error: as_type needs two types of the same size"
    ),
    "nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n": (
        "my.metal: the C++ compiler failed: nvrtc: error: failed to open libnvrtc-builtins.so.13.0."
    ),
}


@pytest.mark.parametrize("log", LOGS)
def test_what_the_compiler_says_is_told_at_the_shaders_own_line(log: str, tmp_path: Path) -> None:
    unit = Unit(tmp_path / "my.metal", "", "", (), {})
    text = log.replace("FOLDER", str(tmp_path)).replace("HEADERS", str(HEADERS))
    assert unit.explain(text) == LOGS[log]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("threadgroup float shared[32];", "my.metal:4: threadgroup is not modelled on the target cuda"),
        ("double x = 1;", "my.metal:4: Metal has no double"),
        ("out[0] = undeclared(1);", "my.metal:4: error: 'undeclared' was not declared in this scope"),
    ],
)
def test_a_source_that_does_not_compile_is_refused_at_its_line(statement: str, said: str, tmp_path: Path) -> None:
    source = tmp_path / "my.metal"
    start = "#include <metal_stdlib>\nusing namespace metal;\n"
    source.write_text(f"{start}kernel void run(device float* out [[buffer(0)]]) {{\n{statement}\n}}\n")
    with pytest.raises((ShaderError, TargetError)) as caught:
        gpu.look(cuda_unit(source, {"run": 1}, Build()))
    assert said in str(caught.value)


def test_a_run_without_cupy_ends_with_one_line() -> None:
    run = suite_command("conformance", "--target", "cuda", PYTHONPATH="")
    assert run.returncode == 4
    [line] = run.stderr.strip().splitlines()
    assert line.startswith("ERROR: the target cuda needs CuPy, which is not installed: pip install 'cupy-cuda13x[ctk]'")


def test_a_machine_without_a_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("cupy"), "DEVICES", 0)
    with pytest.raises(TargetError, match=r"no NVIDIA GPU can be used \(cudaErrorNoDevice: no CUDA-capable device"):
        load("cuda")


def test_a_cupy_that_cannot_be_imported_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cupy.py").write_text("raise ImportError('libcudart.so.13: cannot open shared object file')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TargetError, match=r"CuPy cannot be imported \(libcudart\.so\.13: cannot open .*pip install"):
        load("cuda")


def sparse_call(rows: int, slots: list[int]) -> Call:
    """A call on pools in fresh memory of the system, of which no page exists yet."""
    given = call(tokens=len(slots), head_dim=128, dtype=torch.float16)
    pools = [torch.frombuffer(mmap.mmap(-1, rows * 512), dtype=torch.float16).view(rows, 2, 128) for _ in range(2)]
    return given.but(slots=torch.tensor(slots, dtype=torch.int32), k_pool=pools[0], v_pool=pools[1])


def test_of_a_large_pool_only_written_pages_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LARGE_BYTES", 2**20)
    ours, host = (sparse_call(8195, [8194, 3000, -1]) for _ in range(2))
    for given in (ours, host):
        given.k_pool[3001].fill_(1.5)
        # A page that the kernel leaves all zeros.
        given.v_pool[3000].fill_(1.5)
        given.v.zero_()
    load("cuda").run(ours)
    HostTarget.compile().run(host)
    resident = int(gpu._resident_pages(gpu._bytes(ours.k_pool)).sum())
    assert 0 < resident <= 3
    assert torch.equal(bits(ours.k_pool), bits(host.k_pool))
    assert torch.equal(bits(ours.v_pool), bits(host.v_pool))


def test_a_wrong_row_of_a_large_pool_is_brought_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu, "LARGE_BYTES", 2**20)
    wraps = ShaderFault("wraps", "", "(ulong(row) * num_heads + head)", "(ulong(row % 4096) * num_heads + head)")
    given = sparse_call(8195, [8194, 3000, -1])
    CudaTarget.compile(wraps.write(tmp_path), Build()).run(given)
    assert (given.k_pool != 0).flatten(1).any(1).nonzero().flatten().tolist() == [2, 3000]


def test_exact_allocations_hold_each_array_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(gpu.EXACT, "1")
    target = load("cuda")
    sizes: list[int] = []
    allocate = gpu.Module.allocate
    monkeypatch.setattr(gpu.Module, "allocate", lambda self, size: (sizes.append(size), allocate(self, size))[1])
    ours, host = target.run(call(), LaunchPlan()), HostTarget.compile().run(call(), LaunchPlan())
    assert all(torch.equal(bits(a), bits(b)) for a, b in zip(ours.outputs, host.outputs, strict=True))
    assert sys.modules["cupy"].allocators[-1] is None
    tensors = [*(t for _, t in call().tensors()), call().q, call().k, torch.empty(32, dtype=torch.int64)]
    assert sorted(sizes) == sorted(t.numel() * t.element_size() for t in tensors)
