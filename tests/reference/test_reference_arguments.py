"""The eleven ValueErrors: texts, order, and guards that agree with the call at every rank."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import reference.arguments as guards
from reference import RULES, ArgumentError, check_arguments, first_violation

Arguments = dict[str, Any]
T, QO, KV, D, POOL = 2, 4, 3, 64, 5


def valid() -> Arguments:
    return {
        "q": torch.zeros(T, QO, D),
        "k": torch.zeros(T, KV, D),
        "v": torch.zeros(T, KV, D),
        "positions": torch.zeros(T, dtype=torch.int32),
        "slots": torch.zeros(T, dtype=torch.int32),
        "k_pool": torch.zeros(POOL, KV, D),
        "v_pool": torch.zeros(POOL, KV, D),
        "head_dim": D,
        "num_qo_heads": QO,
        "num_kv_heads": KV,
    }


def change(name: str, how: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Arguments], None]:
    def apply(arguments: Arguments) -> None:
        arguments[name] = how(arguments[name])

    return apply


# One change per rule, chosen so that any two of them can be made together.
BREAK: dict[int, Callable[[Arguments], None]] = {
    1: change("v", lambda v: v.flatten()),
    2: change("slots", lambda s: s.reshape(1, -1)),
    3: change("v_pool", lambda p: p.unsqueeze(0)),
    4: change("q", lambda q: q[:, 1:]),
    5: change("k", lambda k: k[:, 1:]),
    6: change("v", lambda v: v[..., 1:]),
    7: change("positions", lambda p: p[1:]),
    8: change("k_pool", lambda p: p[..., 1:]),
    9: change("v_pool", lambda p: p[1:]),
    10: change("k", lambda k: k.half()),
    11: change("k_pool", lambda p: p.bfloat16()),
}
TEXT = {
    1: "rope_pool_fused expects q/k/v to be 3-D",
    2: "rope_pool_fused expects positions/slots to be 1-D",
    3: "rope_pool_fused expects pool tensors to be 3-D",
    4: "q shape must be [num_tokens, num_qo_heads, head_dim], got torch.Size([2, 3, 64])",
    5: "k shape must be [num_tokens, num_kv_heads, head_dim], got torch.Size([2, 2, 64])",
    6: "v shape must match k shape, got torch.Size([2, 3, 63]) vs torch.Size([2, 3, 64])",
    7: "positions/slots must have one entry per token",
    8: "k_pool has incompatible shape torch.Size([5, 3, 63])",
    9: "v_pool shape must match k_pool shape, got torch.Size([4, 3, 64]) vs torch.Size([5, 3, 64])",
    10: "q/k/v dtypes must match",
    11: "pool dtypes must match q/k/v dtype",
}


def test_valid_arguments_pass() -> None:
    check_arguments(**valid())
    assert first_violation(**valid()) is None


@pytest.mark.parametrize("number", range(1, 12))
def test_each_error(number: int) -> None:
    arguments = valid()
    BREAK[number](arguments)
    with pytest.raises(ValueError, match=r".") as caught:
        check_arguments(**arguments)
    assert isinstance(caught.value, ArgumentError)
    assert (caught.value.number, str(caught.value), caught.value.text) == (number, TEXT[number], TEXT[number])


def test_each_operand_of_each_rule() -> None:
    """Every array that a rule names breaks it alone, where an earlier rule does not hold it back."""
    cases: list[tuple[int, str, Callable[[torch.Tensor], torch.Tensor]]] = [
        *((1, name, lambda t: t[0]) for name in ("q", "k", "v")),
        *((2, name, lambda t: t[0]) for name in ("positions", "slots")),
        *((3, name, lambda t: t.flatten()) for name in ("k_pool", "v_pool")),
        *((4, "q", how) for how in (lambda t: t[:, 1:], lambda t: t[..., 1:])),
        *((5, "k", how) for how in (lambda t: t[1:], lambda t: t[:, 1:], lambda t: t[..., 1:])),
        (5, "q", lambda t: t[1:]),
        *((6, "v", how) for how in (lambda t: t[1:], lambda t: t[:, 1:], lambda t: t[..., 1:])),
        *((7, name, lambda t: t[1:]) for name in ("positions", "slots")),
        *((8, "k_pool", how) for how in (lambda t: t[:, 1:], lambda t: t[..., 1:])),
        *((9, "v_pool", how) for how in (lambda t: t[1:], lambda t: t[:, 1:], lambda t: t[..., 1:])),
        (9, "k_pool", lambda t: t[1:]),
        *((10, name, lambda t: t.half()) for name in ("q", "k", "v")),
        *((11, name, lambda t: t.half()) for name in ("k_pool", "v_pool")),
    ]
    for number, name, how in cases:
        arguments = valid()
        change(name, how)(arguments)
        violation = first_violation(**arguments)
        assert violation is not None
        assert violation.number == number, name
    assert {number for number, *_ in cases} == set(range(1, 12))


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(range(1, 12), 2)))
def test_order_by_pairs(first: int, second: int) -> None:
    arguments = valid()
    BREAK[second](arguments)
    BREAK[first](arguments)
    assert not RULES[first - 1].holds(arguments)
    assert not RULES[second - 1].holds(arguments)
    violation = first_violation(**arguments)
    assert violation is not None
    assert violation.number == first


def test_the_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(ArgumentError(7, TEXT[7])))
    assert (error.number, str(error)) == (7, TEXT[7])


DTYPES = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])


def tensors(right: tuple[int, ...]) -> st.SearchStrategy[torch.Tensor]:
    """Mostly the right shape, else any of rank 0 to 5; dtypes alike."""
    wrong = st.lists(st.sampled_from([0, 1, 2, 3, 4]), max_size=5).map(tuple)
    shapes = st.one_of(st.just(right), st.just(right), st.just(right), wrong)
    dtypes = st.one_of(st.just(torch.float32), st.just(torch.float32), DTYPES)
    return st.builds(lambda shape, dtype: torch.empty(shape, dtype=dtype), shapes, dtypes)


@settings(max_examples=3000, deadline=None, derandomize=True, database=None)
@given(
    q=tensors((2, 3, 4)),
    k=tensors((2, 1, 4)),
    v=tensors((2, 1, 4)),
    positions=tensors((2,)),
    slots=tensors((2,)),
    k_pool=tensors((3, 1, 4)),
    v_pool=tensors((3, 1, 4)),
)
def test_guards_agree_with_the_call(**arrays: torch.Tensor) -> None:
    q, k, v, positions, slots = (arrays[name] for name in ("q", "k", "v", "positions", "slots"))
    k_pool, v_pool = arrays["k_pool"], arrays["v_pool"]
    answers = [
        guards.qkv_are_3d(q, k, v),
        guards.indices_are_1d(positions, slots),
        guards.pools_are_3d(k_pool, v_pool),
        guards.q_shape_ok(q, 3, 4),
        guards.k_shape_ok(q, k, 1, 4),
        guards.v_shape_ok(k, v),
        guards.per_token_indices(q, positions, slots),
        guards.k_pool_shape_ok(k_pool, 1, 4),
        guards.v_pool_shape_ok(k_pool, v_pool),
        guards.qkv_dtypes_match(q, k, v),
        guards.pool_dtypes_match(q, k_pool, v_pool),
    ]
    assert all(type(answer) is bool for answer in answers)
    violation = first_violation(**arrays, head_dim=4, num_qo_heads=3, num_kv_heads=1)
    assert (violation.number if violation else None) == (answers.index(False) + 1 if False in answers else None)


@pytest.mark.parametrize("ranks", list(itertools.product(range(6), repeat=3)))
def test_guards_never_raise(ranks: tuple[int, int, int]) -> None:
    """Each answers what it is about, whatever the ranks."""
    a, b, c = (torch.empty((2,) * rank) for rank in ranks)
    assert guards.qkv_are_3d(a, b, c) == (ranks == (3, 3, 3))
    assert guards.indices_are_1d(a, b) == (ranks[:2] == (1, 1))
    assert guards.pools_are_3d(a, b) == (ranks[:2] == (3, 3))
    assert guards.q_shape_ok(a, 2, 2) == (ranks[0] == 3)
    assert guards.k_shape_ok(a, b, 2, 2) == (ranks[0] > 0 and ranks[1] == 3)
    assert guards.v_shape_ok(a, b) == (ranks[0] == ranks[1])
    assert guards.per_token_indices(a, b, c) == (ranks[0] > 0 and ranks[1:] == (1, 1))
    assert guards.k_pool_shape_ok(a, 2, 2) == (ranks[0] == 3)
    assert guards.v_pool_shape_ok(a, b) == (ranks[0] == ranks[1])
