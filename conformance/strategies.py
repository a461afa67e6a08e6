"""Hypothesis strategies: they make Cases and nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from conformance.case import DTYPES, Case
from conformance.scenarios import layout as layouts
from conformance.scenarios.launch import PLANS
from conformance.scenarios.rotation import VALUES
from conformance.scenarios.slots import KINDS

_MAX_POSITION = 2**31 - 1
_positions = st.one_of(
    st.just("zero"),
    st.just("log"),
    st.builds("{}:{}".format, st.sampled_from(("equal", "rise", "around")), st.integers(8, _MAX_POSITION - 300)),
    st.builds("uniform:{}".format, st.integers(1, _MAX_POSITION)),
)
# A float32 base, as the ABI passes it; small bases turn every pair quickly, large ones leave the last at rest.
_bases = st.floats(np.log(1.5), np.log(1e9)).map(lambda e: float(np.float32(np.exp(e))))


@st.composite
def cases(draw: st.DrawFn, launch: str) -> Case:
    """Right calls with dense arrays, of every shape, dtype and plan; `launch` is `split`, `rect`, `all` or empty."""
    num_kv_heads = draw(st.integers(1, 6))
    num_qo_heads = draw(st.one_of(st.integers(1, 4).map(lambda group: group * num_kv_heads), st.integers(1, 12)))
    num_tokens = draw(st.one_of(st.integers(1, 8), st.integers(1, 300)))
    case = Case(
        dtype=draw(st.sampled_from(DTYPES)),
        num_tokens=num_tokens,
        num_qo_heads=num_qo_heads,
        num_kv_heads=num_kv_heads,
        head_dim=2 * draw(st.one_of(st.integers(1, 20), st.sampled_from((32, 40, 48, 64, 128)))),
        pool_size=draw(st.integers(1, num_tokens + 8)),
        rope_base=draw(_bases),
        positions=draw(_positions),
        slots=draw(st.sampled_from(KINDS)),
        values=draw(st.sampled_from(VALUES)),
        seed=draw(st.integers(0, 2**32 - 1)),
    )
    if not launch:
        return case
    plan = draw(st.sampled_from(PLANS)) if launch == "all" else launch
    order = draw(st.sampled_from(("", "/reversed")))
    return case.but(plan=f"{plan}/{draw(st.integers(1, max(num_qo_heads, num_kv_heads) + 1))}{order}")


@st.composite
def laid_out(draw: st.DrawFn, launch: str) -> Case:
    """Right calls in which any of the arrays is a view."""
    case = draw(cases(launch))
    kinds = {name: draw(st.sampled_from(("dense", *layouts.KINDS_3D))) for name in layouts.PER_TOKEN}
    for name in ("k_pool", "v_pool"):
        kinds[name] = draw(st.sampled_from(("dense", "offset", "step", "transposed", "sliced")))
    for name in ("positions", "slots"):
        kinds[name] = draw(st.sampled_from(("dense", "offset", "step")))
    named = ",".join(f"{name}:{kind}" for name, kind in kinds.items() if kind != "dense")
    return case.but(layout=named or "dense")
