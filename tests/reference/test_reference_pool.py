"""The pool write moves bits: NaN payloads, negative zeros and subnormals come through, all else stays."""

from __future__ import annotations

import pytest
import torch

from reference import bits, candidates, write_rows

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
INTEGER = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32}
# Quiet and signalling NaNs with payloads, -0, the smallest subnormals, infinities.
PATTERNS = {
    torch.float16: [0x7C01, -0x3FF, 0x7E55, -0x8000, 0x0001, 0x7C00, 0x3C00, -0x7FFF],
    torch.bfloat16: [0x7F81, -0x7F, 0x7FD5, -0x8000, 0x0001, 0x7F80, 0x3F80, -0x7FFF],
    torch.float32: [0x7F800001, -0x7FFFFF, 0x7FD55555, -0x80000000, 0x1, 0x7F800000, 0x3F800000, -0x7FFFFFFF],
}


def patterned(dtype: torch.dtype, num_rows: int, shift: int) -> torch.Tensor:
    """[num_rows, 2, 4] of the dtype's awkward patterns, each row starting at another one."""
    row = torch.tensor(PATTERNS[dtype], dtype=INTEGER[dtype])
    return torch.stack([row.roll(shift + n) for n in range(num_rows)]).reshape(num_rows, 2, 4).view(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_written_as_bits_and_the_rest_stays(dtype: torch.dtype) -> None:
    pool, rows = patterned(dtype, 5, 0), patterned(dtype, 4, 3)
    pool_before, rows_before = bits(pool).clone(), bits(rows).clone()
    slots = torch.tensor([3, -1, 0, -(2**31)], dtype=torch.int32)
    new = write_rows(pool, slots, rows)
    assert torch.equal(bits(new)[[3, 0]], rows_before[[0, 2]])
    assert torch.equal(bits(new)[[1, 2, 4]], pool_before[[1, 2, 4]])
    assert torch.equal(bits(pool), pool_before)
    assert torch.equal(bits(rows), rows_before)
    assert new.data_ptr() != pool.data_ptr()


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_strided_pool_and_rows(dtype: torch.dtype, step: int) -> None:
    pool = patterned(dtype, 5 * step, 0).transpose(1, 2)[::step]
    rows = patterned(dtype, 4 * step, 1).transpose(1, 2)[::step]
    assert not pool.is_contiguous()
    new = write_rows(pool, torch.tensor([4, 1, -1, 0]), rows)
    assert new.is_contiguous()
    assert torch.equal(bits(new)[[4, 1, 0]], bits(rows)[[0, 1, 3]])
    assert torch.equal(bits(new)[[2, 3]], bits(pool)[[2, 3]])


def test_the_last_of_several_tokens_wins_and_all_are_candidates() -> None:
    slots = torch.tensor([2, 0, 2, -1, 2, 0])
    rows = torch.arange(6.0).reshape(6, 1, 1)
    new = write_rows(torch.full((3, 1, 1), 9.0), slots, rows)
    assert new.flatten().tolist() == [5.0, 9.0, 4.0]
    assert candidates(slots) == {2: [0, 2, 4], 0: [1, 5]}


@pytest.mark.parametrize("slots", [torch.tensor([], dtype=torch.int32), torch.tensor([-1, -2], dtype=torch.int32)])
def test_no_write(slots: torch.Tensor) -> None:
    pool = patterned(torch.float16, 3, 0)
    new = write_rows(pool, slots, patterned(torch.float16, 2, 1)[: len(slots)])
    assert torch.equal(bits(new), bits(pool))


def test_refusals() -> None:
    pool, rows = torch.zeros(4, 2, 8), torch.zeros(1, 2, 8)
    with pytest.raises(ValueError, match="slot 4 is outside a pool of 4 rows"):
        write_rows(pool, torch.tensor([4]), rows)
    for bad in (rows.half(), torch.zeros(1, 2, 4), torch.zeros(2, 2, 8)):
        with pytest.raises(ValueError, match="do not fit slots"):
            write_rows(pool, torch.tensor([0]), bad)
