"""NeoX rotation: element i turns with element i + head_dim/2."""

from __future__ import annotations

import torch
from torch import Tensor

from reference.angle import cos_sin_of, position_column, signed_table


def triple_views(triple: Tensor) -> tuple[Tensor, Tensor]:
    """(own, partner) of a triple whose last axis is (x1, x2, x1): views of (x1, x2) and (x2, x1)."""
    half = triple.shape[-1] // 3
    return triple[..., : 2 * half], triple[..., half:]


def with_partner(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """float64 (triple, own, partner) of x [..., head_dim]: `partner` holds the other element of each pair.

    `own` and `partner` are views of `triple`, so that an elementwise step on it serves both.
    """
    triple = torch.cat((x, x[..., : x.shape[-1] // 2]), -1).to(torch.float64)
    return triple, *triple_views(triple)


def rotate(x: Tensor, positions: Tensor, rope_base: float) -> Tensor:
    """x [num_tokens, num_heads, head_dim] rotated by its positions [num_tokens], float64 and unrounded.

    Raises what `reference.angle.cos_sin` raises.
    """
    cos, sin = cos_sin_of(position_column(positions).unsqueeze(1), signed_table(rope_base, x.shape[-1]))
    _, own, partner = with_partner(x)
    return (own * cos).addcmul_(partner, sin)
