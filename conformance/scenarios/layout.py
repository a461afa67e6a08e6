"""Arrays that are views: every operand in every layout."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from conformance.case import Case
from conformance.profile import Profile

HEADS = ((4, 4), (4, 2), (4, 1))
PER_TOKEN = ("q", "k", "v")
KINDS_3D = ("offset", "step", "transposed", "sliced", "broadcast", "odd-stride")
KINDS_1D = ("offset", "step", "broadcast", "odd-stride")


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
    """Axes of length 1 with a stride of their own, which still count as dense."""
    for tokens, kv in ((1, 1), (3, 1), (1, 2)):
        case = Case(num_tokens=tokens, num_qo_heads=max(kv, 2), num_kv_heads=kv, head_dim=8)
        yield case.but(layout="q:odd-stride,k:odd-stride,v:odd-stride")
        yield case.but(layout="k_pool:odd-stride,v_pool:odd-stride", pool_size=1 if tokens == 1 else 8)


def together(profile: Profile) -> Iterator[Case]:
    """q, k and v sliced from one fused projection, transposed together, pools as slices of a larger cache."""
    for (q, kv), dtype, seed in itertools.product(HEADS, ("f16", "bf16"), range(profile.seeds)):
        case = Case(dtype, num_tokens=5, num_qo_heads=q, num_kv_heads=kv, head_dim=32, pool_size=9, seed=seed)
        yield case.but(layout="q:sliced,k:sliced,v:sliced")
        yield case.but(layout="q:transposed,k:transposed,v:transposed,positions:step,slots:step")
        yield case.but(layout="k_pool:sliced,v_pool:sliced")
        yield case.but(layout="q:offset,k:offset,v:offset,positions:offset,slots:offset,k_pool:offset,v_pool:offset")
