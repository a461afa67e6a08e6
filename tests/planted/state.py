"""Faults that live from one call to the next, depend on the batch, or end the process."""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import replace

import torch
from torch import Tensor

from tests.planted.fault import Fault, plant
from tests.right.arguments import Call
from tests.right.kernels import Fast
from tests.right.recipe import INTEGER, Outputs, Pair, Recipe, bits


class CachesFrequency(Recipe):
    """Keeps the frequencies of the first call under a key that leaves something out."""

    def __init__(self) -> None:
        self.frequencies: dict[object, Tensor] = {}

    def key(self, call: Call) -> object:  # noqa: ARG002  a hook: faults need the call
        return None

    def frequency(self, call: Call) -> Tensor:
        return self.frequencies.setdefault(self.key(call), super().frequency(call))


class TableNeverGrows(Recipe):
    """Positions past the largest one of the first call are clamped to it."""

    last: float | None = None

    def position(self, call: Call) -> Tensor:
        position = super().position(call)
        if self.last is None and len(position):
            self.last = float(position.max())
        return position.clamp(max=self.last)


class CachesAngles(Recipe):
    """Cosine and sine of the first call of a shape serve every later one."""

    def __init__(self) -> None:
        self.tables: dict[object, Pair] = {}

    def cos_sin(self, call: Call) -> Pair:
        key = call.q.shape[0], call.head_dim, call.rope_base
        return self.tables.setdefault(key, super().cos_sin(call))


class FirstDtypeServes(Recipe):
    """Outputs come back in the dtype that was first seen with their shape."""

    def __init__(self) -> None:
        self.dtypes: dict[torch.Size, torch.dtype] = {}

    def fuse(self, call: Call) -> Outputs:
        dtype = self.dtypes.setdefault(call.q.shape, call.q.dtype)
        q_rot, k_rot, k_pool, v_pool = super().fuse(call)
        return q_rot.to(dtype), k_rot.to(dtype), k_pool, v_pool


class Bf16ReusesF32(Recipe):
    """After an f32 call of the same shape, a bf16 call gets the kernel that was built for f32."""

    def __init__(self) -> None:
        self.built: set[torch.Size] = set()

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if x.dtype == torch.float32:
            self.built.add(x.shape)
        if x.dtype != torch.bfloat16 or x.shape not in self.built or not x.numel():
            return super().rotate(x, cos, sin)
        buffer = torch.cat((x.flatten(), x.flatten())).view(torch.float32)
        return super().rotate(buffer.view(x.shape), cos, sin).view(torch.bfloat16).flatten()[: x.numel()].view(x.shape)


class SkipsEverySecondWrite(Recipe):
    calls = 0

    def store(self, call: Call, k_rot: Tensor, k_pool: Tensor, v_pool: Tensor) -> None:
        self.calls += 1
        if self.calls % 2:
            super().store(call, k_rot, k_pool, v_pool)


class KeepsFirstPools(Recipe):
    """Writes and returns the pools of the first call with that pool shape and dtype."""

    def __init__(self) -> None:
        self.first: dict[object, Pair] = {}

    def pools(self, call: Call) -> Pair:
        return self.first.setdefault((call.k_pool.shape, call.k_pool.dtype), (call.k_pool, call.v_pool))


class ReusesOutputBuffer(Recipe):
    """q_rot of one call is overwritten by the next call of that shape and dtype."""

    def __init__(self) -> None:
        self.buffers: dict[object, Tensor] = {}

    def rotate_q(self, call: Call, cos: Tensor, sin: Tensor) -> Tensor:
        q_rot = super().rotate_q(call, cos, sin)
        return self.buffers.setdefault((q_rot.shape, q_rot.dtype), q_rot).copy_(q_rot)


class FailsAfterEmptyBatch(Recipe):
    """An empty batch passes, but no later call is rotated."""

    broken = False

    def cos_sin(self, call: Call) -> Pair:
        self.broken |= call.q.shape[0] == 0
        cos, sin = super().cos_sin(call)
        return (torch.ones_like(cos), torch.zeros_like(sin)) if self.broken else (cos, sin)


class FailsAfterError(Recipe):
    """A refused call leaves the kernel disabled for one call."""

    refused = False

    def run(self, call: Call) -> Outputs:
        skip, self.refused = self.refused, True
        outputs = super().run(replace(call, slots=torch.full_like(call.slots, -1)) if skip else call)
        self.refused = False
        return outputs


