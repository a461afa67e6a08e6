// <metal_integer>: functions of integers of every width, and of their vectors.
#pragma once

namespace msl {
template <class T>
using enable_if_integer = metal::enable_if_t<is_integer<T> && !metal::is_same_v<T, bool>, int>;
template <class T>
constexpr bool is_signed = T(-1) < T(0);
template <class T>
constexpr int bit_count = 8 * int(sizeof(T));
template <class T>
constexpr T lowest = is_signed<T> ? T(T(1) << (bit_count<T> - 1)) : T(0);
template <class T>
constexpr T highest = T(~lowest<T>);
template <class T>
using unsigned_of = metal::conditional_t<sizeof(T) == 1, uchar,
    metal::conditional_t<sizeof(T) == 2, ushort, metal::conditional_t<sizeof(T) == 4, uint, ulong>>>;
// Wide enough for a product of two values.
template <class T>
using double_width = metal::conditional_t<is_signed<T>, __int128, unsigned __int128>;
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
    return value < ::msl::lowest<T> ? ::msl::lowest<T> : value > ::msl::highest<T> ? ::msl::highest<T> : T(value);
}
MSL_INTEGER_1(abs, x < 0 ? -x : x)
MSL_INTEGER_1(popcount, __builtin_popcountl(::msl::unsigned_of<T>(x)))
MSL_INTEGER_1(clz, x == 0 ? ::msl::bit_count<T> : __builtin_clzl(::msl::unsigned_of<T>(x)) - (64 - ::msl::bit_count<T>))
MSL_INTEGER_1(ctz, x == 0 ? ::msl::bit_count<T> : __builtin_ctzl(::msl::unsigned_of<T>(x)))
MSL_INTEGER_2(min, y < x ? y : x)
MSL_INTEGER_2(max, x < y ? y : x)
MSL_INTEGER_2(absdiff, x < y ? y - x : x - y)
MSL_INTEGER_2(addsat, saturated<T>(::msl::double_width<T>(x) + y))
MSL_INTEGER_2(subsat, saturated<T>(__int128(x) - y))
MSL_INTEGER_2(hadd, (__int128(x) + y) >> 1)
MSL_INTEGER_2(rhadd, (__int128(x) + y + 1) >> 1)
MSL_INTEGER_2(mulhi, ::msl::double_width<T>(x) * y >> ::msl::bit_count<T>)
MSL_INTEGER_2(rotate, (::msl::unsigned_of<T>(x) << (y & (::msl::bit_count<T> - 1))) |
    (::msl::unsigned_of<T>(x) >> (-y & (::msl::bit_count<T> - 1))))
MSL_INTEGER_3(clamp, x < y ? y : z < x ? z : x)
MSL_INTEGER_3(max3, max(x, max(y, z)))
MSL_INTEGER_3(min3, min(x, min(y, z)))
MSL_INTEGER_3(median3, max(min(x, y), min(max(x, y), z)))
MSL_INTEGER_3(madhi, mulhi(x, y) + z)
MSL_INTEGER_3(madsat, saturated<T>(::msl::double_width<T>(x) * y + z))
#undef MSL_INTEGER_1
#undef MSL_INTEGER_2
#undef MSL_INTEGER_3

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
}  // namespace metal
