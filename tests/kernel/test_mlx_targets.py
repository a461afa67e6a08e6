"""The targets over MLX: bits through its arrays, what a call is given, what it may not write, and what is missing."""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
import torch
from probes import draw

import kernel as host
from conformance.placement import LAYOUTS, place
from kernel import targets
from kernel.call import Call
from kernel.memory import Overwritten, bits
from kernel.targets import Answer, TargetError, sgl
from kernel.targets.mlx_arrays import Held, call_through, temporary, to_torch
from kernel.targets.sgl import SglTarget

STANDINS = Path(__file__).resolve().parents[1] / "standins"
DTYPES = [torch.float16, torch.bfloat16, torch.float32]
INDEX_DTYPES = [torch.int32, torch.int64, torch.int16, torch.uint32, torch.uint8]


class Watched:
    """mlx.core, its evaluations counted."""

    def __init__(self) -> None:
        self.evaluations = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(mx, name)

    def eval(self, *arrays: Any) -> None:
        self.evaluations += 1
        mx.eval(*arrays)


def a_call(**fields: Any) -> Call:
    drawn = draw(**fields)
    return Call(**vars(drawn))


def same(q: Any, k: Any, v: Any, positions: Any, slots: Any, k_pool: Any, v_pool: Any, **_: Any) -> Any:  # noqa: ARG001
    """A function that computes nothing."""
    return q + 0, k + 0, k_pool, v_pool


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64, *INDEX_DTYPES], ids=str)
def test_every_pattern_goes_and_comes_back(dtype: torch.dtype) -> None:
    size = torch.empty(0, dtype=dtype).element_size()
    patterns = torch.arange(-(2**15), 2**15).to(torch.int16).repeat(size // 2 or 1)
    given = (patterns if size > 1 else patterns.to(torch.int8)).view(dtype).view(4, -1, 2)
    for array in (Held.of(mx, given).array, temporary(mx, given)):
        assert str(array.dtype) == str(dtype).replace("torch", "mlx.core")
        assert torch.equal(bits(to_torch(mx, array)), bits(given))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(3, 1, 6), (0, 2, 4), (5,)], ids=str)
def test_strides_and_gaps_go_too(layout: str, shape: tuple[int, ...]) -> None:
    if (layout == "transposed" and len(shape) < 3) or (layout == "odd-stride" and 1 not in shape):
        return
    given = place(torch.arange(int(torch.Size(shape).numel())).to(torch.bfloat16).view(shape), layout).tensor
    held = Held.of(mx, given)
    assert torch.equal(to_torch(mx, held.array), given)
    if given.numel():
        assert to_torch(mx, held.array).stride() == given.stride()


@pytest.mark.parametrize("donated", [False, True])
def test_the_public_call_is_made_and_evaluated_once(donated: bool) -> None:
    watched, seen = Watched(), {}

    def function(*arrays: Any, **arguments: Any) -> Any:
        seen["arrays"] = [(type(array), array.shape, str(array.dtype)) for array in arrays]
        seen["arguments"] = arguments
        seen["evaluations"] = watched.evaluations
        return same(*arrays, **arguments)

    call = a_call(dtype=torch.bfloat16)
    outputs = call_through(watched, function, call.but(donated=donated)).outputs
    names = [str(t.dtype).replace("torch", "mlx.core") for _, t in call.tensors()]
    assert seen["arrays"] == [(mx.array, tuple(t.shape), n) for (_, t), n in zip(call.tensors(), names, strict=True)]
    assert seen["arguments"] == call.arguments()
    assert (seen["evaluations"], watched.evaluations) == (0, 1)
    assert torch.equal(bits(outputs[2]), bits(call.k_pool))


@pytest.mark.parametrize(("donated", "copies"), [(True, 1), (False, 2)], ids=["donated", "held"])
def test_mlx_makes_outputs_of_temporaries_only(donated: bool, copies: int) -> None:
    q = torch.zeros(64, 64, 256)
    call = a_call().but(q=q, donated=donated)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    call_through(mx, same, call)
    assert (mx.get_peak_memory() - before) // q.nbytes == copies


def written(array: Any, at: int) -> None:
    """An element of an MLX array's memory is changed, as by a kernel."""
    seen = to_torch(mx, array)
    bits(seen).as_strided((1,), (1,), seen.storage_offset() + at).fill_(77)


def test_a_write_to_a_held_input_reaches_the_tensor() -> None:
    call = a_call()
    before = call.q.clone()

    def function(*arrays: Any, **arguments: Any) -> Any:
        mx.eval(arrays)
        written(arrays[0], 5)
        return same(*arrays, **arguments)

    call_through(mx, function, call)
    assert (bits(call.q) != bits(before)).nonzero().tolist() == [[0, 0, 5]]


def test_a_write_beside_a_held_array_is_told() -> None:
    def function(*arrays: Any, **arguments: Any) -> Any:
        mx.eval(arrays)
        Outside(arrays[1]).write(-1)
        return same(*arrays, **arguments)

    assert call_through(mx, function, a_call()).overwritten == (Overwritten("k", 1, -1),)


class Outside:
    """Memory beside an MLX array."""

    def __init__(self, array: Any) -> None:
        self.address = to_torch(mx, array).data_ptr()

    def write(self, at: int) -> None:
        ctypes.c_int32.from_address(self.address + 4 * at).value = 77


