"""Faults in which memory is written, shared or returned."""

from __future__ import annotations

from torch import Tensor

from tests.planted.fault import Fault, plant
from tests.right.arguments import Call
from tests.right.recipe import Outputs, Pair, Recipe


def afterwards(name: str, what: str, change: object) -> Fault:
    """A fault that does something to the call and its right outputs before they are returned."""

    def fuse(r: Recipe, call: Call) -> Outputs:
        outputs = Recipe.fuse(r, call)
        return change(call, *outputs) or outputs  # type: ignore[operator]

    return plant(name, what, fuse=fuse)


def q_in_place(call: Call, q_rot: Tensor, *others: Tensor) -> tuple[Tensor, ...] | None:
    return (call.q.copy_(q_rot), *others) if call.q.is_contiguous() else None


def k_in_place(call: Call, q_rot: Tensor, k_rot: Tensor, *pools: Tensor) -> tuple[Tensor, ...] | None:
    return (q_rot, call.k.copy_(k_rot), *pools) if call.k.is_contiguous() else None


def k_overwritten(call: Call, q_rot: Tensor, k_rot: Tensor, *pools: Tensor) -> None:  # noqa: ARG001
    if call.k.is_contiguous():
        call.k.copy_(k_rot)


def q_itself_at_position_zero(call: Call, q_rot: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    return (q_rot if bool(call.positions.any()) else call.q, *others)


def k_rot_in_pool(call: Call, q_rot: Tensor, k_rot: Tensor, k_pool: Tensor, v_pool: Tensor) -> Outputs:
    """k_rot as a view of the pool when the slots are consecutive."""
    first = int(call.slots[0]) if len(call.slots) else -1
    consecutive = first >= 0 and call.slots.tolist() == list(range(first, first + len(call.slots)))
    return q_rot, k_pool[first : first + len(k_rot)] if consecutive else k_rot, k_pool, v_pool


class ReturnsStalePools(Recipe):
    def fuse(self, call: Call) -> Outputs:
        before = call.k_pool.clone(), call.v_pool.clone()
        q_rot, k_rot, _, _ = super().fuse(call)
        return q_rot, k_rot, *before


class CopiesPoolsForOneToken(Recipe):
    def pools(self, call: Call) -> Pair:
        if call.q.shape[0] == 1:
            return call.k_pool.clone(), call.v_pool.clone()
        return super().pools(call)


class CopiesVPoolOnly(Recipe):
    def pools(self, call: Call) -> Pair:
        return call.k_pool, call.v_pool.clone()


class SharedOutputBuffer(Recipe):
    """q_rot and k_rot are views of one buffer that is too small for both."""

    def fuse(self, call: Call) -> Outputs:
        q_rot, k_rot, *pools = super().fuse(call)
        q_rot.view(-1)[: k_rot.numel()] = k_rot.reshape(-1)[: q_rot.numel()]
        return q_rot, k_rot, pools[0], pools[1]


FAULTS: list[Fault] = [
    afterwards("q_rotated_in_place", "q_rot is written into a contiguous q's own memory.", q_in_place),
    afterwards(
        "k_rotated_in_place",
        "k_rot is written into a contiguous k's own memory and returned as k.",
        k_in_place,
    ),
    afterwards("k_overwritten", "k is left rotated although k_rot has memory of its own.", k_overwritten),
    afterwards(
        "q_itself_at_position_zero",
        "With all positions 0 q itself is returned as q_rot.",
        q_itself_at_position_zero,
    ),
    afterwards("k_rot_is_view_of_pool", "With consecutive slots k_rot is a view of the pool.", k_rot_in_pool),
    afterwards(
        "positions_advanced",
        "positions is advanced by one for the next step.",
        lambda call, *_: (call.positions.add_(1), None)[1],
    ),
    afterwards(
        "slots_clamped_in_place",
        "Negative entries of slots are overwritten with -1.",
        lambda call, *_: (call.slots.clamp_(min=-1), None)[1],
    ),
    afterwards("v_cleared", "v is cleared once it is stored.", lambda call, *_: (call.v.zero_(), None)[1]),
    afterwards(
        "outputs_in_float32",
        "q_rot and k_rot come back in float32.",
        lambda _, q_rot, k_rot, *pools: (q_rot.float(), k_rot.float(), *pools),
    ),
    afterwards(
        "q_rot_flattened",
        "q_rot comes back as [num_tokens, num_qo_heads * head_dim].",
        lambda _, q_rot, *others: (q_rot.flatten(1), *others),
    ),
    afterwards(
        "one_token_axis_dropped",
        "With one token q_rot and k_rot lack the token axis.",
        lambda _, q_rot, k_rot, *pools: (q_rot[0], k_rot[0], *pools) if len(q_rot) == 1 else (q_rot, k_rot, *pools),
    ),
    afterwards(
        "q_and_k_swapped_on_return",
        "k_rot is returned before q_rot.",
        lambda _, q_rot, k_rot, *pools: (k_rot, q_rot, *pools),
    ),
    afterwards(
        "pools_swapped_on_return",
        "The V pool is returned before the K pool.",
        lambda _, q_rot, k_rot, k_pool, v_pool: (q_rot, k_rot, v_pool, k_pool),
    ),
    afterwards(
        "pools_not_returned",
        "Only q_rot and k_rot are returned.",
        lambda _, q_rot, k_rot, *__: (q_rot, k_rot),
    ),
    plant("stale_pools_returned", "The pools returned are copies from before the write.", on=ReturnsStalePools),
    plant(
        "pools_copied_for_one_token",
        "With one token the pools are new; otherwise they are written in place.",
        on=CopiesPoolsForOneToken,
    ),
    plant("v_pool_copied", "k_pool is written in place and v_pool in a copy.", on=CopiesVPoolOnly),
    plant("outputs_overlap", "k_rot is written over the start of q_rot.", on=SharedOutputBuffer),
]
