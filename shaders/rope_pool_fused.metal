// NeoX rotary embedding of Q and K, fused with the scatter of the rotated K and the raw V into KV pools by slot.
//
// Accuracy class exact-angle, at every int32 position and float32 base. rope_pool_fused_float32.metal needs no table.
//
// All arrays are dense and row-major: q [num_tokens, num_qo_heads, head_dim], k and v [num_tokens, num_kv_heads,
// head_dim], the pools [pool_size, num_kv_heads, head_dim], positions and slots [num_tokens], and frequencies
// [head_dim / 2], in units of 2^-64 turn: base^(-2i / head_dim) / (2 pi), the turns of pair i per position, without
// whole turns.
// The grid's y is the token, its z the group of HEADS_PER_THREAD heads; y is exact in a dispatch by threads.

#include <metal_stdlib>
using namespace metal;

constant uint HEAD_DIM [[function_constant(0)]];
constant uint NUM_QO_HEADS [[function_constant(1)]];
constant uint NUM_KV_HEADS [[function_constant(2)]];
constant uint HEADS_PER_THREAD [[function_constant(4)]];

constant uint HALF_DIM = HEAD_DIM / 2;

constant float RADIANS_PER_UNIT = 3.40612158e-19f;  // 2 pi / 2^64

// A pair (x[i], x[i + head_dim / 2]) of one head turns by one angle, whatever the head.
struct Rotation {
    float cosine;
    float sine;

    // The phase, in units of 2^-64 turn, wraps as the angle does; what remains beside the nearest quarter turn is a
    // float of at most pi/4. Its error, even where floats round toward zero, in units of 2^-24 rad:
    //   frequency, half a unit times |position| <= 2^31       2^-34 turn    < 0.01
    //   float(rest), below 2^37 units as |rest| <= 2^61       2^-27 turn    < 0.79
    //   RADIANS_PER_UNIT, within 2^-25 of itself              pi/4 2^-25    < 0.40
    //   the product, below 1                                  2^-24 rad     < 1.00
    // Together below 2.2 * 2^-24, so below 2^-22 rad. A phase of 0 gives exactly cosine 1 and sine 0.
    Rotation(int position, ulong frequency) {
        const ulong phase = ulong(long(position)) * frequency;
        const ulong quadrant = (phase + (1ul << 61)) >> 62;
        const long rest = long(phase - (quadrant << 62));
        const float angle = float(rest) * RADIANS_PER_UNIT;
        const float c = precise::cos(angle), s = precise::sin(angle);
        cosine = (quadrant & 1) ? -s : c;
        sine = (quadrant & 1) ? c : s;
        if (quadrant & 2) {
            cosine = -cosine;
            sine = -sine;
        }
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
                       device const ulong* frequencies [[buffer(3)]],
                       uint3 gid [[thread_position_in_grid]]) {
    if (gid.x >= HALF_DIM) {
        return;
    }
    const Rotation rotation(positions[gid.y], frequencies[gid.x]);
    rotate_heads<T>(q, q_out, q_out, -1, rotation, NUM_QO_HEADS, gid);
}

template <typename T>
[[kernel]] void rope_k_pool(device const T* k [[buffer(0)]],
                            device T* k_out [[buffer(1)]],
                            device T* k_pool [[buffer(2)]],
                            device const int* positions [[buffer(3)]],
                            device const int* slots [[buffer(4)]],
                            device const ulong* frequencies [[buffer(5)]],
                            uint3 gid [[thread_position_in_grid]]) {
    if (gid.x >= HALF_DIM) {
        return;
    }
    const Rotation rotation(positions[gid.y], frequencies[gid.x]);
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
                               device const ulong* frequencies [[buffer(9)]],
                               uint3 gid [[thread_position_in_grid]]) {
    const int slot = slots[gid.y];
    for (uint head = gid.z * HEADS_PER_THREAD; head < (gid.z + 1) * HEADS_PER_THREAD; ++head) {
        copy_to_pool((device const Bits*)v, (device Bits*)v_pool, slot, head, gid);
    }
    if (gid.x >= HALF_DIM) {
        return;
    }
    const Rotation rotation(positions[gid.y], frequencies[gid.x]);
    rotate_heads<T>(q, q_out, q_out, -1, rotation, NUM_QO_HEADS, gid);
    rotate_heads<T>(k, k_out, k_pool, slot, rotation, NUM_KV_HEADS, gid);
}

#define INSTANTIATE(suffix, T, Bits)                                                                               \
    template [[host_name("rope_q_" #suffix)]] [[kernel]] void rope_q<T>(                                           \
        device const T* q [[buffer(0)]], device T* q_out [[buffer(1)]], device const int* positions [[buffer(2)]], \
        device const ulong* frequencies [[buffer(3)]], uint3 gid [[thread_position_in_grid]]);                     \
    template [[host_name("rope_k_pool_" #suffix)]] [[kernel]] void rope_k_pool<T>(                                 \
        device const T* k [[buffer(0)]], device T* k_out [[buffer(1)]], device T* k_pool [[buffer(2)]],            \
        device const int* positions [[buffer(3)]], device const int* slots [[buffer(4)]],                          \
        device const ulong* frequencies [[buffer(5)]], uint3 gid [[thread_position_in_grid]]);                     \
    template [[host_name("v_to_pool_" #suffix)]] [[kernel]] void v_to_pool<T, Bits>(                               \
        device const T* v [[buffer(0)]], device T* v_pool [[buffer(1)]], device const int* slots [[buffer(2)]],    \
        uint3 gid [[thread_position_in_grid]]);                                                                    \
    template [[host_name("rope_pool_rect_" #suffix)]] [[kernel]] void rope_pool_rect<T, Bits>(                     \
        device const T* q [[buffer(0)]], device const T* k [[buffer(1)]], device const T* v [[buffer(2)]],         \
        device T* q_out [[buffer(3)]], device T* k_out [[buffer(4)]], device T* k_pool [[buffer(5)]],              \
        device T* v_pool [[buffer(6)]], device const int* positions [[buffer(7)]],                                 \
        device const int* slots [[buffer(8)]], device const ulong* frequencies [[buffer(9)]],                      \
        uint3 gid [[thread_position_in_grid]]);

INSTANTIATE(f16, half, ushort)
INSTANTIATE(bf16, bfloat, ushort)
INSTANTIATE(f32, float, uint)
