"""The pools after a call: written rows, skipped tokens, and everything else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from conformance.finding import Finding, Judgement, PoolPicture, Ranges
from conformance.judge.expected import Expected
from conformance.outcome import Outcome, PoolAfter
from conformance.pattern import extent
from kernel.memory import bits

ABOUT_POOLS = {"SLOT-K", "SLOT-V", "SLOT-SKIP", "SLOT-REST", "POOL-MODE"}
# A picture is no list: pools of more ranges are shown by their first ones.
_MOST_RANGES = 256


@dataclass(frozen=True)
class _Pool:
    """One pool's side of a case; rows_in [num_tokens, num_kv_heads, head_dim] is what the tokens write."""

    name: str
    given: Tensor
    after: PoolAfter
    rows_in: Tensor
    source: str

    def row_after(self, row: int) -> Tensor:
        """Bits of a row of the returned pool, [num_kv_heads, head_dim]."""
        at = (self.after.rows == row).nonzero().flatten()
        return bits(self.after.data)[int(at[0])] if len(at) else bits(self.given[row])


def judge_pools(expected: Expected, outcome: Outcome, in_place: bool | None, judgement: Judgement) -> None:
    """Both pools. in_place: how the target treats pools; None when that is not known yet."""
    for pool in _pools(expected, outcome):
        _judge_written(expected, pool, judgement)
        _judge_rest(expected, pool, judgement)
        _judge_mode(expected, outcome, pool, in_place, judgement)


def _pools(expected: Expected, outcome: Outcome) -> tuple[_Pool, _Pool]:
    assert outcome.pools is not None
    assert outcome.outputs is not None
    return (
        _Pool("k_pool", expected.call.k_pool, outcome.pools["k_pool"], outcome.outputs["k_rot"], "k_rot"),
        _Pool("v_pool", expected.call.v_pool, outcome.pools["v_pool"], expected.call.v, "v"),
    )


def pictures(expected: Expected, outcome: Outcome) -> list[PoolPicture]:
    """Both pools, row by row."""
    return [_picture(expected, pool) for pool in _pools(expected, outcome)]


def _picture(expected: Expected, pool: _Pool) -> PoolPicture:
    rows, changed = list(expected.writers), set(pool.after.rows.tolist())
    right = _right(expected, pool, _rows_after(pool, rows)).flatten(1).all(dim=1).tolist() if rows else []
    wrong = {row for row, is_right in zip(rows, right, strict=True) if not is_right}
    return PoolPicture(
        pool=pool.name,
        rows=len(pool.given),
        written=_ranges(set(rows) - wrong),
        wrong=_ranges(wrong & changed),
        stale=_ranges(wrong - changed),
        stray=_ranges(changed - set(rows)),
        tokens=len(expected.slots),
        skipped=_ranges(expected.skipped.nonzero().flatten().tolist()),
    )


def _ranges(numbers: Iterable[int]) -> Ranges:
    found: Ranges = []
    for number in sorted(numbers):
        if found and found[-1][1] == number:
            found[-1][1] += 1
        elif len(found) < _MOST_RANGES:
            found.append([number, number + 1])
        else:
            break
    return found


def _right(expected: Expected, pool: _Pool, after: Tensor) -> Tensor:
    """Where the written rows, whose bits are `after`, hold what one of their tokens writes."""
    near = torch.full(after.shape, False)
    for rank in range(max(map(len, expected.writers.values()))):
        tokens = torch.tensor([w[min(rank, len(w) - 1)] for w in expected.writers.values()])
        near |= after == bits(pool.rows_in)[tokens]
    return near


def _judge_written(expected: Expected, pool: _Pool, judgement: Judgement) -> None:
    requirement = "SLOT-K" if pool.name == "k_pool" else "SLOT-V"
    rows = list(expected.writers)
    if not rows:
        return
    after = _rows_after(pool, rows)
    near = _right(expected, pool, after)
    judgement.looked(requirement, near.numel())
    if bool(near.all()):
        return
    wrong = ~near
    index, head, element = (int(i) for i in wrong.nonzero()[0])
    row, tokens_of_row = rows[index], expected.writers[rows[index]]
    wanted = bits(pool.rows_in)[tokens_of_row[0], head, element]
    where = (
        f"row {row} (slot of token {' or '.join(map(str, tokens_of_row))}), head {head}, element {element}: "
        f"got {_hex(after[index, head, element])}, wanted {_hex(wanted)}"
    )
    what = f"{pool.name} row slots[t] is not {pool.source}[t], bit for bit"
    by_token = torch.zeros(pool.rows_in.shape, dtype=torch.bool)
    by_token[[tokens[0] for tokens in expected.writers.values()]] = wrong
    likeness = _written_likeness(expected, pool, row, after[index], wrong[index])
    judgement.found(Finding(requirement, what, where, extent(by_token), likeness))


