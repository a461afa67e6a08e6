// <metal_math>: precise::, fast:: and the unqualified functions, which mean one of the two by the build.
#pragma once

#include <msl/constants.h>

// The vectors' form of a function of scalars: element by element, a scalar beside a vector counting for each.
#define MSL_EACH(name)                                                    \
    template <class... A, class V = ::msl::vector_of<A...>>               \
    inline auto name(const A&... a) {                                     \
        return ::msl::each<V>([](auto... e) { return name(e...); }, V(a)...); \
    }
// The half and vector forms of a function of one, two or three floats.
#define MSL_FORMS_1(name)                                       \
    inline half name(half x) { return half(name(float(x))); }   \
    MSL_EACH(name)
#define MSL_FORMS_2(name)                                                             \
    inline half name(half x, half y) { return half(name(float(x), float(y))); }       \
    MSL_EACH(name)
#define MSL_FORMS_3(name)                                                                                     \
    inline half name(half x, half y, half z) { return half(name(float(x), float(y), float(z))); }             \
    MSL_EACH(name)

// Functions whose precise and fast forms differ here, then those that are the same function in both.
#define MSL_DISTINCT_1(F) F(cos) F(exp) F(exp10) F(exp2) F(sin) F(sqrt) F(tan)
#define MSL_DISTINCT_2(F) F(divide) F(pow) F(powr)
#define MSL_COMMON_1(F)                                                                                   \
    F(abs) F(acos) F(acosh) F(asin) F(asinh) F(atan) F(atanh) F(ceil) F(cosh) F(cospi) F(fabs) F(floor)   \
    F(fract) F(log) F(log10) F(log2) F(rint) F(round) F(rsqrt) F(sinh) F(sinpi) F(tanh) F(tanpi) F(trunc) \
    F(saturate)
#define MSL_COMMON_2(F) F(atan2) F(copysign) F(fdim) F(fmax) F(fmin) F(fmod) F(max) F(min) F(nextafter)
#define MSL_COMMON_3(F) F(clamp) F(fma) F(fmax3) F(fmin3) F(max3) F(median3) F(min3)

