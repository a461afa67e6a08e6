"""Right kernels: all are allowed by the contract, and differ in what the contract leaves open."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the suite loads this file by its path

from tests.right.arguments import Call
from tests.right.recipe import Kernel, Pair, Recipe, kernel


def multiply_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a * b + c of float32 with an exact product, as float64 holds it; the float64 sum is then rounded."""
    return (a.to(torch.float64) * b.to(torch.float64) + c.to(torch.float64)).to(torch.float32)


def sine_of_turns(t: Tensor) -> Tensor:
    """sin(2 pi t) in float32 by whole turns, then quadrants.

    The odd polynomial is the degree-5 minimax on [0, 1/4] by Remez: error 6.8e-5, so within the 2^-13 that
    the MSL specification, section 8, allows fast::sin; it is kept that coarse on purpose.
    """
    w = (t - torch.floor(t)) - 0.5
    w = -torch.sign(w) * (0.25 - (w.abs() - 0.25).abs())
    w2 = w * w
    return w * (6.28128008 + w2 * (-41.0952427 + w2 * 73.5855147))


class Fresh(Recipe):
    """Float32 angle, cos and sin; the pools returned are new and the ones given stay as they were."""

    def pools(self, call: Call) -> Pair:
        return call.k_pool.clone(), call.v_pool.clone()


class Fast(Recipe):
    """Float32 angle; cos and sin reduced in float32 turns as a GPU's fast math does, within 2^-13."""

    def trig(self, angle: Tensor) -> Pair:
        turns = angle * 0.15915494309189535
        return sine_of_turns(turns + 0.25), sine_of_turns(turns)


class Exact(Recipe):
    """The exact angle: cos and sin come correctly rounded from the oracle."""

    def cos_sin(self, call: Call) -> Pair:
        from reference import cos_sin

        cos, sin = cos_sin(call.positions, call.rope_base, call.head_dim)
        return cos.to(torch.float32), sin.to(torch.float32)


class Fused(Recipe):
    """Float32 angle, cos and sin; the last multiply and add of each element are one FMA."""

    def turn(self, x1: Tensor, x2: Tensor, cos: Tensor, sin: Tensor) -> Pair:
        return multiply_add(x1, cos, -(x2 * sin)), multiply_add(x2, cos, x1 * sin)


class FastFused(Fused, Fast):
    """Fast cos and sin with the fused multiply-add."""


class ExactFused(Fused, Exact):
    """The exact angle with the fused multiply-add."""


float32_angle = kernel(Recipe(), "float32_angle", Recipe.__doc__)
float32_angle_fma = kernel(Fused(), "float32_angle_fma", Fused.__doc__)
float32_angle_fresh = kernel(Fresh(), "float32_angle_fresh", Fresh.__doc__)
fast = kernel(Fast(), "fast", Fast.__doc__)
fast_fma = kernel(FastFused(), "fast_fma", FastFused.__doc__)
exact = kernel(Exact(), "exact", Exact.__doc__)
exact_fma = kernel(ExactFused(), "exact_fma", ExactFused.__doc__)

RIGHT: dict[str, Kernel] = {
    k.__name__: k for k in (float32_angle, float32_angle_fma, float32_angle_fresh, fast, fast_fma, exact, exact_fma)
}