def _rows_after(pool: _Pool, rows: list[int]) -> Tensor:
    """Bits of the rows [n, num_kv_heads, head_dim] of the returned pool."""
    after = bits(pool.given[torch.tensor(rows)]).clone()
    place = {row: index for index, row in enumerate(rows)}
    changed = [(place[row], n) for n, row in enumerate(pool.after.rows.tolist()) if row in place]
    if changed:
        into, source = map(list, zip(*changed, strict=True))
        after[into] = bits(pool.after.data)[source]
    return after


def _written_likeness(expected: Expected, pool: _Pool, row: int, got: Tensor, wrong: Tensor) -> str:
    if torch.equal(got[wrong], bits(pool.given[row])[wrong]):
        return "not written: the row still holds what it held"
    own = expected.writers[row][0]
    raw = expected.call.k if pool.name == "k_pool" else expected.call.v
    if pool.name == "k_pool" and torch.equal(got, bits(raw)[own]):
        return f"k of token {own} before its rotation"
    for token in range(len(pool.rows_in)):
        if token != own and torch.equal(got, bits(pool.rows_in)[token]):
            return f"{pool.source} of token {token}"
    quiet = {2: 0x0200 if raw.dtype == torch.float16 else 0x0040, 4: 0x400000}[raw.element_size()]
    if torch.equal((got ^ bits(pool.rows_in)[own])[wrong] & ~quiet, torch.zeros_like(got[wrong])):
        return "a signalling NaN made quiet: the value went through a conversion"
    return ""


def _judge_rest(expected: Expected, pool: _Pool, judgement: Judgement) -> None:
    size, row_size = pool.given.shape[0], pool.given.shape[1:].numel()
    # Of a sparse pool only the pages that exist are looked at.
    rows = len(pool.after.rows) if expected.case.memory == "sparse" else size - len(expected.writers)
    judgement.looked("SLOT-REST", rows * row_size)
    skipped = expected.skipped.nonzero().flatten().tolist()
    if skipped:
        judgement.looked("SLOT-SKIP", len(skipped) * row_size)
    strays = [row for row in pool.after.rows.tolist() if row not in expected.writers]
    if not strays:
        return
    row = strays[0]
    got = pool.row_after(row)
    culprit = next((t for t in range(len(pool.rows_in)) if torch.equal(got, bits(pool.rows_in)[t])), None)
    requirement = "SLOT-SKIP" if culprit in skipped else "SLOT-REST"
    changed = (got != bits(pool.given[row])).nonzero()
    # None differs when a stray write fell on the copy taken before the call.
    head, element = (int(i) for i in changed[0]) if len(changed) else (0, 0)
    holds = (
        f"; it holds {pool.source} of token {culprit}, slot {int(expected.slots[culprit])}"
        if culprit is not None
        else ""
    )
    where = (
        f"row {row}, head {head}, element {element}: was {_hex(bits(pool.given[row])[head, element])}, "
        f"is {_hex(got[head, element])}{holds}"
    )
    what = f"{pool.name} rows changed that no slot names"
    judgement.found(Finding(requirement, what, where, f"{len(strays)} rows: {_listed(strays)}; of {size}"))


def _judge_mode(expected: Expected, outcome: Outcome, pool: _Pool, in_place: bool | None, judgement: Judgement) -> None:
    if not expected.writers:
        return
    judgement.looked("POOL-MODE", 1)
    modes = {True: "in place", False: "in fresh memory"}
    if in_place is not None and pool.after.in_place != in_place:
        what = f"{pool.name} came back {modes[pool.after.in_place]}, in earlier cases {modes[in_place]}"
        judgement.found(Finding("POOL-MODE", what))
    touched = [c for c in outcome.changes if c.buffer == pool.name and c.where == "inside"]
    if touched and not pool.after.in_place:
        what = f"{pool.name} came back in fresh memory, yet the given one changed too"
        judgement.found(Finding("POOL-MODE", what, f"{touched[0].count} elements, the first at {touched[0].first}"))


def _hex(value: Tensor) -> str:
    width = value.element_size()
    return f"0x{int(value) & (256**width - 1):0{2 * width}x}"


def _listed(rows: list[int]) -> str:
    return ", ".join(map(str, rows[:8])) + (", ..." if len(rows) > 8 else "")
