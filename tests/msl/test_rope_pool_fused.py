"""The project's own Metal sources: all twelve entry points of each against a small model in float64."""

from dataclasses import dataclass
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kernel.msl import Build, FunctionConstants, Program, compile_program

SHADERS = Path(__file__).parents[2] / "shaders"
SOURCES = ("rope_pool_fused.metal", "rope_pool_fused_float32.metal")
BUFFERS = {"rope_q": 3, "rope_k_pool": 5, "v_to_pool": 3, "rope_pool_rect": 9}
REQUIRED = {f"{name}_{suffix}": n for name, n in BUFFERS.items() for suffix in ("f16", "bf16", "f32")}
MAY_ASK = {name for name in REQUIRED if not name.startswith("v_to_pool")}
BASE = 10000.0
SIGNALLING = {"f16": 0x7C01, "bf16": 0x7F81, "f32": 0x7F800001}
# Half an ulp of the output type.
ROUNDING = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-24}
# Positions stay within 100, and a float32 exp2 and the product that follows it are within 4.5 ulp (2^-23) together.
ANGLE_ERROR = 100 * 4.5 * 2.0**-23

Bits = NDArray[np.generic]


def compiled(source: str, build: Build | None = None) -> Program:
    return compile_program(SHADERS / source, REQUIRED, build or Build(), MAY_ASK)


def encode(values: NDArray[np.float64], suffix: str) -> Bits:
    if suffix == "f16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.astype(np.float32).view(np.uint32)
    return bits if suffix == "f32" else ((bits + 0x8000) >> 16).astype(np.uint16)


def decode(bits: Bits, suffix: str) -> NDArray[np.float64]:
    if suffix == "f16":
        return bits.view(np.float16).astype(np.float64)
    wide = bits if suffix == "f32" else bits.astype(np.uint32) << 16
    return wide.view(np.float32).astype(np.float64)


def rotated(bits: Bits, positions: NDArray[np.int32], suffix: str) -> NDArray[np.float64]:
    x = decode(bits, suffix)
    half = x.shape[-1] // 2
    angle = positions[:, None, None] * BASE ** (-np.arange(half) / half)
    low, high = x[..., :half], x[..., half:]
    return np.concatenate([low * np.cos(angle) - high * np.sin(angle), low * np.sin(angle) + high * np.cos(angle)], -1)


