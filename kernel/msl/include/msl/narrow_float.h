// half and bfloat: 16 bits in memory, float in arithmetic, every result rounded to nearest even.
#pragma once

namespace msl {
struct HalfFormat {
    static constexpr float widen(ushort bits) {
        const uint sign = uint(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
        if (exponent == 0) {
            if (MSL_FLUSH_HALF) {
                return __builtin_bit_cast(float, sign);
            }
            return __builtin_bit_cast(float, __builtin_bit_cast(uint, float(fraction) * 0x1p-24f) | sign);
        }
        const uint rebased = exponent == 31 ? 255 : exponent + 112;
        return __builtin_bit_cast(float, sign | rebased << 23 | fraction << 13);
    }
    static constexpr ushort narrow(float value) {
        const uint bits = __builtin_bit_cast(uint, value), magnitude = bits & 0x7fffffff;
        const uint sign = bits >> 16 & 0x8000;
        if (magnitude > 0x7f800000) {
            return ushort(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
        }
        if (magnitude >= 0x477ff000) {  // 65520, half-way from the largest half to 2^16
            return ushort(sign | 0x7c00);
        }
        if (magnitude >= 0x38800000) {  // 2^-14, the smallest normal half
            return ushort(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
        }
        if (MSL_FLUSH_HALF || magnitude <= 0x33000000) {  // 2^-25, half-way to the smallest subnormal; the tie goes to zero
            return ushort(sign);
        }
        const uint shift = 126 - (magnitude >> 23), significand = (magnitude & 0x7fffff) | 0x800000;
        return ushort(sign | (significand + (1u << (shift - 1)) - 1 + (significand >> shift & 1)) >> shift);
    }
};

struct BfloatFormat {
    static constexpr float widen(ushort bits) { return __builtin_bit_cast(float, uint(bits) << 16); }
    static constexpr ushort narrow(float value) {
        const uint bits = __builtin_bit_cast(uint, value);
        if ((bits & 0x7fffffff) > 0x7f800000) {
            return ushort(bits >> 16 | 0x40);
        }
        return ushort((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
};

// Rounds to float so that a second rounding gives what a single one would have given: an inexact float is made odd.
template <class T>
constexpr float round_to_odd(T value) {
    const float rounded = float(value);
    if constexpr (metal::is_same_v<T, float> || (is_integer<T> && sizeof(T) < 4)) {
        return rounded;
    } else {
        const widest exact = widest(value), error = widest(rounded) - exact;
        if (error == 0) {
            return rounded;
        }
        const bool outward = (rounded > 0) == (error > 0);
        return __builtin_bit_cast(float, (__builtin_bit_cast(uint, rounded) - outward) | 1);
    }
}
}  // namespace msl

namespace metal {
template <class Format>
struct narrow_float {
    ushort bits;

    narrow_float() = default;
    template <class T, enable_if_t<::msl::is_builtin<T>, int> = 0>
    constexpr narrow_float(T value) : bits(Format::narrow(::msl::round_to_odd(value))) {}
    template <class Other, enable_if_t<!is_same_v<Format, Other>, int> = 0>
    constexpr explicit narrow_float(narrow_float<Other> value) : narrow_float(float(value)) {}
    constexpr operator float() const { return Format::widen(bits); }
    constexpr narrow_float operator-() const { return from_bits(bits ^ 0x8000); }
    constexpr narrow_float operator+() const { return *this; }

    static constexpr narrow_float from_bits(int bits) {
        narrow_float result = 0;
        result.bits = ushort(bits);
        return result;
    }

// A narrow operand with another of its kind or an integer stays narrow; with a float the result is a float.
#define MSL_ARITHMETIC(op)                                                                             \
    friend constexpr narrow_float operator op(narrow_float a, narrow_float b) { return float(a) op float(b); } \
    template <class T, enable_if_t<::msl::is_integer<T>, int> = 0>                                     \
    friend constexpr narrow_float operator op(narrow_float a, T b) {                                   \
        return a op narrow_float(b);                                                                   \
    }                                                                                                  \
    template <class T, enable_if_t<::msl::is_integer<T>, int> = 0>                                     \
    friend constexpr narrow_float operator op(T a, narrow_float b) {                                   \
        return narrow_float(a) op b;                                                                   \
    }                                                                                                  \
    friend constexpr float operator op(narrow_float a, float b) { return float(a) op b; }              \
    friend constexpr float operator op(float a, narrow_float b) { return a op float(b); }              \
    template <class T>                                                                                 \
    constexpr narrow_float& operator op##=(const T& b) {                                               \
        return *this = narrow_float(*this op b);                                                       \
    }
    MSL_ARITHMETIC(+)
    MSL_ARITHMETIC(-)
    MSL_ARITHMETIC(*)
    MSL_ARITHMETIC(/)
#undef MSL_ARITHMETIC

    constexpr narrow_float& operator++() { return *this += 1; }
    constexpr narrow_float& operator--() { return *this -= 1; }
    constexpr narrow_float operator++(int) {
        const narrow_float before = *this;
        ++*this;
        return before;
    }
    constexpr narrow_float operator--(int) {
        const narrow_float before = *this;
        --*this;
        return before;
    }
};
using half = narrow_float<::msl::HalfFormat>;
using bfloat = narrow_float<::msl::BfloatFormat>;
}  // namespace metal

using metal::bfloat;
using metal::half;

constexpr half operator""h(::msl::widest value) { return half(value); }
constexpr half operator""H(::msl::widest value) { return half(value); }
constexpr bfloat operator""bf(::msl::widest value) { return bfloat(value); }
constexpr bfloat operator""BF(::msl::widest value) { return bfloat(value); }

namespace msl {
template <class T>
constexpr bool is_scalar = is_builtin<T> || is_one_of<metal::remove_cv_t<T>, half, bfloat>;
}  // namespace msl
