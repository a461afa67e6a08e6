"""A stand-in for CuPy on a machine without a GPU: the part of its interface that target cuda uses.

Modules are compiled by g++ with shims for what CUDA adds to C++, and a launch walks the blocks and threads one by one.
A fault of a kernel is an error of CUDA here too, after which every call fails, as on a GPU.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

__version__ = "0 (stand-in)"
_SHIMS = Path(__file__).parent / "shims.h"
_FLAGS = (
    "-x",
    "c++",
    "-std=c++17",
    "-O1",
    "-w",
    "-fPIC",
    "-shared",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fsigned-char",
)
_KEPT = Path(tempfile.gettempdir()) / f"cupy-on-cpu-{os.getuid()}"
_ALIGNMENT = 256
_GUARD = 4096
DEVICES = 1


class CUDARuntimeError(RuntimeError):
    """An error of the runtime."""


class CUDADriverError(RuntimeError):
    """An error of the driver."""


class CompileException(Exception):  # noqa: N818 - CuPy's name
    """What the compiler says, in the form of NVRTC."""


_lost: list[str] = []


def _check() -> None:
    if _lost:
        raise CUDARuntimeError(_lost[0])


class Memory:
    """Memory of the device; `size` bytes, `_GUARD` more lie on either side of them."""

    live: dict[int, int] = {}  # noqa: RUF012 - as the device's, one for the process
    """Every allocation's address and size."""

    def __init__(self, size: int) -> None:
        _check()
        self.size = size
        self._libc = ctypes.CDLL(None)
        self._libc.mmap.restype = ctypes.c_void_p
        self._whole = -(-(size + _ALIGNMENT) // _GUARD) * _GUARD + _GUARD
        # Reserved only: pages that nobody touches take no memory.
        address = self._libc.mmap(None, ctypes.c_size_t(self._whole), 3, 0x4022, -1, ctypes.c_long(0))
        self.ptr = address + _ALIGNMENT
        self.live[self.ptr] = size

    def __del__(self) -> None:
        self.live.pop(self.ptr, None)
        self._libc.munmap(ctypes.c_void_p(self.ptr - _ALIGNMENT), ctypes.c_size_t(self._whole))


class MemoryPointer:
    """A place in memory of the device."""

    def __init__(self, mem: Memory, offset: int) -> None:
        self.mem, self.ptr = mem, mem.ptr + offset

    def __add__(self, offset: int) -> MemoryPointer:
        return MemoryPointer(self.mem, self.ptr - self.mem.ptr + offset)

    def _room(self, size: int) -> None:
        _check()
        if self.ptr + size > self.mem.ptr + self.mem.size:
            raise CUDARuntimeError("cudaErrorInvalidValue: invalid argument")

    def copy_from_host(self, mem: int, size: int) -> None:
        self._room(size)
        ctypes.memmove(self.ptr, mem, size)

    def copy_to_host(self, mem: int, size: int) -> None:
        self._room(size)
        ctypes.memmove(mem, self.ptr, size)

    def memset(self, value: int, size: int) -> None:
        self._room(size)
        if value:
            ctypes.memset(self.ptr, value, size)


allocators: list[Callable[[int], MemoryPointer] | None] = []
"""What `set_allocator` was called with."""


def _alloc(size: int) -> MemoryPointer:
    return MemoryPointer(Memory(size), 0)


class RawModule:
    """Source compiled when it is first used."""

    def __init__(self, *, code: str, options: tuple[str, ...] = ()) -> None:
        assert isinstance(options, tuple)
        self._code, self._options = code, options

    def compile(self) -> None:
        _ = self._library

    @cached_property
    def _library(self) -> ctypes.CDLL:
        contract = "fast" if "--fmad=true" in self._options else "off"
        flags = [*_FLAGS, f"-ffp-contract={contract}", *(["-mfma"] if contract == "fast" and _has_fma() else [])]
        identity = "\0".join([self._code, _SHIMS.read_text(), *flags])
        _KEPT.mkdir(exist_ok=True)
        path = _KEPT / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.so"
        if not path.exists():
            part = path.with_suffix(f".{os.getpid()}")
            command = ["g++", *flags, "-include", str(_SHIMS), "-", "-o", str(part), "-lm"]
            given = {"input": self._code, "env": os.environ | {"LC_ALL": "C"}}
            done = subprocess.run(command, capture_output=True, text=True, check=False, **given)
            if done.returncode:
                raise CompileException(_as_nvrtc_says(done.stderr))
            part.replace(path)
        return ctypes.CDLL(str(path))

    def get_function(self, name: str) -> Callable[[Sequence[int], Sequence[int], Sequence[Any]], None]:
        """A launch: blocks, threads of a block, and arguments, each a numpy number of its parameter's size."""
        kernel = ctypes.cast(self._library[name], ctypes.c_void_p)

        def launch(grid: Sequence[int], block: Sequence[int], args: Sequence[Any]) -> None:
            _check()
            assert all(argument.itemsize in (4, 8) for argument in args)
            sizes = (ctypes.c_uint * 6)(*grid, *[1] * (3 - len(grid)), *block, *[1] * (3 - len(block)))
            assert all(0 < size <= 65535 for size in sizes)
            assert sizes[3] * sizes[4] * sizes[5] <= 256
            words = (ctypes.c_uint64 * 16)(*(int(argument) for argument in args))
            if self._library.cupy_on_cpu_launch(kernel, sizes, words):
                _lost.append("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")

        return launch


def _has_fma() -> bool:
    return "fma" in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")


def _as_nvrtc_says(log: str) -> str:
    """g++'s errors as `file(line): error: text`."""
    lines = (line.split(":", 4) for line in log.splitlines() if ": error: " in line)
    return "\n".join(f"{file}({line}): error: {text.strip()}\n" for file, line, _, _, text in lines)


def _synchronize() -> None:
    _check()


def _device_count() -> int:
    if not DEVICES:
        raise CUDARuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
    return DEVICES


cuda = SimpleNamespace(
    Memory=Memory,
    MemoryPointer=MemoryPointer,
    alloc=_alloc,
    set_allocator=allocators.append,
    compiler=SimpleNamespace(CompileException=CompileException),
    driver=SimpleNamespace(CUDADriverError=CUDADriverError),
    nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
    runtime=SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        deviceSynchronize=_synchronize,
        driverGetVersion=lambda: 13000,
        getDeviceCount=_device_count,
        getDeviceProperties=lambda _: {"name": b"stand-in", "major": 9, "minor": 0},
    ),
)
