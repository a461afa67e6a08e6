"""Target `mps` calls PyTorch as its source says, and what it has compiled and run is judged by the suite."""

from __future__ import annotations

import os
import pickle
import platform
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from recorded_mps import Launched, RecordedMps

from conformance.case import Case
from conformance.record import Recorder
from conformance.suite import NonConformanceError, Settings, Suite
from kernel import Call, LaunchPlan, launch
from kernel.memory import Overwritten, bits
from kernel.msl import FunctionConstants, specialise
from kernel.probes import PROBES
from kernel.targets import DEFAULT_SHADER, Behaviour, HostTarget, TargetError, default_target, load, mps, staging
from kernel.targets.mps import MpsTarget
from reference import EXACT_ANGLE, FLOAT32_ANGLE

FLOAT32_SHADER = DEFAULT_SHADER.with_name("rope_pool_fused_float32.metal")
SECOND_SHADER = Path(__file__).parents[1] / "shaders" / "second.metal"
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
CASE = Case(dtype="bf16", num_tokens=5, num_qo_heads=4, num_kv_heads=2, head_dim=8, pool_size=9, slots="holes")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where sources are compiled: one place, so that each is compiled once."""
    return tmp_path_factory.mktemp("mps")


@pytest.fixture
def device(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordedMps]:
    monkeypatch.setenv("PYTORCH_MPS_FAST_MATH", "0")
    recorded = RecordedMps(folder)
    with monkeypatch.context() as patch:
        recorded.install(patch)
        yield recorded
    mps._library.cache_clear()


def call(dtype: torch.dtype = torch.float32, **changes: Any) -> Call:
    """Random bits, NaNs of every payload among them, as every second head of wider arrays; one token has no slot."""
    generator = torch.Generator().manual_seed(3)
    width = torch.empty(0, dtype=dtype).element_size()
    integer = {2: torch.int16, 4: torch.int32}[width]

    def random(rows: int, heads: int) -> torch.Tensor:
        wide = torch.randint(-(2 ** (8 * width - 1)), 2 ** (8 * width - 1), (rows, 2 * heads, 8), generator=generator)
        return wide.to(integer).view(dtype)[:, ::2]

    positions = torch.tensor([0, 7, -3, 131071, 2**31 - 1], dtype=torch.int32)
    slots = torch.tensor([4, -1, 0, 8, 2], dtype=torch.int32)
    arrays = random(5, 4), random(5, 2), random(5, 2), positions, slots, random(9, 2), random(9, 2)
    return Call(*arrays, head_dim=8, num_qo_heads=4, num_kv_heads=2, rope_base=10000.0).but(**changes)


@pytest.mark.parametrize(("dtype", "plan"), [("f16", "rect/3"), ("bf16", "split/1"), ("f32", "split/2")])
def test_it_computes_bit_for_bit_what_the_host_computes(dtype: str, plan: str, device: RecordedMps) -> None:
    shader = FLOAT32_SHADER if plan == "split/2" else DEFAULT_SHADER
    given, untouched = call(DTYPES[dtype]), call(DTYPES[dtype])
    answer = load("mps", shader).run(given, LaunchPlan.parse(plan))
    for (name, now), (_, before) in zip(given.tensors(), untouched.tensors(), strict=True):
        assert torch.equal(bits(now.contiguous()), bits(before.contiguous())), name
    expected = HostTarget.compile(shader).run(untouched, LaunchPlan.parse(plan))
    assert answer.overwritten == expected.overwritten == ()
    for ours, theirs in zip(answer.outputs, expected.outputs, strict=True):
        assert torch.equal(bits(ours.contiguous()), bits(theirs.contiguous()))
    assert device.synchronised == 1


def test_each_kernel_gets_its_buffers_its_grid_and_its_threadgroup(device: RecordedMps) -> None:
    target = load("mps")
    target.run(call(torch.bfloat16), LaunchPlan("split"))
    target.run(call(torch.float16), LaunchPlan("split", 3))
    device.most_threads = 24
    target.run(call(torch.bfloat16), LaunchPlan("rect"))
    x, i, table = (2, 1024), (4, 1024), (8, 1024)
    assert device.launched == [
        Launched("rope_q_bf16", (x, x, i, table), (4, 5, 4), (4, 5, 4)),
        Launched("rope_k_pool_bf16", (x, x, x, i, i, table), (4, 5, 2), (4, 5, 2)),
        Launched("v_to_pool_bf16", (x, x, i), (8, 5, 2), (8, 5, 2)),
        Launched("rope_q_f16", (x, x, i, table), (4, 5, 2), (4, 5, 2)),
        Launched("rope_k_pool_f16", (x, x, x, i, i, table), (4, 5, 1), (4, 5, 1)),
        Launched("v_to_pool_f16", (x, x, i), (8, 5, 2), (8, 5, 2)),
        Launched("rope_pool_rect_bf16", (x,) * 7 + (i, i, table), (8, 5, 4), (8, 3, 1)),
    ]


def test_a_shader_that_asks_for_no_table_gets_none(device: RecordedMps) -> None:
    load("mps", FLOAT32_SHADER).run(call(torch.bfloat16), LaunchPlan("rect"))
    assert [len(launched.arguments) for launched in device.launched] == [9]


@pytest.mark.parametrize("grid", [(1, 1, 1), (64, 8192, 130), (288, 1, 1), (1, 5, 200), (16, 3, 3)])
def test_a_threadgroup_has_256_threads_at_most_and_32_in_a_row(grid: tuple[int, int, int]) -> None:
    width, height, depth = mps._group(grid, type("Kernel", (), {"max_threads_per_threadgroup": 1024}))
    assert width == min(32, grid[0])
    assert width * height * depth <= 256
    assert all(0 < side <= size for side, size in zip((width, height, depth), grid, strict=True))


def test_a_source_is_compiled_once_for_each_set_of_constants(device: RecordedMps) -> None:
    target = load("mps")
    for dtype, plan in (("bf16", "split/1"), ("f16", "split/3"), ("bf16", "rect/1"), ("f16", "rect/3")):
        target.run(call(DTYPES[dtype]), LaunchPlan.parse(plan))
    assert len(device.sources) == 2
    target.run(call(positions=torch.empty(0, dtype=torch.int32), slots=torch.empty(0, dtype=torch.int32),
                    **{name: torch.empty(0, heads, 8) for name, heads in (("q", 4), ("k", 2), ("v", 2))}))  # fmt: skip
    assert len(device.sources) == 2


@pytest.mark.usefixtures("device")
def test_the_suite_judges_what_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both plans, strides and unreadable pages beside the arrays, a call that is repeated, and one that is wrong."""
    monkeypatch.setattr("conformance.suite.PROBE", CASE)
    suite = Suite(load("mps"), Settings(EXACT_ANGLE), Recorder(None))
    assert suite.in_place is False
    for change in ({"plan": "rect/1"}, {"memory": "page-end"}, {"values": "nonfinite"}):
        suite.check(CASE.but(**change))
    suite.check(CASE.but(layout="q:step,k:transposed,positions:step,v_pool:sliced"))
    suite.check_repeat(CASE.but(plan="split/1"))
    suite.check(CASE.but(fault="q@f32"))
    suite.close()
    assert suite.behaviour == Behaviour(
        "to nearest", "to nearest even", False, False, False, True, probes=suite.behaviour.probes
    )


