"""Target `mps`: a Metal source, its function constants written into it, on an Apple GPU through PyTorch.

What PyTorch's API does was read from its source (torch/mps/__init__.py, torch/csrc/mps/Module.cpp and
aten/src/ATen/native/mps/OperationUtils.mm): argument i of a kernel is bound to buffer i, a tensor at its storage
offset; `threads` is the grid; there are no function constants.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kernel.call import Call, check
from kernel.launch import ENTRIES_THAT_MAY_ASK, REQUIRED_ENTRIES, LaunchPlan, function_constants
from kernel.memory import Margined
from kernel.msl import CompilerMissing, FunctionConstants, ShaderError
from kernel.msl.specialise import Template, read_template
from kernel.probes import PROBES, Behaviour, Words, measure_by
from kernel.probes import Launch as ProbeLaunch
from kernel.targets.base import Answer, Description, TargetError
from kernel.targets.limits import not_evidenced
from kernel.targets.staging import WRITTEN, Staged, stage, stray, take

_DEVICE = "mps"
_WIDEST, _MOST_THREADS = 32, 256
_LIBRARIES = 256
# Any values for which the sources compile.
_SAMPLE = FunctionConstants(64, 4, 2, 0.25, 1)
_ELSEWHERE = "run it on Apple silicon, or take another target, as --target host"


@dataclass(frozen=True)
class MpsTarget:
    """A Metal source behind the public call. It holds text only: nothing of the GPU until a process runs a call."""

    template: Template
    fast_math: bool
    seen: Mapping[str, str] = field(default_factory=dict)
    """What a process with the GPU told of it: its name, the system's version."""

    start_method = "spawn"
    """How a process that runs calls must start: Apple's frameworks fail in one that forked and did not exec."""

    @classmethod
    def load(cls, shader: Path, fast_math: bool = False) -> MpsTarget:
        """Read `shader`, and compile it once on the GPU.

        Raises:
            TargetError: PyTorch or the machine has no such GPU, there is no C++ preprocessor, or the source is at
                fault or has function constants in a form that is not understood.
        """
        _require_api()
        try:
            target = cls(read_template(shader, REQUIRED_ENTRIES, ENTRIES_THAT_MAY_ASK), fast_math)
        except (ShaderError, CompilerMissing) as error:
            raise TargetError(str(error)) from error
        _require_ascii(target.template)
        return replace(target, seen=_asked_of_a_child(target))

    @property
    def has_launch_plans(self) -> bool:
        return True

    def describe(self) -> Description:
        facts = {
            "torch": str(torch.__version__),
            "macOS": self.seen["macOS"],
            "shader": f"{self.template.source.name} {self.template.source_hash}",
            "math": "metal-fast" if self.fast_math else "libm",
        }
        return Description("mps", self.seen["GPU"], facts, not_evidenced("mps"))

    def run(self, call: Call, plan: LaunchPlan | None = None) -> Answer:
        """Check, launch, return; the pools come back fresh.

        Raises as `kernel.call.check` does, and RuntimeError for whatever PyTorch raises.
        """
        check(call)
        staged = stage(call, plan, self.template.num_buffers)
        try:
            after = self._launched(staged, function_constants(call, staged.plan))
        except Exception as error:
            # PyTorch's ValueErrors and SyntaxErrors are none of the documented ones.
            raise RuntimeError(f"torch.mps: {type(error).__name__}: {error}") from error
        q_out, k_out, k_pool, v_pool = (take(after[name], staged.arrays[name]) for name in WRITTEN)
        found = (o for name, array in staged.arrays.items() for o in stray(name, array, after[name]))
        return Answer((q_out, k_out, k_pool, v_pool), tuple(found))

    def _launched(self, staged: Staged, constants: FunctionConstants) -> dict[str, Tensor]:
        """Run the entry points on copies of the storages that they want; every storage as it is afterwards, as bits."""
        after = {name: array.storage for name, array in staged.arrays.items()}
        if not staged.launches:
            return after
        library = _library(self.template.filled(constants), self.fast_math)
        wanted = {name for names in staged.buffers.values() for name in names}
        sent = {name: after[name].to(_DEVICE) for name in sorted(wanted)}
        for entry, launch in staged.launches:
            kernel = getattr(library, entry)
            arguments = [_part(sent[name], staged.arrays[name]) for name in staged.buffers[entry]]
            kernel(*arguments, threads=launch.grid, group_size=_group(launch.grid, kernel))
        torch.mps.synchronize()
        return after | {name: storage.cpu() for name, storage in sent.items()}

    def measure(self) -> Behaviour:
        """What the probes show of the GPU, compiled as the shader is."""
        return measure_by(partial(_probe_launch, self.fast_math), self.start_method)


