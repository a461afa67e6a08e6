"""Trials: kernels with and without a defect before a judge, over many seeds."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar

import torch

from conformance.evidence.defects import RIGHT, SIZED, Defect, output, sample
from conformance.evidence.judges import Judge
from reference import Accuracy

PROCESSES = 2
# A defect counts as found when this share of the seeds shows it.
_FOUND = 0.95
# Sizes are 2^-k, k from 1 to 49 in steps of 1/2.
_FIRST, _LAST = 2, 98
# Two results that differ by less than 1/2 are told apart in steps of 1/16.
_PARTS = 8

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Trial:
    """A kernel's class, the dtype and positions that it is given, and who judges it."""

    kernel: Accuracy
    dtype: torch.dtype
    limit: int
    judge: Judge

    def flagged(self, seed: int, defect: Defect) -> float:
        given = sample(self.dtype, seed, self.limit)
        return self.judge.flagged(output(self.kernel, given, defect), given)

    def finds(self, defect: Defect, seeds: int) -> bool:
        """Whether enough seeds show the defect."""
        missed, may_miss = 0, int((1 - _FOUND) * seeds + 1e-9)
        for seed in range(seeds):
            missed += self.flagged(seed, defect) == 0
            if missed > may_miss:
                return False
        return True

    def alarms(self, seeds: int) -> float:
        """Share of the seeds in which the right kernel is flagged."""
        return sum(self.flagged(seed, RIGHT) > 0 for seed in range(seeds)) / seeds

    def is_quiet(self, seeds: int) -> bool:
        """Whether the right kernel is flagged in no seed."""
        return all(self.flagged(seed, RIGHT) == 0 for seed in range(seeds))

    def least_flagged(self, defect: Defect, seeds: int) -> float:
        """Smallest share of flagged elements over the seeds."""
        return min(self.flagged(seed, defect) for seed in range(seeds))


def smallest_found(trial: Trial, sized: str, seeds: int, *, fine: bool = False) -> float | None:
    """The largest k at which the defect of size 2^-k is found, to 1/2 or finely to 1/16; None if 1/2 is not found."""

    def found(k: float) -> bool:
        return trial.finds(SIZED[sized](2.0**-k), seeds)

    step = last_true(lambda step: found(step / 2), _FIRST, _LAST)
    if step is None or not fine:
        return step and step / 2
    part = last_true(lambda part: found((step + part / _PARTS) / 2), 1, _PARTS - 1)
    return (step + (part or 0) / _PARTS) / 2


def last_true(holds: Callable[[int], bool], first: int, last: int) -> int | None:
    """The last number, from `first` to `last`, up to which `holds` is true, by bisection; None if not at `first`.

    What is false once is taken to be false from there on. Where the neighbours of the number found show otherwise,
    numbers are tried one by one.
    """
    tried = lru_cache(maxsize=None)(holds)
    low, high = first - 1, last + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if tried(middle) else (low, middle)
    below, above = range(max(first, low - 2), low), range(high, min(last, high + 1) + 1)
    if not all(map(tried, below)) or any(map(tried, above)):
        low = first - 1
        while low < last and tried(low + 1):
            low += 1
    return low if low >= first else None


def quiet_limit(kernel: Accuracy, dtype: torch.dtype, judge: Judge, seeds: int) -> int | None:
    """The largest power of two, up to 2^17, below which positions raise no false alarm; None if none does not."""
    quiet = None
    for limit in (2**power for power in range(1, 18)):
        if not Trial(kernel, dtype, limit, judge).is_quiet(seeds):
            break
        quiet = limit
    return quiet


class Workers:
    """Processes that answer questions."""

    def __init__(self) -> None:
        self._pool = multiprocessing.get_context("fork").Pool(PROCESSES, torch.set_num_threads, (1,))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.terminate()

    def ask(self, questions: dict[K, partial[V]]) -> dict[K, V]:
        """The answers, by the same keys; questions that use the same samples had better follow one another."""
        return dict(zip(questions, self._pool.map(_answer, questions.values(), chunksize=1), strict=True))


def _answer(question: partial[V]) -> V:
    return question()
