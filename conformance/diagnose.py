"""What a wrong rotation looks like: known mistakes, each tried against the numbers that came back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import reference
from reference import Bound

# Enough to tell one mistake from another; a whole prefill need not be tried.
_MAX_TOKENS = 16
_INT16 = 2**16
_FEW = 8
_ROUNDED_TOWARD_ZERO = "rounded toward zero in place of to nearest"


@dataclass(frozen=True)
class Rotation:
    """A rotation as it was asked for, x [num_tokens, num_heads, head_dim], and what came back."""

    x: Tensor
    positions: Tensor
    rope_base: float
    out: Tensor


@dataclass(frozen=True)
class _Mistake:
    words: str
    result: Callable[[Rotation], Tensor]
    """The exact result of the mistake, float64 of x's shape."""
    share: float = 1.0
    """Of the elements, how many it must explain: a value near half-way may be rounded either way."""


def _turned(r: Rotation, positions: Tensor) -> Tensor:
    return reference.rotate(r.x, positions, r.rope_base)


def _int32(positions: Tensor) -> Tensor:
    """Positions as an int32 that overflows would hold them."""
    return (positions + 2**31) % 2**32 - 2**31


def _with_turn(r: Rotation, cos: Tensor, sin: Tensor) -> Tensor:
    x = r.x.to(torch.float64)
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


def _turn(r: Rotation, rope_base: float | None = None, head_dim: int | None = None) -> tuple[Tensor, Tensor]:
    half = r.x.shape[-1] // 2
    cos, sin = reference.cos_sin(r.positions, rope_base or r.rope_base, head_dim or r.x.shape[-1])
    return cos[:, None, :half], sin[:, None, :half]


def _interleaved(r: Rotation) -> Tensor:
    x = r.x.to(torch.float64)
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = _turn(r)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def _swapped(r: Rotation) -> Tensor:
    cos, sin = _turn(r)
    return _with_turn(r, sin, cos)


def _per_head(r: Rotation) -> Tensor:
    heads = [reference.rotate(r.x[:, h : h + 1], _int32(r.positions + h), r.rope_base) for h in range(r.x.shape[1])]
    return torch.cat(heads, dim=1)


def _coarse(r: Rotation, dtype: torch.dtype) -> Tensor:
    rounded = r.positions.to(torch.float64).to(dtype).to(torch.float64)
    turned = _turned(r, rounded.clamp(-(2**31), 2**31 - 1).to(torch.int64))
    # An infinite position has no sine.
    return torch.where(rounded.isfinite()[:, None, None], turned, torch.nan)


def _coarse_angle(r: Rotation, dtype: torch.dtype) -> Tensor:
    table = reference.frequency_table(r.rope_base, r.x.shape[-1])
    angle = (r.positions[:, None] * table.radians).to(dtype).to(torch.float64)[:, None]
    return _with_turn(r, angle.cos(), angle.sin())


def _coarse_frequency(r: Rotation, dtype: torch.dtype) -> Tensor:
    table = reference.frequency_table(r.rope_base, r.x.shape[-1])
    angle = (r.positions[:, None] * table.radians.to(dtype).to(torch.float64))[:, None]
    return _with_turn(r, angle.cos(), angle.sin())


def _coarse_turn(r: Rotation, dtype: torch.dtype) -> Tensor:
    cos, sin = _turn(r)
    return _with_turn(r, cos.to(dtype).to(torch.float64), sin.to(dtype).to(torch.float64))


def _with_bits(r: Rotation, more: int) -> Tensor:
    """The result held in a significand of so many bits more than the output has."""
    exact = _turned(r, r.positions)
    _, exponent = torch.frexp(exact)
    step = torch.ldexp(torch.full_like(exact, torch.finfo(r.x.dtype).eps / 2**more), exponent - 1)
    return torch.round(exact / step) * step


def _based(rope_base: Callable[[float], float]) -> Callable[[Rotation], Tensor]:
    return lambda r: _with_turn(r, *_turn(r, rope_base=max(1.0, rope_base(r.rope_base))))


