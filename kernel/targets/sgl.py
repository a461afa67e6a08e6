"""Target `sgl`: the installed `sgl_kernel.metal.rope_pool_fused`, with MLX arrays in and out."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from kernel.call import Call
from kernel.launch import LaunchPlan
from kernel.probes import Behaviour
from kernel.targets.base import Answer, Description, TargetError
from kernel.targets.limits import not_evidenced
from kernel.targets.mlx import device
from kernel.targets.mlx_arrays import INSTALL, call_through, library

_BUILD = "build it from SGLang's main on a Mac with Apple silicon: python setup_metal.py install"
# The binding reads it at each call: heads per thread, where it divides the head count.
_HEADS_PER_THREAD = "SGLANG_RPF_N"
# Importing the package loads a Metal library, and Metal does not survive the fork of the worker: not in this process.
_PROBE = """
import json
import mlx.core as mx

def call(metal):
    x, pool, index = mx.zeros((1, 1, 2)), mx.zeros((1, 1, 2)), mx.zeros((1,), dtype=mx.int32)
    sizes = dict(head_dim=2, num_qo_heads=1, num_kv_heads=1, rope_base=10000.0)
    mx.eval(metal.rope_pool_fused(x, x, x, index, index, pool, pool, **sizes))

seen = {"gpu": mx.metal.is_available()}
try:
    import sgl_kernel
    seen["package"] = str(sgl_kernel.__file__)
    seen["version"] = str(getattr(sgl_kernel, "__version__", "unknown"))
    from sgl_kernel import metal
    seen["metal"] = True
    seen["native"] = getattr(metal, "_metal", None) is not None
    seen["reason"] = str(getattr(metal, "_IMPORT_ERROR", None) or "")
    if seen["native"] and not seen["gpu"]:
        call(metal)
except Exception as error:
    seen["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(seen))
"""


@dataclass(frozen=True)
class SglTarget:
    """SGLang's kernel as SGLang calls it."""

    mx: Any
    version: str

    @classmethod
    def load(cls) -> SglTarget:
        """Raises TargetError: mlx, the package or its native part is not there, or MLX has no GPU for it."""
        mx = library()
        seen = _probed()
        if complaint := _complaint(seen):
            raise TargetError(complaint)
        return cls(mx, seen["version"])

    start_method = "fork"

    @property
    def has_launch_plans(self) -> bool:
        return False

    def describe(self) -> Description:
        facts = {"sgl_kernel": self.version, "mlx": str(self.mx.__version__)}
        if heads := os.environ.get(_HEADS_PER_THREAD):
            facts[_HEADS_PER_THREAD] = heads
        return Description("sgl", device(self.mx), facts, not_evidenced("sgl"))

    def run(self, call: Call, plan: LaunchPlan | None = None) -> Answer:  # noqa: ARG002
        """Make the call; the pools come back fresh. Raises what the package raises."""
        return call_through(self.mx, kernel().rope_pool_fused, call)

    def measure(self) -> Behaviour:
        """Nothing: the package runs no kernels of ours."""
        return Behaviour()


@functools.cache
def kernel() -> Any:
    return importlib.import_module("sgl_kernel.metal")


def _probed() -> dict[str, Any]:
    """What a process of its own saw of the package."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, env=environment, check=False)
    lines = run.stdout.splitlines()
    if run.returncode or not lines:
        said = (run.stderr.strip().splitlines() or ["nothing"])[-1]
        raise TargetError(f"importing sgl_kernel.metal ends the process with status {run.returncode}: {said}")
    seen: dict[str, Any] = json.loads(lines[-1])
    return seen


def _complaint(seen: dict[str, Any]) -> str:
    """One line on what is missing and what to do; empty when the kernel can be called."""
    error = " ".join(str(seen.get("error", "")).split())
    if "package" not in seen:
        return f"the target sgl needs the package sgl_kernel ({error}): {_BUILD}"
    if "metal" not in seen:
        return f"sgl_kernel is there but not sgl_kernel.metal ({error}): {_BUILD}"
    if not seen["native"]:
        return f"sgl_kernel.metal has no native part ({seen['reason'] or '_metal is None'}): {_BUILD}"
    if error:
        return f"MLX has only the CPU here, and the kernel needs its GPU ({error}): {INSTALL.partition(',')[0]}"
    return ""
