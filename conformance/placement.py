"""Where a tensor lies in memory: its strides, and what surrounds it.

Kinds of layout: `dense`; `offset` (starts 3 elements into its storage); `step` (every second element of the last
axis); `transposed` (first two axes swapped in storage); `sliced` (some heads of a wider array, as from a fused
projection); `broadcast` (one token's data for all, stride 0); `odd-stride` (axes of length 1 carry a stride of 7).
Everything in the storage that is not the tensor holds a pattern: margins around it, gaps within.
"""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from conformance.case import CaseError
from kernel.memory import INTEGER, between_guards, between_margins, bits

LAYOUTS = ("dense", "offset", "step", "transposed", "sliced", "broadcast", "odd-stride")
MEMORIES = ("margins", "page-end", "page-start", "sparse", "kept", "donated")
_MAP_NORESERVE = 0x4000


@dataclass(frozen=True)
class Change:
    """Elements of a storage that a call changed."""

    buffer: str
    where: str
    """`inside` the tensor; `outside` it, in a margin or a gap between its elements; or the array `itself`: its shape,
    strides or memory."""
    count: int
    first: int
    """Offset of the first one from the tensor's first element, in elements of the storage."""


@dataclass(frozen=True)
class Placed:
    """A tensor and the whole storage around it, the latter as integers."""

    tensor: Tensor
    storage: Tensor
    start: int
    """Index in `storage` of the tensor's first element."""
    neighbours: tuple[Tensor, ...] = ()
    """Other arrays of the same call in this storage, which tell of their own changes."""

    def snapshot(self) -> Tensor:
        """What `changes` and `changed_rows` compare with."""
        return self.storage.clone()

    def changed_rows(self, after: Tensor, before: Tensor) -> Tensor:
        """Rows in which `after`, of this tensor's shape, differs from the snapshot `before`: [n] int64."""
        given = before.as_strided(self.tensor.shape, self.tensor.stride(), self.start)
        return (bits(after) != given).flatten(1).any(dim=1).nonzero().flatten()

    def changes(self, name: str, before: Tensor) -> list[Change]:
        """What differs from the snapshot `before`."""
        changed = self.storage != before
        if not bool(changed.any()):
            return []
        inside = torch.zeros_like(changed)
        inside.as_strided(self.tensor.shape, self.tensor.stride(), self.start).fill_(True)
        found = []
        for neighbour in self.neighbours:
            start = (neighbour.data_ptr() - self.storage.data_ptr()) // self.storage.element_size()
            changed.as_strided(neighbour.shape, neighbour.stride(), start).fill_(False)
        for where, mask in (("inside", changed & inside), ("outside", changed & ~inside)):
            at = mask.nonzero()
            if len(at):
                found.append(Change(name, where, len(at), int(at[0]) - self.start))
        return found


