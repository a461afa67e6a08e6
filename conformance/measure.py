"""How near to its bound a rotation came: by position decade and pair of elements, and by accuracy class."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from reference import Bound, TurnBound, format_of
from reference.bounds import token_blocks

_POWERS = torch.tensor([10**n for n in range(10)])
DECADES = len(_POWERS) + 1
# Errors relative to a pair's length are told of lengths where no dtype is short of bits.
_PLAIN_LENGTHS = 2.0**-8, 2.0**8
# Below this sum of errors of angle and trigonometry no bound reaches half the length of a pair.
_SURELY_INFORMATIVE = 2.0**-4
BUCKETS = 12
_EXPONENT_BITS = np.int32(0x7F80_0000)
_DIGITS = Context(prec=4, rounding=ROUND_CEILING)


def rounded_up(value: float) -> float:
    """The smallest number of four digits that is no smaller: a score beyond its bound stays so, one within it too."""
    return float(_DIGITS.create_decimal(repr(value)))


def decade_of(positions: Tensor) -> Tensor:
    """0 for position 0, n for |position| from 10^(n-1) to 10^n - 1."""
    return torch.bucketize(positions.abs(), _POWERS, right=True)


def decade_name(decade: int) -> str:
    """`0`, `1-9`, ..., `10^9-2^31`."""
    if decade == 0:
        return "0"
    if decade == 1:
        return "1-9"
    return f"10^{decade - 1}-{f'10^{decade}' if decade < DECADES - 1 else '2^31'}"


@dataclass
class Decade:
    """The elements at positions of one decade."""

    elements: int = 0
    uninformative: int = 0
    """Elements at positions beyond the reach of the class, whose bound is half the length of their pair or more."""
    error: float = 0.0
    """Largest error as a fraction of the length of its pair; of finite, neither tiny nor huge pairs."""
    worst: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    """Largest score of each pair, float64 [head_dim/2]."""

    def add(self, other: Decade) -> None:
        self.elements += other.elements
        self.uninformative += other.uninformative
        self.error = max(self.error, other.error)
        self.worst = _larger(self.worst, other.worst)


@dataclass
class Kept:
    """What one accuracy class allowed: the largest score, and the smallest |position| with one above 1."""

    worst: float = 0.0
    beyond: int | None = None

    def add(self, other: Kept) -> None:
        self.worst = max(self.worst, other.worst)
        self.beyond = min((b for b in (self.beyond, other.beyond) if b is not None), default=None)


Raised = dict[tuple[str, int], dict[int, float]]
"""By class and decade, the scores of some pairs."""


@dataclass
class Measure:
    """One case, or a part of it, under each accuracy class by name; decades by class and number."""

    dtype: str
    decades: dict[tuple[str, int], Decade] = field(default_factory=dict)
    classes: dict[str, Kept] = field(default_factory=dict)
    ulps: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(2 * BUCKETS + 1, np.int64))
    """Elements by the bucket of their error in ulps, from -BUCKETS to BUCKETS; see `deviation`."""

    def add(self, other: Measure) -> None:
        for key, seen in other.decades.items():
            self.decades.setdefault(key, Decade()).add(seen)
        for name, kept in other.classes.items():
            self.classes.setdefault(name, Kept()).add(kept)
        self.ulps += other.ulps

    def to_json(self, raised: Raised) -> dict[str, Any]:
        """raised: of each class and decade the pairs to tell, with their scores."""
        decades: dict[str, dict[str, Any]] = {}
        for (name, decade), seen in self.decades.items():
            decades.setdefault(name, {})[str(decade)] = {
                "elements": seen.elements,
                "uninformative": seen.uninformative,
                "error": rounded_up(seen.error),
                "raised": {str(pair): score for pair, score in raised[name, decade].items()},
            }
        return {
            "dtype": self.dtype,
            "classes": {name: {"worst": kept.worst, "beyond": kept.beyond} for name, kept in self.classes.items()},
            "decades": decades,
            "ulps": {str(n - BUCKETS): count for n, count in enumerate(self.ulps.tolist()) if count},
        }

    @classmethod
    def from_json(cls, line: dict[str, Any]) -> Measure:
        """The inverse of `to_json`; pairs that were not told have the score -1."""
        told = cls(line["dtype"])
        for name, decades in line["decades"].items():
            for decade, seen in decades.items():
                scores = {int(pair): float(score) for pair, score in seen["raised"].items()}
                worst = torch.full((max(scores, default=-1) + 1,), -1.0, dtype=torch.float64)
                worst[list(scores)] = torch.tensor(list(scores.values()), dtype=torch.float64)
                error = float(seen["error"])
                told.decades[name, int(decade)] = Decade(seen["elements"], seen["uninformative"], error, worst)
        for name, kept in line["classes"].items():
            told.classes[name] = Kept(float(kept["worst"]), kept["beyond"])
        for bucket, count in line["ulps"].items():
            told.ulps[int(bucket) + BUCKETS] = count
        return told


def _larger(one: Tensor, other: Tensor) -> Tensor:
    """Elementwise maximum of two rows, the shorter one continued by nothing."""
    if len(one) < len(other):
        one, other = other, one
    longer = one.clone()
    torch.maximum(longer[: len(other)], other, out=longer[: len(other)])
    return longer


def kept(scores: Tensor, positions: Tensor) -> Kept:
    """How a class's scores [num_tokens, num_heads, head_dim] fared at positions [num_tokens]."""
    by_token = scores.flatten(1).amax(dim=1)
    wrong = positions.abs()[by_token > 1]
    return Kept(float(by_token.max()), int(wrong.min()) if len(wrong) else None)


