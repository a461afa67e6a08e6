"""A double of the part of PyTorch's MPS interface that the target `mps` uses, run by the host compiler.

It does what PyTorch's source does: torch/mps/__init__.py (compile_shader), torch/csrc/mps/Module.cpp (a kernel's
arguments and keywords, its errors), aten/src/ATen/native/mps/OperationUtils.mm (ASCII, buffers at storage offsets,
threadgroup limits). Where PyTorch would let a mistake through, the double does not.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from kernel.launch import SUFFIXES
from kernel.msl import Build, FunctionConstants, ShaderError, Specialisation, compile_program
from kernel.msl.compile import preprocess
from kernel.msl.entry_points import EntryPoint, find_entry_points
from kernel.msl.tokens import tokenise
from kernel.msl.toolchain import find_compiler
from kernel.targets import mps

WIDTHS = {"half": 2, "bfloat": 2, "ushort": 2, "float": 4, "int": 4, "uint": 4, "ulong": 8}
_TO = torch.Tensor.to
_UNKNOWN = FunctionConstants(9, 9, 9, 9.0, 9)


class OnDevice(torch.Tensor):
    """A tensor that only kernels and `cpu` may read."""

    def cpu(self) -> torch.Tensor:  # type: ignore[override]
        return self.as_subclass(torch.Tensor).clone()  # type: ignore[arg-type]


@dataclass(frozen=True)
class Launched:
    """One call of a kernel: element sizes and byte offsets of its arguments, in their order, and its keywords."""

    entry: str
    arguments: tuple[tuple[int, int], ...]
    threads: tuple[int, ...]
    group_size: tuple[int, ...]


@dataclass
class RecordedMps:
    """What the double was asked, and how large its threadgroups may be."""

    folder: Path
    most_threads: int = 1024
    sources: list[str] = field(default_factory=list)
    launched: list[Launched] = field(default_factory=list)
    synchronised: int = 0
    to_device: int = 0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Put it in the place of torch.mps; child processes are forked, so that they have it too."""
        patch.setattr(torch.backends.mps, "is_built", lambda: True)
        patch.setattr(torch.backends.mps, "is_available", lambda: True)
        patch.setattr(torch.backends.mps, "get_name", lambda: "a double")
        patch.setattr(torch.mps, "compile_shader", self.compile_shader)
        patch.setattr(torch.mps, "synchronize", self.synchronize)
        patch.setattr(torch.Tensor, "to", self._to())
        patch.setattr(mps.MpsTarget, "start_method", "fork")
        mps._library.cache_clear()

    def _to(self) -> Any:
        def to(tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
            if arguments != ("mps",) or keywords:
                return _TO(tensor, *arguments, **keywords)
            assert not tensor.dtype.is_floating_point, "floats need not keep the payload of a NaN"
            self.to_device += 1
            return tensor.clone().as_subclass(OnDevice)  # type: ignore[arg-type]

        return to

    def compile_shader(self, source: str) -> Library:
        assert type(source) is str
        assert source.isascii(), "PyTorch reads the source as ASCII"
        self.sources.append(source)
        path = self.folder / f"{hashlib.sha256(source.encode()).hexdigest()[:12]}.metal"
        path.write_bytes(source.encode())
        fast = os.environ.get("PYTORCH_MPS_FAST_MATH", "0") != "0"
        build = Build(fast_math=fast, contract=fast)
        try:
            tokens = tokenise(preprocess(path, build, find_compiler()))
        except ShaderError as error:
            raise SyntaxError(str(error)) from None
        if any("function_constant" in token.text for token in tokens):
            raise RuntimeError("Failed to create function state object: a function constant has no value")
        return Library(self, path, build, find_entry_points(tokens))

    def synchronize(self) -> None:
        self.synchronised += 1


@dataclass(frozen=True)
class Library:
    """What compile_shader returns: an attribute for every kernel."""

    device: RecordedMps
    path: Path
    build: Build
    entries: Mapping[str, EntryPoint]

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self.entries:
            raise RuntimeError(f"Failed to create function state object for: {name}")
        return Kernel(self, self.entries[name])

    def compiled(self, name: str) -> Specialisation:
        """The source compiled with this entry point, and for the sake of speed with those of its dtype."""
        dtype = name.rpartition("_")[2]
        wanted = {n: e.num_buffers for n, e in self.entries.items() if dtype not in SUFFIXES or n.endswith(f"_{dtype}")}
        return compile_program(self.path, wanted, self.build).specialise(_UNKNOWN)


@dataclass(frozen=True)
class Kernel:
    """A kernel; its arguments go to the buffers 0, 1, ..."""

    library: Library
    entry: EntryPoint

    @property
    def max_threads_per_threadgroup(self) -> int:
        return self.library.device.most_threads

    def __call__(self, *arguments: Any, threads: Any = None, group_size: Any = None) -> None:
        device, entry = self.library.device, self.entry
        buffers = [parameter for parameter in entry.parameters if parameter.is_buffer]
        assert len(arguments) == len(buffers), f"{entry.name} has {len(buffers)} buffers, {len(arguments)} were given"
        seen = []
        for argument, parameter in zip(arguments, buffers, strict=True):
            assert type(argument) is OnDevice, "a CPU tensor is refused by PyTorch, unless it has one element"
            assert argument.is_contiguous()
            words = parameter.declaration.split()
            width = next(WIDTHS[word] for word in words if word in WIDTHS)
            offset = argument.storage_offset() * argument.element_size()
            # A probe is given words, whatever it reads.
            is_word = entry.name.startswith("probe_") and argument.element_size() == 4
            assert is_word or argument.element_size() == width, f"{parameter.declaration} is given {argument.dtype}"
            assert offset % 256 == 0, "the offset of a buffer in the constant address space is a multiple of 256"
            seen.append((width, offset))
        for sizes in (threads, group_size):
            assert type(sizes) is tuple
            assert len(sizes) == 3
            assert all(type(size) is int and size > 0 for size in sizes)
        if group_size[0] * group_size[1] * group_size[2] > device.most_threads:
            raise ValueError(f"Threadgroup size exceeds {device.most_threads} limit")
        device.launched.append(Launched(entry.name, tuple(seen), threads, group_size))
        addresses = [argument.data_ptr() for argument in arguments]
        self.library.compiled(entry.name).launch(entry.name, addresses, threads)
