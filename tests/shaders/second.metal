// rope_pool_fused: NeoX rotary embedding of q and k, fused with the KV-pool scatter.
//
// Twelve entry points: {rope_q, rope_k_pool, v_to_pool, rope_pool_rect} x {f16, bf16, f32}.
// Needs MSL 3.1 (bfloat). All arithmetic is float32; only the final store rounds to the
// storage type. Every row offset into an activation or a pool is a 64-bit number.

#include <metal_stdlib>
using namespace metal;

// ---------------------------------------------------------------------------------------
// Specialisation
// ---------------------------------------------------------------------------------------

constant uint  kHeadDim   [[function_constant(0)]];
constant uint  kQHeads    [[function_constant(1)]];
constant uint  kKvHeads   [[function_constant(2)]];
constant float kLogStep   [[function_constant(3)]];   // log2(rope_base) / head_dim
constant uint  kSpanAsked [[function_constant(4)]];   // heads per thread

constant uint kPairs    = kHeadDim / 2u;
constant uint kQuads    = kHeadDim / 4u;
constant bool kQuadsFit = (kHeadDim % 4u) == 0u;
constant uint kSpan     = (kSpanAsked > 0u) ? kSpanAsked : 1u;

// ---------------------------------------------------------------------------------------
// Small pieces
// ---------------------------------------------------------------------------------------

// The integer that carries a storage type's bits.
template <typename T> struct Carrier;
template <> struct Carrier<half>   { typedef ushort word; };
template <> struct Carrier<bfloat> { typedef ushort word; };
template <> struct Carrier<float>  { typedef uint   word; };

// Half-open run of heads that one thread looks after; empty when z lies past the last head.
struct HeadRun {
    uint begin;
    uint end;
};

// Where a token's row goes in the pools; `live` is false for a padded token.
struct Target {
    bool  live;
    ulong row;
};

// cos and sin of a lane's angle.
struct Spin {
    float c;
    float s;
};

// The two rounded members of a rotated pair.
template <typename T>
struct Settled {
    T lo;
    T hi;
};

static inline HeadRun heads_of(uint z, uint total)
{
    const uint begin = z * kSpan;
    return HeadRun{ begin, min(begin + kSpan, total) };
}

// Element offset of head `head` in row `row` of a dense [rows, heads, head_dim] array.
static inline ulong offset_of(ulong row, uint heads, uint head)
{
    return (row * (ulong)heads + (ulong)head) * (ulong)kHeadDim;
}

static inline Target target_of(int slot)
{
    Target t = { slot >= 0, (ulong)0 };
    if (t.live) {
        t.row = (ulong)slot;
    }
    return t;
}

// angle = position * base^(-2 lane / head_dim), float32 throughout.
static inline float angle_of(uint lane, int position)
{
    const float rate = precise::exp2(-(float)(2u * lane) * kLogStep);
    return (float)position * rate;
}

static inline Spin spin_of(uint lane, int position)
{
    const float a = angle_of(lane, position);
    return Spin{ precise::cos(a), precise::sin(a) };
}

// The rectangle's own version. The using-declarations make the unqualified names the precise
// ones in this block, whatever the math mode of the compilation.
static inline Spin spin_of_rect(uint lane, int position)
{
    using metal::precise::cos;
    using metal::precise::exp2;
    using metal::precise::sin;

    const float a = (float)position * exp2(kLogStep * (-2.0f * (float)lane));
    Spin w;
    w.c = cos(a);
    w.s = sin(a);
    return w;
}

static inline float2 turn(float2 p, Spin w)
{
    return p * w.c + float2(-p.y, p.x) * w.s;
}

template <typename T>
static inline float2 fetch_pair(device const T* head, uint lane)
{
    return float2((float)head[lane], (float)head[lane + kPairs]);
}

// float32 -> storage, rounded once.
template <typename T>
static inline Settled<T> settle(float2 r)
{
    return Settled<T>{ (T)r.x, (T)r.y };
}

template <typename T>
static inline void put_pair(device T* head, uint lane, Settled<T> v)
{
    head[lane] = v.lo;
    head[lane + kPairs] = v.hi;
}

// One head of V as raw words. With head_dim a multiple of 4 the first quarter of the lanes
// move four words each; otherwise every lane moves one. `Quad` is a packed vector, so that
// only the alignment of a word is asked of the buffers.
template <typename Word, typename Quad>
static inline void copy_head(device Word* dst, device const Word* src, uint lane)
{
    if (kQuadsFit) {
        if (lane < kQuads) {
            device Quad* to = (device Quad*)dst;
            device const Quad* from = (device const Quad*)src;
            to[lane] = from[lane];
        }
    } else if (lane < kHeadDim) {
        dst[lane] = src[lane];
    }
}

