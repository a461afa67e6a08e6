"""How near to its bound a rotation came: by position decade and pair of elements, and by accuracy class."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from reference import Bound, TurnBound

_POWERS = torch.tensor([10**n for n in range(10)])
DECADES = len(_POWERS) + 1
# Errors relative to a pair's length are told of lengths where no dtype is short of bits.
_PLAIN_LENGTHS = 2.0**-8, 2.0**8
# Below this sum of errors of angle and trigonometry no bound reaches half the length of a pair.
_SURELY_INFORMATIVE = 2.0**-4


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


@dataclass
class Measure:
    """One case, or a part of it, under each accuracy class by name; decades by class and number."""

    dtype: str
    decades: dict[tuple[str, int], Decade] = field(default_factory=dict)
    classes: dict[str, Kept] = field(default_factory=dict)

    def add(self, other: Measure) -> None:
        for key, seen in other.decades.items():
            self.decades.setdefault(key, Decade()).add(seen)
        for name, kept in other.classes.items():
            self.classes.setdefault(name, Kept()).add(kept)


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


def decades(scores: Tensor, rotated: Rotated, turn: TurnBound) -> dict[int, Decade]:
    """The decades of scores [num_tokens, num_heads, head_dim] of a rotation."""
    half = scores.shape[-1] // 2
    by_pair = scores.amax(dim=1).reshape(-1, 2, half).amax(dim=1)
    uninformative, errors = _uninformative(rotated, turn), _relative_errors(rotated)
    per_token = scores[0].numel()
    of_token = decade_of(rotated.positions)
    found = {}
    for decade in sorted(set(of_token.tolist())):
        tokens = of_token == decade
        found[decade] = Decade(
            int(tokens.sum()) * per_token,
            int(uninformative[tokens].sum()),
            float(errors[tokens].max()),
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


def _relative_errors(rotated: Rotated) -> Tensor:
    """Largest error of each token as a fraction of the length of its pair, float64 [num_tokens]."""
    length = _lengths(rotated.x)
    low, high = _PLAIN_LENGTHS
    error = (rotated.out.to(torch.float64) - rotated.bound.exact).abs_().div_(length)
    plain = (length >= low) & (length <= high) & (error < math.inf)
    return torch.where(plain, error, 0.0).flatten(1).amax(dim=1)
