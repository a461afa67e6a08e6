"""Tensors that lie between pattern-filled margins or unreadable pages, so that a stray access leaves a mark."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MARGIN_BYTES = 1024
_ALIGNMENT = 64
_VECTOR_BYTES = 16
_PROT_NONE = 0
# A signalling NaN in each float format: a stray read poisons what is computed from it.
_PATTERN = {1: 0x5A, 2: 0x7FA5, 4: 0x7FA57FA5, 8: 0x7FF57FA57FA57FA5}
INTEGER = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Overwritten:
    """Elements that a kernel wrote and may not: of a margin, or of a buffer that it is given to read."""

    buffer: str
    count: int
    first: int
    """Offset in elements: negative before the buffer, at or past its size behind it."""
    where: str = "outside"
    """`outside` the buffer, in its margins, or `inside` it."""


@dataclass(frozen=True)
class Margined:
    """A dense tensor in the middle of its own storage.

    The pattern fills the margins and, until something is written, the tensor itself: an element that a
    kernel never wrote is a NaN, and recognisable.
    """

    storage: Tensor
    tensor: Tensor

    @classmethod
    def empty(cls, shape: torch.Size, dtype: torch.dtype) -> Margined:
        """A tensor of this shape, every element the pattern; 64-byte aligned, as a Metal buffer is."""
        size = shape.numel()
        storage, start = between_margins(size, torch.empty(0, dtype=dtype).element_size())
        return cls(storage, storage[start : start + size].view(dtype).view(shape))

    @classmethod
    def copy_of(cls, source: Tensor) -> Margined:
        """A dense copy of `source`, bit for bit."""
        made = cls.empty(source.shape, source.dtype)
        bits(made.tensor).copy_(bits(source))
        return made

    def overwritten(self, name: str) -> Overwritten | None:
        """What was written outside the tensor, if anything."""
        pattern = _PATTERN[self.storage.element_size()]
        start = int(self.tensor.storage_offset())
        outside = self.storage != pattern
        outside[start : start + self.tensor.numel()] = False
        where = outside.nonzero()
        if not len(where):
            return None
        return Overwritten(name, len(where), int(where[0]) - start)


@dataclass(frozen=True)
class Guarded:
    """A table of ulong, held as int64, for kernels to read; a copy tells whether one wrote.

    An unreadable page follows the last entry, or, as a vector load needs the first one aligned, one more.
    """

    storage: Tensor
    tensor: Tensor
    before: Tensor

    @classmethod
    def of(cls, table: Sequence[int]) -> Guarded:
        """The table, each entry below 2^64; 16-byte aligned."""
        storage, start = between_guards(len(table), 8, at_end=True)
        start -= start % (_VECTOR_BYTES // 8)
        tensor = storage[start : start + len(table)]
        tensor.copy_(torch.tensor(table, dtype=torch.uint64).view(torch.int64))
        return cls(storage, tensor, storage.clone())

    def restored(self) -> Guarded:
        """Itself, whatever a kernel wrote undone."""
        self.storage.copy_(self.before)
        return self

    def overwritten(self, name: str) -> Overwritten | None:
        """What was written, if anything."""
        where = (self.storage != self.before).nonzero()
        if not len(where):
            return None
        first = int(where[0]) - int(self.tensor.storage_offset() - self.storage.storage_offset())
        return Overwritten(name, len(where), first, "inside" if 0 <= first < len(self.tensor) else "outside")


def between_margins(length: int, itemsize: int) -> tuple[Tensor, int]:
    """A storage of integers, all the pattern, and the index at which `length` of them start between two margins.

    The start is 64-byte aligned, as a Metal buffer is.
    """
    margin, spare = MARGIN_BYTES // itemsize, _ALIGNMENT // itemsize
    storage = torch.full((length + 2 * margin + spare,), _PATTERN[itemsize], dtype=INTEGER[itemsize])
    return storage, margin + (-storage.data_ptr() % _ALIGNMENT) // itemsize


def between_guards(length: int, itemsize: int, *, at_end: bool) -> tuple[Tensor, int]:
    """A storage of integers, all the pattern, between two pages that may not be touched, and the index at which
    `length` of them start, flush against the page behind them or the one before."""
    page = mmap.PAGESIZE
    usable = -(-max(1, length * itemsize) // page) * page
    mapping = mmap.mmap(-1, usable + 2 * page)
    whole = torch.frombuffer(mapping, dtype=torch.int8)
    libc = ctypes.CDLL(None, use_errno=True)
    for guard in (whole.data_ptr(), whole.data_ptr() + page + usable):
        if libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), _PROT_NONE):
            raise OSError(ctypes.get_errno(), "cannot protect a guard page")
    storage = whole[page : page + usable].view(INTEGER[itemsize])
    storage.fill_(pattern(itemsize))
    return storage, len(storage) - length if at_end else 0


def pattern(itemsize: int) -> int:
    """What fills the elements of this width that nobody has written."""
    return _PATTERN[itemsize]


def bits(t: Tensor) -> Tensor:
    """The same elements as integers of their width: copies and comparisons that keep NaN payloads."""
    return t.view(INTEGER[t.element_size()])


def is_pattern(t: Tensor) -> Tensor:
    """Which elements still hold the pattern that an unwritten buffer holds."""
    return bits(t) == _PATTERN[t.element_size()]
