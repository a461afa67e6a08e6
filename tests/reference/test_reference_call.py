"""The whole oracle call: shapes, one rounding, pools by slot, inputs untouched, errors before any work."""

from __future__ import annotations

from typing import Any

import mpmath
import pytest
import torch

from reference import FORMATS, ArgumentError, Bound, bits, rope_pool_fused, rotate, score

DTYPES = tuple(FORMATS)
T, QO, KV, D, POOL = 3, 4, 2, 8, 6


def arguments(dtype: torch.dtype) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(dtype)

    return {
        "q": normal(T, QO, D),
        "k": normal(T, KV, D),
        "v": normal(T, KV, D),
        "positions": torch.tensor([7, 2**24 + 1, -3], dtype=torch.int32),
        "slots": torch.tensor([4, -1, 0], dtype=torch.int32),
        "k_pool": normal(POOL, KV, D),
        "v_pool": normal(POOL, KV, D),
        "head_dim": D,
        "num_qo_heads": QO,
        "num_kv_heads": KV,
        "rope_base": 1e4,
    }


def rotated_by_mpmath(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The rotation from its definition, each element at 300 bits; float64."""
    half = x.shape[-1] // 2
    result = torch.empty(x.shape, dtype=torch.float64)
    with mpmath.workprec(300):
        for token, position in enumerate(positions.tolist()):
            for i in range(half):
                cos, sin = mpmath.cos_sin(position * mpmath.power(10000, mpmath.mpf(-2 * i) / (2 * half)))
                for head in range(x.shape[1]):
                    a, b = x[token, head, i].item(), x[token, head, i + half].item()
                    result[token, head, i] = float(a * cos - b * sin)
                    result[token, head, i + half] = float(a * sin + b * cos)
    return result


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_call(dtype: torch.dtype) -> None:
    call = arguments(dtype)
    before = {name: value.clone() for name, value in call.items() if isinstance(value, torch.Tensor)}
    q_rot, k_rot, k_pool, v_pool = rope_pool_fused(**call)
    for rotated, x in ((q_rot, call["q"]), (k_rot, call["k"])):
        assert rotated.dtype == dtype
        assert rotated.shape == x.shape
        exact = rotated_by_mpmath(x, call["positions"])
        half_ulp = exact.abs() * FORMATS[dtype].unit / 2
        assert ((rotated.double() - exact).abs() <= half_ulp).all()
    assert torch.equal(bits(k_pool)[[4, 0]], bits(k_rot)[[0, 2]])
    assert torch.equal(bits(v_pool)[[4, 0]], bits(call["v"])[[0, 2]])
    for new, name in ((k_pool, "k_pool"), (v_pool, "v_pool")):
        assert torch.equal(bits(new)[[1, 2, 3, 5]], bits(before[name])[[1, 2, 3, 5]])
    for name, value in before.items():
        assert torch.equal(call[name], value), name
    addresses = {t.data_ptr() for t in (q_rot, k_rot, k_pool, v_pool)}
    assert len(addresses) == 4
    assert addresses.isdisjoint(call[name].data_ptr() for name in before)


def test_rotated_values_are_rounded_once() -> None:
    """Among 256 K float16 values some lie so near a half-way point that a stop at float32 would tip them over."""
    call = arguments(torch.float16)
    num_tokens = 1 << 13
    generator = torch.Generator().manual_seed(2)
    call["positions"] = torch.arange(num_tokens, dtype=torch.int32)
    call["slots"] = torch.full((num_tokens,), -1, dtype=torch.int32)
    call["q"] = torch.randn(num_tokens, QO, D, generator=generator).half()
    call["k"] = call["v"] = call["q"][:, :KV]
    q_rot, k_rot, _, _ = rope_pool_fused(**call)
    for rotated, x in ((q_rot, call["q"]), (k_rot, call["k"])):
        exact = rotate(x, call["positions"], 1e4)
        bound = Bound(exact, exact.abs() * 2.0**-45 + 2.0**-60)
        assert float(score(rotated, bound).max()) <= 1
        assert float(score(exact.to(torch.float16), bound).max()) > 1


def test_no_tokens() -> None:
    call = arguments(torch.float16)
    for name in ("q", "k", "v", "positions", "slots"):
        call[name] = call[name][:0]
    q_rot, k_rot, k_pool, v_pool = rope_pool_fused(**call)
    assert q_rot.shape == (0, QO, D)
    assert k_rot.shape == (0, KV, D)
    assert torch.equal(k_pool, call["k_pool"])
    assert torch.equal(v_pool, call["v_pool"])


def test_errors() -> None:
    call = arguments(torch.float16)
    with pytest.raises(ArgumentError, match="k_pool has incompatible shape") as caught:
        rope_pool_fused(**{**call, "k_pool": call["k_pool"][:, 1:]})
    assert caught.value.number == 8
    with pytest.raises(ValueError, match="slot 6 is outside a pool of 6 rows"):
        rope_pool_fused(**{**call, "slots": call["slots"] + 2})
    with pytest.raises(ValueError, match="rope_base"):
        rope_pool_fused(**{**call, "rope_base": 0.5})
    wide = {name: call[name].double() for name in ("q", "k", "v", "k_pool", "v_pool")}
    with pytest.raises(ValueError, match=r"torch\.float64 is no dtype of the kernel"):
        rope_pool_fused(**{**call, **wide})
