// The part of <metal_type_traits> that tells kinds of numbers apart; half and bfloat are floating point.
#pragma once

namespace msl {
template <class T>
constexpr bool is_number = is_integer<T> || is_one_of<metal::remove_cv_t<T>, float, half, bfloat>;
template <class T>
constexpr bool holds_negatives() {
    if constexpr (is_number<T>) {
        return T(-1) < T(0);
    } else {
        return false;
    }
}
// The type of T's size among four.
template <class T, class One, class Two, class Four, class Eight>
struct OfSize {
    static_assert(is_integer<T> && !is_one_of<metal::remove_cv_t<T>, bool>, "an integer type is needed");
    using type = metal::conditional_t<sizeof(T) == 1, One,
        metal::conditional_t<sizeof(T) == 2, Two, metal::conditional_t<sizeof(T) == 4, Four, Eight>>>;
};
}  // namespace msl

namespace metal {
#define MSL_TRAIT(name, expression)                    \
    template <class T>                                 \
    struct name : bool_constant<(expression)> {};      \
    template <class T>                                 \
    constexpr bool name##_v = name<T>::value;
MSL_TRAIT(is_integral, ::msl::is_integer<T>)
MSL_TRAIT(is_arithmetic, ::msl::is_number<T>)
MSL_TRAIT(is_floating_point, ::msl::is_number<T> && !::msl::is_integer<T>)
MSL_TRAIT(is_signed, ::msl::holds_negatives<T>())
MSL_TRAIT(is_unsigned, ::msl::is_number<T> && !::msl::holds_negatives<T>())
#undef MSL_TRAIT

template <class T>
struct make_unsigned : ::msl::OfSize<T, uchar, ushort, uint, ulong> {};
template <class T>
using make_unsigned_t = typename make_unsigned<T>::type;
template <class T>
struct make_signed : ::msl::OfSize<T, signed char, short, int, long> {};
template <class T>
using make_signed_t = typename make_signed<T>::type;
}  // namespace metal
