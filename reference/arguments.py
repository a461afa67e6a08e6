"""The eleven ValueErrors of `rope_pool_fused`, in the order in which the call checks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any, Protocol


class Array(Protocol):
    """What the checks look at; tensors of torch, MLX and NumPy all have it."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...


def _have_rank(rank: int, *arrays: Array) -> bool:
    return all(len(array.shape) == rank for array in arrays)


def _num_tokens(q: Array) -> int | None:
    """q's first dimension; None, which equals no dimension, for a q without one."""
    return q.shape[0] if len(q.shape) else None


def qkv_are_3d(q: Array, k: Array, v: Array) -> bool:
    """Whether q, k and v have three dimensions."""
    return _have_rank(3, q, k, v)


def indices_are_1d(positions: Array, slots: Array) -> bool:
    """Whether positions and slots have one dimension."""
    return _have_rank(1, positions, slots)


def pools_are_3d(k_pool: Array, v_pool: Array) -> bool:
    """Whether both pools have three dimensions."""
    return _have_rank(3, k_pool, v_pool)


def q_shape_ok(q: Array, num_qo_heads: int, head_dim: int) -> bool:
    """Whether q is [num_tokens, num_qo_heads, head_dim], for any num_tokens."""
    return tuple(q.shape) == (_num_tokens(q), num_qo_heads, head_dim)


def k_shape_ok(q: Array, k: Array, num_kv_heads: int, head_dim: int) -> bool:
    """Whether k is [num_tokens, num_kv_heads, head_dim] with q's num_tokens."""
    return tuple(k.shape) == (_num_tokens(q), num_kv_heads, head_dim)


def v_shape_ok(k: Array, v: Array) -> bool:
    """Whether v has k's shape."""
    return tuple(v.shape) == tuple(k.shape)


def per_token_indices(q: Array, positions: Array, slots: Array) -> bool:
    """Whether positions and slots are [num_tokens] with q's num_tokens."""
    return tuple(positions.shape) == tuple(slots.shape) == (_num_tokens(q),)


def k_pool_shape_ok(k_pool: Array, num_kv_heads: int, head_dim: int) -> bool:
    """Whether k_pool is [pool_size, num_kv_heads, head_dim], for any pool_size."""
    return tuple(k_pool.shape[1:]) == (num_kv_heads, head_dim)


def v_pool_shape_ok(k_pool: Array, v_pool: Array) -> bool:
    """Whether v_pool has k_pool's shape."""
    return tuple(v_pool.shape) == tuple(k_pool.shape)


def qkv_dtypes_match(q: Array, k: Array, v: Array) -> bool:
    """Whether k and v have q's dtype."""
    return bool(q.dtype == k.dtype and q.dtype == v.dtype)


def pool_dtypes_match(q: Array, k_pool: Array, v_pool: Array) -> bool:
    """Whether both pools have q's dtype."""
    return bool(k_pool.dtype == q.dtype and v_pool.dtype == q.dtype)


@dataclass(frozen=True)
class Rule:
    """One check: a guard, called with the arguments that it names, and the text where it answers False."""

    number: int
    guard: Callable[..., bool]
    text: str

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return tuple(signature(self.guard).parameters)

    def holds(self, arguments: dict[str, Any]) -> bool:
        return self.guard(**{name: arguments[name] for name in self.parameters})


RULES = (
    Rule(1, qkv_are_3d, "rope_pool_fused expects q/k/v to be 3-D"),
    Rule(2, indices_are_1d, "rope_pool_fused expects positions/slots to be 1-D"),
    Rule(3, pools_are_3d, "rope_pool_fused expects pool tensors to be 3-D"),
    Rule(4, q_shape_ok, "q shape must be [num_tokens, num_qo_heads, head_dim], got {q.shape}"),
    Rule(5, k_shape_ok, "k shape must be [num_tokens, num_kv_heads, head_dim], got {k.shape}"),
    Rule(6, v_shape_ok, "v shape must match k shape, got {v.shape} vs {k.shape}"),
    Rule(7, per_token_indices, "positions/slots must have one entry per token"),
    Rule(8, k_pool_shape_ok, "k_pool has incompatible shape {k_pool.shape}"),
    Rule(9, v_pool_shape_ok, "v_pool shape must match k_pool shape, got {v_pool.shape} vs {k_pool.shape}"),
    Rule(10, qkv_dtypes_match, "q/k/v dtypes must match"),
    Rule(11, pool_dtypes_match, "pool dtypes must match q/k/v dtype"),
)


@dataclass(frozen=True)
class Violation:
    """The number of a broken rule, 1 to 11, and the text that the call raises for it."""

    number: int
    text: str


class ArgumentError(ValueError):
    """A broken rule; str() is the exact text of the call, `number` is 1 to 11."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(number, text)
        self.number = number
        self.text = text

    def __str__(self) -> str:
        return self.text


def first_violation(
    q: Array,
    k: Array,
    v: Array,
    positions: Array,
    slots: Array,
    k_pool: Array,
    v_pool: Array,
    *,
    head_dim: int,
    num_qo_heads: int,
    num_kv_heads: int,
) -> Violation | None:
    """The first rule that the arguments break, or None; only shapes and dtypes are looked at."""
    arguments = locals()
    for rule in RULES:
        if not rule.holds(arguments):
            return Violation(rule.number, rule.text.format(**arguments))
    return None


def check_arguments(
    q: Array,
    k: Array,
    v: Array,
    positions: Array,
    slots: Array,
    k_pool: Array,
    v_pool: Array,
    *,
    head_dim: int,
    num_qo_heads: int,
    num_kv_heads: int,
) -> None:
    """Raise ArgumentError, a ValueError, with number and text of the first rule that the arguments break."""
    violation = first_violation(
        q,
        k,
        v,
        positions,
        slots,
        k_pool,
        v_pool,
        head_dim=head_dim,
        num_qo_heads=num_qo_heads,
        num_kv_heads=num_kv_heads,
    )
    if violation:
        raise ArgumentError(violation.number, violation.text)
