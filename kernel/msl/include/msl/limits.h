// <metal_limits>: numeric_limits of the scalar types.
#pragma once

#include <msl/constants.h>

namespace msl {
constexpr int decimal_digits(int binary_digits) { return binary_digits * 30103 / 100000; }  // times log10(2)

template <class T, class = void>
struct Limits {
    static constexpr bool is_specialized = false;
};
template <class T>
struct Limits<T, metal::enable_if_t<metal::is_integral_v<T>>> {
    static constexpr bool is_specialized = true, is_signed = metal::is_signed_v<T>, is_integer = true;
    static constexpr bool is_exact = true, has_infinity = false, has_quiet_NaN = false;
    static constexpr int radix = 2, digits = metal::is_same_v<T, bool> ? 1 : 8 * int(sizeof(T)) - is_signed;
    static constexpr int digits10 = decimal_digits(digits), max_digits10 = 0;
    static constexpr int min_exponent = 0, min_exponent10 = 0, max_exponent = 0, max_exponent10 = 0;

    static constexpr T lowest() { return is_signed ? T(T(1) << digits) : T(0); }
    static constexpr T min() { return lowest(); }
    static constexpr T max() { return T(~lowest()); }
    static constexpr T epsilon() { return 0; }
    static constexpr T round_error() { return 0; }
    static constexpr T infinity() { return 0; }
    static constexpr T quiet_NaN() { return 0; }
    static constexpr T denorm_min() { return 0; }
};
#define MSL_FLOAT_LIMITS(T, NAME)                                                                      \
    template <>                                                                                        \
    struct Limits<T> {                                                                                 \
        static constexpr bool is_specialized = true, is_signed = true, is_integer = false;             \
        static constexpr bool is_exact = false, has_infinity = true, has_quiet_NaN = true;             \
        static constexpr int radix = NAME##_RADIX, digits = NAME##_MANT_DIG, digits10 = NAME##_DIG;    \
        static constexpr int max_digits10 = decimal_digits(digits) + 2;                                \
        static constexpr int min_exponent = NAME##_MIN_EXP, min_exponent10 = NAME##_MIN_10_EXP;        \
        static constexpr int max_exponent = NAME##_MAX_EXP, max_exponent10 = NAME##_MAX_10_EXP;        \
                                                                                                       \
        static constexpr T lowest() { return -NAME##_MAX; }                                            \
        static constexpr T min() { return NAME##_MIN; }                                                \
        static constexpr T max() { return NAME##_MAX; }                                                \
        static constexpr T epsilon() { return NAME##_EPSILON; }                                        \
        static constexpr T round_error() { return 0.5f; }                                              \
        static constexpr T infinity() { return INFINITY; }                                             \
        static constexpr T quiet_NaN() { return NAN; }                                                 \
        static constexpr T denorm_min() { return NAME##_MIN * NAME##_EPSILON; }                        \
    };
MSL_FLOAT_LIMITS(float, FLT)
MSL_FLOAT_LIMITS(half, HALF)
MSL_FLOAT_LIMITS(bfloat, BFLT)
#undef MSL_FLOAT_LIMITS
}  // namespace msl

namespace metal {
template <class T>
struct numeric_limits : ::msl::Limits<remove_cv_t<T>> {};
}  // namespace metal
