"""Faults in the argument checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from tests.planted.fault import Fault, plant
from tests.right.arguments import RUNTIME_ERRORS, VALUE_ERRORS, Call, Refusal, check
from tests.right.recipe import Outputs, Recipe

ERRORS = (
    "qkv_rank",
    "index_rank",
    "pool_rank",
    "q_shape",
    "k_shape",
    "v_shape",
    "index_length",
    "k_pool_shape",
    "v_pool_shape",
    "qkv_dtype",
    "pool_dtype",
)

WRONG_TEXTS = (
    "rope_pool_fused expects q/k/v to be 3D",
    "rope_pool_fused expects positions/slots to be 1D",
    "rope_pool_fused expects pools to be 3-D",
    "q shape must be [num_tokens, num_heads, head_dim], got {c.q.shape}",
    "k shape must be [num_tokens, num_qo_heads, head_dim], got {c.k.shape}",
    "v shape must match k shape, got {c.v.shape}",
    "positions/slots must have one entry per sequence",
    "k_pool has incompatible shape",
    "v_pool shape must match k_pool shape, got {c.v_pool.shape} and {c.k_pool.shape}",
    "q/k/v dtypes must match.",
    "pool dtypes must match",
)

OTHER_TENSORS = {
    "q_shape": "q shape must be [num_tokens, num_qo_heads, head_dim], got {c.k.shape}",
    "k_shape": "k shape must be [num_tokens, num_kv_heads, head_dim], got {c.q.shape}",
    "v_shape": "v shape must match k shape, got {c.k.shape} vs {c.v.shape}",
    "k_pool_shape": "k_pool has incompatible shape {c.v_pool.shape}",
    "v_pool_shape": "v_pool shape must match k_pool shape, got {c.k_pool.shape} vs {c.v_pool.shape}",
}

NARROW_CHECKS: tuple[tuple[str, str, str, Callable[[Call], bool]], ...] = (
    ("qkv_rank", "q_only", "only q's rank is checked", lambda c: c.q.ndim != 3),
    ("qkv_rank", "q_and_k_only", "v's rank is not checked", lambda c: c.q.ndim != 3 or c.k.ndim != 3),
    ("index_rank", "positions_only", "the rank of slots is not checked", lambda c: c.positions.ndim != 1),
    ("index_rank", "slots_only", "the rank of positions is not checked", lambda c: c.slots.ndim != 1),
    ("pool_rank", "k_pool_only", "the rank of v_pool is not checked", lambda c: c.k_pool.ndim != 3),
    ("pool_rank", "v_pool_only", "the rank of k_pool is not checked", lambda c: c.v_pool.ndim != 3),
    ("q_shape", "heads_only", "q's head_dim is not checked", lambda c: c.q.shape[1] != c.num_qo_heads),
    ("q_shape", "head_dim_only", "q's head count is not checked", lambda c: c.q.shape[2] != c.head_dim),
    (
        "q_shape",
        "head_dim_at_most",
        "a head_dim argument shorter than q's heads passes",
        lambda c: c.q.shape[1] != c.num_qo_heads or c.q.shape[2] < c.head_dim,
    ),
    (
        "k_shape",
        "heads_and_head_dim_only",
        "k's token count is not checked",
        lambda c: c.k.shape[1:] != (c.num_kv_heads, c.head_dim),
    ),
    (
        "k_shape",
        "tokens_and_head_dim_only",
        "k's head count is not checked",
        lambda c: (c.k.shape[0], c.k.shape[2]) != (c.q.shape[0], c.head_dim),
    ),
    ("v_shape", "tokens_only", "only v's token count is compared", lambda c: c.v.shape[0] != c.k.shape[0]),
    ("v_shape", "numel_only", "only v's size is compared with k's", lambda c: c.v.numel() != c.k.numel()),
    (
        "index_length",
        "positions_only",
        "the length of slots is not checked",
        lambda c: c.positions.shape[0] != c.q.shape[0],
    ),
    (
        "index_length",
        "slots_only",
        "the length of positions is not checked",
        lambda c: c.slots.shape[0] != c.q.shape[0],
    ),
    (
        "index_length",
        "each_other_only",
        "positions and slots are compared with each other and not with q",
        lambda c: c.positions.shape != c.slots.shape,
    ),
    (
        "index_length",
        "at_least",
        "positions and slots that are too long pass",
        lambda c: min(c.positions.shape[0], c.slots.shape[0]) < c.q.shape[0],
    ),
    (
        "k_pool_shape",
        "heads_only",
        "the pool's head_dim is not checked",
        lambda c: c.k_pool.shape[1] != c.num_kv_heads,
    ),
    (
        "k_pool_shape",
        "head_dim_only",
        "the pool's head count is not checked",
        lambda c: c.k_pool.shape[2] != c.head_dim,
    ),
    (
        "v_pool_shape",
        "rows_only",
        "only v_pool's row count is compared",
        lambda c: c.v_pool.shape[0] != c.k_pool.shape[0],
    ),
    (
        "v_pool_shape",
        "row_shape_only",
        "v_pool's row count is not compared",
        lambda c: c.v_pool.shape[1:] != c.k_pool.shape[1:],
    ),
    ("qkv_dtype", "k_only", "v's dtype is not compared", lambda c: c.k.dtype != c.q.dtype),
    ("qkv_dtype", "v_only", "k's dtype is not compared", lambda c: c.v.dtype != c.q.dtype),
    (
        "qkv_dtype",
        "width_only",
        "only the element size is compared, so bf16 passes for f16",
        lambda c: not c.q.element_size() == c.k.element_size() == c.v.element_size(),
    ),
    ("pool_dtype", "k_pool_only", "v_pool's dtype is not compared", lambda c: c.k_pool.dtype != c.q.dtype),
    ("pool_dtype", "v_pool_only", "k_pool's dtype is not compared", lambda c: c.v_pool.dtype != c.q.dtype),
    (
        "pool_dtype",
        "each_other_only",
        "the pools' dtypes are compared with each other and not with q's",
        lambda c: c.k_pool.dtype != c.v_pool.dtype,
    ),
)


def with_error(number: int, *refusals: Refusal) -> tuple[Refusal, ...]:
    """All checks, with the given ones in place of ValueError `number`."""
    return VALUE_ERRORS[:number] + refusals + VALUE_ERRORS[number + 1 :] + RUNTIME_ERRORS


def saying(number: int, template: str) -> tuple[Refusal, ...]:
    """ValueError `number` with another text; the template's {c.q.shape} and the like are filled in."""
    return with_error(number, replace(VALUE_ERRORS[number], text=lambda c: template.format(c=c)))


