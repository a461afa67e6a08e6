"""Faults in the rotation itself: pairing, heads, tokens, rounding."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from tests.planted.fault import Fault, plant, through
from tests.right.arguments import Call
from tests.right.recipe import Outputs, Pair, Recipe


class Interleaved(Recipe):
    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        in_halves = torch.cat((x[..., 0::2], x[..., 1::2]), dim=-1)
        y1, y2 = super().rotate(in_halves, cos, sin).chunk(2, dim=-1)
        return torch.stack((y1, y2), dim=-1).flatten(-2)


class LeavesElements(Recipe, ABC):
    """Returns a part of the elements as they came."""

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return torch.where(self.left(x), x, super().rotate(x, cos, sin))

    @abstractmethod
    def left(self, x: Tensor) -> Tensor:
        """bool, broadcast against x [T, H, D]: what stays unrotated."""


def tokens(x: Tensor) -> Tensor:
    return torch.arange(x.shape[0])[:, None, None]


def heads(x: Tensor) -> Tensor:
    return torch.arange(x.shape[1])[:, None]


def pairs(x: Tensor) -> Tensor:
    """The pair index of each element of a head."""
    return torch.arange(x.shape[2]) % (x.shape[2] // 2)


def leaves(name: str, what: str, left: object) -> Fault:
    return plant(name, what, on=LeavesElements, left=left)


class RoundsProducts(Recipe):
    """Products and their sum are rounded to a 16-bit input's own dtype."""

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x1, x2 = x.chunk(2, dim=-1)
        c, s = cos[:, None].to(x.dtype), sin[:, None].to(x.dtype)
        return torch.cat((x1 * c - x2 * s, x1 * s + x2 * c), dim=-1)


class HeadShifts(Recipe):
    """Takes the heads for positions, so each head turns by position + head."""

    def rotate_q(self, call: Call, cos: Tensor, sin: Tensor) -> Tensor:  # noqa: ARG002  a step
        return self.by_head(call, call.q)

    def rotate_k(self, call: Call, cos: Tensor, sin: Tensor) -> Tensor:  # noqa: ARG002  a step
        return self.by_head(call, call.k)

    def by_head(self, call: Call, x: Tensor) -> Tensor:
        shifted = [self.position(call) + head for head in range(x.shape[1])]
        turned = [
            self.rotate(x[:, head : head + 1], *self.trig(position[:, None] * self.frequency(call)))
            for head, position in enumerate(shifted)
        ]
        return torch.cat(turned, dim=1)


def k_at_query_stride(_: Recipe, call: Call, cos: Tensor, sin: Tensor) -> Tensor:
    """K read with the queries' token stride; what lies past its end is read from its start."""
    dense = call.k.flatten()
    if not dense.numel():
        return call.k.clone()
    start = torch.arange(call.k.shape[0])[:, None] * (call.num_qo_heads * call.head_dim)
    index = start + torch.arange(call.num_kv_heads * call.head_dim)
    return Recipe().rotate(dense[index % dense.numel()].view(call.k.shape), cos, sin)


def truncated(_: Recipe, y: Tensor, dtype: torch.dtype) -> Tensor:
    if dtype == torch.bfloat16:
        y = (y.view(torch.int32) & -0x10000).view(torch.float32)
    return y.to(dtype)


def rounded_twice(_: Recipe, y: Tensor, dtype: torch.dtype) -> Tensor:
    """Through a significand three bits longer than that of the 16-bit output."""
    if dtype == torch.float32:
        return y
    dropped = 2.0 ** (24 - 3 - (8 if dtype == torch.bfloat16 else 11))
    # Veltkamp's splitting: rounds to nearest at `dropped` ulps, whatever the exponent.
    high = y * (dropped + 1)
    return torch.where(high.isfinite(), high - (high - y), y).to(dtype)


def clamped(_: Recipe, y: Tensor, dtype: torch.dtype) -> Tensor:
    limit = torch.finfo(dtype).max
    return y.clamp(-limit, limit).to(dtype)


class SpreadsNan(Recipe):
    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        return super().rotate(x, cos, sin).masked_fill(x.isnan().any(-1).any(-1)[:, None, None], torch.nan)


class RotatesKTwice(Recipe):
    def rotate_k(self, call: Call, cos: Tensor, sin: Tensor) -> Tensor:
        return self.rotate(super().rotate_k(call, cos, sin), cos, sin)


class EmptyBatchRaises(Recipe):
    def fuse(self, call: Call) -> Outputs:
        if not call.q.shape[0]:
            raise RuntimeError("the launch grid needs at least one thread")
        return super().fuse(call)


class MqaRaises(Recipe):
    def fuse(self, call: Call) -> Outputs:
        if call.num_kv_heads == 1 < call.num_qo_heads:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return super().fuse(call)


class DecodeGridWithoutBatch(Recipe):
    """A short batch is taken for the decode of one token."""

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        y = super().rotate(x, cos, sin)
        return y * (tokens(y) == 0) if 1 < len(y) <= 4 else y


def updated_x1(_: Recipe, x1: Tensor, x2: Tensor, cos: Tensor, sin: Tensor) -> Pair:
    x1 = x1 * cos - x2 * sin
    return x1, x1 * sin + x2 * cos