def decades(scores: Tensor, rotated: Rotated, turn: TurnBound, errors: npt.NDArray[np.float32]) -> dict[int, Decade]:
    """The decades of scores [num_tokens, num_heads, head_dim] of a rotation; errors [num_tokens], see `deviation`."""
    half = scores.shape[-1] // 2
    by_pair = scores.amax(dim=1).reshape(-1, 2, half).amax(dim=1)
    uninformative = _uninformative(rotated, turn)
    per_token = scores[0].numel()
    of_token = decade_of(rotated.positions)
    found = {}
    for decade in sorted(set(of_token.tolist())):
        tokens = of_token == decade
        found[decade] = Decade(
            int(tokens.sum()) * per_token,
            int(uninformative[tokens].sum()),
            float(errors[tokens.numpy()].max()),
            by_pair[tokens].amax(dim=0),
        )
    return found


@dataclass(frozen=True)
class Rotated:
    """x [num_tokens, num_heads, head_dim], positions [num_tokens], what came back, and the bound it is held to."""

    x: Tensor
    positions: Tensor
    out: Tensor
    bound: Bound


def _lengths(x: Tensor) -> Tensor:
    """Length of each element's pair, float64 of x's shape."""
    return torch.hypot(*x.to(torch.float64).chunk(2, dim=-1)).repeat(1, 1, 2)


def _uninformative(rotated: Rotated, turn: TurnBound) -> Tensor:
    """Elements of each token on which the bound says nothing, int64 [num_tokens]."""
    count = torch.zeros(len(rotated.x), dtype=torch.int64)
    loose = (turn.angle_error + turn.cos_error).amax(dim=(1, 2)) > _SURELY_INFORMATIVE
    if bool(loose.any()):
        length = _lengths(rotated.x[loose])
        silent = (rotated.bound.error[loose] >= length / 2) & (length > 0)
        count[loose] = silent.flatten(1).sum(dim=1)
    return count


def deviation(x: Tensor, out: Tensor, exact: Tensor) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """How far `out`, rotated from x, lies from the exact float64 rotation, each [num_tokens, num_heads, head_dim].

    Of pairs of ordinary length: the largest error of each token as a fraction of the length of its pair
    [num_tokens]; and how many elements have their error in each bucket of ulps [2 * BUCKETS + 1]. The bucket 0 is the
    output nearest to the exact value, +-1 and +-2 are so many ulps above and below, +-k more than 2^(k-2) and up to
    2^(k-1), the last ones any more. Only elements larger than a quarter of the length are told of in ulps.
    """
    errors = np.empty(len(x), np.float32)
    ulps = np.zeros(2 * BUCKETS + 1, np.int64)
    # Arrays of numpy: most cases are small, and there it takes half the time.
    with np.errstate(all="ignore"):
        for block in token_blocks(x):
            length = _plain_lengths(x[block])
            error = (out[block].to(torch.float64) - exact[block]).to(torch.float32).numpy()
            wanted = exact[block].to(torch.float32).numpy()
            relative = np.abs(error) / length
            if not np.isfinite(relative.max()):
                relative[~np.isfinite(relative)] = 0
            errors[block] = relative.reshape(len(relative), -1).max(axis=1)
            ulps += _ulps(error, wanted, np.abs(wanted) * 4 > length, format_of(out.dtype).unit)
    return errors, ulps


def _plain_lengths(x: Tensor) -> npt.NDArray[np.float32]:
    """Length of each element's pair, of x's shape; inf where it is not ordinary."""
    square = x.to(torch.float32).numpy() ** 2
    half = x.shape[-1] // 2
    length = np.sqrt(square[..., :half] + square[..., half:])
    low, high = _PLAIN_LENGTHS
    length[~((length >= low) & (length <= high))] = np.inf
    return np.concatenate((length, length), axis=-1)


def _ulps(
    error: npt.NDArray[np.float32], wanted: npt.NDArray[np.float32], told: npt.NDArray[np.bool_], unit: float
) -> npt.NDArray[np.int64]:
    """Counts by bucket of the elements of `told`; unit: an ulp of 1."""
    ulp = (wanted.view(np.int32) & _EXPONENT_BITS).view(np.float32) * np.float32(unit)
    near = np.abs(error) <= ulp / 2
    off = np.flatnonzero(told & ~near)
    steps = error.ravel()[off] / ulp.ravel()[off]
    # The exponent of n - 1/2 tells the power of two that n whole steps do not exceed.
    bucket = np.minimum(((np.rint(np.abs(steps)) - np.float32(0.5)).view(np.int32) >> 23) - 125, BUCKETS)
    counts = np.bincount(np.where(steps < 0, -bucket, bucket) + BUCKETS, minlength=2 * BUCKETS + 1)
    counts[BUCKETS] += np.count_nonzero(told) - len(off)
    return counts