// ---------------------------------------------------------------------------------------
// rope_q: grid (head_dim / 2, tokens, ceil(q heads / span))
// ---------------------------------------------------------------------------------------

template <typename T>
[[kernel]] void rotate_queries(
    device const T*   q         [[buffer(0)]],
    device T*         q_out     [[buffer(1)]],
    device const int* positions [[buffer(2)]],
    uint3             at        [[thread_position_in_grid]])
{
    if (at.x >= kPairs) {
        return;
    }
    const Spin w = spin_of(at.x, positions[at.y]);
    const HeadRun run = heads_of(at.z, kQHeads);
    for (uint h = run.begin; h < run.end; ++h) {
        const ulong base = offset_of((ulong)at.y, kQHeads, h);
        const float2 r = turn(fetch_pair<T>(q + base, at.x), w);
        put_pair<T>(q_out + base, at.x, settle<T>(r));
    }
}

template [[host_name("rope_q_f16")]] [[kernel]] void rotate_queries<half>(
    device const half* q        [[buffer(0)]],
    device half* q_out          [[buffer(1)]],
    device const int* positions [[buffer(2)]],
    uint3 at                    [[thread_position_in_grid]]);

template [[host_name("rope_q_bf16")]] [[kernel]] void rotate_queries<bfloat>(
    device const bfloat* q      [[buffer(0)]],
    device bfloat* q_out        [[buffer(1)]],
    device const int* positions [[buffer(2)]],
    uint3 at                    [[thread_position_in_grid]]);

template [[host_name("rope_q_f32")]] [[kernel]] void rotate_queries<float>(
    device const float* q       [[buffer(0)]],
    device float* q_out         [[buffer(1)]],
    device const int* positions [[buffer(2)]],
    uint3 at                    [[thread_position_in_grid]]);

// ---------------------------------------------------------------------------------------
// rope_k_pool: grid (head_dim / 2, tokens, ceil(kv heads / span))
// The rounded pair is turned into words once; k_out and the pool receive the same words.
// ---------------------------------------------------------------------------------------

#define STAMP_ROPE_K_POOL(SUFFIX, TYPE, WORD)                                              \
    kernel void rope_k_pool_##SUFFIX(                                                      \
        device const TYPE* k         [[buffer(0)]],                                        \
        device TYPE*       k_out     [[buffer(1)]],                                        \
        device TYPE*       k_pool    [[buffer(2)]],                                        \
        device const int*  positions [[buffer(3)]],                                        \
        device const int*  slots     [[buffer(4)]],                                        \
        uint3              gid       [[thread_position_in_grid]])                          \
    {                                                                                      \
        const uint i = gid.x;                                                              \
        const uint token = gid.y;                                                          \
        if (i < kPairs) {                                                                  \
            const Spin w = spin_of(i, positions[token]);                                   \
            const Target t = target_of(slots[token]);                                      \
            const HeadRun run = heads_of(gid.z, kKvHeads);                                 \
            device WORD* fresh = (device WORD*)k_out;                                      \
            device WORD* pool = (device WORD*)k_pool;                                      \
            for (uint h = run.begin; h < run.end; h += 1u) {                               \
                const ulong here = offset_of((ulong)token, kKvHeads, h) + (ulong)i;        \
                const float2 p = fetch_pair<TYPE>(k + (here - (ulong)i), i);               \
                const Settled<TYPE> v = settle<TYPE>(turn(p, w));                          \
                const WORD lo = as_type<WORD>(v.lo);                                       \
                const WORD hi = as_type<WORD>(v.hi);                                       \
                fresh[here] = lo;                                                          \
                fresh[here + (ulong)kPairs] = hi;                                          \
                if (t.live) {                                                              \
                    const ulong there = offset_of(t.row, kKvHeads, h) + (ulong)i;          \
                    pool[there] = lo;                                                      \
                    pool[there + (ulong)kPairs] = hi;                                      \
                }                                                                          \
            }                                                                              \
        }                                                                                  \
    }

STAMP_ROPE_K_POOL(f16, half, ushort)
STAMP_ROPE_K_POOL(bf16, bfloat, ushort)
STAMP_ROPE_K_POOL(f32, float, uint)

#undef STAMP_ROPE_K_POOL

// ---------------------------------------------------------------------------------------
// v_to_pool: grid (head_dim, tokens, kv heads)
// ---------------------------------------------------------------------------------------

