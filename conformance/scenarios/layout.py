"""Arrays that are views: every operand in every layout."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from conformance.case import Case
from conformance.profile import Profile

HEADS = ((4, 4), (4, 2), (4, 1))
PER_TOKEN = ("q", "k", "v")
KINDS_3D = ("offset", "step", "transposed", "sliced", "broadcast")
KINDS_1D = ("offset", "step", "broadcast")


def operands(profile: Profile) -> Iterator[Case]:
    """Each operand alone in each layout it can have."""
    for (q, kv), dtype, seed in itertools.product(HEADS, ("bf16", "f32"), range(profile.seeds)):
        case = Case(dtype, num_tokens=4, num_qo_heads=q, num_kv_heads=kv, head_dim=16, slots="holes", seed=seed)
        for name, kind in itertools.product(PER_TOKEN, KINDS_3D):
            yield case.but(layout=f"{name}:{kind}")
        for kind in KINDS_1D:
            yield case.but(layout=f"positions:{kind}", positions="uniform:100")
            # One slot for all tokens would be a race; a broadcast of -1 is not.
            yield case.but(layout=f"slots:{kind}", slots="none" if kind == "broadcast" else "holes")
        for name, kind in itertools.product(("k_pool", "v_pool"), KINDS_3D):
            if kind != "broadcast":
                yield case.but(layout=f"{name}:{kind}")


def length_one_axes(_: Profile) -> Iterator[Case]:
    """Each operand with axes of length 1 whose stride is odd, which still count as dense."""
    for dtype, kind in itertools.product(("bf16", "f32"), ("odd-stride", "step")):
        one_token = Case(dtype, num_tokens=1, num_qo_heads=4, num_kv_heads=2, head_dim=8)
        for name in (*PER_TOKEN, "positions", "slots"):
            yield one_token.but(layout=f"{name}:{kind}")
        one_head = Case(dtype, num_tokens=3, num_qo_heads=1, num_kv_heads=1, head_dim=8)
        for name in (*PER_TOKEN, "k_pool", "v_pool"):
            yield one_head.but(layout=f"{name}:{kind}")
        for name in ("k_pool", "v_pool"):
            yield one_token.but(layout=f"{name}:{kind}", pool_size=1)


def together(profile: Profile) -> Iterator[Case]:
    """q, k and v cut from one fused projection, transposed together, pools as slices of a larger cache."""
    for (q, kv), dtype, seed in itertools.product(HEADS, ("f16", "bf16"), range(profile.seeds)):
        case = Case(dtype, num_tokens=5, num_qo_heads=q, num_kv_heads=kv, head_dim=32, pool_size=9, seed=seed)
        yield case.but(layout="qkv:fused")
        yield case.but(layout="pools:stacked")
        yield case.but(layout="q:sliced,k:sliced,v:sliced")
        yield case.but(layout="q:transposed,k:transposed,v:transposed,positions:step,slots:step")
        yield case.but(layout="k_pool:sliced,v_pool:sliced")
        yield case.but(layout="q:offset,k:offset,v:offset,positions:offset,slots:offset,k_pool:offset,v_pool:offset")