def test_a_refusal_that_wrote_is_seen() -> None:
    call = a_call()
    before = call.k_pool.clone()

    def function(*arrays: Any, **_: Any) -> Any:
        mx.eval(arrays)
        written(arrays[5], 0)
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        call_through(mx, function, call)
    assert not torch.equal(bits(call.k_pool), bits(before))


@pytest.mark.parametrize("kept", [False, True], ids=["returned", "beside another"])
def test_a_pool_that_changed_is_the_one_returned(kept: bool) -> None:
    call = a_call()
    before = call.k_pool.clone()

    def function(*arrays: Any, **arguments: Any) -> Any:
        mx.eval(arrays)
        written(arrays[5], 0)
        q_rot, k_rot, k_pool, v_pool = same(*arrays, **arguments)
        return q_rot, k_rot, k_pool + 0 if kept else k_pool, v_pool

    outputs = call_through(mx, function, call).outputs
    assert int(bits(outputs[2]).flatten()[0]) == 77 or kept
    assert torch.equal(bits(call.k_pool), bits(before)) is not kept


def test_what_is_no_array_comes_back_as_it_is() -> None:
    assert call_through(mx, lambda *_, **__: "four arrays", a_call()) == Answer("four arrays")  # type: ignore[arg-type]


def test_shapes_print_as_mlx_prints_them() -> None:
    with pytest.raises(ValueError, match=r"got \(3, 4, 8\)$"):
        targets.load("mlx").run(a_call().but(num_qo_heads=5), None)


def test_no_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx.core", None)
    for name in ("mlx", "sgl"):
        with pytest.raises(TargetError, match=r"need mlx \(.*\): pip install mlx on a Mac"):
            targets.load(name)


def package(folder: Path, metal: str | None) -> None:
    (folder / "sgl_kernel").mkdir()
    (folder / "sgl_kernel" / "__init__.py").write_text("__version__ = '1'\n")
    if metal is not None:
        (folder / "sgl_kernel" / "metal.py").write_text(metal)


CPU_ONLY = """
import types
_metal = types.ModuleType("_metal")
def rope_pool_fused(*_, **__):
    raise RuntimeError("rope_pool_fused: CPU eval not supported")
"""
NO_METALLIB = "_metal, _IMPORT_ERROR = None, ImportError('x.metallib not found')\n"


@pytest.mark.parametrize(
    ("metal", "message"),
    [
        (None, "sgl_kernel is there but not sgl_kernel.metal (ImportError: cannot import name 'metal'"),
        (NO_METALLIB, "sgl_kernel.metal has no native part (x.metallib not found): build it from SGLang's main"),
        ("_metal = None\n", "sgl_kernel.metal has no native part (_metal is None): build it"),
        (CPU_ONLY, "MLX has only the CPU here, and the kernel needs its GPU (RuntimeError: rope_pool_fused: CPU eval"),
        ("import os; os.abort()\n", "importing sgl_kernel.metal ends the process with status -6"),
    ],
    ids=["no metal module", "no metallib", "no native part", "CPU-only MLX", "aborts"],
)
def test_a_package_that_cannot_be_called(
    metal: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, metal)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TargetError) as raised:
        SglTarget.load()
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_no_package() -> None:
    with pytest.raises(TargetError, match="needs the package sgl_kernel"):
        SglTarget.load()


@pytest.fixture
def native_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, ...]]]:
    """What the stand-in's native part is called with."""
    monkeypatch.syspath_prepend(STANDINS)
    calls: list[tuple[Any, ...]] = []
    native = importlib.import_module("sgl_kernel._metal")
    answer = native.rope_pool_fused
    monkeypatch.setattr(native, "rope_pool_fused", lambda *given: calls.append(given) or answer(*given))
    yield calls
    sgl.kernel.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "sgl_kernel"]:
        del sys.modules[name]


def test_sgl_calls_the_package_with_mlx_arrays(native_calls: list[tuple[Any, ...]]) -> None:
    call = a_call(dtype=torch.bfloat16)
    outputs = SglTarget(mx, "stand-in").run(call.but(rope_base=10000)).outputs
    [(*arrays, head_dim, num_qo_heads, num_kv_heads, rope_base)] = native_calls
    assert all(isinstance(array, mx.array) for array in arrays)
    assert (head_dim, num_qo_heads, num_kv_heads) == (8, 4, 2)
    assert (type(rope_base), rope_base) == (float, 10000.0)
    wanted = host.rope_pool_fused(*(t.clone() for _, t in call.tensors()), **call.but(rope_base=10000).arguments())
    assert all(torch.equal(bits(got), bits(right)) for got, right in zip(outputs, wanted, strict=True))


def test_sgl_passes_on_what_the_package_raises(native_calls: list[tuple[Any, ...]]) -> None:
    target = SglTarget(mx, "stand-in")
    with pytest.raises(ValueError, match=r"^k_pool has incompatible shape \(8, 2, 8\)$"):
        target.run(
            a_call().but(k_pool=torch.zeros(8, 2, 8), k=torch.zeros(3, 1, 8), v=torch.zeros(3, 1, 8), num_kv_heads=1)
        )
    assert not native_calls
    with pytest.raises(RuntimeError, match="int32"):
        target.run(a_call().but(positions=torch.zeros(3, dtype=torch.int64)))
