"""Slots: which rows of the pools a call writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from conformance.case import DTYPES, Case
from conformance.draw import INT32_MAX, INT32_MIN
from conformance.profile import Profile

HEADS = ((4, 4), (4, 2), (6, 1))
KINDS = ("identity", "permuted", "reversed", "last", "first", "none", "holes", "int-min")


def kinds(profile: Profile) -> Iterator[Case]:
    """Every kind of slots at MHA, GQA and MQA."""
    for dtype, kind, (q, kv), seed in itertools.product(DTYPES, KINDS, HEADS, range(profile.seeds)):
        yield Case(
            dtype, num_tokens=5, num_qo_heads=q, num_kv_heads=kv, head_dim=16, slots=kind, pool_size=9, seed=seed
        )


def negatives(_: Profile) -> Iterator[Case]:
    """Each negative value alone and beside row 0, in pools where it could name a row from the end."""
    for dtype, slot in itertools.product(DTYPES, (-1, -2, -3, -4, -5, -128, -32768, -65536, INT32_MIN, INT32_MIN + 1)):
        case = Case(dtype, num_tokens=2, num_qo_heads=2, num_kv_heads=1, head_dim=8, pool_size=4)
        yield case.but(slots=f"list:{slot}/2")
        yield case.but(slots=f"list:0/{slot}")
        yield case.but(num_tokens=1, slots=f"list:{slot}")


def sizes(_: Profile) -> Iterator[Case]:
    """Pools of one row, pools that just fit, and pools with fewer rows than tokens."""
    for dtype, (size, tokens) in itertools.product(DTYPES, ((1, 1), (1, 3), (3, 3), (4, 9), (257, 256))):
        case = Case(dtype, num_tokens=tokens, num_qo_heads=2, num_kv_heads=2, head_dim=6, pool_size=size)
        yield case
        yield case.but(slots="last")
    yield Case(num_tokens=1, pool_size=1, slots="list:-1")


def high(_: Profile) -> Iterator[Case]:
    """Rows past 65,535, which a 16-bit slot cannot name, and sparse rows of a large pool."""
    for dtype in DTYPES:
        case = Case(dtype, num_tokens=5, num_qo_heads=2, num_kv_heads=1, head_dim=2, pool_size=65600)
        yield case.but(slots="high")
        yield case.but(slots="permuted")
        yield case.but(slots="list:65535/65536/32767/32768/0")
        yield case.but(slots="last")


def duplicates(_: Profile) -> Iterator[Case]:
    """Tokens that share a row."""
    for dtype, tokens in itertools.product(DTYPES, (2, 7)):
        yield Case(dtype, num_tokens=tokens, slots="duplicate", values="normal")
    yield Case(num_tokens=3, slots="list:5/5/5")


def past(_: Profile) -> Iterator[Case]:
    """A slot at pool_size and one above it."""
    for dtype, seed in itertools.product(DTYPES, range(2)):
        yield Case(dtype, num_tokens=3, head_dim=16, slots="past", pool_size=5, seed=seed)
    for far in (1000, INT32_MAX):
        yield Case(num_tokens=3, head_dim=16, slots=f"list:0/{far}/-1", pool_size=5)


def huge(_: Profile) -> Iterator[Case]:
    """Pools of more than 2^32 elements; rows beside 2^31 and 2^32 elements."""
    row = 8 * 128
    at_31, at_32 = 2**31 // row, 2**32 // row
    slots = f"list:{at_31 - 1}/{at_31}/{at_32}/{at_32 + 3}/-1"
    for dtype in DTYPES:
        yield Case(
            dtype,
            num_tokens=5,
            num_qo_heads=8,
            num_kv_heads=8,
            head_dim=128,
            pool_size=at_32 + 4,
            slots=slots,
            memory="sparse",
            values="normal",
        )
