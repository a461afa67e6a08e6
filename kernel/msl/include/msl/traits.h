// <metal_type_traits>: the part that compute kernels use, and the traits that these headers need.
#pragma once

namespace metal {
template <class T, T V>
struct integral_constant {
    static constexpr T value = V;
    using type = integral_constant;
    using value_type = T;
    constexpr operator T() const { return V; }
};
template <bool B>
using bool_constant = integral_constant<bool, B>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <class A, class B>
struct is_same : false_type {};
template <class A>
struct is_same<A, A> : true_type {};
template <class A, class B>
constexpr bool is_same_v = is_same<A, B>::value;

template <bool B, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
    using type = T;
};
template <bool B, class T = void>
using enable_if_t = typename enable_if<B, T>::type;

template <bool B, class T, class F>
struct conditional {
    using type = T;
};
template <class T, class F>
struct conditional<false, T, F> {
    using type = F;
};
template <bool B, class T, class F>
using conditional_t = typename conditional<B, T, F>::type;

template <class T>
struct remove_reference {
    using type = T;
};
template <class T>
struct remove_reference<T&> {
    using type = T;
};
template <class T>
struct remove_reference<T&&> {
    using type = T;
};
template <class T>
using remove_reference_t = typename remove_reference<T>::type;

template <class T>
struct remove_const {
    using type = T;
};
template <class T>
struct remove_const<const T> {
    using type = T;
};
template <class T>
using remove_const_t = typename remove_const<T>::type;

template <class T>
struct remove_volatile {
    using type = T;
};
template <class T>
struct remove_volatile<volatile T> {
    using type = T;
};
template <class T>
using remove_volatile_t = typename remove_volatile<T>::type;

template <class T>
struct remove_cv {
    using type = remove_const_t<remove_volatile_t<T>>;
};
template <class T>
using remove_cv_t = typename remove_cv<T>::type;

template <class T>
struct is_pointer : false_type {};
template <class T>
struct is_pointer<T*> : true_type {};
template <class T>
constexpr bool is_pointer_v = is_pointer<T>::value;
}  // namespace metal

namespace msl {
template <class T>
T value_of();
template <class T>
void take(T);
template <class From, class To, class = decltype(take<To>(value_of<From>()))>
metal::true_type converts(int);
template <class From, class To>
metal::false_type converts(...);
}  // namespace msl

namespace metal {
template <class From, class To>
struct is_convertible : decltype(::msl::converts<From, To>(0)) {};
template <class From, class To>
constexpr bool is_convertible_v = is_convertible<From, To>::value;
}  // namespace metal

namespace msl {
template <class T, class... Options>
constexpr bool is_one_of = (metal::is_same_v<T, Options> || ...);
template <class T>
constexpr bool is_integer = is_one_of<metal::remove_cv_t<T>, bool, char, signed char, unsigned char, short,
    unsigned short, int, unsigned int, long, unsigned long, long long, unsigned long long>;
template <class T>
constexpr bool is_builtin = is_integer<T> || is_one_of<metal::remove_cv_t<T>, float, wide, widest>;
}  // namespace msl
