"""Times of a call and of its yardstick, taken in turn so that both meet the same machine."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernel import Call

_MOST_ROUNDS = 1000
# A copy of few bytes is repeated until it takes longer than the clock and the call of it.
_LEAST_COPIED = 1 << 20


@dataclass(frozen=True)
class Quantiles:
    """Of the rounds' times, in seconds; between two rounds linear."""

    p20: float
    p50: float
    p80: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Quantiles:
        return cls(*map(float, np.percentile(seconds, (20, 50, 80))))


@dataclass(frozen=True)
class Effort:
    """How long one benchmark may take: about `seconds`, but never fewer than `least` rounds."""

    seconds: float
    least: int

    def rounds(self, once: float) -> int:
        return max(self.least, min(_MOST_ROUNDS, math.ceil(self.seconds / once)))


def beside(
    benchmark: Any, effort: Effort, call: Callable[[], object], yardstick: Callable[[], float]
) -> tuple[Quantiles, Quantiles]:
    """The times of `call`, and those that `yardstick` tells of itself: one before each round.

    benchmark: the fixture of pytest-benchmark, which has no types.
    """
    call()
    rounds = effort.rounds(_timed(call))
    told: list[float] = []
    # What a setup returns would be taken for arguments.
    benchmark.pedantic(call, setup=lambda: told.append(yardstick()), rounds=rounds, warmup_rounds=1)
    return Quantiles.of(benchmark.stats.stats.data), Quantiles.of(told[-rounds:])


def timed(call: Callable[[], object]) -> Callable[[], float]:
    """The call as a yardstick."""
    return lambda: _timed(call)


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def bytes_moved(call: Call) -> int:
    """The bytes that any kernel must read and write: q, k, v, positions and slots in; q_rot, k_rot and the pools' rows
    out. A rotated row of K is read once and written twice."""
    read = sum(t.nbytes for t in (call.q, call.k, call.v, call.positions, call.slots))
    rows = int((call.slots >= 0).sum())
    row = call.num_kv_heads * call.head_dim * call.k_pool.element_size()
    return read + call.q.nbytes + call.k.nbytes + 2 * rows * row


def copies(moved: int) -> Callable[[], float]:
    """Seconds in which one thread's memcpy moves `moved` bytes: it reads the half of them and writes the half."""
    half = max(1, moved // 2)
    source, target = (torch.zeros(half, dtype=torch.uint8) for _ in range(2))
    repeats = math.ceil(_LEAST_COPIED / half)

    def repeated() -> None:
        for _ in range(repeats):
            ctypes.memmove(target.data_ptr(), source.data_ptr(), half)

    return lambda: _timed(repeated) / repeats