_MISTAKES = (
    _Mistake("not rotated at all", lambda r: r.x.to(torch.float64)),
    _Mistake("zeros", lambda r: torch.zeros(r.x.shape, dtype=torch.float64)),
    _Mistake("rotated the wrong way: sine with the opposite sign", lambda r: _turned(r, _int32(-r.positions))),
    _Mistake("sine and cosine swapped", _swapped),
    _Mistake("interleaved pairing (2i, 2i+1) in place of NeoX (i, i + head_dim/2)", _interleaved),
    _Mistake(
        "exponent i/head_dim in place of 2i/head_dim",
        lambda r: _with_turn(r, *_turn(r, head_dim=2 * r.x.shape[-1])),
    ),
    _Mistake("position plus head index", _per_head),
    _Mistake("position one too large", lambda r: _turned(r, _int32(r.positions + 1))),
    _Mistake("position one too small", lambda r: _turned(r, _int32(r.positions - 1))),
    _Mistake("position cut to its low 16 bits", lambda r: _turned(r, r.positions % _INT16)),
    _Mistake("position rounded to bfloat16", lambda r: _coarse(r, torch.bfloat16)),
    _Mistake("position rounded to float16", lambda r: _coarse(r, torch.float16)),
    *(
        _Mistake(f"{what} rounded to {name}", functools.partial(coarse, dtype=dtype), share=0.9)
        for name, dtype in (("float16", torch.float16), ("bfloat16", torch.bfloat16))
        for what, coarse in (
            ("angle", _coarse_angle),
            ("frequency", _coarse_frequency),
            ("sine and cosine", _coarse_turn),
        )
    ),
    *(
        _Mistake(
            "rounded twice: first to a few bits more than the output has",
            functools.partial(_with_bits, more=more),
            share=0.9,
        )
        for more in range(2, 7)
    ),
    _Mistake("sign of the position lost", lambda r: _turned(r, _int32(r.positions.abs()))),
    _Mistake("rope_base without its fraction", _based(lambda base: float(int(base)))),
    _Mistake("rope_base fixed at 10000", _based(lambda _: 10000.0)),
    _Mistake("the next head's result", lambda r: _turned(r, r.positions).roll(-1, dims=1)),
    _Mistake("the previous head's result", lambda r: _turned(r, r.positions).roll(1, dims=1)),
    _Mistake(
        "the first token's position for every token", lambda r: _turned(r, r.positions[:1].expand_as(r.positions))
    ),
)


def looks_like(rotation: Rotation, bound: Bound, wrong: Tensor) -> str:
    """The mistake whose results agree with every wrong element; empty when none known does.

    Args:
        bound: of the whole rotation.
        wrong: [num_tokens, num_heads, head_dim] bool, at least one True.
    """
    tokens = _sample(wrong)
    sample = Rotation(rotation.x[tokens], rotation.positions[tokens], rotation.rope_base, rotation.out[tokens])
    at = wrong[tokens]
    size = torch.hypot(*sample.x.to(torch.float64).chunk(2, dim=-1)).repeat(1, 1, 2)
    exact, allowed = bound.exact[tokens], torch.maximum(bound.error[tokens], size * _recipe_error(sample))
    best, words = 0.0, ""
    for mistake in _MISTAKES:
        result = mistake.result(sample)
        # A mistake that changes little here explains nothing.
        if _share((result - exact).abs() <= allowed, at) >= 0.25:
            continue
        right = reference.score(sample.out, Bound(result, allowed, bound.arithmetic)) <= 1
        right |= result.isnan() & sample.out.isnan()
        # A few wrong elements are explained by chance, and those of one rounding by another.
        if _share(right) < 0.9 and (mistake.share < 1 or int(at.sum()) < _FEW):
            continue
        # Of mistakes that explain the wrong elements, the one that explains most of the right ones too.
        if _share(right, at) >= mistake.share and _share(right) > best:
            best, words = _share(right), mistake.words
    if words:
        return words
    return _ROUNDED_TOWARD_ZERO if _truncated(rotation.out, bound, wrong) else ""


def _share(hit: Tensor, among: Tensor | slice = slice(None)) -> float:
    return float(hit[among].double().mean())


def _recipe_error(sample: Rotation) -> Tensor:
    """What the float32 recipe errs by, as a fraction of a pair's length: a mistake may be made by a kernel of it."""
    turn = reference.turn_bound(sample.positions, sample.rope_base, sample.x.shape[-1], reference.FLOAT32_ANGLE)
    return 2.0**-21 + turn.angle_error


def _sample(wrong: Tensor) -> Tensor:
    """The first tokens, in order, of those that are wrong and of those that are not; the very first among them."""
    hit = wrong.flatten(1).any(dim=1)
    chosen = {0, *hit.nonzero().flatten()[:_MAX_TOKENS].tolist(), *(~hit).nonzero().flatten()[:_MAX_TOKENS].tolist()}
    return torch.tensor(sorted(chosen))


def _truncated(out: Tensor, bound: Bound, wrong: Tensor) -> bool:
    value, exact, error = out.to(torch.float64)[wrong], bound.exact[wrong], bound.error[wrong]
    unit = reference.ulp(exact, reference.format_of(out.dtype))
    return bool(((value.abs() <= exact.abs() + error) & ((value - exact).abs() <= unit + error)).all())


def error_size(out: Tensor, bound: Bound, wrong: Tensor) -> str:
    """How large the errors are: largest one, and in units in the last place of the exact result."""
    value, exact = out.to(torch.float64)[wrong], bound.exact[wrong]
    finite = value.isfinite()
    words = [f"{int(value.isnan().sum())} NaN"] if bool(value.isnan().any()) else []
    words += [f"{int(value.isinf().sum())} infinite"] if bool(value.isinf().any()) else []
    if bool(finite.any()):
        off = (value - exact).abs()[finite]
        unit = reference.ulp(exact[finite], reference.format_of(out.dtype))
        words.append(f"largest error {float(off.max()):.3g}, {float((off / unit).max()):.3g} ulp")
    return ", ".join(words)
