"""Which elements are wrong, in words: all of one head, upper half, tokens from 256 on."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class _Axis:
    """How one axis is spoken of."""

    one: str
    many: str


_AXES = (_Axis("token", "tokens"), _Axis("head", "heads"), _Axis("element", "elements"))


def extent(wrong: Tensor, skipped: Tensor | None = None) -> str:
    """Describe a mask [num_tokens, num_heads, head_dim].

    Args:
        skipped: [num_tokens] bool, tokens whose slot is negative; named when they are exactly those wrong.
    """
    count, size = int(wrong.sum()), wrong.numel()
    words = [f"{count} of {size} elements"]
    tokens = wrong.flatten(1).any(dim=1)
    if skipped is not None and bool(skipped.any()) and bool((~skipped).any()) and torch.equal(tokens, skipped):
        words.append("exactly the tokens with a negative slot")
    else:
        words += _axis_words(tokens, _AXES[0])
    words += _axis_words(wrong.transpose(0, 1).flatten(1).any(dim=1), _AXES[1])
    words += _element_words(wrong.flatten(0, 1).any(dim=0))
    if count == size:
        words.append("every element")
    return "; ".join(words)


def _axis_words(hit: Tensor, axis: _Axis, first: int = 0) -> list[str]:
    """Which places of an axis are hit; `first` is the number of its first place."""
    where = (hit.nonzero().flatten() + first).tolist()
    count, end = len(hit), first + len(hit)
    if len(where) in (0, count):
        return []
    if len(where) == 1:
        return [f"all in {axis.one} {where[0]}"]
    if len(where) == count - 1:
        return [f"every {axis.one} but {first + int((~hit).nonzero())}"]
    if where == list(range(where[0], end)):
        return [f"{axis.many} from {where[0]} on"]
    if where == list(range(where[0], where[-1] + 1)):
        return [f"{axis.many} {where[0]} to {where[-1]}"]
    if where == list(range(where[0], end, 2)) and where[0] < first + 2:
        return [f"{'odd' if where[0] % 2 else 'even'} {axis.many}"]
    return [f"{len(where)} of {count} {axis.many}"]


def _element_words(hit: Tensor) -> list[str]:
    size, half = len(hit), len(hit) // 2
    lower, upper = hit[:half], hit[half:]
    if size % 2 == 0 and bool(hit.any()) and not bool(hit.all()):
        if not bool(upper.any()):
            return ["lower half of head_dim", *([] if bool(lower.all()) else _axis_words(lower, _AXES[2]))]
        if not bool(lower.any()):
            return ["upper half of head_dim", *([] if bool(upper.all()) else _axis_words(upper, _AXES[2], half))]
        if torch.equal(lower, upper):
            return _axis_words(lower, _Axis("pair", "pairs"))
    return _axis_words(hit, _AXES[2])
