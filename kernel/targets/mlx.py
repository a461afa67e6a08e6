"""Target `mlx`: MLX's own `mx.fast.rope` and indexed assignment, on the CPU or the GPU that MLX takes."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any

from kernel.call import Call, check_documented
from kernel.launch import LaunchPlan
from kernel.probes import Behaviour
from kernel.targets.base import Answer, Description
from kernel.targets.limits import not_evidenced
from kernel.targets.mlx_arrays import call_through, library


@dataclass(frozen=True)
class MlxTarget:
    """What SGLang does on Apple silicon where its kernel is not built, behind the public call.

    Its decode rotates [num_tokens, heads, 1, head_dim] at one offset per token (sglang/srt/hardware_backend/mlx,
    kv_cache/attention_wrapper.py) and later assigns the rows of tokens that have a slot (`pool[slots] = rows`,
    kv_cache/attention_kv_pool.py). No token without a slot gets there: MLX would count a negative one from the end.
    """

    mx: Any

    @classmethod
    def load(cls) -> MlxTarget:
        """Raises TargetError: mlx is not installed."""
        return cls(library())

    start_method = "fork"

    @property
    def has_launch_plans(self) -> bool:
        return False

    def describe(self) -> Description:
        return Description("mlx", device(self.mx), {"mlx": str(self.mx.__version__)}, not_evidenced("mlx"))

    def run(self, call: Call, plan: LaunchPlan | None = None) -> Answer:  # noqa: ARG002
        """The checks of the public call, then MLX; the pools come back fresh. Raises what either raises."""
        return call_through(self.mx, self._rope_pool, call)

    def measure(self) -> Behaviour:
        """Nothing: MLX runs no kernels of ours on a CPU."""
        return Behaviour()

    def _rope_pool(self, *arrays: Any, **arguments: Any) -> tuple[Any, Any, Any, Any]:
        call = Call(*arrays, **arguments)
        check_documented(call)
        slots = call.slots.tolist()
        pool_size = call.k_pool.shape[0]
        if any(slot >= pool_size for slot in slots):
            # MLX checks no index on either device: it would write past the pool's memory.
            raise RuntimeError(f"slots must be below pool_size {pool_size}, got {max(slots)}")
        q_rot, k_rot = self._rotated(call.q, call), self._rotated(call.k, call)
        tokens = [token for token, slot in enumerate(slots) if slot >= 0]
        if not tokens:
            return q_rot, k_rot, call.k_pool, call.v_pool
        chosen = self.mx.array(tokens)
        rows = call.slots[chosen]
        k_pool, v_pool = (
            self._assigned(call.k_pool, rows, k_rot[chosen]),
            self._assigned(call.v_pool, rows, call.v[chosen]),
        )
        return q_rot, k_rot, k_pool, v_pool

    def _rotated(self, x: Any, call: Call) -> Any:
        """x [num_tokens, heads, head_dim], each token at its own position."""
        turned = self.mx.fast.rope(
            x[:, :, None, :], call.head_dim, traditional=False, base=call.rope_base, scale=1.0, offset=call.positions
        )
        return turned[:, :, 0, :]

    def _assigned(self, pool: Any, rows: Any, values: Any) -> Any:
        # Assignment changes what the name stands for, and the name here is the caller's too.
        assigned = self.mx.array(pool)
        assigned[rows] = values
        return assigned


def device(mx: Any) -> str:
    """MLX's default device and the machine."""
    kind = str(mx.default_device().type).rpartition(".")[2]
    return f"MLX {kind} on {platform.system()} {platform.machine()}"
