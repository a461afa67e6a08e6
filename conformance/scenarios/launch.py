"""Launch plans: both, with every number of heads per thread, and beside the limits of the published rule."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator

from conformance.case import DTYPES, Case
from conformance.profile import Profile
from kernel.launch import RECT_MIN_HEAD_DIM, RECT_MIN_KV_HEADS, RECT_MIN_TOKENS

PLANS = ("split", "rect")


def heads_per_thread(case: Case) -> list[int]:
    """1, divisors and non-divisors of the head counts, and one past them."""
    q, kv = case.num_qo_heads, case.num_kv_heads
    return sorted({1, 2, 3, kv, q, q + 1, max(1, q - 1), max(1, 2 * q // 3)})


def under_plans(case: Case, launch: str) -> Iterator[Case]:
    """The case under each plan that `launch` (`split`, `rect` or `all`) asks for.

    Heads per thread are taken in turn, and so is the order in which a target without concurrency runs the threads.
    """
    if case.plan:
        if launch in ("all", case.plan.partition("/")[0]):
            yield case
        return
    choices = heads_per_thread(case)
    turn = zlib.crc32(str(case).encode())
    for n, plan in enumerate(PLANS):
        if launch in ("all", plan):
            order = "/reversed" if (turn // len(choices) + n) % 2 else ""
            yield case.but(plan=f"{plan}/{choices[(turn + n) % len(choices)]}{order}")


def every_heads_per_thread(_: Profile) -> Iterator[Case]:
    """Each plan with each number of heads per thread from 1 to past the head count."""
    for dtype, (q, kv), plan in itertools.product(DTYPES, ((4, 2), (5, 3), (8, 1), (7, 7), (2, 6)), PLANS):
        for count in range(1, max(q, kv) + 2):
            case = Case(dtype, num_tokens=3, num_qo_heads=q, num_kv_heads=kv, head_dim=6, slots="holes")
            yield case.but(plan=f"{plan}/{count}{'/reversed' if count % 2 else ''}")


def published_limits(_: Profile) -> Iterator[Case]:
    """The eight corners at which the published binding changes from split to rect, and other dtypes there; and GQA."""
    for kv, tokens in ((RECT_MIN_KV_HEADS - 1, RECT_MIN_TOKENS), (RECT_MIN_KV_HEADS, RECT_MIN_TOKENS + 1)):
        yield _batch(tokens).but(num_qo_heads=2 * kv, num_kv_heads=kv, head_dim=RECT_MIN_HEAD_DIM)
    for dtype, tokens, heads, dim in itertools.product(
        DTYPES,
        (RECT_MIN_TOKENS - 1, RECT_MIN_TOKENS),
        (RECT_MIN_KV_HEADS - 1, RECT_MIN_KV_HEADS),
        (RECT_MIN_HEAD_DIM - 2, RECT_MIN_HEAD_DIM),
    ):
        yield _batch(tokens).but(dtype=dtype, num_qo_heads=heads, num_kv_heads=heads, head_dim=dim)


def _batch(tokens: int) -> Case:
    return Case(num_tokens=tokens, pool_size=tokens + 5, positions="uniform:4096", slots="holes", values="normal")
