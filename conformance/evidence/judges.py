"""The judges that are compared: ours, by element and in the aggregate, and common practice, a fixed tolerance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from conformance.evidence.defects import BASE, Sample
from reference import (
    EXACT_ANGLE,
    GRANTED,
    Accuracy,
    Arithmetic,
    Bias,
    Bound,
    error_bound,
    frequency_error,
    output_bias,
    round_once,
    score,
)

OWN_TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 2e-2, torch.float32: 1e-4}
LOOSE_TOLERANCE = 1e-2


class Judge(Protocol):
    """Anything that says how much of an output is wrong."""

    def flagged(self, out: Tensor, given: Sample) -> float:
        """Share of the elements that are flagged; 1 where the output as a whole is."""


# Trials of one dtype follow one another.
@lru_cache(maxsize=128)
def _bound(given: Sample, accuracy: Accuracy, arithmetic: Arithmetic) -> Bound:
    return error_bound(given.x, given.positions, BASE, accuracy, arithmetic)


@lru_cache(maxsize=128)
def _reference(given: Sample) -> Tensor:
    """The exact rotation, rounded once, as float64."""
    return round_once(_bound(given, EXACT_ANGLE, GRANTED).exact, given.x.dtype).to(torch.float64)


@dataclass(frozen=True)
class Elementwise:
    """Ours: each element by its own bound."""

    accuracy: Accuracy
    arithmetic: Arithmetic = GRANTED

    def flagged(self, out: Tensor, given: Sample) -> float:
        return float((score(out, _bound(given, self.accuracy, self.arithmetic)) > 1).double().mean())


@dataclass(frozen=True)
class Frequencies:
    """Ours: the frequencies that an output shows as a whole."""

    accuracy: Accuracy

    def flagged(self, out: Tensor, given: Sample) -> float:
        error = frequency_error(out, given.x, given.positions, BASE, self.accuracy)
        return float(error is not None and error.worst > 1)


@dataclass(frozen=True)
class Rounding:
    """Ours: the bias of the output's rounding as a whole."""

    accuracy: Accuracy

    def bias(self, out: Tensor, given: Sample) -> Bias | None:
        """None where too few elements can tell."""
        return output_bias(out, _bound(given, self.accuracy, GRANTED))

    def flagged(self, out: Tensor, given: Sample) -> float:
        bias = self.bias(out, given)
        return float(bias is not None and abs(bias.mean) > bias.threshold)


@dataclass(frozen=True)
class Tolerance:
    """Common practice: |out - reference| <= tolerance + tolerance * |reference|."""

    tolerance: float

    def flagged(self, out: Tensor, given: Sample) -> float:
        wanted = _reference(given)
        allowed = self.tolerance + self.tolerance * wanted.abs()
        return float(((out.to(torch.float64) - wanted).abs() <= allowed).logical_not().double().mean())


def tolerances(dtype: torch.dtype) -> tuple[Tolerance, Tolerance]:
    """The two in use: one that goes with the dtype, and one for all."""
    return Tolerance(OWN_TOLERANCE[dtype]), Tolerance(LOOSE_TOLERANCE)