Break = Callable[[pytest.MonkeyPatch], None]


def swapped_buffers(patch: pytest.MonkeyPatch) -> None:
    names = launch.ENTRY_BUFFERS["rope_k_pool"]
    patch.setitem(launch.ENTRY_BUFFERS, "rope_k_pool", (*names[:3], names[4], names[3]))


def swapped_pools(patch: pytest.MonkeyPatch) -> None:
    names = launch.ENTRY_BUFFERS["rope_pool_rect"]
    patch.setitem(launch.ENTRY_BUFFERS, "rope_pool_rect", (*names[:5], names[6], names[5], *names[7:]))


def swapped_constants(patch: pytest.MonkeyPatch) -> None:
    def swapped(call: Call, plan: LaunchPlan) -> Any:
        right = launch.function_constants(call, plan)
        return replace(right, num_qo_heads=right.num_kv_heads, num_kv_heads=right.num_qo_heads)

    patch.setattr(mps, "function_constants", swapped)


def short_grid(axis: int) -> Break:
    def shorten(patch: pytest.MonkeyPatch) -> None:
        def short(*arguments: Any) -> list[launch.Launch]:
            return [
                launch.Launch(one.entry, tuple(n - (i == axis) for i, n in enumerate(one.grid)))  # type: ignore[arg-type]
                for one in launch.launches(*arguments)
            ]

        patch.setattr(staging, "launches", short)

    return shorten


