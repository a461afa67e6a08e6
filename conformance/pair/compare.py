"""Two outcomes of one call, held against each other and, where they differ, against the oracle."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from conformance.contract import documented_errors
from conformance.judge import Expected, answered
from conformance.judge.expected import FLOAT_DTYPES, error_texts
from conformance.outcome import Outcome, PoolAfter
from conformance.pair.difference import ENDING, FIRST, NEITHER, SECOND, Difference
from kernel.memory import bits
from reference.floats import format_of


def compare(expected: Expected, first: Outcome, second: Outcome) -> tuple[Difference, ...]:
    """Every output in which two targets differ; or how the call ended, where it ended differently.

    A zero of either sign is one value in what is rotated, and every NaN is as good as another; what is copied is
    compared by its bits. Two refusals agree when they are the same documented error, or when both are none.
    """
    if _did(first) != _did(second):
        return (_ending(expected, first, second),)
    if first.outputs is None or second.outputs is None or first.pools is None or second.pools is None:
        return ()
    found = [_rotated(expected, name, first.outputs[f"{name}_rot"], second.outputs[f"{name}_rot"]) for name in "qk"]
    found += [_pool(expected, name, first.pools[name], second.pools[name]) for name in ("k_pool", "v_pool")]
    return tuple(difference for difference in found if difference is not None)


def _did(outcome: Outcome) -> str:
    """How the call ended, in a word."""
    if outcome.raised is not None:
        return f"raised {_number(outcome)}"
    return "died" if outcome.died else "malformed" if outcome.malformed else "returned"


def _number(outcome: Outcome) -> int:
    """Of the documented error that was raised; 0 for any other."""
    raised = outcome.raised
    if raised is None or not raised.is_value_error:
        return 0
    return next((n for n, error in documented_errors().items() if re.fullmatch(error.pattern, raised.text)), 0)


def _ending(expected: Expected, first: Outcome, second: Outcome) -> Difference:
    wanted, right = _wanted_ending(expected)
    nearer = _nearer(float(not right(first)), float(not right(second)))
    return Difference(ENDING, answered(first), answered(second), wanted, nearer)


def _wanted_ending(expected: Expected) -> tuple[str, Callable[[Outcome], bool]]:
    """What the call must do, and whether an outcome did that."""
    violation = expected.violation
    if violation is not None:
        texts = error_texts(violation)
        return f"ValueError: {violation.text}", lambda o: o.raised is not None and o.raised.text in texts
    if expected.refusable:
        return "the contract leaves it open whether the call is refused", lambda o: not (o.died or o.malformed)
    return "the call must return", lambda o: o.outputs is not None


def _nearer(first: float, second: float) -> str:
    """Which of two distances is the smaller; NaN where there is none."""
    return FIRST if first < second else SECOND if second < first else NEITHER


@dataclass(frozen=True)
class _Sides:
    """What both targets have, and how far from the oracle; all of one shape, distances NaN where it says nothing."""

    first: Tensor
    second: Tensor
    wanted: Tensor
    differ: Tensor
    distances: tuple[Tensor, Tensor]
    by_value: Tensor
    """Where values are compared, and not bits."""


def _rotated(expected: Expected, name: str, first: Tensor, second: Tensor) -> Difference | None:
    """q_rot or k_rot."""
    output = f"{name}_rot"
    if first.shape != second.shape or first.dtype != second.dtype:
        return Difference(output, _kind(first.shape, first.dtype), _kind(second.shape, second.dtype))
    differ = (first != second) & ~(first.isnan() & second.isnan())
    tokens = differ.flatten(1).any(dim=1).nonzero().flatten() if differ.ndim > 1 else differ.nonzero().flatten()
    if not len(tokens):
        return None
    one, other = first[tokens], second[tokens]
    exact = _exact(expected, name, tokens, one)
    sides = _Sides(
        one,
        other,
        exact,
        differ[tokens],
        (_distance(one, exact), _distance(other, exact)),
        torch.ones_like(one, dtype=torch.bool),
    )
    return _told(output, sides, lambda index: f"token {int(tokens[index])}", first.numel())


def _kind(shape: tuple[int, ...], dtype: torch.dtype) -> str:
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"


def _exact(expected: Expected, name: str, tokens: Tensor, like: Tensor) -> Tensor:
    """The exact rotation of some tokens, float64 of the shape of `like`; NaN where nothing is specified."""
    exact = torch.full(like.shape, math.nan, dtype=torch.float64)
    x: Tensor = getattr(expected.call, name)
    told = expected.violation is None and x.dtype == like.dtype and x.dtype in FLOAT_DTYPES
    if not told or x.shape[1:] != like.shape[1:] or x.shape[-1] % 2:
        return exact
    for part in expected.parts():
        own = (tokens >= part.start) & (tokens < part.stop)
        if bool(own.any()):
            bound = expected.bound(name, part, expected.accuracy).at(tokens[own] - part.start)
            exact[own] = bound.exact.masked_fill(bound.error.isinf(), math.nan)
    return exact


def _distance(values: Tensor, exact: Tensor) -> Tensor:
    """From the exact result; a NaN is farther off than any number, and infinity stands where the grid would go on."""
    if values.dtype not in FLOAT_DTYPES:
        return torch.full(exact.shape, math.nan, dtype=torch.float64)
    most = format_of(values.dtype).overflow_grid
    distance = (values.to(torch.float64).clamp(-most, most) - exact.clamp(-most, most)).abs()
    return torch.where(values.isnan() & ~exact.isnan(), math.inf, distance)


def _pool(expected: Expected, name: str, first: PoolAfter, second: PoolAfter) -> Difference | None:
    """A pool, in the rows that either target changed."""
    output = f"{name}_new"
    if first.shape != second.shape or first.dtype != second.dtype:
        return Difference(output, _kind(first.shape, first.dtype), _kind(second.shape, second.dtype))
    given: Tensor = getattr(expected.call, name)
    rows = torch.tensor(sorted({*first.rows.tolist(), *second.rows.tolist()}))
    if not len(rows):
        return None
    sides = _pool_sides(expected, name, rows, (_after(given, first, rows), _after(given, second, rows)))
    return _told(output, sides, lambda index: f"row {int(rows[index])}", given.numel())


def _after(given: Tensor, pool: PoolAfter, rows: Tensor) -> Tensor:
    """Some rows of the returned pool, bit for bit."""
    after = bits(given[rows]).clone()
    after[torch.searchsorted(rows, pool.rows)] = bits(pool.data)
    return after.view(given.dtype)


def _pool_sides(expected: Expected, name: str, rows: Tensor, after: tuple[Tensor, Tensor]) -> _Sides:
    """Rows that no slot names should be as they were, those of v_pool as v is; k_pool holds what is rotated."""
    first, second = after
    given: Tensor = getattr(expected.call, name)
    writers = (
        [expected.writers.get(row, []) for row in rows.tolist()] if expected.violation is None else [[]] * len(rows)
    )
    written = torch.tensor([len(tokens) == 1 for tokens in writers])
    # Of several tokens with one slot any may be the last.
    open_ = torch.tensor([len(tokens) > 1 for tokens in writers])
    tokens = torch.tensor([tokens[0] for tokens in writers if len(tokens) == 1], dtype=torch.int64)
    by_value = torch.zeros(first.shape, dtype=torch.bool)
    wanted_bits = bits(given[rows]).clone()
    wanted = torch.full(first.shape, math.nan, dtype=torch.float64)
    if name == "k_pool":
        by_value[written | open_] = True
        wanted[written] = _exact(expected, "k", tokens, first[written])
    else:
        wanted_bits[written] = bits(expected.call.v)[tokens]
    differ = torch.where(by_value, (first != second) & ~(first.isnan() & second.isnan()), bits(first) != bits(second))
    wanted = torch.where(by_value, wanted, wanted_bits.to(torch.float64))
    wanted[open_] = math.nan
    distances = [
        torch.where(by_value, _distance(side, wanted), (bits(side) != wanted_bits).to(torch.float64)) for side in after
    ]
    for distance in distances:
        distance[open_] = math.nan
    return _Sides(first, second, wanted, differ, (distances[0], distances[1]), by_value)


def _told(output: str, sides: _Sides, named: Callable[[int], str], size: int) -> Difference | None:
    """The difference; named: what the places of the first axis are called."""
    elements = int(sides.differ.sum())
    if not elements:
        return None
    at = tuple(int(i) for i in sides.differ.nonzero()[0])
    one, other = (distance[sides.differ] for distance in sides.distances)
    by_value = bool(sides.by_value[at])
    first, second = (_shown(side[at], by_value) for side in (sides.first, sides.second))
    apart = _ulps(sides.first, sides.second)[sides.differ & sides.by_value]
    here = int(_ulps(sides.first[at], sides.second[at])) if by_value else -1
    largest = int(apart.max()) if apart.numel() else -1
    return Difference(
        output,
        first,
        second,
        _shown_wanted(sides.wanted[at], sides.first.dtype, by_value),
        _nearer(*(float(distance[at]) for distance in sides.distances)),
        dtype=str(sides.first.dtype).removeprefix("torch."),
        where=", ".join([named(at[0]), *(f"{axis} {i}" for axis, i in zip(("head", "element"), at[1:], strict=False))]),
        ulps=None if here < 0 else here,
        elements=elements,
        size=size,
        nearer_first=int((one < other).sum()),
        nearer_second=int((other < one).sum()),
        largest_ulps=None if largest < 0 else largest,
    )


def _shown(element: Tensor, by_value: bool) -> str:
    if by_value and element.dtype.is_floating_point:
        return f"{float(element):.9g}"
    return _hex(int(bits(element)), element.element_size())


def _shown_wanted(wanted: Tensor, dtype: torch.dtype, by_value: bool) -> str:
    """The exact value, or the bits that are to be copied; empty where nothing is specified."""
    if bool(wanted.isnan()):
        return ""
    return f"exact {float(wanted):.17g}" if by_value else f"the bits {_hex(int(wanted), dtype.itemsize)}"


def _hex(value: int, size: int) -> str:
    return f"0x{value & (256**size - 1):0{2 * size}x}"


def _ulps(first: Tensor, second: Tensor) -> Tensor:
    """Steps on the grid of the dtype from one value to the other, infinity one past the largest; -1 for NaN."""
    if first.dtype not in FLOAT_DTYPES:
        return torch.full(first.shape, -1, dtype=torch.int64)
    apart = (_rank(first) - _rank(second)).abs()
    return torch.where(first.isnan() | second.isnan(), -1, apart)


def _rank(values: Tensor) -> Tensor:
    """int64 that rise with the values, one for each of them; 0 for both zeros."""
    pattern = bits(values).to(torch.int64)
    size = pattern & ((1 << (8 * values.element_size() - 1)) - 1)
    return torch.where(pattern < 0, -size, size)
