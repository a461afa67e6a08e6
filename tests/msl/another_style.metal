// A rotary kernel in a style unlike the project's own: many constructs that published kernels use.
#include <metal_stdlib>
#include <metal_math>
using namespace metal;

#define FC_HEAD_DIM 0
constant uint head_dim [[function_constant(FC_HEAD_DIM)]];
constant uint num_qo_heads [[function_constant(1)]];
constant uint num_kv_heads [[function_constant(2)]];
constant float log2_base_over_head_dim [[function_constant(3)]];
constant uint heads_per_thread [[function_constant(4)]];
constant constexpr uint kWidth = 2;
constant uint half_dim = head_dim >> 1;
constant bool several = heads_per_thread > 1u;
constant float exponent_step = -2.0f * log2_base_over_head_dim;

template <typename T>
struct Traits {
    using Pair = vec<T, kWidth>;
};
enum class Kind : uchar { Q = 0, K };

METAL_FUNC static inline void turn(thread float& a, thread float& b, float c, float s) {
    const float rotated = metal::fma(a, c, -(b * s));
    b = fma(b, c, a * s);
    a = rotated;
}

template <typename T, Kind kind, bool fast_trig = false>
[[kernel, max_total_threads_per_threadgroup(256)]] void rope(
    const device T* __restrict in [[buffer(0)]],
    device T* out [[buffer(1)]],
    constant const int* positions [[buffer(2)]],
    uint3 tid [[thread_position_in_grid]])
{
    const uint i = tid.x;
    const uint2 token_and_group = tid.yz;
    if (i >= half_dim) return;
    const float theta = static_cast<float>(positions[token_and_group.x]) * exp2(static_cast<float>(i) * exponent_step);
    float c, s;
    if constexpr (fast_trig) {
        s = fast::sin(theta);
        c = metal::fast::cos(theta);
    } else {
        s = precise::sincos(theta, c);
    }
    uint heads;
    switch (kind) {
        case Kind::Q: heads = num_qo_heads; break;
        default: heads = num_kv_heads; break;
    }
    const uint count = several ? heads_per_thread : 1u;
    #pragma clang loop unroll(full)
    for (uint h = token_and_group.y * count; h < (token_and_group.y + 1) * count && h < heads; h++) {
        const ulong offset = ((ulong)token_and_group.x * heads + h) * head_dim + i;
        float a = float(in[offset]), b = in[offset + half_dim];
        turn(a, b, c, s);
        typename Traits<T>::Pair pair = {T(a), static_cast<T>(b)};
        auto store = [&](ulong at, T value) { *(out + at) = value; };
        store(offset, pair.x);
        store(offset + half_dim, pair[1]);
    }
}

#define INSTANTIATE(name, T, ...) \
    template [[host_name("rope_" #name)]] [[kernel]] decltype(rope<T, __VA_ARGS__>) rope<T, __VA_ARGS__>;
INSTANTIATE(q_f16, half, Kind::Q)
INSTANTIATE(q_bf16, bfloat, Kind::Q)
INSTANTIATE(k_f32, float, Kind::K)
INSTANTIATE(k_fast, float, Kind::K, true)
