"""Faults in which pool rows are written, and for which tokens."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tests.planted.fault import Fault, plant
from tests.right.arguments import RUNTIME_ERRORS, VALUE_ERRORS, Call
from tests.right.recipe import Outputs, Pair, Recipe, copy_rows


def rows_for(call: Call, slots: Tensor) -> Pair:
    """The right rows, had the call been given these slots."""
    return Recipe().rows(replace(call, slots=slots))


def wrapped(call: Call) -> Tensor:
    """Negative slots counted from the end of the pool."""
    return torch.where(call.slots < 0, call.slots % max(call.k_pool.shape[0], 1), call.slots)


def skipping(call: Call, skipped: Tensor) -> Tensor:
    return torch.where(skipped, -1, call.slots)


def unrotated_where_skipped(call: Call, rotated: Tensor, x: Tensor) -> Tensor:
    return torch.where((call.slots < 0)[:, None, None], x, rotated)


class AlsoWritesNextRow(Recipe):
    def store(self, call: Call, k_rot: Tensor, k_pool: Tensor, v_pool: Tensor) -> None:
        super().store(call, k_rot, k_pool, v_pool)
        slots, tokens = self.rows(call)
        inside = slots + 1 < k_pool.shape[0]
        copy_rows(k_rot, k_pool, (slots[inside] + 1, tokens[inside]))


class PaddingGoesToRowZero(Recipe):
    def store(self, call: Call, k_rot: Tensor, k_pool: Tensor, v_pool: Tensor) -> None:
        skipped = torch.nonzero(call.slots < 0).flatten()[-1:]
        if k_pool.shape[0]:
            copy_rows(k_rot, k_pool, (torch.zeros_like(skipped), skipped))
            copy_rows(call.v, v_pool, (torch.zeros_like(skipped), skipped))
        super().store(call, k_rot, k_pool, v_pool)


class CombinesDuplicates(Recipe):
    """Tokens with one slot are added up, or averaged."""

    mean = False

    def store(self, call: Call, k_rot: Tensor, k_pool: Tensor, v_pool: Tensor) -> None:
        super().store(call, k_rot, k_pool, v_pool)
        for slot in set(call.slots[call.slots >= 0].tolist()):
            tokens = call.slots == slot
            if int(tokens.sum()) > 1:
                combine = torch.mean if self.mean else torch.sum
                k_pool[slot] = combine(k_rot[tokens].float(), dim=0).to(k_pool.dtype)
                v_pool[slot] = combine(call.v[tokens].float(), dim=0).to(v_pool.dtype)


class AllPaddingReturnsEarly(Recipe):
    def fuse(self, call: Call) -> Outputs:
        if call.slots.numel() and bool((call.slots < 0).all()):
            return call.q.clone(), call.k.clone(), call.k_pool, call.v_pool
        return super().fuse(call)


class AllPaddingCrashes(Recipe):
    def rows(self, call: Call) -> Pair:
        rows = super().rows(call)
        if call.slots.numel() and not rows[0].numel():
            raise IndexError("max(): expected a non-empty tensor of slots")
        return rows


def rows_without_duplicates(_: Recipe, call: Call) -> Pair:
    shared = (call.slots[:, None] == call.slots).sum(dim=1) > 1
    return rows_for(call, skipping(call, shared))


def rows_in_slot_order(_: Recipe, call: Call) -> Pair:
    slots, tokens = Recipe().rows(call)
    return slots.sort().values, tokens.sort().values


def consecutive_rows(_: Recipe, call: Call) -> Pair:
    steps = torch.arange(len(call.slots), dtype=torch.int32)
    first = call.slots[:1]
    return rows_for(call, torch.where(call.slots < 0, -1, (first + steps) % max(call.k_pool.shape[0], 1)))


def with_slots_in(dtype: torch.dtype) -> Fault:
    name = str(dtype).removeprefix("torch.")
    return plant(
        f"slots_in_{name}",
        f"Slots are held in {name}, so a large one wraps.",
        rows=lambda _, call: rows_for(
            call, torch.where(call.slots < 0, call.slots, call.slots.to(dtype).to(torch.int32))
        ),
    )


WITHOUT_SLOT_LIMIT = VALUE_ERRORS + RUNTIME_ERRORS[:-1]

FAULTS = [
    plant(
        "negative_slot_wraps",
        "A negative slot counts from the end of the pool, so padding overwrites the last rows.",
        rows=lambda _, call: rows_for(call, wrapped(call)),
    ),
    plant(
        "only_minus_one_skipped",
        "Only slot -1 is skipped; any other negative slot counts from the end of the pool.",
        rows=lambda _, call: rows_for(call, torch.where(call.slots == -1, -1, wrapped(call))),
    ),
    plant(
        "k_guard_missing",
        "Negative slots are guarded for V only; for K they count from the end of the pool.",
        k_rows=lambda _, call: rows_for(call, wrapped(call)),
    ),
    plant(
        "v_guard_missing",
        "Negative slots are guarded for K only; for V they count from the end of the pool.",
        v_rows=lambda _, call: rows_for(call, wrapped(call)),
    ),
    plant(
        "slot_zero_is_padding",
        "Slot 0 is taken for padding (slots <= 0) and never written.",
        rows=lambda _, call: rows_for(call, skipping(call, call.slots <= 0)),
    ),
    plant(
        "v_slot_zero_is_padding",
        "Slot 0 is taken for padding when V is stored, and not when K is.",
        v_rows=lambda _, call: rows_for(call, skipping(call, call.slots <= 0)),
    ),
    plant(
        "last_row_never_written",
        "The bound is slot < pool_size - 1, so the last row is never written.",
        rows=lambda _, call: rows_for(call, skipping(call, call.slots == call.k_pool.shape[0] - 1)),
    ),
    plant(
        "one_row_pool_never_written",
        "A pool of one row is never written.",
        rows=lambda _, call: rows_for(
            call, skipping(call, torch.full_like(call.slots, call.k_pool.shape[0] == 1).bool())
        ),
    ),
    with_slots_in(torch.uint16),
    with_slots_in(torch.int16),
    plant(
        "slots_count_from_one",
        "Slots are taken to count from one, so every token lands one row too low.",
        rows=lambda _, call: rows_for(call, call.slots.clamp(min=0) - 1),
    ),
    plant(
        "slots_taken_as_consecutive",
        "The tokens go to consecutive rows from the first slot on.",
        rows=consecutive_rows,
    ),
    plant("tokens_in_slot_order", "Slots are sorted and the tokens are not.", rows=rows_in_slot_order),
    plant(
        "last_token_not_stored",
        "The last of several tokens is not stored.",
        rows=lambda _, call: rows_for(
            call,
            torch.cat((call.slots[:-1], call.slots[-1:].clamp(max=-1))) if len(call.slots) > 1 else call.slots,
        ),
    ),
    plant(
        "also_writes_next_row",
        "K is also written to row slot + 1, as by a store one element too wide.",
        on=AlsoWritesNextRow,
    ),
    plant(
        "padding_goes_to_row_zero",
        "Tokens with a negative slot are stored in row 0 rather than skipped.",
        on=PaddingGoesToRowZero,
    ),
    plant(
        "skipped_token_not_rotated",
        "A token with a negative slot comes back unrotated.",
        rotate_q=lambda r, call, *cs: unrotated_where_skipped(call, Recipe.rotate_q(r, call, *cs), call.q),
        rotate_k=lambda r, call, *cs: unrotated_where_skipped(call, Recipe.rotate_k(r, call, *cs), call.k),
    ),
    plant(
        "skipped_token_has_no_k_rot",
        "The k_rot row of a token with a negative slot is left zero.",
        rotate_k=lambda r, call, *cs: unrotated_where_skipped(
            call, Recipe.rotate_k(r, call, *cs), torch.zeros_like(call.k)
        ),
    ),
    plant("all_padding_crashes", "A batch with no slot to write raises IndexError.", on=AllPaddingCrashes),
    plant(
        "all_padding_returns_early",
        "A batch with no slot to write returns before it rotates anything.",
        on=AllPaddingReturnsEarly,
    ),
    plant(
        "slot_past_pool_wraps",
        "A slot past the pool is taken modulo pool_size and overwrites another token's row.",
        refusals=WITHOUT_SLOT_LIMIT,
        rows=lambda _, call: rows_for(
            call, torch.where(call.slots < 0, call.slots, call.slots % max(call.k_pool.shape[0], 1))
        ),
    ),
    plant(
        "slot_past_pool_clamped",
        "A slot past the pool is clamped to the last row.",
        refusals=WITHOUT_SLOT_LIMIT,
        rows=lambda _, call: rows_for(call, call.slots.clamp(max=call.k_pool.shape[0] - 1)),
    ),
    plant("duplicates_added_up", "Tokens with one slot are added up in its row.", on=CombinesDuplicates),
    plant(
        "duplicates_averaged",
        "Tokens with one slot are averaged in its row.",
        on=CombinesDuplicates,
        mean=True,
    ),
    plant("duplicates_not_stored", "No token is stored in a slot that two share.", rows=rows_without_duplicates),
]
