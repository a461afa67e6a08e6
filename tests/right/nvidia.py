"""Right kernels on an NVIDIA GPU, by CuPy's run-time compiler: the float32 recipe, precise and with fast math, and
the exact angle in fixed point.

Run by hand where there is a GPU: `pytest conformance --target tests/right/nvidia.py:precise`, `:fast --accuracy fast`
and `:exact --accuracy exact-angle`. The rotation runs on the GPU, the pool write on the CPU.
"""

from __future__ import annotations

import functools
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the suite loads this file by its path

from kernel.frequency import frequency_table
from tests.right.arguments import RUNTIME_ERRORS, VALUE_ERRORS, Call, check

SOURCE = r"""
#include <cuda_fp16.h>
#include <cuda_bf16.h>
template <typename T> __device__ float wide(T x) { return float(x); }
struct Recipe {
    float step;
    __device__ void turn(int position, int i, float& c, float& s) const {
        float angle = float(position) * exp2f(-float(2 * i) * step);
        c = cosf(angle);
        s = sinf(angle);
    }
};
struct FixedPoint {  // turns in units of 2^-64, to the nearest quarter and the rest
    const unsigned long long* frequencies;
    __device__ void turn(int position, int i, float& c, float& s) const {
        unsigned long long phase = (unsigned long long)(long long)position * frequencies[i];
        unsigned long long quarter = (phase + (1ull << 61)) >> 62;
        float angle = float((long long)(phase - (quarter << 62))) * 3.4061215e-19f;  // 2 pi / 2^64
        float a = cosf(angle), b = sinf(angle);
        c = quarter & 1 ? b : a;
        s = quarter & 1 ? a : b;
        if (quarter == 1 || quarter == 2) c = -c;
        if (quarter & 2) s = -s;
    }
};
template <typename T, typename Angle>
__global__ void rotate(const T* x, T* out, const int* positions, int num_heads, int half_dim, Angle angle, int size) {
    int n = blockIdx.x * blockDim.x + threadIdx.x;
    if (n >= size) return;
    int i = n % half_dim, row = n / half_dim, token = row / num_heads;
    float c, s;
    angle.turn(positions[token], i, c, s);
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
    names = [f"rotate<{name}, {angle}>" for name in TYPES.values() for angle in ("Recipe", "FixedPoint")]
    return cupy.RawModule(code=SOURCE, options=options, name_expressions=names)


@dataclass(frozen=True)
class Kind:
    """How a kernel finds its angle, and whether it is compiled with fast math."""

    angle: str
    fast_math: bool = False


@functools.lru_cache(maxsize=64)
def _frequencies(rope_base: float, head_dim: int) -> Tensor:
    return torch.tensor(frequency_table(rope_base, head_dim), dtype=torch.uint64).cuda()


def _angle(call: Call, kind: Kind) -> Any:
    if kind.angle == "FixedPoint":
        return np.uint64(_frequencies(call.rope_base, call.head_dim).data_ptr())
    return np.float32(math.log2(np.float32(call.rope_base))) / np.float32(call.head_dim)


def _rotated(x: Tensor, call: Call, kind: Kind) -> Tensor:
    import cupy

    given, positions = x.contiguous().cuda(), call.positions.contiguous().cuda()
    out = torch.empty_like(given)
    size = x.numel() // 2
    if size:
        function = _compiled(kind.fast_math).get_function(f"rotate<{TYPES[x.dtype]}, {kind.angle}>")
        pointers = (given.data_ptr(), out.data_ptr(), positions.data_ptr())
        numbers = (np.int32(x.shape[1]), np.int32(x.shape[2] // 2), _angle(call, kind), np.int32(size))
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            function(((size + 255) // 256,), (256,), (*pointers, *numbers))
    return out.cpu()


def _call(kind: Kind, *arrays: Tensor, **arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    call = Call(*arrays, **arguments)
    check(call, VALUE_ERRORS + RUNTIME_ERRORS)
    q_rot, k_rot = _rotated(call.q, call, kind), _rotated(call.k, call, kind)
    written = call.slots >= 0
    rows = call.slots[written].long()
    integer = torch.int32 if call.q.dtype == torch.float32 else torch.int16
    call.k_pool.view(integer)[rows] = k_rot.view(integer)[written]
    call.v_pool.view(integer)[rows] = call.v.contiguous().view(integer)[written]
    return q_rot, k_rot, call.k_pool, call.v_pool


def precise(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """CUDA's precise exp2f, cosf and sinf: float32-angle."""
    return _call(Kind("Recipe"), *arrays, **arguments)


def fast(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same source under --use_fast_math: fast."""
    return _call(Kind("Recipe", fast_math=True), *arrays, **arguments)


def exact(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The phase in fixed point, then precise cosf and sinf of less than pi/4: exact-angle."""
    return _call(Kind("FixedPoint"), *arrays, **arguments)
