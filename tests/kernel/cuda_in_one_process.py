"""The smoke profile's cases on target `cuda`, made by this one process and not judged.

For compute-sanitizer, which may lose sight of a forked process. Pools that are larger than memory are left out.
By hand, where there is a GPU; an argument is a shader to take in place of ours:

    CUDA_EXACT_ALLOCATIONS=1 compute-sanitizer --error-exitcode 9 python tests/kernel/cuda_in_one_process.py

Ends with status 1 if a kernel faulted, wrote outside its buffers or into an input.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))

from drive import planned_cases

from conformance.outcome import Observer
from conformance.profile import PROFILES
from kernel.launch import ENTRIES_THAT_MAY_ASK, REQUIRED_ENTRIES
from kernel.msl import Build
from kernel.msl.cuda import cuda_unit
from kernel.targets import DEFAULT_SHADER, CudaTarget, gpu


def main(shader: Path) -> int:
    unit = cuda_unit(shader, REQUIRED_ENTRIES, Build(), ENTRIES_THAT_MAY_ASK)
    target = CudaTarget(unit, Build(), gpu.look(unit))
    print(target.describe().device, target.describe().facts)
    observer, told = Observer(target), {"returned": 0, "refused": 0, "strayed": 0}
    for case in planned_cases(PROFILES["smoke"], launch="all", sparse=False):
        outcome = observer.observe(case)
        if outcome.died:
            print(f"{outcome.died}\n  {case}")
            return 1
        told["returned" if outcome.outputs is not None else "refused"] += 1
        told["strayed"] += any(c.where == "outside" or not c.buffer.endswith("_pool") for c in outcome.changes)
    print(told)
    return int(told["strayed"] > 0)


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_SHADER))