FAULTS: list[Fault] = [
    plant(
        "interleaved_pairs",
        "Element 2i turns with 2i + 1 (GPT-J style) rather than i with i + D/2.",
        on=Interleaved,
    ),
    plant(
        "turned_backwards",
        "The rotation has the wrong sign.",
        turn=lambda _, x1, x2, cos, sin: (x1 * cos + x2 * sin, x2 * cos - x1 * sin),
    ),
    plant(
        "sine_and_cosine_swapped",
        "Sine and cosine are exchanged.",
        trig=lambda _, angle: (torch.sin(angle), torch.cos(angle)),
    ),
    plant(
        "second_half_uses_new_first_half",
        "The second half is computed from the first half's result, as when turned in place.",
        turn=updated_x1,
    ),
    plant(
        "halves_swapped",
        "The two halves of each head come back exchanged.",
        turn=lambda r, *args: Recipe.turn(r, *args)[::-1],
    ),
    plant(
        "sine_term_missing_in_second_half",
        "The second half lacks its sine term.",
        turn=lambda _, x1, x2, cos, sin: (x1 * cos - x2 * sin, x2 * cos),
    ),
    plant(
        "queries_scaled",
        "The softmax scale 1/sqrt(head_dim) is folded into q_rot.",
        rotate_q=lambda r, call, *cs: (Recipe.rotate_q(r, call, *cs).float() * call.head_dim**-0.5).to(call.q.dtype),
    ),
    plant("queries_unrotated", "q comes back as it was.", rotate_q=lambda _, call, *__: call.q.clone()),
    plant("k_rotated_twice", "K is rotated once for k_rot and once more in place.", on=RotatesKTwice),
    plant(
        "position_plus_head",
        "The heads axis is taken for the sequence, so head h turns by position + h.",
        on=HeadShifts,
    ),
    plant("k_read_at_query_stride", "K is read with the queries' token stride.", rotate_k=k_at_query_stride),
    leaves(
        "last_head_unrotated",
        "The last head of several is not rotated.",
        lambda _, x: (heads(x) == x.shape[1] - 1) & (x.shape[1] > 1),
    ),
    leaves(
        "odd_head_count_leaves_last",
        "With an odd head count above one the last head is not rotated.",
        lambda _, x: (heads(x) == x.shape[1] - 1) & (x.shape[1] % 2 == 1) & (x.shape[1] > 1),
    ),
    leaves(
        "heads_past_multiple_of_four",
        "Heads past a multiple of four are not rotated, as with four per thread and no tail.",
        lambda _, x: (heads(x) >= x.shape[1] // 4 * 4) & (x.shape[1] > 4),
    ),
    leaves("heads_past_eight", "Heads from the ninth on are not rotated.", lambda _, x: heads(x) >= 8),
    leaves(
        "head_dim_256_upper_half",
        "With head_dim 256 the upper half of the pairs is not rotated.",
        lambda _, x: (pairs(x) >= 64) & (x.shape[2] == 256),
    ),
    leaves(
        "pairs_past_multiple_of_32",
        "Pairs past a multiple of the 32-wide threadgroup are not rotated.",
        lambda _, x: (pairs(x) >= x.shape[2] // 64 * 32) & (x.shape[2] > 64),
    ),
    leaves(
        "partial_rotary",
        "Only the first 64 elements' worth of pairs are rotated, as in a partial-rotary model.",
        lambda _, x: pairs(x) >= 32,
    ),
    leaves(
        "last_pair_unrotated",
        "The last pair of several in each head is not rotated.",
        lambda _, x: (pairs(x) == x.shape[2] // 2 - 1) & (x.shape[2] > 2),
    ),
    leaves("tokens_past_256_ignored", "Tokens from the 257th on are not rotated.", lambda _, x: tokens(x) >= 256),
    leaves(
        "odd_token_count_leaves_last",
        "With an odd token count above one the last token is not rotated.",
        lambda _, x: (tokens(x) == len(x) - 1) & (len(x) > 1) & (len(x) % 2 == 1),
    ),
    plant(
        "decode_grid_without_batch",
        "Batches of two to four tokens take the one-token path, which fills row 0 only.",
        on=DecodeGridWithoutBatch,
    ),
    plant("empty_batch_raises", "A call with no tokens raises.", on=EmptyBatchRaises),
    plant("mqa_raises", "One KV head raises TypeError.", on=MqaRaises),
    plant(
        "products_in_input_dtype",
        "Products and sum are rounded to the input's own 16-bit dtype.",
        on=RoundsProducts,
    ),
    plant("bf16_truncated", "bf16 results are truncated rather than rounded to nearest even.", round=truncated),
    plant("rounded_twice", "f16 and bf16 results are rounded to three more bits first.", round=rounded_twice),
    plant(
        "f16_through_bf16",
        "f16 results go through bf16.",
        round=lambda _, y, dtype: (through(torch.bfloat16)(y) if dtype == torch.float16 else y).to(dtype),
    ),
    plant(
        "bf16_through_f16",
        "bf16 results go through f16 and lose its range.",
        round=lambda _, y, dtype: (through(torch.float16)(y) if dtype == torch.bfloat16 else y).to(dtype),
    ),
    plant(
        "f32_through_bf16",
        "f32 results go through bf16.",
        round=lambda _, y, dtype: (through(torch.bfloat16)(y) if dtype == torch.float32 else y).to(dtype),
    ),
    plant(
        "f32_through_f16",
        "f32 results go through f16.",
        round=lambda _, y, dtype: (through(torch.float16)(y) if dtype == torch.float32 else y).to(dtype),
    ),
    plant(
        "overflow_clamped",
        "A result past the dtype's largest value is clamped to it rather than infinite.",
        round=clamped,
    ),
    plant("nan_spreads_over_token", "A NaN in one head spreads over all heads of its token.", on=SpreadsNan),
]
