"""Target `host`: a Metal source, unmodified, compiled as C++ and run on this machine's CPU."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from kernel.call import FLOAT_DTYPES, Call, check
from kernel.frequency import frequency_table
from kernel.launch import (
    ENTRIES_THAT_MAY_ASK,
    FREQUENCIES,
    REQUIRED_ENTRIES,
    Extent,
    LaunchPlan,
    function_constants,
    launches,
    published_plan,
)
from kernel.memory import Guarded, Margined, bits
from kernel.msl import Build, CompilerMissing, Program, ShaderError, compile_program
from kernel.probes import Behaviour, measure
from kernel.targets.base import Answer, Description, TargetError
from kernel.targets.limits import not_evidenced

DEFAULT_SHADER = Path(__file__).resolve().parents[2] / "shaders" / "rope_pool_fused.metal"
_ALIGNMENT = 16


@dataclass(frozen=True)
class HostTarget:
    """A compiled Metal source behind the public call."""

    program: Program

    @classmethod
    def compile(cls, shader: Path = DEFAULT_SHADER, build: Build | None = None) -> HostTarget:
        """Compile `shader`.

        Raises:
            TargetError: no compiler, or a source that does not compile, lacks an entry point or uses
                what the stand-in headers do not model.
        """
        try:
            return cls(compile_program(shader, REQUIRED_ENTRIES, build or Build(), ENTRIES_THAT_MAY_ASK))
        except (ShaderError, CompilerMissing) as error:
            raise TargetError(str(error)) from error

    start_method = "fork"

    @property
    def has_launch_plans(self) -> bool:
        return True

    def describe(self) -> Description:
        return Description(
            "host",
            f"CPU {platform.machine()}",
            {
                "compiler": self.program.compiler,
                "shader": f"{self.program.source.name} {self.program.source_hash}",
                "math": "metal-fast" if self.program.build.fast_math else "libm",
            },
            not_evidenced("host"),
        )

    def run(self, call: Call, plan: LaunchPlan | None = None) -> Answer:
        """Check, launch, return; pools are written in place. Raises as `kernel.call.check` does."""
        check(call)
        dtype = FLOAT_DTYPES[call.q.dtype]
        extent = Extent(call.q.shape[0], call.num_qo_heads, call.num_kv_heads, call.head_dim)
        plan = plan or published_plan(dtype, extent)
        made: dict[str, Margined | Guarded] = {"q_out": Margined.empty(call.q.shape, call.q.dtype)}
        made["k_out"] = Margined.empty(call.k.shape, call.k.dtype)
        for name, tensor in call.tensors():
            if not _usable_as_buffer(tensor):
                made[name] = Margined.copy_of(tensor)
        specialised = self.program.specialise(function_constants(call, plan))
        planned = [(f"{launch.entry}_{dtype}", launch) for launch in launches(plan, extent)]
        wanted = {entry: launch.buffers[: specialised.num_buffers(entry)] for entry, launch in planned}
        if any(FREQUENCIES in names for names in wanted.values()):
            made[FREQUENCIES] = _frequencies(call.rope_base, call.head_dim).restored()
        buffers = dict(call.tensors()) | {n: m.tensor for n, m in made.items()}
        for entry, launch in planned:
            addresses = [buffers[name].data_ptr() for name in wanted[entry]]
            specialised.launch(entry, addresses, launch.grid, plan.reversed)
        for name in ("k_pool", "v_pool"):
            if name in made:
                bits(getattr(call, name)).copy_(bits(made[name].tensor))
        seen = (margined.overwritten(name) for name, margined in made.items())
        outputs = (buffers["q_out"], buffers["k_out"], call.k_pool, call.v_pool)
        return Answer(outputs, tuple(found for found in seen if found))

    def measure(self) -> Behaviour:
        """What the probes show of this target's own build, compiled once for all runs."""
        return measure(self.program.build)


def _usable_as_buffer(tensor: Tensor) -> bool:
    # A Metal buffer is row-major and dense, and aligned well enough for vector loads.
    return tensor.is_contiguous() and tensor.data_ptr() % _ALIGNMENT == 0


@lru_cache(maxsize=256)
def _frequencies(rope_base: float, head_dim: int) -> Guarded:
    return Guarded.of(frequency_table(rope_base, head_dim))