#define STAMP_V_TO_POOL(SUFFIX, TYPE, WORD, QUAD)                                          \
    kernel void v_to_pool_##SUFFIX(                                                        \
        device const TYPE* v      [[buffer(0)]],                                           \
        device TYPE*       v_pool [[buffer(1)]],                                           \
        device const int*  slots  [[buffer(2)]],                                           \
        uint3              gid    [[thread_position_in_grid]])                             \
    {                                                                                      \
        if (gid.x >= kHeadDim || gid.z >= kKvHeads) {                                      \
            return;                                                                        \
        }                                                                                  \
        const int slot = slots[gid.y];                                                     \
        if (slot < 0) {                                                                    \
            return;                                                                        \
        }                                                                                  \
        const ulong from = offset_of((ulong)gid.y, kKvHeads, gid.z);                       \
        const ulong to = offset_of((ulong)slot, kKvHeads, gid.z);                          \
        copy_head<WORD, QUAD>((device WORD*)v_pool + to,                                   \
                              (device const WORD*)v + from,                                \
                              gid.x);                                                      \
    }

STAMP_V_TO_POOL(f16, half, ushort, packed_ushort4)
STAMP_V_TO_POOL(bf16, bfloat, ushort, packed_ushort4)
STAMP_V_TO_POOL(f32, float, uint, packed_uint4)

#undef STAMP_V_TO_POOL

// ---------------------------------------------------------------------------------------
// rope_pool_rect: grid (head_dim, tokens, ceil(max(q heads, kv heads) / span))
// Lanes below head_dim / 2 rotate; the lanes that V needs copy. V moves in 8-byte words
// (4 elements of a 16-bit type, 2 of float) when a head is a whole number of them.
// ---------------------------------------------------------------------------------------

template <typename T>
kernel void whole_rectangle(
    device const T*   q         [[buffer(0)]],
    device const T*   k         [[buffer(1)]],
    device const T*   v         [[buffer(2)]],
    device T*         q_out     [[buffer(3)]],
    device T*         k_out     [[buffer(4)]],
    device T*         k_pool    [[buffer(5)]],
    device T*         v_pool    [[buffer(6)]],
    device const int* positions [[buffer(7)]],
    device const int* slots     [[buffer(8)]],
    uint3             tid       [[thread_position_in_grid]])
{
    typedef typename Carrier<T>::word Word;
    const uint kPerWord = (uint)(sizeof(uint2) / sizeof(T));

    const uint lane = tid.x;
    if (lane >= kHeadDim) {
        return;
    }
    const ulong token = (ulong)tid.y;
    const Target dest = target_of(slots[tid.y]);
    const HeadRun kv = heads_of(tid.z, kKvHeads);

    if (lane < kPairs) {
        const Spin w = spin_of_rect(lane, positions[tid.y]);

        const HeadRun qs = heads_of(tid.z, kQHeads);
        for (uint h = qs.begin; h < qs.end; ++h) {
            const ulong at = offset_of(token, kQHeads, h);
            put_pair<T>(q_out + at, lane, settle<T>(turn(fetch_pair<T>(q + at, lane), w)));
        }

        for (uint h = kv.begin; h < kv.end; ++h) {
            const ulong at = offset_of(token, kKvHeads, h);
            const Settled<T> both = settle<T>(turn(fetch_pair<T>(k + at, lane), w));
            put_pair<T>(k_out + at, lane, both);
            if (dest.live) {
                put_pair<T>(k_pool + offset_of(dest.row, kKvHeads, h), lane, both);
            }
        }
    }

    if (!dest.live) {
        return;
    }
    const bool whole_words = (kHeadDim % kPerWord) == 0u;
    for (uint h = kv.begin; h < kv.end; ++h) {
        device const T* src = v + offset_of(token, kKvHeads, h);
        device T* dst = v_pool + offset_of(dest.row, kKvHeads, h);
        if (whole_words) {
            if (lane < kHeadDim / kPerWord) {
                ((device uint2*)dst)[lane] = ((device const uint2*)src)[lane];
            }
        } else {
            ((device Word*)dst)[lane] = ((device const Word*)src)[lane];
        }
    }
}

#define STAMP_RECT(NAME, TYPE) \
    template [[host_name(NAME)]] [[kernel]] decltype(whole_rectangle<TYPE>) whole_rectangle<TYPE>;

STAMP_RECT("rope_pool_rect_f16", half)
STAMP_RECT("rope_pool_rect_bf16", bfloat)
STAMP_RECT("rope_pool_rect_f32", float)

#undef STAMP_RECT