def _require_api() -> None:
    # Neither of the two touches the GPU.
    if not torch.backends.mps.is_built():
        machine = f"{platform.system()} {platform.machine()}"
        raise TargetError(f"PyTorch {torch.__version__} ({machine}) is built without MPS: {_ELSEWHERE}")
    if not hasattr(torch.mps, "compile_shader"):
        raise TargetError(f"PyTorch {torch.__version__} has no torch.mps.compile_shader: install torch 2.7 or later")


def _require_ascii(template: Template) -> None:
    # PyTorch hands the source to Metal as ASCII.
    for number, line in enumerate(template.text.split("\n"), 1):
        if not line.isascii():
            odd = next(character for character in line if not character.isascii())
            place = f"{template.source.name}:{number}"
            raise TargetError(f"{place}: torch.mps.compile_shader takes ASCII only, and here is {odd!r}: write it out")


def _asked_of_a_child(target: MpsTarget) -> dict[str, str]:
    """What the GPU is, from a process of its own: this one must stay fit to start others."""
    context = multiprocessing.get_context(target.start_method)
    try:
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(_look, target).result()
    except BrokenProcessPool as error:
        raise TargetError(f"the process that tried the GPU ended before it answered: {_ELSEWHERE}") from error


def _look(target: MpsTarget) -> dict[str, str]:
    if not torch.backends.mps.is_available():
        raise TargetError(f"macOS {platform.mac_ver()[0]} shows PyTorch no Metal GPU: {_ELSEWHERE}")
    try:
        library = _library(target.template.filled(_SAMPLE), target.fast_math)
        for entry in REQUIRED_ENTRIES:
            getattr(library, entry)
    except Exception as error:
        raise TargetError(_in_a_line(str(error), target.template.source.name)) from error
    name = getattr(torch.backends.mps, "get_name", None)
    return {"GPU": str(name()) if name else "Apple GPU", "macOS": platform.mac_ver()[0]}


def _in_a_line(message: str, source: str) -> str:
    """The first error of Metal's compiler, at the shader's own line; or the first line of whatever else it is."""
    lines = message.splitlines() or [""]
    first = next((line for line in lines if "error:" in line), lines[0])
    if "program_source" in first:
        return first[first.index("program_source") :].replace("program_source", source)
    return f"{source}: Metal refuses it: {first}"


@lru_cache(maxsize=_LIBRARIES)
def _library(text: str, fast_math: bool) -> Any:
    # PyTorch reads it once in a process, when it first compiles a source.
    os.environ["PYTORCH_MPS_FAST_MATH"] = "1" if fast_math else "0"
    return torch.mps.compile_shader(text)


def _part(storage: Tensor, margined: Margined) -> Tensor:
    """The tensor inside the margins of a copy of its storage, flat."""
    start = int(margined.tensor.storage_offset() - margined.storage.storage_offset())
    return storage[start : start + margined.tensor.numel()]


def _group(grid: tuple[int, int, int], kernel: Any) -> tuple[int, int, int]:
    """A threadgroup as the published binding may take: 256 threads at most, 32 of them wide."""
    room = min(_MOST_THREADS, int(kernel.max_threads_per_threadgroup))
    width = min(_WIDEST, grid[0], room)
    height = min(room // width, grid[1])
    return width, height, min(room // (width * height), grid[2])


def _probe_launch(fast_math: bool) -> ProbeLaunch:
    library = _library(PROBES.read_text(encoding="ascii"), fast_math)

    def launch(entry: str, inputs: Words, answers: Words) -> None:
        arrays = [torch.from_numpy(words.view(np.int32)).to(_DEVICE) for words in (inputs, answers)]
        kernel, grid = getattr(library, entry), (len(answers), 1, 1)
        kernel(*arrays, threads=grid, group_size=_group(grid, kernel))
        torch.mps.synchronize()
        answers[...] = arrays[1].cpu().numpy().view(np.uint32)

    return launch
