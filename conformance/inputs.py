"""From a Case to the arrays of its call, placed in memory with patterns around them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conformance import draw, fault, placement, situations
from conformance.case import Case, CaseError
from conformance.placement import Placed
from kernel import Call
from kernel.memory import bits

# Layouts of several arrays: q, k and v are slices, by heads, of one projection; the pools are halves of one cache.
TOGETHER = {"qkv": (("q", "k", "v"), 1), "pools": (("k_pool", "v_pool"), 0)}
# A call of more elements is drawn anew each time: it would fill the memory.
_KEPT_ELEMENTS = 1 << 24


@dataclass(frozen=True)
class Inputs:
    """The call of a case, and each array's surroundings by name."""

    call: Call
    placed: dict[str, Placed]


def logical_call(case: Case) -> Call:
    """The call's arrays, dense and unplaced: what the oracle sees; not to be written to. Raises CaseError."""
    row = (case.num_qo_heads + 4 * case.num_kv_heads) * case.head_dim
    draw_call = _drawn if case.num_tokens * row <= _KEPT_ELEMENTS else _draw
    return draw_call(case.but(plan=""))


def _draw(case: Case) -> Call:
    q_shape = (case.num_tokens, case.num_qo_heads, case.head_dim)
    kv_shape = (case.num_tokens, case.num_kv_heads, case.head_dim)
    pool_shape = (case.pool_size, case.num_kv_heads, case.head_dim)
    arrays: dict[str, Any] = {
        "q": draw.values(case, "q", q_shape),
        "k": draw.values(case, "k", kv_shape),
        "v": draw.v_bits(case, kv_shape),
        "positions": draw.positions(case),
        "slots": draw.slots(case),
        "k_pool": _pool(case, "k_pool", pool_shape),
        "v_pool": _pool(case, "v_pool", pool_shape),
    }
    for name, layout in _layouts(case).items():
        if layout == "broadcast":
            arrays[name] = _repeat_first(arrays[name])
    call = Call(
        **arrays,
        head_dim=case.head_dim,
        num_qo_heads=case.num_qo_heads,
        num_kv_heads=case.num_kv_heads,
        rope_base=case.rope_base,
    )
    if case.situation:
        call = situations.apply(call, case.situation)
    call = fault.apply(call, case.fault)
    return call if case.token < 0 else _only(call, case.token)


# Cases that differ in their plan alone follow one another.
_drawn = functools.lru_cache(maxsize=2)(_draw)


def _pool(case: Case, name: str, shape: tuple[int, int, int]) -> Tensor:
    if case.memory == "sparse":
        # Too large to fill: one zero that stands for all.
        return torch.zeros(1, dtype=draw.TORCH_DTYPES[case.dtype]).expand(shape)
    return draw.pool_bits(case, name, shape)


def _layouts(case: Case) -> dict[str, str]:
    if case.layout == "dense":
        return {}
    layouts = dict(item.partition(":")[::2] for item in case.layout.split(","))
    if unknown := set(layouts) - {*fault.TENSORS, *TOGETHER}:
        raise CaseError(f"no array {', '.join(sorted(unknown))}; a layout is written q:transposed,k:step")
    return layouts


def _repeat_first(t: Tensor) -> Tensor:
    return bits(t)[:1].expand(t.shape).contiguous().view(t.dtype)


def _only(call: Call, token: int) -> Call:
    if token >= call.q.shape[0]:
        raise CaseError(f"token={token} of a batch of {call.q.shape[0]}")
    rows = {name: getattr(call, name)[token : token + 1] for name in ("q", "k", "v", "positions", "slots")}
    return call.but(**rows)


def build(case: Case) -> Inputs:
    """The call with every array placed as the case says. Raises CaseError."""
    call, layouts = logical_call(case), _layouts(case)
    placed = {
        name: placement.place(tensor, layouts.get(name, "dense"), _memory(case, name))
        for name, tensor in call.tensors()
    }
    for names, dim in (TOGETHER[group] for group in layouts if group in TOGETHER):
        placed |= placement.place_together({name: placed[name].tensor for name in names}, dim)
    tensors = {name: p.tensor for name, p in placed.items()}
    return Inputs(call.but(**tensors, donated=case.memory == "donated"), placed)


def _memory(case: Case, name: str) -> str:
    return "margins" if case.memory == "sparse" and not name.endswith("_pool") else case.memory
