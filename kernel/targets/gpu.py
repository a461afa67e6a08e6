"""An NVIDIA GPU through CuPy.

A context of CUDA does not survive a fork, so nothing here may be called in a process that starts others; importing this
module touches neither CuPy nor the driver.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernel.memory import Margined
from kernel.msl import FunctionConstants
from kernel.msl.cuda import MARK_PAGES, SPECIALISE, Unit, kernel_name
from kernel.targets.base import DeviceLostError, TargetError
from kernel.targets.staging import without_margins

EXACT = "CUDA_EXACT_ALLOCATIONS"
"""Environment variable: 1 gives every buffer an allocation of exactly its size, which compute-sanitizer watches."""
LARGE_BYTES = 2**30
PAGE = 4096

_INSTALL = "pip install 'cupy-cuda13x[ctk]' (cupy-cuda12x for a driver of CUDA 12)"
_ALIGNMENT = 64
# As the published binding: 32 wide, 256 at most. CUDA's own limit of a grid's height and depth.
_THREADS = (32, 8, 1)
_MOST_GROUPS = 65535


@dataclass(frozen=True)
class Gpu:
    """What a process with the GPU told of it."""

    name: str
    capability: str
    driver: str
    compiler: str
    cupy: str


def require_cupy() -> None:
    """Raises TargetError where CuPy is not installed; imports nothing."""
    if importlib.util.find_spec("cupy") is None:
        raise TargetError(f"the target cuda needs CuPy, which is not installed: {_INSTALL}")


def look(unit: Unit) -> Gpu:
    """Compile the unit for the GPU of this machine, and tell what that is.

    Raises:
        TargetError: CuPy does not work, there is no GPU, or the source is at fault.
    """
    cupy = _cupy()
    runtime = cupy.cuda.runtime
    try:
        if not runtime.getDeviceCount():
            raise TargetError(_no_gpu("the driver lists none"))
        properties = runtime.getDeviceProperties(0)
        driver = runtime.driverGetVersion()
    except runtime.CUDARuntimeError as error:
        raise TargetError(_no_gpu(str(error))) from error
    try:
        loaded(unit).module.compile()
    except cupy.cuda.compiler.CompileException as error:
        raise TargetError(unit.explain(str(error))) from error
    except (RuntimeError, ImportError, OSError) as error:
        raise TargetError(f"CuPy cannot compile ({error}): {_INSTALL}") from error
    return Gpu(
        properties["name"].decode(),
        f"{properties['major']}.{properties['minor']}",
        f"CUDA {driver // 1000}.{driver % 1000 // 10}",
        "NVRTC {}.{}".format(*cupy.cuda.nvrtc.getVersion()),
        str(cupy.__version__),
    )


def _no_gpu(reason: str) -> str:
    return f"no NVIDIA GPU can be used ({reason}): run where nvidia-smi lists one, with a driver for CuPy's CUDA"


def _cupy() -> Any:
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise TargetError(f"CuPy cannot be imported ({error}): {_INSTALL}") from error
    if exact_allocations():
        cupy.cuda.set_allocator(None)
    return cupy


def exact_allocations() -> bool:
    return os.environ.get(EXACT) == "1"


@contextmanager
def kernel_faults() -> Iterator[None]:
    """Turn an error of CUDA into DeviceLostError: after one of a kernel's making, the context answers nothing else."""
    cupy = _cupy()
    try:
        yield
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        raise DeviceLostError(f"crashed on the GPU: {error}") from error