class Noisy(Recipe):
    """One unit in the last place of the result is added or not, another way in each call."""

    def __init__(self) -> None:
        self.random = torch.Generator().manual_seed(0)

    def round(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        y = super().round(y, dtype)
        up = torch.randint(2, y.shape, generator=self.random, dtype=INTEGER[dtype])
        finite = y.isfinite() & (y.abs() < torch.finfo(dtype).max)
        return torch.where(finite, (bits(y) + up).view(dtype), y)


class NoisyBeforeRounding(Noisy):
    """The float32 result is noisy, so that a 16-bit result seldom shows it."""

    def round(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        return super().round(y, torch.float32).to(dtype)


class AnotherSineForLongBatches(Recipe):
    """Batches of 16 tokens or more use fast cosine and sine."""

    def cos_sin(self, call: Call) -> Pair:
        return Fast().cos_sin(call) if call.q.shape[0] >= 16 else super().cos_sin(call)


class TailInHalf(Recipe):
    """Tokens past a multiple of eight go through a scalar tail that computes cosine and sine in half."""

    def cos_sin(self, call: Call) -> Pair:
        cos, sin = super().cos_sin(call)
        tail = (torch.arange(len(cos)) >= len(cos) // 8 * 8)[:, None] & (len(cos) > 8)
        return torch.where(tail, cos.half().float(), cos), torch.where(tail, sin.half().float(), sin)


class Crashes(Recipe):
    def fuse(self, call: Call) -> Outputs:
        if call.head_dim == 96:
            ctypes.string_at(0)
        return super().fuse(call)


class Exits(Recipe):
    def fuse(self, call: Call) -> Outputs:
        if call.num_kv_heads == 1:
            os._exit(0)
        return super().fuse(call)


class Hangs(Recipe):
    def fuse(self, call: Call) -> Outputs:
        while call.q.shape[0] == 7:
            time.sleep(1)
        return super().fuse(call)


FAULTS: list[Fault] = [
    plant(
        "frequency_cached_by_whole_base",
        "Frequencies are cached by int(base) and head_dim.",
        on=CachesFrequency,
        key=lambda _, call: (int(call.rope_base), call.head_dim),
    ),
    plant(
        "frequency_cached_by_head_dim",
        "Frequencies are cached by head_dim alone, so the first base serves all.",
        on=CachesFrequency,
        key=lambda _, call: call.head_dim,
    ),
    plant(
        "angles_cached_by_shape",
        "Cosine and sine are cached by token count, head_dim and base, without the positions.",
        on=CachesAngles,
    ),
    plant(
        "table_never_grows",
        "The position table is sized by the first call and later positions are clamped to it.",
        on=TableNeverGrows,
    ),
    plant(
        "dtype_missing_from_cache_key",
        "The first dtype seen with a shape serves every later call of that shape.",
        on=FirstDtypeServes,
    ),
    plant(
        "bf16_reuses_f32_kernel",
        "After an f32 call a bf16 call of that shape runs the f32 kernel on bf16 memory.",
        on=Bf16ReusesF32,
    ),
    plant(
        "every_second_write_skipped",
        "Every second call leaves the pools as they were.",
        on=SkipsEverySecondWrite,
    ),
    plant(
        "first_pools_kept",
        "The first pools of a shape are written and returned in every later call.",
        on=KeepsFirstPools,
    ),
    plant(
        "output_buffer_reused",
        "q_rot is one buffer per shape, which the next call overwrites.",
        on=ReusesOutputBuffer,
    ),
    plant(
        "unrotated_after_empty_batch",
        "After an empty batch no call is rotated any more.",
        on=FailsAfterEmptyBatch,
    ),
    plant(
        "write_skipped_after_refusal",
        "The first call after a refused one does not write the pools.",
        on=FailsAfterError,
    ),
    plant("noise_in_last_place", "The last bit of a result differs from call to call.", on=Noisy),
    plant(
        "noise_before_rounding",
        "The float32 result's last bit differs from call to call before it is rounded.",
        on=NoisyBeforeRounding,
    ),
    plant(
        "long_batch_uses_other_sine",
        "A token's bits depend on the batch: from 16 tokens on sine and cosine are the fast ones.",
        on=AnotherSineForLongBatches,
    ),
    plant("tail_tokens_in_half", "Tokens past a multiple of eight get cosine and sine in half.", on=TailInHalf),
    plant(
        "crashes_at_head_dim_96",
        "head_dim 96 ends the process with a segmentation fault.",
        on=Crashes,
        ends_process=True,
    ),
    plant(
        "exits_at_one_kv_head",
        "One KV head ends the process with exit code 0.",
        on=Exits,
        ends_process=True,
    ),
    plant("hangs_at_seven_tokens", "Seven tokens never come back.", on=Hangs, ends_process=True),
]