def lost_offset(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mps, "_part", lambda storage, margined: storage[: margined.tensor.numel()])


def decimal_literal(patch: pytest.MonkeyPatch) -> None:
    right = specialise._literal

    def rounded(index: int, constants: FunctionConstants) -> str:
        return f"{constants.log2_base_over_head_dim:.3f}f" if index == 3 else right(index, constants)

    patch.setattr(specialise, "_literal", rounded)


@pytest.mark.parametrize(
    ("planted", "plan", "requirement"),
    [
        (swapped_buffers, "split/1", "SLOT-K"),
        (swapped_pools, "rect/1", "SLOT-V"),
        (swapped_constants, "split/1", "SLOT-V"),
        (short_grid(0), "split/1", "ROT-K"),
        (short_grid(1), "split/1", "SLOT-V"),
        (short_grid(2), "rect/1", "ROT-Q"),
        (lost_offset, "split/1", "CALL"),
        (decimal_literal, "split/1", "ROT-Q"),
    ],
    ids=["buffers", "pools", "constants", "grid x", "grid y", "grid z", "offset", "literal"],
)
@pytest.mark.usefixtures("device")
def test_a_planted_fault_is_found(planted: Break, plan: str, requirement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = load("mps", FLOAT32_SHADER)
    monkeypatch.setattr(MpsTarget, "measure", lambda _: Behaviour())
    monkeypatch.setattr("conformance.suite.PROBE", CASE)
    suite = Suite(target, Settings(FLOAT32_ANGLE), Recorder(None))
    suite.check(CASE.but(plan=plan))
    suite._worker.renew()
    planted(monkeypatch)
    with pytest.raises(NonConformanceError, match=rf"(?m)^{requirement}$"):
        suite.check(CASE.but(plan=plan))
    suite.close()


def test_a_documented_error_comes_before_anything_reaches_the_gpu(device: RecordedMps) -> None:
    target = load("mps")
    with pytest.raises(ValueError, match="q/k/v dtypes must match"):
        target.run(call(k=torch.zeros(5, 2, 8, dtype=torch.float16)), None)
    assert (device.to_device, device.sources) == (0, [])


def test_an_error_of_pytorch_is_no_documented_one(device: RecordedMps, monkeypatch: pytest.MonkeyPatch) -> None:
    target = load("mps", FLOAT32_SHADER)
    monkeypatch.setattr(mps, "_group", lambda *_: (32, 32, 2))
    with pytest.raises(RuntimeError, match=r"torch\.mps: ValueError: Threadgroup size exceeds 1024 limit"):
        target.run(call())
    assert device.launched == []


def edited(folder: Path, find: str, replacement: str, name: str = "mine.metal") -> Path:
    text = FLOAT32_SHADER.read_text()
    assert text.count(find) == 1, text.count(find)
    path = folder / name
    path.write_text(text.replace(find, replacement), encoding="utf-8")
    return path


@pytest.mark.usefixtures("device")
def test_a_write_outside_the_buffers_or_into_an_input_is_told(tmp_path: Path) -> None:
    first = (
        "    if (gid.x == 0 && gid.y == 1 && gid.z == 0) { SIN }\n    rotate_heads<T>(k, k_out, k_pool, slots[gid.y]"
    )
    sin = "k_out[-2] = T(1); k_pool[144] = k_pool[145] = T(1); ((device T*)k)[3] = T(1); ((device int*)slots)[1] = 5;"
    shader = edited(tmp_path, "    rotate_heads<T>(k, k_out, k_pool, slots[gid.y]", first.replace("SIN", sin))
    answer = load("mps", shader).run(call(), LaunchPlan("split"))
    assert set(answer.overwritten) == {
        Overwritten("k", 1, 3, "inside"),
        Overwritten("slots", 1, 1, "inside"),
        Overwritten("k_pool", 2, 144),
        Overwritten("k_out", 1, -2),
    }


@pytest.mark.usefixtures("device")
def test_what_cannot_be_loaded_is_told_in_a_line(tmp_path: Path) -> None:
    begin = "constant uint HALF_DIM"
    for replacement, message in (
        (f"// caf\u00e9\n{begin}", "mine.metal:18: torch.mps.compile_shader takes ASCII only, and here is '\u00e9'"),
        (f"#error no\n{begin}", "mine.metal:18:2: error: #error no"),
        ("constant uint HEAD_DIM_2 [[function_constant(0)]], HALF_DIM", "mine.metal:18: this function constant is not"),
    ):
        with pytest.raises(TargetError, match=re.escape(message)):
            load("mps", edited(tmp_path, begin, replacement))


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (
            "failed\nprogram_source:3:1: error: unknown type name 'constan'\nconstan\n^\nprogram_source:4:1: error: no",
            "rope_pool_fused.metal:3:1: error: unknown type name 'constan'",
        ),
        ("Failed to create function state object for: rope_q_f16", "rope_pool_fused.metal: Metal refuses it: Failed"),
        ("", "rope_pool_fused.metal: Metal refuses it: "),
    ],
)
@pytest.mark.usefixtures("device")
def test_a_source_that_metal_refuses_is_told_in_a_line(
    message: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str) -> None:
        raise SyntaxError(message) if source else AssertionError

    monkeypatch.setattr(torch.mps, "compile_shader", refuse)
    with pytest.raises(TargetError, match=rf"^{re.escape(told)}.*\Z"):
        load("mps")