class Module:
    """A unit on this process's GPU."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._cupy = _cupy()
        self._kernels: dict[str, Any] = {}

    @cached_property
    def module(self) -> Any:
        """CuPy's module, compiled when it is first used."""
        return self._cupy.RawModule(code=self._unit.text, options=self._unit.options)

    def _kernel(self, name: str) -> Any:
        if name not in self._kernels:
            self._kernels[name] = self.module.get_function(name)
        return self._kernels[name]

    def specialise(self, constants: FunctionConstants) -> None:
        """Set the function constants for the launches that follow."""
        words = struct.unpack("=5I", struct.pack("=IIIfI", *astuple(constants)))
        self._kernel(SPECIALISE)((1,), (1,), tuple(np.uint32(word) for word in words))

    def launch(self, entry: str, addresses: list[int], grid: tuple[int, int, int], reverse: bool = False) -> None:
        """Start one thread for each position of the grid.

        addresses: of the buffers on the GPU, in index order.
        reverse: the first thread takes the last position.
        """
        groups = [min(-(-size // threads), _MOST_GROUPS) for size, threads in zip(grid, _THREADS, strict=True)]
        numbers = (np.uint32(number) for number in (*grid, reverse))
        arguments = (*(np.uint64(address) for address in addresses), *numbers)
        self._kernel(kernel_name(entry))(tuple(groups), _THREADS, arguments)

    def synchronize(self) -> None:
        """Wait for what was started."""
        self._cupy.cuda.runtime.deviceSynchronize()

    def allocate(self, size: int) -> Any:
        """`size` bytes of the GPU's memory, freed when nothing refers to them."""
        return self._cupy.cuda.alloc(max(1, size))

    def allocate_alone(self, size: int) -> Any:
        """As `allocate`, and not kept for a later call."""
        return self._cupy.cuda.MemoryPointer(self._cupy.cuda.Memory(size), 0)

    def marked_pages(self, address: int, pages: int) -> Tensor:
        """Which pages from this address hold anything but zeros: bool [pages]."""
        marks, found = self.allocate(pages), torch.empty(pages, dtype=torch.uint8)
        arguments = (np.uint64(address), np.uint64(pages), np.uint64(marks.ptr))
        self._kernel(MARK_PAGES)((min(-(-pages // 256), _MOST_GROUPS),), (256,), arguments)
        marks.copy_to_host(found.data_ptr(), pages)
        return found.bool()


@lru_cache(maxsize=8)
def loaded(unit: Unit) -> Module:
    """The unit in this process, once."""
    return Module(unit)


class Image:
    """An array's storage, margins included, in the GPU's memory.

    array: what was copied; the array alone under exact allocations.
    address: of the array's first element on the GPU.
    """

    def __init__(self, module: Module, array: Margined) -> None:
        self.array = without_margins(array) if exact_allocations() else array
        storage = self.array.storage
        itemsize = storage.element_size()
        start = int(self.array.tensor.storage_offset() - storage.storage_offset()) * itemsize
        self._size = storage.numel() * itemsize
        spare = 0 if exact_allocations() else _ALIGNMENT
        memory = module.allocate(self._size + spare)
        # The array, not the margin before it, is aligned as a Metal buffer is.
        self._memory = memory + (-(memory.ptr + start) % _ALIGNMENT if spare else 0)
        self.address = int(self._memory.ptr) + start
        self._memory.copy_from_host(storage.data_ptr(), self._size)

    def fetch(self) -> Tensor:
        """The storage as it is now."""
        after = torch.empty_like(self.array.storage)
        self._memory.copy_to_host(after.data_ptr(), self._size)
        return after


class LargeImage:
    """An array in the GPU's memory of which only the pages that somebody wrote travel; the others hold zeros.

    Without margins. For arrays that would not fit into this machine's memory.
    """

    def __init__(self, module: Module, tensor: Tensor) -> None:
        self._module, self._host = module, _bytes(tensor)
        self._size = self._host.numel()
        self._pages = -(-self._size // PAGE)
        self._memory = module.allocate_alone(self._pages * PAGE)
        self._memory.memset(0, self._pages * PAGE)
        self.address = int(self._memory.ptr)
        self._resident = _resident_pages(self._host)
        for page in self._resident.nonzero().flatten().tolist():
            on_gpu, here = self._page(page)
            on_gpu.copy_from_host(here.data_ptr(), here.numel())

    def bring_back(self) -> None:
        """Write to the array what a kernel wrote to its image."""
        marked = self._module.marked_pages(self.address, self._pages) | self._resident
        for page in marked.nonzero().flatten().tolist():
            on_gpu, here = self._page(page)
            now = torch.empty_like(here)
            on_gpu.copy_to_host(now.data_ptr(), now.numel())
            if not torch.equal(now, here):
                here.copy_(now)

    def _page(self, page: int) -> tuple[Any, Tensor]:
        start = page * PAGE
        return self._memory + start, self._host[start : start + PAGE]


def is_large(tensor: Tensor) -> bool:
    """Whether a dense array is to travel by pages."""
    size = tensor.numel() * tensor.element_size()
    return size > LARGE_BYTES and tensor.is_contiguous() and tensor.data_ptr() % PAGE == 0 == mmap.PAGESIZE % PAGE


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.flatten().view(torch.uint8)


def _resident_pages(memory: Tensor) -> Tensor:
    """Which pages from the start of a page on exist in memory, as the kernel of the system reports it: bool [pages]."""
    found = np.zeros(-(-memory.numel() // mmap.PAGESIZE), dtype=np.uint8)
    size, address = ctypes.c_size_t(memory.numel()), ctypes.c_void_p(memory.data_ptr())
    if ctypes.CDLL(None, use_errno=True).mincore(address, size, ctypes.c_void_p(found.ctypes.data)):
        raise OSError(ctypes.get_errno(), "cannot ask which pages are in memory")
    return torch.from_numpy(found & 1).repeat_interleave(mmap.PAGESIZE // PAGE)[: -(-memory.numel() // PAGE)].bool()
