"""The native part: our shader on this CPU, in the memory of the MLX arrays that it is given.

It writes the pools in place and returns them, as the real one does. Unlike it, it evaluates its inputs at once.
"""

from __future__ import annotations

import functools
from typing import Any

import mlx.core as mx
from torch import Tensor

from kernel.call import Call
from kernel.memory import bits
from kernel.targets.host import HostTarget
from kernel.targets.mlx_arrays import to_torch

_host = functools.cache(HostTarget.compile)


def rope_pool_fused(*arguments: Any) -> tuple[Any, Any, Any, Any]:
    arrays, numbers = arguments[:7], arguments[7:]
    mx.eval(arrays)
    call = Call(*(to_torch(mx, array) for array in arrays), *numbers)
    q_rot, k_rot, _, _ = _host().run(call).outputs
    return _from_torch(q_rot, arrays[0]), _from_torch(k_rot, arrays[1]), arrays[5], arrays[6]


def _from_torch(tensor: Tensor, like: Any) -> Any:
    return mx.array(bits(tensor).numpy()).view(like.dtype)
