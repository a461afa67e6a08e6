// <metal_integer>: functions of integers of every width, and of their vectors.
#pragma once

#include <msl/limits.h>

namespace msl {
template <class T>
using enable_if_integer = metal::enable_if_t<is_integer<T> && !metal::is_same_v<T, bool>, int>;
template <class T>
using enable_if_word = metal::enable_if_t<is_one_of<T, int, uint>, int>;
template <class T>
constexpr int bit_count = 8 * int(sizeof(T));
// Wide enough for a product of two values.
template <class T>
using double_width = metal::conditional_t<metal::is_signed_v<T>, __int128, unsigned __int128>;
// The low 24 bits, the highest of them repeated if T has a sign.
template <class T>
inline T low_24(T x) {
    return T(uint(x) << 8) >> 8;
}
}  // namespace msl

namespace metal {
#define MSL_INTEGER_1(name, expression)                      \
    template <class T, ::msl::enable_if_integer<T> = 0>      \
    inline T name(T x) {                                     \
        return T(expression);                                \
    }
#define MSL_INTEGER_2(name, expression)                      \
    template <class T, ::msl::enable_if_integer<T> = 0>      \
    inline T name(T x, T y) {                                \
        return T(expression);                                \
    }
#define MSL_INTEGER_3(name, expression)                      \
    template <class T, ::msl::enable_if_integer<T> = 0>      \
    inline T name(T x, T y, T z) {                           \
        return T(expression);                                \
    }
// The value in T's range that is nearest to one of twice the width.
template <class T, class Wide>
inline T saturated(Wide value) {
    using Limits = numeric_limits<T>;
    return value < Limits::min() ? Limits::min() : value > Limits::max() ? Limits::max() : T(value);
}
MSL_INTEGER_1(abs, x < 0 ? -x : x)
MSL_INTEGER_1(popcount, __builtin_popcountl(make_unsigned_t<T>(x)))
MSL_INTEGER_1(clz, x == 0 ? ::msl::bit_count<T> : __builtin_clzl(make_unsigned_t<T>(x)) - (64 - ::msl::bit_count<T>))
MSL_INTEGER_1(ctz, x == 0 ? ::msl::bit_count<T> : __builtin_ctzl(make_unsigned_t<T>(x)))
MSL_INTEGER_2(min, y < x ? y : x)
MSL_INTEGER_2(max, x < y ? y : x)
MSL_INTEGER_2(absdiff, x < y ? y - x : x - y)
MSL_INTEGER_2(addsat, saturated<T>(::msl::double_width<T>(x) + y))
MSL_INTEGER_2(subsat, saturated<T>(__int128(x) - y))
MSL_INTEGER_2(hadd, (__int128(x) + y) >> 1)
MSL_INTEGER_2(rhadd, (__int128(x) + y + 1) >> 1)
MSL_INTEGER_2(mulhi, ::msl::double_width<T>(x) * y >> ::msl::bit_count<T>)
MSL_INTEGER_2(rotate, (make_unsigned_t<T>(x) << (y & (::msl::bit_count<T> - 1))) |
    (make_unsigned_t<T>(x) >> (-y & (::msl::bit_count<T> - 1))))
MSL_INTEGER_3(clamp, x < y ? y : z < x ? z : x)
MSL_INTEGER_3(max3, max(x, max(y, z)))
MSL_INTEGER_3(min3, min(x, min(y, z)))
MSL_INTEGER_3(median3, max(min(x, y), min(max(x, y), z)))
MSL_INTEGER_3(madhi, mulhi(x, y) + z)
MSL_INTEGER_3(madsat, saturated<T>(::msl::double_width<T>(x) * y + z))
#undef MSL_INTEGER_1
#undef MSL_INTEGER_2
#undef MSL_INTEGER_3

// Multiplication of the low 24 bits of both factors.
template <class T, ::msl::enable_if_word<T> = 0>
inline T mul24(T x, T y) {
    return ::msl::low_24(x) * ::msl::low_24(y);
}
template <class T, ::msl::enable_if_word<T> = 0>
inline T mad24(T x, T y, T z) {
    return mul24(x, y) + z;
}

// Bits offset to offset + bits - 1; more than T has are undefined in Metal too.
template <class T, ::msl::enable_if_integer<T> = 0>
inline T extract_bits(T x, uint offset, uint bits) {
    const uint spare = ::msl::bit_count<T> - bits;
    return bits == 0 ? T(0) : T(T(make_unsigned_t<T>(x) << (spare - offset)) >> spare);
}
template <class T, ::msl::enable_if_integer<T> = 0>
inline T insert_bits(T base, T insert, uint offset, uint bits) {
    using U = make_unsigned_t<T>;
    const U mask = bits == 0 ? U(0) : U(numeric_limits<U>::max() >> (::msl::bit_count<T> - bits) << offset);
    return T((U(base) & ~mask) | (U(U(insert) << offset) & mask));
}
template <class T, ::msl::enable_if_integer<T> = 0>
inline T reverse_bits(T x) {
    T reversed = 0;
    for (int i = 0; i < ::msl::bit_count<T>; ++i) {
        reversed = insert_bits(reversed, T(x >> i), ::msl::bit_count<T> - 1 - i, 1);
    }
    return reversed;
}

// Arguments of two types are ambiguous in Metal; here they would become floats.
template <class A, class... B>
using if_mixed = enable_if_t<(::msl::is_builtin<A> && ... && ::msl::is_builtin<B>) && !(is_same_v<A, B> && ...), int>;
template <class A, class B, if_mixed<A, B> = 0>
void min(A, B) = delete;
template <class A, class B, if_mixed<A, B> = 0>
void max(A, B) = delete;
template <class A, class B, class C, if_mixed<A, B, C> = 0>
void clamp(A, B, C) = delete;

MSL_EACH(popcount)
MSL_EACH(clz)
MSL_EACH(ctz)
MSL_EACH(absdiff)
MSL_EACH(addsat)
MSL_EACH(subsat)
MSL_EACH(hadd)
MSL_EACH(rhadd)
MSL_EACH(mulhi)
MSL_EACH(rotate)
MSL_EACH(madhi)
MSL_EACH(madsat)
MSL_EACH(mul24)
MSL_EACH(mad24)
MSL_EACH(extract_bits)
MSL_EACH(insert_bits)
MSL_EACH(reverse_bits)
}  // namespace metal