namespace metal {
namespace precise {
#define MSL_BUILTIN_1(name) \
    inline float name(float x) { return __builtin_##name##f(x); }
#define MSL_BUILTIN_2(name) \
    inline float name(float x, float y) { return __builtin_##name##f(x, y); }
MSL_BUILTIN_1(acos)
MSL_BUILTIN_1(acosh)
MSL_BUILTIN_1(asin)
MSL_BUILTIN_1(asinh)
MSL_BUILTIN_1(atan)
MSL_BUILTIN_1(atanh)
MSL_BUILTIN_1(ceil)
MSL_BUILTIN_1(cos)
MSL_BUILTIN_1(cosh)
MSL_BUILTIN_1(exp)
MSL_BUILTIN_1(exp2)
MSL_BUILTIN_1(fabs)
MSL_BUILTIN_1(floor)
MSL_BUILTIN_1(log)
MSL_BUILTIN_1(log10)
MSL_BUILTIN_1(log2)
MSL_BUILTIN_1(round)
MSL_BUILTIN_1(sin)
MSL_BUILTIN_1(sinh)
MSL_BUILTIN_1(sqrt)
MSL_BUILTIN_1(tan)
MSL_BUILTIN_1(tanh)
MSL_BUILTIN_1(trunc)
MSL_BUILTIN_2(atan2)
MSL_BUILTIN_2(copysign)
MSL_BUILTIN_2(fdim)
MSL_BUILTIN_2(fmax)
MSL_BUILTIN_2(fmin)
MSL_BUILTIN_2(fmod)
MSL_BUILTIN_2(nextafter)
MSL_BUILTIN_2(pow)
#undef MSL_BUILTIN_1
#undef MSL_BUILTIN_2

inline float abs(float x) { return __builtin_fabsf(x); }
inline float rint(float x) { return __builtin_roundevenf(x); }  // in every rounding mode
inline float max(float x, float y) { return __builtin_fmaxf(x, y); }
inline float min(float x, float y) { return __builtin_fminf(x, y); }
inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
#if MSL_CUDA
inline float divide(float x, float y) { return __fdiv_rn(x, y); }  // x / y is not exact under --prec-div=false
#else
inline float divide(float x, float y) { return x / y; }
#endif
inline float exp10(float x) { return float(__builtin_pow(::msl::wide(10), ::msl::wide(x))); }
inline float rsqrt(float x) { return float(1 / __builtin_sqrt(::msl::wide(x))); }
inline float powr(float x, float y) { return x < 0 ? NAN : pow(x, y); }
inline float fract(float x) { return x - floor(x) < 1 ? x - floor(x) : 0x1.fffffep-1f; }
inline float clamp(float x, float low, float high) { return min(max(x, low), high); }
inline float saturate(float x) { return clamp(x, 0.0f, 1.0f); }
inline float max3(float x, float y, float z) { return max(x, max(y, z)); }
inline float min3(float x, float y, float z) { return min(x, min(y, z)); }
inline float fmax3(float x, float y, float z) { return max3(x, y, z); }
inline float fmin3(float x, float y, float z) { return min3(x, y, z); }
inline float median3(float x, float y, float z) { return max(min(x, y), min(max(x, y), z)); }
// Exact reduction to half a turn either way, then pi times it in a wider float: zeros stay zeros.
inline ::msl::wide sin_half_turns(::msl::wide x) {
    const ::msl::wide turn = x - 2 * __builtin_roundeven(x / 2);
    const ::msl::wide folded = turn > 0.5f ? 1 - turn : turn < -0.5f ? -1 - turn : turn;
    return __builtin_sin(::msl::wide(3.14159265358979323846L * folded));
}
inline ::msl::wide cos_half_turns(::msl::wide x) {
    return sin_half_turns(0.5f - __builtin_fabs(x - 2 * __builtin_roundeven(x / 2)));
}
inline float sinpi(float x) { return float(sin_half_turns(x)); }
inline float cospi(float x) { return float(cos_half_turns(x)); }
inline float tanpi(float x) { return float(sin_half_turns(x) / cos_half_turns(x)); }

MSL_DISTINCT_1(MSL_FORMS_1)
MSL_DISTINCT_2(MSL_FORMS_2)
MSL_COMMON_1(MSL_FORMS_1)
MSL_COMMON_2(MSL_FORMS_2)
MSL_COMMON_3(MSL_FORMS_3)
}  // namespace precise

namespace fast {
#define MSL_SAME(name) using precise::name;
MSL_COMMON_1(MSL_SAME)
MSL_COMMON_2(MSL_SAME)
MSL_COMMON_3(MSL_SAME)
#undef MSL_SAME

#if MSL_CUDA
// The hardware's own, as far as CUDA has a name for them; exp2f is its ex2.approx, scaled for subnormal results.
inline float sin(float x) { return __sinf(x); }
inline float cos(float x) { return __cosf(x); }
inline float tan(float x) { return __tanf(x); }
inline float exp2(float x) { return exp2f(x); }
inline float exp(float x) { return __expf(x); }
inline float exp10(float x) { return __exp10f(x); }
inline float sqrt(float x) { return x == 0 || x == INFINITY ? x : x * rsqrtf(x); }
inline float divide(float x, float y) { return __fdividef(x, y); }
inline float powr(float x, float y) { return x < 0 ? NAN : __powf(x, y); }
#else
// sin(2 pi turns), with about the largest error that the specification allows a fast sine, 2^-13. The reduction is
// that of Mesa's compiler for Apple's GPUs; the polynomial is the odd quintic of least relative error, 2^-13.2.
inline float sin_of_turns(float turns) {
    const float quadrant = 4 * (turns - floor(turns));
    const float u = quadrant < 1 ? quadrant : quadrant < 3 ? 2 - quadrant : quadrant - 4;
    const float square = u * u;
    return u * (1.5706264f + square * (-0.643225627f + square * 0.0727073974f));
}
inline float sin(float x) { return sin_of_turns(x * 0.159154943f); }
inline float cos(float x) { return sin_of_turns(x * 0.159154943f + 0.25f); }
inline float tan(float x) { return sin(x) / cos(x); }
// The quintic is 1 at 0 and errs by up to 1.05 ulp between -1/2 and 1/2.
inline float power_of_2(::msl::wide exponent) {
    const ::msl::wide whole = __builtin_roundeven(exponent);
    const float part = float(exponent - whole);
    const float power = 1 + part * (0.693146829f + part * (0.24022237f + part * (0.0555089144f +
        part * (0.00967176295f + part * 0.00132257075f))));
    return __builtin_ldexpf(power, int(whole));
}
// The specification allows exp2(x) and exp(x) 3 + floor(|2x|) ulp, as if the exponent had a relative error. Here it has
// one, of 2.6 * 2^-24 and 1.6 * 2^-24, in a wider type, where no order of operations that fast math takes matters.
inline float exp2(float x) {
    constexpr ::msl::wide scale = 1 + 2.6L * 0x1p-24L;
    return x != x ? x : power_of_2(clamp(x, -160.0f, 130.0f) * scale);
}
inline float exp(float x) {
    constexpr ::msl::wide scale = 1.44269504088896340736L * (1 + 1.6L * 0x1p-24L);
    return x != x ? x : power_of_2(clamp(x, -110.0f, 90.0f) * scale);
}
inline float exp10(float x) { return exp2(x * 3.32192809f); }
inline float sqrt(float x) { return x == 0 || x == INFINITY ? x : x * rsqrt(x); }
// Two roundings toward zero could take the quotient 3 ulp off, where the specification allows 2.5.
inline float divide(float x, float y) { return MSL_TOWARD_ZERO ? x / y : x * (1 / y); }
inline float powr(float x, float y) { return exp2(y * log2(x)); }
#endif
inline float pow(float x, float y) {
    const bool odd = y == trunc(y) && fmod(y, 2.0f) != 0;
    const float power = y == 0 ? 1 : powr(fabs(x), y);
    return x >= 0 || x != x ? power : y != trunc(y) ? NAN : odd ? -power : power;
}

MSL_DISTINCT_1(MSL_FORMS_1)
MSL_DISTINCT_2(MSL_FORMS_2)
}  // namespace fast

// Functions that also give a second result through a reference.
#define MSL_SINCOS                                                \
    template <class T, ::msl::enable_if_floating<T> = 0>          \
    inline auto sincos(T x, T& cosine) {                          \
        cosine = cos(x);                                          \
        return sin(x);                                            \
    }
#define MSL_MODF                                                  \
    template <class T, ::msl::enable_if_floating<T> = 0>          \
    inline auto modf(T x, T& whole) {                             \
        whole = trunc(x);                                         \
        return copysign(x - whole, x);                            \
    }
namespace precise {
MSL_SINCOS
MSL_MODF
}  // namespace precise
namespace fast {
MSL_SINCOS
using precise::modf;
}  // namespace fast
#undef MSL_SINCOS
#undef MSL_MODF

inline float ldexp(float x, int k) { return __builtin_ldexpf(x, k); }
inline half ldexp(half x, int k) { return half(__builtin_ldexpf(x, k)); }
template <class T, int N>
inline vec<T, N> ldexp(const vec<T, N>& x, const vec<int, N>& k) {
    vec<T, N> result;
    for (int i = 0; i < N; ++i) result.data[i] = ldexp(x.data[i], k.data[i]);
    return result;
}
inline float frexp(float x, int& exponent) { return __builtin_frexpf(x, &exponent); }
inline half frexp(half x, int& exponent) { return half(__builtin_frexpf(x, &exponent)); }
template <class T, int N>
inline vec<T, N> frexp(const vec<T, N>& x, vec<int, N>& exponent) {
    vec<T, N> result;
    for (int i = 0; i < N; ++i) result.data[i] = frexp(x.data[i], exponent.data[i]);
    return result;
}
inline int ilogb(float x) { return __builtin_ilogbf(x); }
inline int ilogb(half x) { return __builtin_ilogbf(x); }
MSL_EACH(ilogb)

#define MSL_DEFAULT(name) using MSL_DEFAULT_MATH::name;
MSL_DISTINCT_1(MSL_DEFAULT)
MSL_DISTINCT_2(MSL_DEFAULT)
MSL_COMMON_1(MSL_DEFAULT)
MSL_COMMON_2(MSL_DEFAULT)
MSL_COMMON_3(MSL_DEFAULT)
using MSL_DEFAULT_MATH::modf, MSL_DEFAULT_MATH::sincos;
#undef MSL_DEFAULT
}  // namespace metal
