"""A table that kernels may only read: what is written is told, and what lies past it cannot be read."""

from __future__ import annotations

import faulthandler
import multiprocessing
import signal
from collections.abc import Callable

import pytest

from kernel.memory import Guarded, Overwritten

TABLE = (2**64 - 1, 5, 2**63, 7)


def exit_code(act: Callable[[], object]) -> int | None:
    """How a process that does it ends."""

    def quietly() -> None:
        faulthandler.disable()
        act()

    process = multiprocessing.get_context("fork").Process(target=quietly)
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_a_table_is_given_bit_for_bit_and_aligned(length: int) -> None:
    guarded = Guarded.of(TABLE[:length])
    assert [entry % 2**64 for entry in guarded.tensor.tolist()] == list(TABLE[:length])
    assert guarded.tensor.data_ptr() % 16 == 0
    assert guarded.overwritten("table") is None


@pytest.mark.parametrize(
    ("offset", "where"), [(0, "inside"), (3, "inside"), (-1, "outside")], ids=["first", "last", "before"]
)
def test_what_is_written_is_told_until_it_is_undone(offset: int, where: str) -> None:
    guarded = Guarded.of(TABLE)
    guarded.storage[len(guarded.storage) - len(TABLE) + offset] ^= 1
    assert guarded.overwritten("table") == Overwritten("table", 1, offset, where)
    assert guarded.restored().overwritten("table") is None


def test_nothing_behind_the_last_entry_can_be_read() -> None:
    guarded = Guarded.of(TABLE)
    behind = guarded.storage.as_strided((1,), (1,), guarded.storage.storage_offset() + len(guarded.storage))
    assert exit_code(lambda: guarded.tensor[-1].item()) == 0
    assert exit_code(lambda: behind.item()) == -signal.SIGSEGV