def first_entries(_: Recipe, call: Call) -> Call:
    """One position and slot per token, as a launch grid reads them that no check has stopped."""
    num_tokens = call.q.shape[0]
    return replace(call, positions=call.positions[:num_tokens], slots=call.slots[:num_tokens])


def missing(number: int) -> Fault:
    name = ERRORS[number]
    what = f"The {name} check is missing."
    return plant(f"{name}_check_missing", what, refusals=with_error(number), read=first_entries)


def wrong_text(number: int, template: str) -> Fault:
    name = ERRORS[number]
    what = f"The {name} error has another text than the wrapper's."
    return plant(f"{name}_text_wrong", what, refusals=saying(number, template))


def swapped(number: int) -> Fault:
    first, second = ERRORS[number : number + 2]
    order = (
        *VALUE_ERRORS[:number],
        VALUE_ERRORS[number + 1],
        VALUE_ERRORS[number],
        *VALUE_ERRORS[number + 2 :],
    )
    return plant(
        f"{second}_checked_before_{first}",
        f"The {second} check comes before the {first} check.",
        refusals=order + RUNTIME_ERRORS,
    )


def other_tensor(name: str, template: str) -> Fault:
    what = f"The {name} error prints the shape of the wrong tensor."
    return plant(f"{name}_of_other_tensor", what, refusals=saying(ERRORS.index(name), template))


def narrow(error: str, kind: str, what: str, fails: Callable[[Call], bool]) -> Fault:
    number = ERRORS.index(error)
    return plant(
        f"{error}_check_{kind}",
        f"The {error} check is too narrow: {what}.",
        refusals=with_error(number, replace(VALUE_ERRORS[number], fails=fails)),
        read=first_entries,
    )


class WritesBeforeChecking(Recipe):
    def run(self, call: Call) -> Outputs:
        if call.k_pool.numel():
            call.k_pool[0] = 0
        return super().run(call)


class TurnsPartOfHead(Recipe):
    """Takes a head_dim argument shorter than the arrays' and rotates that much of each head."""

    def run(self, call: Call) -> Outputs:
        if call.q.ndim == 3 and call.head_dim < call.q.shape[-1]:
            check(replace(call, head_dim=call.q.shape[-1]), self.refusals)
            return self.fuse(call)
        return super().run(call)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        turned = 2 * cos.shape[-1]
        return torch.cat((super().rotate(x[..., :turned], cos, sin), x[..., turned:]), dim=-1)


class NoticesSlotPastPoolMidway(Recipe):
    """Stores every token before the slot that is refused."""

    refusals = VALUE_ERRORS + RUNTIME_ERRORS[:-1]

    def fuse(self, call: Call) -> Outputs:
        pool_size = call.k_pool.shape[0]
        past = torch.nonzero(call.slots >= pool_size)
        if not len(past):
            return super().fuse(call)
        super().fuse(replace(call, slots=torch.where(call.slots >= pool_size, -1, call.slots)))
        raise RuntimeError(f"slots must be below pool_size {pool_size}, got {int(call.slots.max())}")


FAULTS = [
    *(missing(number) for number in range(len(ERRORS))),
    *(wrong_text(number, template) for number, template in enumerate(WRONG_TEXTS)),
    *(swapped(number) for number in range(len(ERRORS) - 1)),
    *(other_tensor(name, template) for name, template in OTHER_TENSORS.items()),
    *(narrow(*row) for row in NARROW_CHECKS),
    plant(
        "argument_errors_are_runtime_errors",
        "Bad arguments raise RuntimeError with the right text, so catching ValueError misses them.",
        refusals=tuple(replace(refusal, error=RuntimeError) for refusal in VALUE_ERRORS) + RUNTIME_ERRORS,
    ),
    plant(
        "argument_errors_are_assertions",
        "Bad arguments raise AssertionError with the right text.",
        refusals=tuple(replace(refusal, error=AssertionError) for refusal in VALUE_ERRORS) + RUNTIME_ERRORS,
    ),
    plant(
        "head_dim_argument_rotates_part",
        "A head_dim argument shorter than the arrays' last axis passes, and only that much of a head turns.",
        on=TurnsPartOfHead,
    ),
    plant(
        "refused_call_clears_k_pool_row",
        "Row 0 of k_pool is cleared before the arguments are checked, so a refused call changes the pool.",
        on=WritesBeforeChecking,
    ),
    plant(
        "slot_past_pool_noticed_midway",
        "A slot past the pool is refused only after the other tokens were stored.",
        on=NoticesSlotPastPoolMidway,
    ),
    plant(
        "checks_skipped_for_empty_batch",
        "A call with no tokens returns before its arguments are checked.",
        run=lambda r, call: (
            (call.q.clone(), call.k.clone(), call.k_pool, call.v_pool) if call.q.shape[0] == 0 else Recipe.run(r, call)
        ),
    ),
]
