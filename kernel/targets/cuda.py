"""Target `cuda`: a Metal source, unmodified, compiled by NVIDIA's run-time compiler and run on an NVIDIA GPU."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernel.call import POOLS, Call, check
from kernel.launch import ENTRIES_THAT_MAY_ASK, REQUIRED_ENTRIES, LaunchPlan, function_constants
from kernel.memory import bits
from kernel.msl import Build, CompilerMissing, ShaderError
from kernel.msl.cuda import Unit, cuda_unit
from kernel.probes import PROBES, Behaviour, Words, measure_by, probed_entries
from kernel.probes import Launch as ProbeLaunch
from kernel.targets import gpu
from kernel.targets.base import Answer, Description, TargetError
from kernel.targets.limits import not_evidenced
from kernel.targets.staging import stage, stray, take


@dataclass(frozen=True)
class CudaTarget:
    """A Metal source behind the public call. It holds text only: nothing of the GPU until a process runs a call."""

    unit: Unit
    build: Build
    seen: gpu.Gpu

    @classmethod
    def compile(cls, shader: Path, build: Build) -> CudaTarget:
        """Compile `shader` for the GPU of this machine, in a process of its own.

        Raises:
            TargetError: no CuPy, no GPU, no C++ preprocessor, or a source that does not compile, lacks an entry point
                or uses what the stand-in headers do not model.
        """
        gpu.require_cupy()
        try:
            unit = cuda_unit(shader, REQUIRED_ENTRIES, build, ENTRIES_THAT_MAY_ASK)
        except (ShaderError, CompilerMissing) as error:
            raise TargetError(str(error)) from error
        return cls(unit, build, _looked_at_by_a_child(unit))

    start_method = "fork"

    @property
    def has_launch_plans(self) -> bool:
        return True

    def describe(self) -> Description:
        facts = {
            "compiler": self.seen.compiler,
            "driver": self.seen.driver,
            "cupy": self.seen.cupy,
            "shader": f"{self.unit.source.name} {self.unit.source_hash}",
            "math": "metal-fast" if self.build.fast_math else "libm",
        }
        device = f"{self.seen.name}, compute capability {self.seen.capability}"
        return Description("cuda", device, facts, not_evidenced("cuda"))

    def run(self, call: Call, plan: LaunchPlan | None = None) -> Answer:
        """Check, copy to the GPU, launch, copy back; pools are written in place.

        Raises as `kernel.call.check` does; what CuPy raises for a GPU too small; DeviceLostError for a kernel's fault.
        """
        check(call)
        module = gpu.loaded(self.unit)
        pools = {name: getattr(call, name) for name in POOLS}
        large = {name: gpu.LargeImage(module, pool) for name, pool in pools.items() if gpu.is_large(pool)}
        staged = stage(call, plan, self.unit.num_buffers, left_out=large)
        images = {name: gpu.Image(module, array) for name, array in staged.arrays.items()}
        addresses = {name: image.address for name, image in (images | large).items()}
        with gpu.kernel_faults():
            module.specialise(function_constants(call, staged.plan))
            for entry, launch in staged.launches:
                wanted = [addresses[name] for name in staged.buffers[entry]]
                module.launch(entry, wanted, launch.grid, staged.plan.reversed)
            module.synchronize()
            fetched = {name: image.fetch() for name, image in images.items()}
            for image in large.values():
                image.bring_back()
        arrays = {name: take(fetched[name], image.array) for name, image in images.items()}
        for name, pool in pools.items():
            if name in arrays:
                bits(pool).copy_(bits(arrays[name]))
        found = (o for name, image in images.items() for o in stray(name, image.array, fetched[name]))
        return Answer((arrays["q_out"], arrays["k_out"], call.k_pool, call.v_pool), tuple(found))

    def measure(self) -> Behaviour:
        """What the probes show of the GPU, compiled as the shader is."""
        return measure_by(partial(_probe_launch, self.build))


def _looked_at_by_a_child(unit: Unit) -> gpu.Gpu:
    try:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
            return pool.submit(gpu.look, unit).result()
    except BrokenProcessPool as error:
        raise TargetError("the process that tried the GPU ended before it answered: does nvidia-smi?") from error


def _probe_launch(build: Build) -> ProbeLaunch:
    unit = cuda_unit(PROBES, probed_entries(), build)
    module = gpu.loaded(unit)

    def launch(entry: str, inputs: Words, answers: Words) -> None:
        images = [module.allocate(words.nbytes) for words in (inputs, answers)]
        for image, words in zip(images, (inputs, answers), strict=True):
            image.copy_from_host(words.ctypes.data, words.nbytes)
        module.launch(entry, [int(image.ptr) for image in images], (len(answers), 1, 1))
        module.synchronize()
        images[1].copy_to_host(answers.ctypes.data, answers.nbytes)

    return launch
