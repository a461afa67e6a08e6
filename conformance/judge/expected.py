"""What the oracle expects of a case."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

import reference
from conformance.case import Case
from conformance.inputs import logical_call
from conformance.standard import Standard
from kernel import Call
from reference import Accuracy, Bound, TurnBound, Violation

FLOAT_DTYPES = (torch.float16, torch.bfloat16, torch.float32)
# Elements of q and k that are judged at a time; float64 bounds of a whole long prefill would fill the memory.
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Expected:
    """The oracle's side of one case: its arrays, the error it must raise, the bounds of its rotation."""

    case: Case
    call: Call
    standard: Standard

    @property
    def accuracy(self) -> Accuracy:
        """The class that decides."""
        return self.standard.accuracy

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
    def _tokens_at_once(self) -> int:
        call = self.call
        return max(1, _AT_ONCE // ((call.num_qo_heads + call.num_kv_heads) * call.head_dim))

    def parts(self) -> Iterator[slice]:
        """The tokens, as many at a time as are judged at once."""
        for start in range(0, len(self.positions), self._tokens_at_once):
            yield slice(start, start + self._tokens_at_once)

    def turn(self, part: slice, accuracy: Accuracy) -> TurnBound:
        """cos, sin and their errors of the tokens of `part`, for q and k alike."""
        return self._turn(part.start, accuracy)

    def bound(self, name: str, part: slice, accuracy: Accuracy) -> Bound:
        """The bound of q_rot or k_rot, by the name of the input, for the tokens of `part`."""
        return self._bound(name, part.start, accuracy)

    def prepare(self) -> None:
        """Work out everything that judging a returned call needs; what is too large to keep is left for later."""
        if self.violation is None and not self.refusable:
            _ = self.writers
            parts = list(self.parts())
            if len(parts) == 1:
                for accuracy in self.standard.classes:
                    _ = self.bound("q", parts[0], accuracy), self.bound("k", parts[0], accuracy)

    @cached_property
    def skipped(self) -> Tensor:
        """[num_tokens] bool: tokens that write no row."""
        return self.slots < 0

    @cached_property
    def writers(self) -> dict[int, list[int]]:
        """For each row of the pools that is written, its tokens."""
        size = self.call.k_pool.shape[0]
        return {row: tokens for row, tokens in reference.candidates(self.slots).items() if row < size}

    # The bounds of q and k under each class, and no more: parts follow one another.
    @cached_property
    def _turn(self) -> functools._lru_cache_wrapper[TurnBound]:
        return functools.lru_cache(maxsize=len(self.standard.classes))(self._make_turn)

    @cached_property
    def _bound(self) -> functools._lru_cache_wrapper[Bound]:
        return functools.lru_cache(maxsize=2 * len(self.standard.classes))(self._make_bound)

    def _make_turn(self, start: int, accuracy: Accuracy) -> TurnBound:
        positions = self.positions[start : start + self._tokens_at_once]
        call = self.call
        return reference.turn_bound(positions, call.rope_base, call.head_dim, accuracy, self.standard.arithmetic)

    def _make_bound(self, name: str, start: int, accuracy: Accuracy) -> Bound:
        x: Tensor = getattr(self.call, name)[start : start + self._tokens_at_once]
        return reference.element_bound(x, self._turn(start, accuracy), self.standard.arithmetic)


def expect(case: Case, standard: Standard) -> Expected:
    """What the oracle expects; the launch plan and the layout make no difference to it."""
    return _expect(case.but(plan=""), standard)


# Cases that differ in their plan alone follow one another.
@functools.lru_cache(maxsize=4)
def _expect(case: Case, standard: Standard) -> Expected:
    return Expected(case, logical_call(case), standard)


def error_texts(violation: Violation) -> set[str]:
    """The texts that are right: a shape prints as its framework prints it."""
    return {violation.text, violation.text.replace("torch.Size([", "(").replace("])", ")")}


def worst_finite(scores: Tensor) -> float | None:
    """Largest score that is a number of bounds; None of none."""
    if not scores.numel():
        return None
    largest = float(torch.where(scores < math.inf, scores, -1.0).max())
    return largest if largest >= 0 else None
