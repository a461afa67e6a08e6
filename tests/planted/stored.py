"""Faults in what is written to the pools, and in the rows that should stay as they were."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from tests.planted.fault import WIDER, Fault, plant, through
from tests.right.arguments import Call
from tests.right.kernels import Fused
from tests.right.recipe import Pair, Recipe

OTHER_HALF = {
    torch.float16: torch.bfloat16,
    torch.bfloat16: torch.float16,
    torch.float32: torch.float16,
}


def through_wider(x: Tensor) -> Tensor:
    return x.to(WIDER[x.dtype]).to(x.dtype)


def flushed(x: Tensor) -> Tensor:
    return torch.where(x.abs() < torch.finfo(x.dtype).tiny, torch.zeros_like(x), x)


def clamped(x: Tensor) -> Tensor:
    limit = torch.finfo(x.dtype).max
    return torch.where(x.isinf(), x.clamp(-limit, limit), x)


class RestOfPool(Recipe, ABC):
    """Does something to the rows that the call does not write."""

    def store(self, call: Call, k_rot: Tensor, k_pool: Tensor, v_pool: Tensor) -> None:
        super().store(call, k_rot, k_pool, v_pool)
        rest = torch.ones(k_pool.shape[0], dtype=torch.bool)
        rest[self.rows(call)[0]] = False
        for pool in self.changed(k_pool, v_pool):
            pool[rest] = self.change(pool[rest])

    def changed(self, k_pool: Tensor, v_pool: Tensor) -> tuple[Tensor, ...]:
        return k_pool, v_pool

    @abstractmethod
    def change(self, rows: Tensor) -> Tensor:
        """What the rows become that no slot names."""


class KRotUnrotated(Recipe):
    def store(self, call: Call, k_rot: Tensor, k_pool: Tensor, v_pool: Tensor) -> None:
        super().store(call, k_rot, k_pool, v_pool)
        k_rot.copy_(self.left_in_k_rot(call))

    def left_in_k_rot(self, call: Call) -> Tensor:
        return call.k


class StoresEachInTheOther(Recipe):
    def store(self, call: Call, k_rot: Tensor, k_pool: Tensor, v_pool: Tensor) -> None:
        super().store(call, k_rot, v_pool, k_pool)


def rotated_v(r: Recipe, call: Call) -> Tensor:
    return r.rotate(call.v, *r.cos_sin(call))


def k_recomputed(_: Recipe, call: Call, k_rot: Tensor) -> Tensor:  # noqa: ARG001  a step
    fused = Fused()
    return fused.rotate(call.k, *fused.cos_sin(call))


class ReturnsFreshUnfilledPools(Recipe):
    """New pools hold the call's rows alone."""

    def pools(self, call: Call) -> Pair:
        return torch.zeros_like(call.k_pool), torch.zeros_like(call.v_pool)


FAULTS: list[Fault] = [
    plant(
        "k_row_unrotated",
        "The pool gets K as it came, not rotated K.",
        k_stored=lambda _, call, __: call.k,
    ),
    plant(
        "k_rot_unrotated",
        "The pool gets rotated K, but the k_rot that attention reads is K as it came.",
        on=KRotUnrotated,
    ),
    plant(
        "k_rot_not_written",
        "The store to k_rot is missing, so it comes back as zeros.",
        on=KRotUnrotated,
        left_in_k_rot=lambda _, call: torch.zeros_like(call.k),
    ),
    plant(
        "k_row_rounded_twice",
        "The pool's K goes through another 16-bit dtype on its way.",
        k_stored=lambda _, __, k_rot: through(OTHER_HALF[k_rot.dtype])(k_rot),
    ),
    plant(
        "k_row_recomputed",
        "The pool's K is computed a second time with an FMA, so its last bit can differ from k_rot's.",
        k_stored=k_recomputed,
    ),
    plant("k_row_negated", "The pool's K has its sign flipped.", k_stored=lambda _, __, k_rot: -k_rot),
    plant(
        "v_row_through_wider_float",
        "V is converted to a wider float and back, so a NaN loses its payload.",
        v_stored=lambda _, call: through_wider(call.v),
    ),
    plant(
        "v_minus_zero_lost",
        "A -0 in V is stored as +0.",
        v_stored=lambda _, call: torch.where(call.v == 0, torch.zeros_like(call.v), call.v),
    ),
    plant(
        "v_subnormals_flushed",
        "Subnormals in V are stored as zero.",
        v_stored=lambda _, call: flushed(call.v),
    ),
    plant(
        "v_infinity_clamped",
        "An infinity in V is stored as the largest finite value.",
        v_stored=lambda _, call: clamped(call.v),
    ),
    plant(
        "v_nan_cleared",
        "A NaN in V is stored as zero.",
        v_stored=lambda _, call: torch.where(call.v.isnan(), torch.zeros_like(call.v), call.v),
    ),
    plant(
        "v_scaled",
        "V is scaled by 1 + 2^-7 before it is stored.",
        v_stored=lambda _, call: call.v * (1 + 2**-7),
    ),
    plant("v_rotated", "V is rotated like K.", v_stored=rotated_v),
    plant("v_row_is_k", "The V pool gets K.", v_stored=lambda _, call: call.k),
    plant("v_heads_reversed", "V's heads are stored in reverse order.", v_stored=lambda _, call: call.v.flip(1)),
    plant("k_and_v_swapped_in_pools", "K goes to the V pool and V to the K pool.", on=StoresEachInTheOther),
    plant("v_not_stored", "V is never stored.", v_rows=lambda *_: (torch.empty(0, dtype=torch.int64),) * 2),
    plant("k_not_stored", "K is never stored.", k_rows=lambda *_: (torch.empty(0, dtype=torch.int64),) * 2),
    plant(
        "rest_of_pool_through_wider_float",
        "The whole pool is rewritten through a wider float, so NaN patterns in untouched rows change.",
        on=RestOfPool,
        change=lambda _, rows: through_wider(rows),
    ),
    plant(
        "rest_of_pool_zeroed",
        "Rows that no slot names are cleared.",
        on=RestOfPool,
        change=lambda _, rows: torch.zeros_like(rows),
    ),
    plant(
        "rest_of_v_pool_zeroed",
        "Rows of the V pool that no slot names are cleared.",
        on=RestOfPool,
        changed=lambda _, __, v_pool: (v_pool,),
        change=lambda _, rows: torch.zeros_like(rows),
    ),
    plant(
        "rest_of_pool_lost_minus_zero",
        "Adding zero to the whole pool turns -0 in untouched rows into +0.",
        on=RestOfPool,
        change=lambda _, rows: torch.where(rows == 0, torch.zeros_like(rows), rows),
    ),
    plant(
        "new_pools_unfilled",
        "The pools returned are new ones that hold the call's rows and zeros elsewhere.",
        on=ReturnsFreshUnfilledPools,
    ),
]
