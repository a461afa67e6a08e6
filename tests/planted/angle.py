"""Faults in position, base, frequency, angle, cosine and sine."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.planted.fault import Fault, plant, through
from tests.right.arguments import Call
from tests.right.recipe import Recipe


def float_position(call: Call) -> Tensor:
    return call.positions.to(torch.float32)


def positioned(name: str, what: str, position: object) -> Fault:
    return plant(name, what, position=position)


def rounded(step: str, dtype: torch.dtype) -> Fault:
    """One step of the recipe rounded to a 16-bit dtype."""
    short = {torch.float16: "f16", torch.bfloat16: "bf16"}[dtype]
    right = getattr(Recipe, step)
    steps: dict[str, Any] = {step: lambda r, call: through(dtype)(right(r, call))}
    return plant(
        f"{step}_in_{short}",
        f"The {step} is rounded to {short}.",
        **steps,
    )


def rounded_trig(dtype: torch.dtype) -> Fault:
    short = {torch.float16: "f16", torch.bfloat16: "bf16"}[dtype]
    return plant(
        f"cos_and_sin_in_{short}",
        f"Cosine and sine are rounded to {short}.",
        trig=lambda r, angle: tuple(map(through(dtype), Recipe.trig(r, angle))),
    )


def repeated_past(limit: int, call: Call) -> Tensor:
    p = float_position(call)
    return p[torch.arange(len(p)) % limit]


def next_power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def short_pi(_: Recipe, angle: Tensor) -> tuple[Tensor, Tensor]:
    angle = angle.to(torch.float64)
    reduced = angle - torch.round(angle / 6.2832) * 6.2832
    return torch.cos(reduced).to(torch.float32), torch.sin(reduced).to(torch.float32)


FAULTS: list[Fault] = [
    plant(
        "exponent_i_over_d",
        "The exponent is i / D rather than 2i / D.",
        exponent=lambda r, call: Recipe.exponent(r, call) / 2,
    ),
    plant(
        "exponent_over_d_minus_two",
        "The frequencies are spread over D - 2, so that the last one is 1 / base.",
        exponent=lambda r, call: Recipe.exponent(r, call) * (call.head_dim / max(call.head_dim - 2, 1)),
    ),
    plant(
        "exponent_one_pair_ahead",
        "Pair i takes the frequency of pair i + 1.",
        exponent=lambda r, call: Recipe.exponent(r, call) + 2,
    ),
    plant(
        "frequencies_reversed",
        "Pair i takes the frequency of pair D/2 - 1 - i.",
        frequency=lambda r, call: Recipe.frequency(r, call).flip(0),
    ),
    plant(
        "frequency_inverted",
        "The exponent lacks its minus sign.",
        frequency=lambda r, call: 1 / Recipe.frequency(r, call),
    ),
    plant(
        "head_dim_rounded_to_power_of_two",
        "D is rounded up to a power of two in the exponent.",
        exponent=lambda r, call: Recipe.exponent(r, call) * (call.head_dim / next_power_of_two(call.head_dim)),
    ),
    plant("base_truncated", "The base is truncated to an integer.", base=lambda _, call: int(call.rope_base)),
    plant("base_always_10000", "The base is 10000 whatever the call says.", base=lambda *_: 10000.0),
    plant("base_off_by_a_thousandth", "The base is 0.1% too large.", base=lambda _, call: call.rope_base * 1.001),
    plant(
        "base_in_bf16",
        "The base is rounded to bf16.",
        base=lambda _, call: float(torch.tensor(call.rope_base, dtype=torch.bfloat16)),
    ),
    *(rounded(step, dtype) for step in ("position", "frequency", "angle") for dtype in (torch.float16, torch.bfloat16)),
    rounded_trig(torch.float16),
    rounded_trig(torch.bfloat16),
    plant(
        "pi_written_short",
        "Angles are reduced with 2 pi written as 6.2832, which drifts at long context.",
        trig=short_pi,
    ),
    positioned(
        "position_in_16_bits",
        "Positions are taken modulo 65,536.",
        lambda _, call: (call.positions % 65536).to(torch.float32),
    ),
    positioned(
        "position_clamped",
        "Positions from 131,072 on are clamped to 131,071.",
        lambda _, call: float_position(call).clamp(max=2**17 - 1),
    ),
    positioned(
        "negative_position_made_positive",
        "Negative positions lose their sign.",
        lambda _, call: float_position(call).abs(),
    ),
    positioned(
        "negative_position_is_zero",
        "Negative positions are taken for 0.",
        lambda _, call: float_position(call).clamp(min=0),
    ),
    positioned(
        "position_unsigned",
        "Positions are read as uint32, so -1 is 4,294,967,295.",
        lambda _, call: (call.positions.to(torch.int64) % 2**32).to(torch.float32),
    ),
    positioned(
        "position_plus_one",
        "Every token turns by one position too many.",
        lambda _, call: float_position(call) + 1,
    ),
    positioned(
        "position_is_token_index",
        "positions is ignored and the token's index used.",
        lambda _, call: torch.arange(len(call.positions), dtype=torch.float32),
    ),
    positioned(
        "positions_taken_as_consecutive",
        "Only the first position is read and the others counted up from it.",
        lambda _, call: float_position(call)[:1] + torch.arange(len(call.positions)),
    ),
    positioned(
        "position_of_first_token",
        "All tokens turn by the first token's position.",
        lambda _, call: float_position(call)[:1].expand(len(call.positions)),
    ),
    positioned(
        "position_is_slot",
        "Tokens turn by their slot rather than their position.",
        lambda _, call: call.slots.to(torch.float32),
    ),
    positioned(
        "tokens_past_1024_repeat",
        "Token t from 1024 on turns by the position of token t modulo 1024.",
        lambda _, call: repeated_past(1024, call),
    ),
]