@pytest.mark.usefixtures("device")
def test_a_gpu_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(torch.backends.mps, "is_available", lambda: False)
        with pytest.raises(TargetError, match="shows PyTorch no Metal GPU: run it on Apple silicon"):
            load("mps")
    with monkeypatch.context() as patch:
        patch.setattr(torch.backends.mps, "is_available", lambda: os._exit(3))
        with pytest.raises(TargetError, match="the process that tried the GPU ended before it answered"):
            load("mps")
    monkeypatch.delattr(torch.mps, "compile_shader")
    with pytest.raises(TargetError, match=r"has no torch\.mps\.compile_shader: install torch 2\.7"):
        load("mps")


def test_a_pytorch_without_mps_is_told() -> None:
    if torch.backends.mps.is_built():
        pytest.skip("this PyTorch has MPS")
    with pytest.raises(TargetError, match=r"is built without MPS: run it on Apple silicon, or take another target"):
        load("mps")


def test_a_child_is_asked_in_a_process_that_does_not_fork(device: RecordedMps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a process has no double, and on this machine no GPU."""
    target = load("mps")
    assert pickle.loads(pickle.dumps(target)) == target
    monkeypatch.setattr(MpsTarget, "start_method", "spawn")
    if platform.system() != "Darwin":
        with pytest.raises(TargetError, match="shows PyTorch no Metal GPU"):
            mps._asked_of_a_child(target)
    assert device.launched == []


def test_this_process_asks_the_gpu_nothing_when_it_loads_describes_and_measures(
    device: RecordedMps, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = os.getpid()

    def available() -> bool:
        assert os.getpid() != here
        return True

    monkeypatch.setattr(torch.backends.mps, "is_available", available)
    target = load("mps")
    described = target.describe()
    assert (described.name, described.device, described.facts["math"]) == ("mps", "a double", "libm")
    assert len(described.not_evidenced) >= 5
    target.measure()
    assert (device.sources, device.to_device, device.synchronised) == ([], 0, 0)


@pytest.mark.parametrize(("math", "wanted"), [("libm", "0"), ("metal-fast", "1")])
@pytest.mark.usefixtures("device")
def test_the_math_mode_is_set_before_pytorch_compiles(math: str, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = load("mps", FLOAT32_SHADER, math)
    assert target.describe().facts["math"] == math
    monkeypatch.setenv("PYTORCH_MPS_FAST_MATH", "7")

    def mode(source: str) -> None:
        raise RuntimeError(f"fast math {os.environ['PYTORCH_MPS_FAST_MATH']}, {len(source)} characters")

    monkeypatch.setattr(torch.mps, "compile_shader", mode)
    with pytest.raises(RuntimeError, match=rf"torch\.mps: RuntimeError: fast math {wanted}, [0-9]+ characters"):
        target.run(call())
    assert {probe.control for probe in target.measure().probes} == {
        f"fast math {wanted}, {len(PROBES.read_text())} characters"
    }


@pytest.mark.parametrize(
    ("system", "machine", "built", "wanted"),
    [("Darwin", "arm64", True, "mps"), ("Darwin", "x86_64", True, "host"), ("Darwin", "arm64", False, "host"),
     ("Linux", "arm64", True, "host")],
)  # fmt: skip
def test_apple_silicon_takes_it_where_no_target_is_named(
    system: str, machine: str, built: bool, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: built)
    assert default_target() == wanted
