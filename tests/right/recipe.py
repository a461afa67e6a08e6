"""A right kernel cut into steps, so that a variant or a planted fault replaces one step and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from tests.right.arguments import RUNTIME_ERRORS, VALUE_ERRORS, Call, Refusal, check

Outputs = tuple[Tensor, Tensor, Tensor, Tensor]
Pair = tuple[Tensor, Tensor]
Kernel = Callable[..., Outputs]

INTEGER = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32}


def bits(x: Tensor) -> Tensor:
    """The same memory seen as integers, so that a copy keeps NaN payloads and signs of zero."""
    return x.view(INTEGER[x.dtype])


def copy_rows(source: Tensor, pool: Tensor, rows: Pair) -> None:
    """Pool row `rows[0][n]` becomes source row `rows[1][n]`, bit for bit."""
    slots, tokens = rows
    bits(pool)[slots] = bits(source)[tokens]


class Recipe:
    """The float32 recipe: log2(base)/D, exp2, angle, cos and sin all in float32, one rounding at the end."""

    refusals: tuple[Refusal, ...] = VALUE_ERRORS + RUNTIME_ERRORS

    def run(self, call: Call) -> Outputs:
        check(call, self.refusals)
        return self.fuse(self.read(call))

    def read(self, call: Call) -> Call:
        """The arguments as the kernel sees them in memory."""
        return call

    def fuse(self, call: Call) -> Outputs:
        cos, sin = self.cos_sin(call)
        q_rot = self.rotate_q(call, cos, sin)
        k_rot = self.rotate_k(call, cos, sin)
        k_pool, v_pool = self.pools(call)
        self.store(call, k_rot, k_pool, v_pool)
        return q_rot, k_rot, k_pool, v_pool

    # The angle.

    def position(self, call: Call) -> Tensor:
        """float32 [T]"""
        return call.positions.to(torch.float32)

    def base(self, call: Call) -> float:
        return call.rope_base

    def exponent(self, call: Call) -> Tensor:
        """The numerator 2i of base ** (-2i / head_dim): float32 [D/2]."""
        return 2 * torch.arange(call.head_dim // 2, dtype=torch.float32)

    def frequency(self, call: Call) -> Tensor:
        """base ** (-2i / head_dim): float32 [D/2]; always that long, so the lanes of exp2 never shift."""
        log2_base = torch.log2(torch.tensor(self.base(call), dtype=torch.float32))
        return torch.exp2(-self.exponent(call) * (log2_base / call.head_dim))

    def angle(self, call: Call) -> Tensor:
        """float32 [T, D/2]"""
        return self.position(call)[:, None] * self.frequency(call)

    def trig(self, angle: Tensor) -> Pair:
        return torch.cos(angle), torch.sin(angle)

    def cos_sin(self, call: Call) -> Pair:
        """Two float32 [T, D/2]."""
        return self.trig(self.angle(call))

    # The rotation.

    def rotate_q(self, call: Call, cos: Tensor, sin: Tensor) -> Tensor:
        return self.rotate(call.q, cos, sin)

    def rotate_k(self, call: Call, cos: Tensor, sin: Tensor) -> Tensor:
        return self.rotate(call.k, cos, sin)

    def rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x [T, H, D] with element i turned against element i + D/2."""
        x1, x2 = x.to(torch.float32).chunk(2, dim=-1)
        y = torch.cat(self.turn(x1, x2, cos[:, None, :], sin[:, None, :]), dim=-1)
        return self.round(y, x.dtype)

    def turn(self, x1: Tensor, x2: Tensor, cos: Tensor, sin: Tensor) -> Pair:
        return x1 * cos - x2 * sin, x1 * sin + x2 * cos

    def round(self, y: Tensor, dtype: torch.dtype) -> Tensor:
        return y.to(dtype)

    # The pools.

    def pools(self, call: Call) -> Pair:
        """The pools that are written and returned."""
        return call.k_pool, call.v_pool

    def rows(self, call: Call) -> Pair:
        """The slots to be written and the token that fills each: the last one that names the slot."""
        owner = {slot: token for token, slot in enumerate(call.slots.tolist()) if slot >= 0}
        slots, tokens = list(owner), list(owner.values())
        return torch.tensor(slots, dtype=torch.int64), torch.tensor(tokens, dtype=torch.int64)

    def k_rows(self, call: Call) -> Pair:
        return self.rows(call)

    def v_rows(self, call: Call) -> Pair:
        return self.rows(call)

    def k_stored(self, call: Call, k_rot: Tensor) -> Tensor:  # noqa: ARG002  a hook: faults need the call
        return k_rot

    def v_stored(self, call: Call) -> Tensor:
        return call.v

    def store(self, call: Call, k_rot: Tensor, k_pool: Tensor, v_pool: Tensor) -> None:
        copy_rows(self.k_stored(call, k_rot), k_pool, self.k_rows(call))
        copy_rows(self.v_stored(call), v_pool, self.v_rows(call))


def kernel(recipe: Recipe, name: str, doc: str | None) -> Kernel:
    """The recipe as a plain function with the public signature."""

    def call(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        positions: Tensor,
        slots: Tensor,
        k_pool: Tensor,
        v_pool: Tensor,
        *,
        head_dim: int,
        num_qo_heads: int,
        num_kv_heads: int,
        rope_base: float,
    ) -> Outputs:
        return recipe.run(
            Call(q, k, v, positions, slots, k_pool, v_pool, head_dim, num_qo_heads, num_kv_heads, rope_base)
        )

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call