@dataclass
class Call:
    """One call's arrays, as bit patterns; the outputs start out as signalling NaNs."""

    suffix: str
    head_dim: int
    num_qo_heads: int
    num_kv_heads: int
    heads_per_thread: int
    positions: NDArray[np.int32]
    slots: NDArray[np.int32]

    def __post_init__(self) -> None:
        random = np.random.default_rng(5)
        tokens, pool_size = len(self.slots), 9
        kv = (tokens, self.num_kv_heads, self.head_dim)
        self.q = encode(random.standard_normal((tokens, self.num_qo_heads, self.head_dim)), self.suffix)
        self.k, self.v = (encode(random.standard_normal(kv), self.suffix) for _ in range(2))
        self.v[0, 0, :2] = SIGNALLING[self.suffix]
        self.q_out, self.k_out = (np.full_like(x, SIGNALLING[self.suffix]) for x in (self.q, self.k))
        self.k_pool, self.v_pool = (
            np.full((pool_size, *kv[1:]), SIGNALLING[self.suffix], self.q.dtype) for _ in range(2)
        )

    @property
    def frequencies(self) -> NDArray[np.uint64]:
        """Off by 2^-53 of themselves at most, which the angle at these positions hides."""
        half = self.head_dim // 2
        return (BASE ** (-np.arange(half) / half) / (2 * np.pi) * 2.0**64).astype(np.uint64)

    @property
    def constants(self) -> FunctionConstants:
        step = float(np.float32(np.log2(np.float32(BASE))) / np.float32(self.head_dim))
        return FunctionConstants(self.head_dim, self.num_qo_heads, self.num_kv_heads, step, self.heads_per_thread)

    def launch(self, program: Program, entry: str, names: str, grid: tuple[int, int, int]) -> None:
        entry, specialisation = f"{entry}_{self.suffix}", program.specialise(self.constants)
        arrays = [getattr(self, name) for name in [*names.split(), "frequencies"][: specialisation.num_buffers(entry)]]
        specialisation.launch(entry, [a.ctypes.data for a in arrays], grid)

    def run(self, program: Program, rectangular: bool, spare_threads: int = 0) -> None:
        def groups(heads: int) -> int:
            return -(-heads // self.heads_per_thread) + spare_threads

        tokens, half, spare = len(self.slots), self.head_dim // 2 + spare_threads, spare_threads
        if rectangular:
            self.launch(
                program,
                "rope_pool_rect",
                "q k v q_out k_out k_pool v_pool positions slots",
                (self.head_dim + spare, tokens, groups(max(self.num_qo_heads, self.num_kv_heads))),
            )
            return
        self.launch(program, "rope_q", "q q_out positions", (half, tokens, groups(self.num_qo_heads)))
        self.launch(
            program,
            "rope_k_pool",
            "k k_out k_pool positions slots",
            (half, tokens, groups(self.num_kv_heads)),
        )
        self.launch(program, "v_to_pool", "v v_pool slots", (self.head_dim + spare, tokens, self.num_kv_heads + spare))

    def check(self) -> None:
        for got, given in ((self.q_out, self.q), (self.k_out, self.k)):
            want = rotated(given, self.positions, self.suffix)
            size = np.abs(decode(given, self.suffix)).max()
            assert want.size > 0
            assert np.all(
                np.abs(decode(got, self.suffix) - want) <= ROUNDING[self.suffix] * np.abs(want) + ANGLE_ERROR * size
            )
        written = self.slots[self.slots >= 0]
        k_pool, v_pool = (np.full_like(self.k_pool, SIGNALLING[self.suffix]) for _ in range(2))
        k_pool[written], v_pool[written] = self.k_out[self.slots >= 0], self.v[self.slots >= 0]
        assert np.array_equal(self.k_pool, k_pool)
        assert np.array_equal(self.v_pool, v_pool)


@pytest.fixture(params=[Build(), Build(contract=True), Build(fast_math=True)], ids=str)
def build(request: pytest.FixtureRequest) -> Build:
    return request.param


@pytest.fixture(params=SOURCES)
def program(request: pytest.FixtureRequest, build: Build) -> Program:
    return compiled(request.param, build)


POSITIONS = np.array([0, 1, 17, 100, -3, 63], np.int32)
SLOTS = np.array([4, -1, 0, 8, -(2**31), 2], np.int32)


@pytest.mark.parametrize("rectangular", [False, True], ids=["split", "rectangular"])
@pytest.mark.parametrize("suffix", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(
    ("head_dim", "num_qo_heads", "num_kv_heads", "heads_per_thread"),
    [(64, 4, 2, 1), (6, 5, 3, 2), (128, 2, 4, 3), (2, 1, 1, 8)],
)
@pytest.mark.parametrize("spare_threads", [0, 3])
def test_each_entry_point_computes_what_the_model_does(
    program: Program,
    rectangular: bool,
    suffix: str,
    head_dim: int,
    num_qo_heads: int,
    num_kv_heads: int,
    heads_per_thread: int,
    spare_threads: int,
) -> None:
    call = Call(suffix, head_dim, num_qo_heads, num_kv_heads, heads_per_thread, POSITIONS, SLOTS)
    call.run(program, rectangular, spare_threads)
    call.check()


def test_the_model_notices_a_rotation_by_the_wrong_position(program: Program) -> None:
    call = Call("bf16", 64, 4, 2, 1, POSITIONS, SLOTS)
    call.run(program, rectangular=False)
    call.positions = POSITIONS + 1
    with pytest.raises(AssertionError):
        call.check()


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("rectangular", [False, True], ids=["split", "rectangular"])
def test_a_pool_may_hold_more_than_2_to_the_32_elements(source: str, rectangular: bool) -> None:
    """Slot 2^22 of rows of 1024 elements; the memory is reserved, and only the rows written are ever touched."""
    slot, row = 1 << 22, 1024
    no_reserve = 0x4000  # MAP_NORESERVE on Linux; Python 3.11 does not name it
    flags = MAP_PRIVATE | MAP_ANONYMOUS | no_reserve
    k_memory, v_memory = (mmap(-1, (slot + 1) * row * 2, flags=flags) for _ in range(2))
    call = Call("bf16", 128, 8, 8, 1, np.array([5], np.int32), np.array([slot], np.int32))
    call.k_pool, call.v_pool = (
        np.frombuffer(memory, np.uint16).reshape(slot + 1, 8, 128) for memory in (k_memory, v_memory)
    )
    call.run(compiled(source), rectangular)
    assert np.array_equal(call.k_pool[slot], call.k_out[0])
    assert np.array_equal(call.v_pool[slot], call.v[0])
    assert not call.k_pool[0].any()
    assert not call.v_pool[0].any()
