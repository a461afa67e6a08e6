"""Rotation: shapes, positions, bases and values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from conformance.case import DTYPES, Case
from conformance.profile import Profile

HEAD_DIMS = (2, 4, 6, 16, 64, 66, 80, 96, 128, 192, 256)
HEADS = ((1, 1), (4, 4), (4, 2), (8, 1), (5, 5), (3, 1), (9, 3), (2, 6))
BASES = (1.5, 10.0, 100.75, 1e4, 10000.5, 26000.0, 5e5, 1e6, 8e6, 123456.789, 1e9)
POSITIONS = (
    "zero",
    "equal:1",
    "equal:257",
    "rise:0",
    "rise:131065",
    "shuffled:100",
    "uniform:64",
    "uniform:131071",
    "around:65536",
    "around:131071",
    "around:16777216",
    "log",
    "list:131071/2147483647/16777217/1/0/65535/255/256/2049",
    "list:16384/32768/65536/100000/131072/262144/524288/1048576/4096",
)
VALUES = ("normal", "wide", "subnormal", "huge", "cancel", "zeros", "mixed", "nonfinite", "ones")
TOKENS = (1, 2, 3, 7, 16)


def many_tokens(profile: Profile) -> Iterator[Case]:
    """Normal values at positions of every size that models reach: where the mean of many elements tells more."""
    for base, dtype, seed in itertools.product((1e4, 5e5), DTYPES, range(profile.seeds)):
        case = Case(dtype, 64, 8, 8, 128, 72, base, "log:131071", "holes", "normal", seed)
        yield case
        yield case.but(num_tokens=128, head_dim=80, pool_size=140, positions="uniform:1048576")


def shapes(profile: Profile) -> Iterator[Case]:
    """Every head_dim with every ratio of heads; tokens, positions, bases and values taken in turn."""
    grid = itertools.product(DTYPES, HEAD_DIMS, HEADS, range(profile.seeds))
    for n, (dtype, head_dim, (q, kv), seed) in enumerate(grid):
        yield Case(
            dtype,
            num_tokens=TOKENS[n % len(TOKENS)],
            num_qo_heads=q,
            num_kv_heads=kv,
            head_dim=head_dim,
            pool_size=20,
            rope_base=BASES[n % len(BASES)],
            positions=POSITIONS[n % (len(POSITIONS) - 2)],
            slots=("permuted", "holes")[n % 2],
            seed=seed,
        )


def sizes(profile: Profile) -> Iterator[Case]:
    """Head counts and head_dims of released models, and odd ones, beyond the grid of `shapes`."""
    dims = (8, 10, 40, 72, 112, 120, 144, 160, 320, 576)
    heads = ((14, 2), (16, 16), (24, 8), (25, 5), (28, 4), (32, 32), (48, 8), (71, 1), (40, 40), (130, 10))
    for dtype, seed in itertools.product(DTYPES, range(profile.seeds)):
        for n, (head_dim, (q, kv)) in enumerate(zip(dims, heads, strict=True)):
            case = Case(dtype, num_tokens=TOKENS[n % len(TOKENS)], pool_size=20, slots="holes", seed=seed)
            yield case.but(head_dim=head_dim, positions="uniform:131071")
            yield case.but(num_qo_heads=q, num_kv_heads=kv, head_dim=16, positions="uniform:1048576")


def many_tokens_of_each_size(profile: Profile) -> Iterator[Case]:
    """Each head_dim in use with more tokens than a threadgroup holds, and as many KV heads as any model has."""
    dims = (32, 64, 80, 96, 112, 128, 192, 256, 576)
    for dtype, head_dim, count, seed in itertools.product(DTYPES, dims, (65, 130, 300), range(profile.seeds)):
        case = Case(dtype, count, 2, 1, head_dim, count + 9, values="normal", slots="holes", seed=seed)
        yield case.but(positions=f"shuffled:{100 * count}")
    for dtype, (q, kv), head_dim in itertools.product(DTYPES, ((64, 64), (128, 128), (96, 8)), (64, 128)):
        yield Case(dtype, 5, q, kv, head_dim, 150, positions="rise:1000", slots="permuted")


def long_contexts(profile: Profile) -> Iterator[Case]:
    """Real head_dim at positions of every size up to a million, dense enough to meet a limit in between."""
    for dtype, reach, seed in itertools.product(DTYPES, (2048, 32768, 131072, 262144, 1048576), range(profile.seeds)):
        yield Case(
            dtype, num_tokens=32, num_kv_heads=1, head_dim=128, pool_size=40, positions=f"uniform:{reach}", seed=seed
        )


def positions(profile: Profile) -> Iterator[Case]:
    """Every kind of positions under every base."""
    for dtype, kind, base, seed in itertools.product(DTYPES, POSITIONS, BASES, range(profile.seeds)):
        yield Case(
            dtype, num_tokens=9, head_dim=32, pool_size=12, rope_base=base, positions=kind, slots="holes", seed=seed
        )


def values(profile: Profile) -> Iterator[Case]:
    """Every kind of values at small and large head_dim."""
    for dtype, kind, dim, seed in itertools.product(DTYPES, VALUES, (6, 64, 128), range(profile.seeds)):
        case = Case(dtype, num_tokens=8, head_dim=dim, pool_size=9, positions="uniform:4096", values=kind, seed=seed)
        yield case
        yield case.but(positions="zero")


def tokens(_: Profile) -> Iterator[Case]:
    """Batch sizes beside the limits of a threadgroup and of the published plans, and a long prefill."""
    for dtype, count in itertools.product(DTYPES, (1, 2, 31, 32, 33, 255, 256, 257, 1023, 1025, 1500)):
        yield Case(dtype, num_tokens=count, head_dim=8, pool_size=count + 3, positions="shuffled:0", slots="holes")
    yield Case(num_tokens=1500, num_qo_heads=8, num_kv_heads=2, head_dim=64, pool_size=2000, positions="shuffled:4000")
    yield Case(num_tokens=8200, head_dim=8, pool_size=8300, positions="shuffled:0", slots="holes", values="normal")
    # More than 2^16 rows of q, more than 2^20 elements, a pool as a server has it.
    yield Case(
        "f16",
        num_tokens=2100,
        num_qo_heads=32,
        num_kv_heads=1,
        head_dim=16,
        pool_size=3000,
        values="normal",
        slots="holes",
    )
    yield Case(
        num_tokens=4100, num_qo_heads=2, num_kv_heads=1, head_dim=128, pool_size=100000, values="normal", slots="holes"
    )


def negative_positions(_: Profile) -> Iterator[Case]:
    """Positions below zero."""
    for dtype, reach in itertools.product(DTYPES, (1, 100, 4096, 131072, 2**20, 2**31)):
        yield Case(dtype, num_tokens=9, positions=f"negative:{reach}", pool_size=12)


def head_by_head(_: Profile) -> Iterator[Case]:
    """Equal tokens at equal positions under many heads, where a head or token index in the angle shows."""
    for dtype, (q, kv), position in itertools.product(DTYPES, HEADS, (0, 131069)):
        yield Case(
            dtype,
            num_tokens=3,
            num_qo_heads=q,
            num_kv_heads=kv,
            head_dim=16,
            positions=f"equal:{position}",
            values="ones",
        )
