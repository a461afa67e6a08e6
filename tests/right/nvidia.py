"""Right kernels on an NVIDIA GPU, by CuPy's run-time compiler: the float32 recipe, precise and with fast math.

Run by hand where there is a GPU: `pytest conformance --target tests/right/nvidia.py:precise`, and
`pytest conformance --target tests/right/nvidia.py:fast --accuracy fast`. The rotation runs on the GPU, the pool
write on the CPU.
"""

from __future__ import annotations

import functools
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the suite loads this file by its path

from tests.right.arguments import RUNTIME_ERRORS, VALUE_ERRORS, Call, check

SOURCE = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
template <typename T> __device__ float wide(T x) { return float(x); }
template <typename T>
__global__ void rotate(const T* x, T* out, const int* positions, int num_heads, int half_dim, float step, int size) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= size) return;
    int i = n % half_dim, row = n / half_dim, token = row / num_heads;
    float angle = float(positions[token]) * exp2f(-float(2 * i) * step);
    float c = cosf(angle), s = sinf(angle);
    long long low = 2ll * half_dim * row + i, high = low + half_dim;
    float a = wide(x[low]), b = wide(x[high]);
    out[low] = T(a * c - b * s);
    out[high] = T(a * s + b * c);
}
"""
TYPES = {torch.float16: "__half", torch.bfloat16: "__nv_bfloat16", torch.float32: "float"}


@functools.cache
def _compiled(fast_math: bool) -> Any:
    import cupy  # type: ignore[import-not-found]

    options = ("-I/usr/local/cuda/include", *(["--use_fast_math"] if fast_math else []))
    names = [f"rotate<{name}>" for name in TYPES.values()]
    return cupy.RawModule(code=SOURCE, options=options, name_expressions=names)


def _rotated(x: Tensor, call: Call, fast_math: bool) -> Tensor:
    import cupy

    given, positions = x.contiguous().cuda(), call.positions.contiguous().cuda()
    out = torch.empty_like(given)
    step = np.float32(math.log2(np.float32(call.rope_base))) / np.float32(call.head_dim)
    size = x.numel() // 2
    if size:
        function = _compiled(fast_math).get_function(f"rotate<{TYPES[x.dtype]}>")
        pointers = (given.data_ptr(), out.data_ptr(), positions.data_ptr())
        numbers = (np.int32(x.shape[1]), np.int32(x.shape[2] // 2), step, np.int32(size))
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            function(((size + 255) // 256,), (256,), (*pointers, *numbers))
    return out.cpu()


def _call(fast_math: bool, *arrays: Tensor, **arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    call = Call(*arrays, **arguments)
    check(call, VALUE_ERRORS + RUNTIME_ERRORS)
    q_rot, k_rot = _rotated(call.q, call, fast_math), _rotated(call.k, call, fast_math)
    written = call.slots >= 0
    rows = call.slots[written].long()
    integer = torch.int32 if call.q.dtype == torch.float32 else torch.int16
    call.k_pool.view(integer)[rows] = k_rot.view(integer)[written]
    call.v_pool.view(integer)[rows] = call.v.contiguous().view(integer)[written]
    return q_rot, k_rot, call.k_pool, call.v_pool


def precise(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """CUDA's precise exp2f, cosf and sinf: float32-angle."""
    return _call(False, *arrays, **arguments)


def fast(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same source under --use_fast_math: fast."""
    return _call(True, *arrays, **arguments)
