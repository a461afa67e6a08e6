"""Several calls: in one process, repeated, token by token; and calls beside unreadable memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from conformance.case import DTYPES, Case
from conformance.profile import Profile


def sequences(_: Profile) -> Iterator[tuple[Case, ...]]:
    """Calls of one process in which a cache with too small a key answers for another call."""
    case = Case(num_tokens=3, head_dim=16, values="normal", positions="rise:40")
    bases = (10000.0, 10000.5, 10.25, 10.75, 500000.0)
    yield tuple(case.but(rope_base=base) for base in bases)
    yield tuple(case.but(rope_base=base) for base in reversed(bases))
    for order in itertools.permutations(DTYPES):
        yield tuple(case.but(dtype=dtype) for dtype in order)
    heads = ((4, 2), (2, 4), (4, 4), (8, 1), (4, 2))
    yield tuple(case.but(num_qo_heads=q, num_kv_heads=kv) for q, kv in heads)
    yield tuple(case.but(head_dim=dim) for dim in (16, 64, 8, 128, 16))
    yield tuple(case.but(positions=f"rise:{start}") for start in (0, 1000, 40000, 131069, 20000000, 0))
    yield tuple(case.but(positions=f"equal:{start}") for start in (7, 8, 7, 0, 131071))
    yield tuple(case.but(num_tokens=tokens, pool_size=tokens + 1) for tokens in (1, 300, 3, 0, 5, 1))
    yield tuple(case.but(slots=kind, seed=seed) for seed, kind in enumerate(("identity", "none", "holes", "reversed")))
    yield tuple(case.but(seed=seed) for seed in range(4))
    yield tuple(case.but(pool_size=size, slots="last") for size in (8, 64, 4, 3))
    yield (case, case.but(fault="k:3x3x16"), case)
    # Decoding: the same arrays, refilled by the caller between the calls.
    kept = case.but(memory="kept", slots="holes")
    yield tuple(kept.but(seed=seed, positions=f"rise:{100 * seed}") for seed in range(5))
    yield tuple(kept.but(dtype=dtype, seed=seed) for dtype, seed in itertools.product(DTYPES, range(2)))


def repeated(_: Profile) -> Iterator[Case]:
    """Calls that are made twice."""
    for dtype, kind in itertools.product(DTYPES, ("mixed", "nonfinite")):
        yield Case(dtype, num_tokens=17, head_dim=96, pool_size=33, positions="log", values=kind, slots="holes")


def donated(_: Profile) -> Iterator[Case]:
    """Calls whose arrays nobody else keeps: dense ones, of which a framework may make outputs, and views."""
    for dtype, (tokens, dim), layout in itertools.product(
        DTYPES, ((1, 64), (17, 96)), ("dense", "q:transposed,k_pool:sliced")
    ):
        yield Case(dtype, num_tokens=tokens, head_dim=dim, pool_size=20, slots="holes", memory="donated", layout=layout)


def by_token(_: Profile) -> Iterator[Case]:
    """Batches that are made again token by token."""
    for dtype, (q, kv), tokens in itertools.product(DTYPES, ((4, 2), (3, 3)), (3, 9)):
        yield Case(
            dtype,
            num_tokens=tokens,
            num_qo_heads=q,
            num_kv_heads=kv,
            head_dim=48,
            pool_size=tokens + 2,
            positions="uniform:131071",
            slots="holes",
        )


def beside_unreadable(_: Profile) -> Iterator[Case]:
    """Buffers whose first or last element lies beside a page that may not be touched."""
    # Multiples of four tokens keep a Metal buffer's alignment for int32 arrays at the end of a page, too.
    sizes = ((4, 4, 2, 64), (4, 8, 1, 128), (8, 4, 4, 8), (4, 2, 1, 6), (8, 4, 2, 80), (4, 3, 3, 66))
    for dtype, (tokens, q, kv, dim), memory in itertools.product(DTYPES, sizes, ("page-end", "page-start")):
        yield Case(
            dtype,
            num_tokens=tokens,
            num_qo_heads=q,
            num_kv_heads=kv,
            head_dim=dim,
            memory=memory,
            slots="holes",
            values="normal",
        )


def empty(_: Profile) -> Iterator[Case]:
    """No tokens."""
    for dtype, (q, kv) in itertools.product(DTYPES, ((4, 4), (4, 2), (4, 1))):
        yield Case(dtype, num_tokens=0, num_qo_heads=q, num_kv_heads=kv, pool_size=4)
    yield Case(num_tokens=0, pool_size=1)
    yield Case(num_tokens=0, pool_size=0)
