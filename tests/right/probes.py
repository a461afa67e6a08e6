"""Calls that between them tell every planted fault from a right kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from tests.right.arguments import FLOAT_DTYPES, Call
from tests.right.recipe import INTEGER

Probe = Callable[[], Call]

F16, BF16, F32 = FLOAT_DTYPES
SIGNALLING_NAN = {F16: 0x7C01, BF16: 0x7F81, F32: 0x7F800001}
INT32_MIN = -(2**31)


@dataclass(frozen=True)
class Shape:
    """Sizes of a call; positions and slots are drawn where they are left out."""

    num_tokens: int = 3
    num_qo_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 8
    pool_size: int = 8
    dtype: torch.dtype = F32
    rope_base: float = 10000.5
    positions: tuple[int, ...] | None = None
    slots: tuple[int, ...] | None = None


def draw(**fields: Any) -> Call:
    """A call with normal q, k and v; the pools alternate between rows of signalling NaN and rows of -0."""
    s = Shape(**fields)
    random = torch.Generator().manual_seed(s.num_tokens)

    def normal(num_heads: int) -> Tensor:
        return torch.randn(s.num_tokens, num_heads, s.head_dim, generator=random).to(s.dtype)

    def pool() -> Tensor:
        rows = torch.full((s.pool_size, s.num_kv_heads, s.head_dim), -0.0, dtype=s.dtype)
        rows.view(INTEGER[s.dtype])[::2] = SIGNALLING_NAN[s.dtype]
        return rows

    positions = torch.randint(1000, (s.num_tokens,), generator=random, dtype=torch.int32)
    slots = torch.randperm(max(s.pool_size, s.num_tokens), generator=random)[: s.num_tokens].to(torch.int32)
    if s.positions is not None:
        positions = torch.tensor(s.positions, dtype=torch.int32)
    if s.slots is not None:
        slots = torch.tensor(s.slots, dtype=torch.int32)
    return Call(
        q=normal(s.num_qo_heads),
        k=normal(s.num_kv_heads),
        v=normal(s.num_kv_heads),
        positions=positions,
        slots=slots,
        k_pool=pool(),
        v_pool=pool(),
        head_dim=s.head_dim,
        num_qo_heads=s.num_qo_heads,
        num_kv_heads=s.num_kv_heads,
        rope_base=s.rope_base,
    )


SIZES: tuple[dict[str, Any], ...] = (
    *({"dtype": dtype, "slots": (5, -1, 2)} for dtype in (F32, BF16, F16, F32)),
    {"positions": (7, 7, 7)},
    {"positions": (0, 0, 0), "slots": (2, 3, 4)},
    {"positions": (1, 257, 70001)},
    {"positions": (-3, -70001, 131075), "dtype": BF16},
    {"positions": (131069, 131072, 200000)},
    {"rope_base": 2.25},
    {"rope_base": 2.75},
    {"rope_base": 500000.0, "head_dim": 64, "positions": (4000, 8000, 16000)},
    {"slots": (-2, INT32_MIN, 3)},
    {"slots": (-1, -1, -3)},
    {"slots": (0, 7, 1)},
    {"slots": (6, 2, 6)},
    {"slots": (8, 2, 9)},
    {"slots": (0, -1, -2), "pool_size": 1},
    {"num_tokens": 0, "slots": (), "positions": ()},
    {"slots": (7, 1, 4)},
    {"num_qo_heads": 1, "num_kv_heads": 1, "head_dim": 2, "pool_size": 70000, "slots": (65537, 40000, 69999)},
    {"num_qo_heads": 9, "num_kv_heads": 3, "dtype": F16},
    {"num_qo_heads": 3, "num_kv_heads": 1},
    {"num_tokens": 1},
    {"num_tokens": 2, "head_dim": 256, "dtype": BF16},
    {"head_dim": 10, "dtype": F16},
    {"head_dim": 96, "dtype": F16},
    {"num_tokens": 17, "pool_size": 40},
    {"num_tokens": 1030, "num_qo_heads": 1, "num_kv_heads": 1, "head_dim": 4, "pool_size": 1030},
)


def special_v(dtype: torch.dtype) -> Call:
    call = draw(dtype=dtype)
    patterns = torch.tensor([SIGNALLING_NAN[dtype], 1, 3], dtype=INTEGER[dtype]).view(dtype)
    call.v[0, 0, :6] = torch.cat((patterns, torch.tensor([-0.0, torch.inf, -torch.inf]).to(dtype)))
    return call


def nan_in_one_head() -> Call:
    call = draw(dtype=F16)
    call.q[1, 2, 3] = torch.nan
    return call


def overflowing() -> Call:
    call = draw(dtype=F16, positions=(1, 2, 3))
    return replace(call, q=torch.full_like(call.q, 65504.0))


def every_second(x: Tensor) -> Tensor:
    """The same values, two apart in memory."""
    return torch.stack((x, torch.ones_like(x)), dim=-1)[..., 0]


def transposed(x: Tensor) -> Tensor:
    return x.transpose(0, 1).contiguous().transpose(0, 1)


def behind(x: Tensor) -> Tensor:
    """The same values, behind other rows of one piece of memory."""
    return torch.cat((torch.ones_like(x), x))[len(x) :]


def one_head_of_four() -> Call:
    call = draw(num_kv_heads=1)
    return replace(call, k=call.k.repeat(1, 4, 1)[:, 2:3], v=call.v.repeat(1, 4, 1)[:, 2:3])


def one_head_across() -> Call:
    """One KV head, dense but for the head axis, whose stride of three tokens means nothing."""
    call = draw(num_kv_heads=1)
    return replace(call, k=transposed(call.k), v=transposed(call.v))


def wide_bf16() -> Call:
    call = draw(dtype=BF16)
    return replace(call, q=call.q * 2.0**40)


def broadcast() -> Call:
    call = draw()
    return replace(call, k=call.k[:1].expand(3, -1, -1), v=call.v[:, :1].expand(-1, 2, -1))


def relaid(layout: Callable[[Tensor], Tensor], *arguments: str) -> Probe:
    def probe() -> Call:
        call = draw()
        changes: dict[str, Any] = {a: layout(getattr(call, a)) for a in arguments}
        return replace(call, **changes)

    return probe


def wider() -> Call:
    """Every float array in float64."""
    call = draw()
    changes: dict[str, Any] = {a: getattr(call, a).to(torch.float64) for a in FLOATS}
    return replace(call, **changes)


FLOATS = ("q", "k", "v", "k_pool", "v_pool")

OTHERS: dict[str, Probe] = {
    "special_v_f16": lambda: special_v(F16),
    "special_v_f32": lambda: special_v(F32),
    "nan_in_one_head": nan_in_one_head,
    "overflowing": overflowing,
    "strided": relaid(every_second, "q", "k", "v"),
    "strided_indices": relaid(every_second, "positions", "slots"),
    "strided_pools": relaid(every_second, "k_pool", "v_pool"),
    "transposed": relaid(transposed, "q", "k", "v"),
    "behind": relaid(behind, "q", "k", "v"),
    "pools_behind": relaid(behind, "k_pool", "v_pool"),
    "one_head_of_four": one_head_of_four,
    "one_head_across": one_head_across,
    "wide_bf16": wide_bf16,
    "broadcast": broadcast,
    "wider": wider,
    "int64_positions": relaid(lambda x: x.to(torch.int64), "positions"),
    "int64_slots": relaid(lambda x: x.to(torch.int64), "slots"),
    "float_positions": relaid(lambda x: x.to(torch.float32), "positions"),
    "odd_head_dim": lambda: draw(head_dim=7),
    "head_dim_argument": lambda: replace(draw(), head_dim=4),
    "bad_empty_batch": lambda: replace(draw(num_tokens=0, slots=(), positions=()), num_qo_heads=5),
    "one_rank_deeper_pools": relaid(lambda x: x[None], "k_pool", "v_pool"),
    "longer_indices": relaid(lambda x: x.repeat(2), "positions", "slots"),
    "pools_of_other_dtype": relaid(lambda x: x.to(F16), "k_pool", "v_pool"),
    "pools_of_more_heads": relaid(lambda x: x.repeat(1, 2, 1), "k_pool", "v_pool"),
    "pools_of_longer_heads": relaid(lambda x: x.repeat(1, 1, 2), "k_pool", "v_pool"),
    "k_and_v_of_more_heads": relaid(lambda x: x.repeat(1, 2, 1), "k", "v"),
    "k_and_v_of_more_tokens": relaid(lambda x: x.repeat(2, 1, 1), "k", "v"),
}

LAYOUTS = (
    "strided",
    "strided_indices",
    "strided_pools",
    "transposed",
    "behind",
    "pools_behind",
    "one_head_of_four",
    "one_head_across",
    "broadcast",
)

# (argument, what is done to it): one thing wrong with one argument of a bf16 call.
SPOILT: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
    *((a, lambda x: x[0]) for a in FLOATS),
    *((a, lambda x: x[:, None]) for a in ("positions", "slots")),
    *((a, lambda x: x[:-1]) for a in ("positions", "slots", *FLOATS)),
    *((a, lambda x: x[:, :1]) for a in FLOATS),
    *((a, lambda x: x[..., :6]) for a in FLOATS),
    *((a, lambda x: x.to(F16)) for a in FLOATS),
    ("v", lambda x: x.flatten(1).view(3, 1, 16)),
)


def spoilt(*kinds: tuple[str, Callable[[Tensor], Tensor]]) -> Probe:
    def probe() -> Call:
        call = draw(dtype=BF16, num_qo_heads=6)
        changes: dict[str, Any] = {argument: spoil(getattr(call, argument)) for argument, spoil in kinds}
        return replace(call, **changes)

    return probe


def right_calls() -> list[Probe]:
    """Calls of every size, in an order in which one call's state can harm the next."""
    return [partial(draw, **fields) for fields in SIZES]


def wrong_calls() -> Iterator[Probe]:
    """One thing wrong, then two at a time; most break one or two of the eleven checks."""
    yield from map(spoilt, SPOILT)
    for kinds in combinations(SPOILT, 2):
        yield spoilt(*kinds)


def probes() -> Iterator[Probe]:
    yield from right_calls()
    yield from OTHERS.values()
    yield partial(draw, num_tokens=2)
    yield from wrong_calls()
    yield partial(draw, num_tokens=4)
