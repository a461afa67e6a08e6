// NeoX rotary embedding of Q and K, fused with the scatter of the rotated K and the raw V into KV pools by slot.
//
// Accuracy class float32-angle: the angle is a float, off by a few ulp of itself. rope_pool_fused.metal is exact.
//
// All arrays are dense and row-major: q [num_tokens, num_qo_heads, head_dim], k and v [num_tokens, num_kv_heads,
// head_dim], the pools [pool_size, num_kv_heads, head_dim], positions and slots [num_tokens].
// The grid's y is the token, its z the group of HEADS_PER_THREAD heads; y is exact in a dispatch by threads.

#include <metal_stdlib>
using namespace metal;

constant uint HEAD_DIM [[function_constant(0)]];
constant uint NUM_QO_HEADS [[function_constant(1)]];
constant uint NUM_KV_HEADS [[function_constant(2)]];
constant float LOG2_BASE_OVER_HEAD_DIM [[function_constant(3)]];
constant uint HEADS_PER_THREAD [[function_constant(4)]];

constant uint HALF_DIM = HEAD_DIM / 2;

// A pair (x[i], x[i + head_dim / 2]) of one head turns by one angle, whatever the head.
struct Rotation {
    float cosine;
    float sine;

    // base^(-2i / head_dim) = 2^(-2i log2(base) / head_dim). Precise functions, because the error of the fast ones
    // grows with the angle.
    Rotation(int position, uint i) {
        const float angle = float(position) * precise::exp2(-float(2 * i) * LOG2_BASE_OVER_HEAD_DIM);
        cosine = precise::cos(angle);
        sine = precise::sin(angle);
    }

    float2 apply(float2 x) const {
        return float2(x.x * cosine - x.y * sine, x.x * sine + x.y * cosine);
    }
};

// 64 bits: a pool may hold more than 2^32 elements.
static ulong row_offset(uint row, uint num_heads, uint head) {
    return (ulong(row) * num_heads + head) * HEAD_DIM;
}

// Rotates element i of each of the thread's heads, for one token. A pool row (slot >= 0) takes the very value that
// the output takes, so that attention reads the same K from either.
template <typename T>
static void rotate_heads(device const T* in, device T* out, device T* pool, int slot, Rotation rotation,
                         uint num_heads, uint3 gid) {
    const uint i = gid.x, token = gid.y, first = gid.z * HEADS_PER_THREAD;
    for (uint head = first; head < min(first + HEADS_PER_THREAD, num_heads); ++head) {
        const ulong low = row_offset(token, num_heads, head) + i, high = low + HALF_DIM;
        const float2 rotated = rotation.apply(float2(float(in[low]), float(in[high])));
        const T y_low = T(rotated.x), y_high = T(rotated.y);
        out[low] = y_low;
        out[high] = y_high;
        if (slot >= 0) {
            const ulong pool_low = row_offset(uint(slot), num_heads, head) + i;
            pool[pool_low] = y_low;
            pool[pool_low + HALF_DIM] = y_high;
        }
    }
}

template <typename T>
[[kernel]] void rope_q(device const T* q [[buffer(0)]],
                       device T* q_out [[buffer(1)]],
                       device const int* positions [[buffer(2)]],
                       uint3 gid [[thread_position_in_grid]]) {
    if (gid.x >= HALF_DIM) {
        return;
    }
    const Rotation rotation(positions[gid.y], gid.x);
    rotate_heads<T>(q, q_out, q_out, -1, rotation, NUM_QO_HEADS, gid);
}

template <typename T>
[[kernel]] void rope_k_pool(device const T* k [[buffer(0)]],
                            device T* k_out [[buffer(1)]],
                            device T* k_pool [[buffer(2)]],
                            device const int* positions [[buffer(3)]],
                            device const int* slots [[buffer(4)]],
                            uint3 gid [[thread_position_in_grid]]) {
    if (gid.x >= HALF_DIM) {
        return;
    }
    const Rotation rotation(positions[gid.y], gid.x);
    rotate_heads<T>(k, k_out, k_pool, slots[gid.y], rotation, NUM_KV_HEADS, gid);
}

