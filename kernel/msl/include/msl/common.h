// <metal_common>, <metal_relational>, <metal_geometric>: functions of floats that have one form only.
#pragma once

namespace metal {
inline float sign(float x) { return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? x : 0; }
inline float step(float edge, float x) { return x < edge ? 0 : 1; }
inline float mix(float x, float y, float a) { return x + (y - x) * a; }
inline float smoothstep(float low, float high, float x) {
    const float t = saturate((x - low) / (high - low));
    return t * t * (3 - 2 * t);
}
MSL_FORMS_1(sign)
MSL_FORMS_2(step)
MSL_FORMS_3(mix)
MSL_FORMS_3(smoothstep)

// Floating point classes. A fast-math build may assume that there is no NaN and no infinity, as Metal's does.
#define MSL_CLASSIFY(name, expression)                  \
    inline bool name(float x) { return expression; }    \
    inline bool name(half x) { return name(float(x)); } \
    MSL_EACH(name)
MSL_CLASSIFY(isnan, __builtin_isnan(x))
MSL_CLASSIFY(isinf, __builtin_isinf(x))
MSL_CLASSIFY(isfinite, __builtin_isfinite(x))
MSL_CLASSIFY(signbit, __builtin_signbit(x))
inline bool isnormal(float x) { return __builtin_isnormal(x); }
inline bool isnormal(half x) { return isfinite(x) && __builtin_fabsf(x) >= 0x1p-14f; }
MSL_EACH(isnormal)
inline bool isordered(float x, float y) { return !isnan(x) && !isnan(y); }
inline bool isunordered(float x, float y) { return isnan(x) || isnan(y); }
MSL_EACH(isordered)
MSL_EACH(isunordered)
#undef MSL_CLASSIFY

template <int N>
inline bool all(const vec<bool, N>& x) {
    for (int i = 0; i < N; ++i)
        if (!x.data[i]) return false;
    return true;
}
template <int N>
inline bool any(const vec<bool, N>& x) {
    return !all(!x);
}
inline bool all(bool x) { return x; }
inline bool any(bool x) { return x; }

template <class T, enable_if_t<::msl::is_scalar<T>, int> = 0>
inline T select(T no, T yes, bool choice) {
    return choice ? yes : no;
}
template <class T, int N>
inline vec<T, N> select(const vec<T, N>& no, const vec<T, N>& yes, const vec<bool, N>& choice) {
    vec<T, N> result;
    for (int i = 0; i < N; ++i) result.data[i] = choice.data[i] ? yes.data[i] : no.data[i];
    return result;
}

template <class A, class B, class V = ::msl::vector_of<A, B>, class T = typename V::element_type>
inline T dot(const A& a, const B& b) {
    const V product = V(a) * V(b);
    T sum = product.data[0];
    for (int i = 1; i < ::msl::VectorTraits<V>::size; ++i) sum = sum + product.data[i];
    return sum;
}
template <class A, class V = ::msl::vector_of<A>>
inline auto length_squared(const A& a) {
    return dot(a, a);
}
template <class A, class V = ::msl::vector_of<A>>
inline auto length(const A& a) {
    return sqrt(dot(a, a));
}
template <class A, class B, class V = ::msl::vector_of<A, B>>
inline auto distance(const A& a, const B& b) {
    return length(a - b);
}
template <class A, class B, class V = ::msl::vector_of<A, B>>
inline auto distance_squared(const A& a, const B& b) {
    return length_squared(a - b);
}
template <class A, class V = ::msl::vector_of<A>>
inline V normalize(const A& a) {
    return V(a) * rsqrt(dot(a, a));
}
template <class T>
inline vec<T, 3> cross(const vec<T, 3>& a, const vec<T, 3>& b) {
    return vec<T, 3>(a.yzx) * vec<T, 3>(b.zxy) - vec<T, 3>(a.zxy) * vec<T, 3>(b.yzx);
}
}  // namespace metal
