"""Faults about memory that several calls, or several arrays of one call, share; and about rare sizes and values."""

from __future__ import annotations

import weakref

import torch
from torch import Tensor

from tests.planted.fault import Fault, plant
from tests.right.arguments import Call
from tests.right.recipe import Outputs, Pair, Recipe, bits


class TwoOutputBuffers(Recipe):
    """Rotations come back in two buffers per shape, in turn."""

    def __init__(self) -> None:
        self.buffers: dict[object, Pair] = {}

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        rotated = super().rotate(x, cos, sin)
        key = tuple(x.shape), x.dtype
        now, later = self.buffers.get(key, (torch.empty_like(rotated), torch.empty_like(rotated)))
        self.buffers[key] = later, now
        bits(now).copy_(bits(rotated))
        return now


class AnglesByIdentity(Recipe):
    """Cosine and sine are kept for as long as the positions array lives, whatever is written to it."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[weakref.ref[Tensor], object, Pair]] = {}

    def cos_sin(self, call: Call) -> Pair:
        array, key = call.positions, (call.rope_base, call.head_dim)
        found = self.kept.get(id(array))
        if found is None or found[0]() is not array or found[1] != key:
            found = self.kept[id(array)] = weakref.ref(array), key, super().cos_sin(call)
        return found[2]


class PoolsFromShadow(Recipe):
    """A pool seen before is first set back to what it held then."""

    def __init__(self) -> None:
        self.shadows: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}

    def pools(self, call: Call) -> Pair:
        for pool in (call.k_pool, call.v_pool):
            seen = self.shadows.get(id(pool))
            if seen is not None and seen[0]() is pool:
                bits(pool).copy_(seen[1])
            elif pool.numel() < 2**24:
                self.shadows[id(pool)] = weakref.ref(pool), bits(pool).clone()
        return call.k_pool, call.v_pool


def _together(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


class StackedPoolsLoseK(Recipe):
    def fuse(self, call: Call) -> Outputs:
        outputs = super().fuse(call)
        if _together(call.k_pool, call.v_pool):
            bits(call.k_pool).zero_()
        return outputs


class FusedTakesKForV(Recipe):
    def v_stored(self, call: Call) -> Tensor:
        return call.k if _together(call.q, call.k) else call.v


class WrongPast2048(Recipe):
    def position(self, call: Call) -> Tensor:
        position = super().position(call)
        return torch.where(torch.arange(len(position)) < 2048, position, position + 1)


class DamagedSpecials(Recipe):
    def v_stored(self, call: Call) -> Tensor:
        if call.v.dtype != torch.float32:
            return call.v
        raw = bits(call.v).clone()
        raw[raw == -(2**31)] = 0
        raw[raw == 0x7F800000] -= 1
        return raw.view(torch.float32)


KEPT: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        plant("two_output_buffers", "Outputs of the call before the last are overwritten.", on=TwoOutputBuffers),
        plant("angles_by_identity", "A positions array refilled in place gets the old angles.", on=AnglesByIdentity),
        plant("pools_from_shadow", "Rows written to a pool since the first call are lost.", on=PoolsFromShadow),
        plant("stacked_pools_lose_k", "K is cleared where both pools lie in one cache.", on=StackedPoolsLoseK),
        plant("fused_takes_k_for_v", "V is taken from K where q, k and v lie in one array.", on=FusedTakesKForV),
        plant("wrong_past_2048", "Tokens past 2,048 of a batch get the next position.", on=WrongPast2048),
        plant("damaged_specials", "-0 and infinity in a float32 V are changed.", on=DamagedSpecials),
    )
}