// `Bits` is an integer as wide as the element: a copy of integers cannot change the payload of a NaN.
template <typename Bits>
static void copy_to_pool(device const Bits* v, device Bits* v_pool, int slot, uint head, uint3 gid) {
    if (slot < 0 || gid.x >= HEAD_DIM || head >= NUM_KV_HEADS) {
        return;
    }
    v_pool[row_offset(uint(slot), NUM_KV_HEADS, head) + gid.x] = v[row_offset(gid.y, NUM_KV_HEADS, head) + gid.x];
}

template <typename T, typename Bits>
[[kernel]] void v_to_pool(device const T* v [[buffer(0)]],
                          device T* v_pool [[buffer(1)]],
                          device const int* slots [[buffer(2)]],
                          uint3 gid [[thread_position_in_grid]]) {
    copy_to_pool((device const Bits*)v, (device Bits*)v_pool, slots[gid.y], gid.z, gid);
}

// One launch for everything: x covers head_dim for V; its lower half also rotates Q and K by one angle.
template <typename T, typename Bits>
[[kernel]] void rope_pool_rect(device const T* q [[buffer(0)]],
                               device const T* k [[buffer(1)]],
                               device const T* v [[buffer(2)]],
                               device T* q_out [[buffer(3)]],
                               device T* k_out [[buffer(4)]],
                               device T* k_pool [[buffer(5)]],
                               device T* v_pool [[buffer(6)]],
                               device const int* positions [[buffer(7)]],
                               device const int* slots [[buffer(8)]],
                               uint3 gid [[thread_position_in_grid]]) {
    const int slot = slots[gid.y];
    for (uint head = gid.z * HEADS_PER_THREAD; head < (gid.z + 1) * HEADS_PER_THREAD; ++head) {
        copy_to_pool((device const Bits*)v, (device Bits*)v_pool, slot, head, gid);
    }
    if (gid.x >= HALF_DIM) {
        return;
    }
    const Rotation rotation(positions[gid.y], gid.x);
    rotate_heads<T>(q, q_out, q_out, -1, rotation, NUM_QO_HEADS, gid);
    rotate_heads<T>(k, k_out, k_pool, slot, rotation, NUM_KV_HEADS, gid);
}

#define INSTANTIATE(suffix, T, Bits)                                                                              \
    template [[host_name("rope_q_" #suffix)]] [[kernel]] void rope_q<T>(                                          \
        device const T* q [[buffer(0)]], device T* q_out [[buffer(1)]], device const int* positions [[buffer(2)]], \
        uint3 gid [[thread_position_in_grid]]);                                                                   \
    template [[host_name("rope_k_pool_" #suffix)]] [[kernel]] void rope_k_pool<T>(                                \
        device const T* k [[buffer(0)]], device T* k_out [[buffer(1)]], device T* k_pool [[buffer(2)]],           \
        device const int* positions [[buffer(3)]], device const int* slots [[buffer(4)]],                         \
        uint3 gid [[thread_position_in_grid]]);                                                                   \
    template [[host_name("v_to_pool_" #suffix)]] [[kernel]] void v_to_pool<T, Bits>(                              \
        device const T* v [[buffer(0)]], device T* v_pool [[buffer(1)]], device const int* slots [[buffer(2)]],   \
        uint3 gid [[thread_position_in_grid]]);                                                                   \
    template [[host_name("rope_pool_rect_" #suffix)]] [[kernel]] void rope_pool_rect<T, Bits>(                    \
        device const T* q [[buffer(0)]], device const T* k [[buffer(1)]], device const T* v [[buffer(2)]],        \
        device T* q_out [[buffer(3)]], device T* k_out [[buffer(4)]], device T* k_pool [[buffer(5)]],             \
        device T* v_pool [[buffer(6)]], device const int* positions [[buffer(7)]],                                \
        device const int* slots [[buffer(8)]], uint3 gid [[thread_position_in_grid]]);

INSTANTIATE(f16, half, ushort)
INSTANTIATE(bf16, bfloat, ushort)
INSTANTIATE(f32, float, uint)
