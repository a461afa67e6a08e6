"""What a server sends: head shapes of models in use, in the batches that a scheduler makes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from conformance.case import Case
from conformance.profile import Profile


@dataclass(frozen=True)
class Model:
    """Head shape and rope_base of a released model, from its published configuration."""

    name: str
    num_qo_heads: int
    num_kv_heads: int
    head_dim: int
    rope_base: float


MODELS = (
    Model("llama-3-8b", 32, 8, 128, 500000.0),
    Model("llama-3-70b", 64, 8, 128, 500000.0),
    Model("qwen3-8b", 32, 8, 128, 1000000.0),
    Model("gemma-3-4b", 8, 4, 256, 1000000.0),
    Model("gpt-oss-20b", 64, 8, 64, 150000.0),
    Model("phi-4", 40, 10, 128, 250000.0),
)


def _case(model: Model, **batch: object) -> Case:
    shape = Case(
        num_qo_heads=model.num_qo_heads,
        num_kv_heads=model.num_kv_heads,
        head_dim=model.head_dim,
        rope_base=model.rope_base,
        values="normal",
    )
    return shape.but(**batch)


def _listed(numbers: list[int]) -> str:
    return "list:" + "/".join(map(str, numbers))


def batches(profile: Profile) -> Iterator[Case]:
    """Each model: decode of mixed lengths, chunked prefill, prefix reuse, padded batch, rejected drafts."""
    for model, dtype in itertools.product(MODELS, ("bf16", "f16", "f32")):
        decode = _case(model, dtype=dtype, num_tokens=8, pool_size=300, positions="decode:32768")
        yield decode
        chunk = decode.but(
            num_tokens=profile.prefill_tokens, pool_size=profile.prefill_tokens + 8, positions="rise:2048"
        )
        yield chunk.but(slots="identity")
        # The prefix lies in the cache already: positions start past it, its rows are not written.
        yield chunk.but(num_tokens=16, positions="rise:8000", slots="last")
        # A batch padded to a fixed size: padding has position 0 and slot -1.
        yield decode.but(
            positions=_listed([4095, 17, 131071, 900, 0, 0, 0, 0]), slots=_listed([7, 201, 3, 250, -1, -1, -1, -1])
        )
        # Four sequences, a draft of two tokens each; rejected drafts keep no slot.
        yield decode.but(
            positions=_listed([100, 101, 2000, 2001, 7, 8, 65535, 65536]),
            slots=_listed([10, 11, 20, -1, -1, -1, 40, -1]),
        )
