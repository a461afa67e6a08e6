"""Launch plans: which entry points run, over which buffers and which grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kernel.call import Call
from kernel.msl import FunctionConstants

ENTRY_BUFFERS: dict[str, tuple[str, ...]] = {
    "rope_q": ("q", "q_out", "positions"),
    "rope_k_pool": ("k", "k_out", "k_pool", "positions", "slots"),
    "v_to_pool": ("v", "v_pool", "slots"),
    "rope_pool_rect": ("q", "k", "v", "q_out", "k_out", "k_pool", "v_pool", "positions", "slots"),
}
# An entry point that rotates may ask for one more buffer, at the next index: `kernel.frequency.frequency_table`, ulong
# [head_dim/2]. Each decides for itself.
FREQUENCIES = "frequencies"
MAY_ASK = ("rope_q", "rope_k_pool", "rope_pool_rect")
SUFFIXES = ("f16", "bf16", "f32")
REQUIRED_ENTRIES = {
    f"{entry}_{suffix}": len(buffers) for entry, buffers in ENTRY_BUFFERS.items() for suffix in SUFFIXES
}
ENTRIES_THAT_MAY_ASK = frozenset(f"{entry}_{suffix}" for entry in MAY_ASK for suffix in SUFFIXES)

# The published binding takes the rectangle only at and above these sizes, and only for bf16.
RECT_MIN_HEAD_DIM = 128
RECT_MIN_KV_HEADS = 8
RECT_MIN_TOKENS = 256


@dataclass(frozen=True)
class Extent:
    """The sizes that a grid is made from."""

    num_tokens: int
    num_qo_heads: int
    num_kv_heads: int
    head_dim: int


_FORM = "a launch plan is split/N or rect/N with N >= 1, also split/N/reversed"


@dataclass(frozen=True)
class LaunchPlan:
    """`split` launches rope_q, rope_k_pool and v_to_pool; `rect` launches rope_pool_rect alone.

    A grid promises no order of its threads: `reversed` asks a target that runs them one by one to begin with the last.
    """

    kind: str = "split"
    heads_per_thread: int = 1
    reversed: bool = False

    def __post_init__(self) -> None:
        if self.kind not in ("split", "rect") or self.heads_per_thread < 1:
            raise ValueError(f"{_FORM}, got {self}")

    @classmethod
    def parse(cls, text: str) -> LaunchPlan:
        """Read `split/2` or `split/2/reversed`; `split` alone means one head per thread. Raises ValueError."""
        kind, _, rest = text.partition("/")
        heads, _, order = rest.partition("/")
        if not (heads or "1").isdigit() or order not in ("", "reversed"):
            raise ValueError(f"{_FORM}, got {text!r}")
        return cls(kind, int(heads or 1), order == "reversed")

    def __str__(self) -> str:
        return f"{self.kind}/{self.heads_per_thread}{'/reversed' if self.reversed else ''}"


@dataclass(frozen=True)
class Launch:
    """One dispatch: entry point without its dtype suffix, grid in threads (x, y, z)."""

    entry: str
    grid: tuple[int, int, int]

    @property
    def buffers(self) -> tuple[str, ...]:
        """Buffer names in index order, the last the one that the entry point may ask for, if it may."""
        return ENTRY_BUFFERS[self.entry] + (FREQUENCIES,) * (self.entry in MAY_ASK)


def published_plan(dtype: str, extent: Extent) -> LaunchPlan:
    """The plan that the published binding takes for these sizes; dtype is f16, bf16 or f32."""
    rect = (
        dtype == "bf16"
        and extent.head_dim >= RECT_MIN_HEAD_DIM
        and extent.num_kv_heads >= RECT_MIN_KV_HEADS
        and extent.num_tokens >= RECT_MIN_TOKENS
    )
    return LaunchPlan("rect" if rect else "split")


def launches(plan: LaunchPlan, extent: Extent) -> list[Launch]:
    """The dispatches of one call, none of them empty."""
    half, tokens = extent.head_dim // 2, extent.num_tokens
    if plan.kind == "rect":
        threads = _ceil_div(max(extent.num_qo_heads, extent.num_kv_heads), plan.heads_per_thread)
        planned = [Launch("rope_pool_rect", (extent.head_dim, tokens, threads))]
    else:
        planned = [
            Launch("rope_q", (half, tokens, _ceil_div(extent.num_qo_heads, plan.heads_per_thread))),
            Launch("rope_k_pool", (half, tokens, _ceil_div(extent.num_kv_heads, plan.heads_per_thread))),
            Launch("v_to_pool", (extent.head_dim, tokens, extent.num_kv_heads)),
        ]
    return [launch for launch in planned if all(launch.grid)]


def function_constants(call: Call, plan: LaunchPlan) -> FunctionConstants:
    """The function constants of a call; the fourth is computed in float32."""
    log2_base = np.float32(math.log2(np.float32(call.rope_base)))
    ratio = float(log2_base / np.float32(call.head_dim)) if call.head_dim else 0.0
    return FunctionConstants(call.head_dim, call.num_qo_heads, call.num_kv_heads, ratio, plan.heads_per_thread)


def _ceil_div(a: int, b: int) -> int:
    return -(-a // b)
