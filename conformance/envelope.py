"""How large an error each accuracy class allows as the position grows."""

from __future__ import annotations

import math
from typing import Any

import torch

from conformance.measure import rounded_up
from reference import ACCURACY_CLASSES, Accuracy, Arithmetic, error_bound

_ROPE_BASE, _HEAD_DIM = 10000.0, 128
_LAST_POSITION = 2**31 - 1
_PER_DECADE = 4
# The bound of a pair depends on its direction; the largest of this many over half a turn is within 0.5% of it.
_DIRECTIONS = 16
# No rotation is farther off than this many lengths of its pair.
_FARTHEST = 2.0


def envelopes(arithmetic: Arithmetic) -> list[dict[str, Any]]:
    """For each class, tightest first, the largest error over the pairs at log-spaced positions.

    The error is that before the output's rounding, as a fraction of the pair's length.
    """
    exponents = range(math.ceil(_PER_DECADE * math.log10(_LAST_POSITION)))
    positions = sorted({round(10 ** (n / _PER_DECADE)) for n in exponents} | {_LAST_POSITION})
    return [
        {
            "class": accuracy.name,
            "rope_base": _ROPE_BASE,
            "head_dim": _HEAD_DIM,
            "positions": positions,
            "error": _errors(positions, accuracy, arithmetic),
        }
        for accuracy in ACCURACY_CLASSES.values()
    ]


def _errors(positions: list[int], accuracy: Accuracy, arithmetic: Arithmetic) -> list[float]:
    direction = torch.arange(_DIRECTIONS)[:, None] * (math.pi / _DIRECTIONS)
    half = _HEAD_DIM // 2
    pairs = torch.cat((direction.cos().expand(-1, half), direction.sin().expand(-1, half)), dim=1)
    x = pairs.to(torch.float32).expand(len(positions), -1, -1)
    bound = error_bound(x, torch.tensor(positions), _ROPE_BASE, accuracy, arithmetic)
    largest = bound.error.flatten(1).amax(dim=1).clamp(max=_FARTHEST)
    return [rounded_up(error) for error in largest.tolist()]