@dataclass(frozen=True)
class Sparse(Placed):
    """A pool of zeros larger than memory: only the pages that somebody wrote exist."""

    def snapshot(self) -> Tensor:
        return self.storage.new_empty(0)

    def changed_rows(self, after: Tensor, before: Tensor) -> Tensor:  # noqa: ARG002
        row = self.tensor[0].numel()
        itemsize = self.storage.element_size()
        pages = _resident_pages(self.storage)
        found: set[int] = set()
        for page in pages.tolist():
            first = page * mmap.PAGESIZE // itemsize
            at = self.storage[first : first + mmap.PAGESIZE // itemsize].nonzero().flatten() + first
            found.update((at // row).unique().tolist())
        rows = torch.tensor(sorted(found), dtype=torch.int64)
        return rows[rows < len(self.tensor)]

    def changes(self, name: str, before: Tensor) -> list[Change]:
        rows = self.changed_rows(self.tensor, before)
        row = self.tensor[0].numel()
        return [Change(name, "inside", row * len(rows), row * int(rows[0]))] if len(rows) else []


def _resident_pages(storage: Tensor) -> Tensor:
    """Numbers of the pages that exist in memory, as the kernel reports them."""
    count = -(-storage.numel() * storage.element_size() // mmap.PAGESIZE)
    vector = np.zeros(count, dtype=np.uint8)
    status = ctypes.CDLL(None, use_errno=True).mincore(
        ctypes.c_void_p(storage.data_ptr()),
        ctypes.c_size_t(storage.numel() * storage.element_size()),
        ctypes.c_void_p(vector.ctypes.data),
    )
    if status:
        raise OSError(ctypes.get_errno(), "cannot ask which pages are in memory")
    return torch.from_numpy((vector & 1).nonzero()[0])


def _sparse(logical: Tensor) -> Sparse:
    size = logical.numel() * logical.element_size()
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    storage = torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=INTEGER[logical.element_size()])
    return Sparse(storage.view(logical.dtype).view(logical.shape), storage, 0)


def place(logical: Tensor, layout: str = "dense", memory: str = "margins") -> Placed:
    """A copy of `logical`, bit for bit, laid out and surrounded as told. Raises CaseError.

    In the memory `sparse`, `logical` must be all zeros and is placed dense, without margins.
    """
    if memory == "sparse":
        return _sparse(logical)
    offset, strides = _strides(logical, layout)
    span = 1 + sum((size - 1) * stride for size, stride in zip(logical.shape, strides, strict=True))
    length = offset + (span if logical.numel() else 0)
    storage, start = _storage(length, logical.element_size(), memory)
    first = start + offset
    # as_strided counts from the start of the memory, which a slice does not begin.
    view = storage.view(logical.dtype).as_strided(logical.shape, strides, storage.storage_offset() + first)
    if layout == "broadcast":
        bits(view)[:1].copy_(bits(logical)[:1])
    else:
        bits(view).copy_(bits(logical))
    return Placed(view, storage, first)


def place_together(arrays: dict[str, Tensor], dim: int) -> dict[str, Placed]:
    """Arrays as slices, along `dim`, of one array between margins."""
    whole = place(torch.cat([bits(t) for t in arrays.values()], dim=dim))
    views = torch.split(whole.tensor, [t.shape[dim] for t in arrays.values()], dim=dim)
    tensors = {name: view.view(arrays[name].dtype) for name, view in zip(arrays, views, strict=True)}
    return {
        name: Placed(
            tensor,
            whole.storage,
            (tensor.data_ptr() - whole.storage.data_ptr()) // tensor.element_size(),
            tuple(other for other in tensors.values() if other is not tensor),
        )
        for name, tensor in tensors.items()
    }


def _dense_strides(shape: tuple[int, ...]) -> list[int]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(1, shape[axis + 1])
    return strides


def _strides(logical: Tensor, layout: str) -> tuple[int, list[int]]:
    shape = tuple(logical.shape)
    dense = _dense_strides(shape)
    if layout == "dense":
        return 0, dense
    if layout == "offset" or (layout == "sliced" and len(shape) < 3):
        return 3, dense
    if layout == "step":
        return 0, [2 * stride for stride in dense]
    if layout == "transposed" and len(shape) == 3:
        a, _, c = shape
        return 0, [c, a * c, 1]
    if layout == "sliced":
        _, heads, dim = shape
        return dim, [(heads + 3) * dim, dim, 1]
    if layout == "broadcast":
        return 0, [0, *dense[1:]]
    if layout == "odd-stride":
        if 1 not in shape:
            raise CaseError(f"odd-stride needs an axis of length 1, got {list(shape)}")
        return 0, [7 if size == 1 else stride for size, stride in zip(shape, dense, strict=True)]
    raise CaseError(f"no layout {layout!r} for {len(shape)} axes; there are {', '.join(LAYOUTS)}")


def _storage(length: int, itemsize: int, memory: str) -> tuple[Tensor, int]:
    """A storage filled with the pattern, and where `length` elements may start in it."""
    if memory in ("margins", "kept", "donated"):
        return between_margins(length, itemsize)
    if memory not in MEMORIES:
        raise CaseError(f"no memory {memory!r}; there are {', '.join(MEMORIES)}")
    return between_guards(length, itemsize, at_end=memory == "page-end")
