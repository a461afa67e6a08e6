"""What the oracle expects of a case."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

import reference
from conformance.case import Case
from conformance.inputs import logical_call
from kernel import Call
from reference import Accuracy, Bound, Violation

FLOAT_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True)
class Expected:
    """The oracle's side of one case: its arrays, the error it must raise, the bounds of its rotation."""

    case: Case
    call: Call
    accuracy: Accuracy

    @cached_property
    def violation(self) -> Violation | None:
        """The documented ValueError that the call must raise."""
        call = self.call
        return reference.first_violation(
            *(tensor for _, tensor in call.tensors()),
            head_dim=call.head_dim,
            num_qo_heads=call.num_qo_heads,
            num_kv_heads=call.num_kv_heads,
        )

    @cached_property
    def refusable(self) -> bool:
        """Whether the native binding refuses the call, or may: nothing documented says what it returns."""
        call = self.call
        indices = {call.positions.dtype, call.slots.dtype}
        return (
            indices != {torch.int32}
            or call.head_dim % 2 == 1
            or call.q.dtype not in FLOAT_DTYPES
            or bool((self.slots >= call.k_pool.shape[0]).any())
        )

    @cached_property
    def positions(self) -> Tensor:
        """[num_tokens] int64, by value."""
        return self.call.positions.to(torch.int64)

    @cached_property
    def slots(self) -> Tensor:
        """[num_tokens] int64, by value."""
        return self.call.slots.to(torch.int64)

    @cached_property
    def q(self) -> Bound:
        return reference.element_bound(self.call.q, self._turn)

    @cached_property
    def k(self) -> Bound:
        return reference.element_bound(self.call.k, self._turn)

    def prepare(self) -> None:
        """Work out everything that judging a returned call needs."""
        if self.violation is None and not self.refusable:
            _ = self.q, self.k, self.writers

    @cached_property
    def skipped(self) -> Tensor:
        """[num_tokens] bool: tokens that write no row."""
        return self.slots < 0

    @cached_property
    def writers(self) -> dict[int, list[int]]:
        """For each row of the pools that is written, its tokens."""
        size = self.call.k_pool.shape[0]
        return {row: tokens for row, tokens in reference.candidates(self.slots).items() if row < size}

    @cached_property
    def _turn(self) -> reference.TurnBound:
        return reference.turn_bound(self.positions, self.call.rope_base, self.call.head_dim, self.accuracy)


def expect(case: Case, accuracy: Accuracy) -> Expected:
    """What the oracle expects; the launch plan and the layout make no difference to it."""
    return _expect(case.but(plan=""), accuracy)


# Cases that differ in their plan alone follow one another.
@functools.lru_cache(maxsize=4)
def _expect(case: Case, accuracy: Accuracy) -> Expected:
    return Expected(case, logical_call(case), accuracy)


def error_texts(violation: Violation) -> set[str]:
    """The texts that are right: a shape prints as its framework prints it."""
    return {violation.text, violation.text.replace("torch.Size([", "(").replace("])", ")")}


def worst_finite(scores: Tensor) -> float | None:
    """Largest score that is a number of bounds; None of none."""
    if not scores.numel():
        return None
    largest = float(torch.where(scores < math.inf, scores, -1.0).max())
    return largest if largest >= 0 else None
