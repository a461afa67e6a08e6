// Vectors of 2, 3 and 4 elements, their packed twins and their swizzles.
// MSL_MEMBERS_2, _3 and _4 declare the members of a vector's union; the build generates them.
#pragma once

namespace metal {
template <class T, int N>
struct vec;
template <class T, int N>
struct packed_vec;
template <class T, int N, int... I>
struct swizzle;
}  // namespace metal

namespace msl {
// The plain vector behind a vector, a packed vector or a swizzle; void for anything else.
template <class T>
struct VectorTraits {
    using type = void;
    static constexpr int size = 1;
};
template <class T>
struct VectorTraits<const T> : VectorTraits<T> {};
template <class T, int N>
struct VectorTraits<metal::vec<T, N>> {
    using type = metal::vec<T, N>;
    static constexpr int size = N;
};
template <class T, int N>
struct VectorTraits<metal::packed_vec<T, N>> : VectorTraits<metal::vec<T, N>> {};
template <class T, int N, int... I>
struct VectorTraits<metal::swizzle<T, N, I...>> : VectorTraits<metal::vec<T, sizeof...(I)>> {};

template <class T>
constexpr bool is_vector = !metal::is_same_v<typename VectorTraits<T>::type, void>;
template <class T>
using plain_of = metal::conditional_t<is_vector<T>, typename VectorTraits<T>::type, T>;

// The one vector type among the arguments, with scalars allowed beside it; no type if there is none or two.
template <class V, class... A>
struct CommonVector {
    using type = V;
};
template <>
struct CommonVector<void> {};
template <class V, class A, class... Rest>
struct CommonVector<V, A, Rest...>
    : metal::conditional_t<is_scalar<A> || (is_vector<A> && metal::is_same_v<plain_of<A>, V>),
          CommonVector<V, Rest...>,
          metal::conditional_t<is_vector<A> && metal::is_same_v<V, void>, CommonVector<plain_of<A>, Rest...>,
              CommonVector<void>>> {};
template <class T>
using enable_if_floating = metal::enable_if_t<is_one_of<T, float, half> || is_vector<T>, int>;
// A floating scalar does not turn into the element of an integer vector.
template <class V, class... A>
using if_scalars_fit =
    metal::enable_if_t<((is_vector<A> || is_integer<A> || !is_integer<typename V::element_type>)&&...), V>;
template <class... A>
using vector_of = if_scalars_fit<typename CommonVector<void, A...>::type, A...>;

template <class... A>
constexpr int total_size = (VectorTraits<A>::size + ...);

template <class T, int N>
struct Elements;
template <class T>
struct Elements<T, 2> {
    union {
        T data[2];
        MSL_MEMBERS_2
    };
};
template <class T>
struct Elements<T, 3> {
    union {
        T data[3];
        MSL_MEMBERS_3
    };
};
template <class T>
struct Elements<T, 4> {
    union {
        T data[4];
        MSL_MEMBERS_4
    };
};
}  // namespace msl

namespace metal {
// Size and alignment of the MSL specification, table "Vector data types": three elements take the room of four.
template <class T, int N>
struct alignas(sizeof(T) * (N == 2 ? 2 : 4)) vec : ::msl::Elements<T, N> {
    using element_type = T;
    using ::msl::Elements<T, N>::data;

    vec() = default;
    constexpr vec(const vec& other) = default;
    constexpr vec& operator=(const vec& other) {
        for (int i = 0; i < N; ++i) data[i] = other.data[i];
        return *this;
    }
    template <class S, enable_if_t<::msl::is_scalar<S>, int> = 0>
    constexpr vec(S scalar) : ::msl::Elements<T, N>{{}} {
        for (int i = 0; i < N; ++i) data[i] = T(scalar);
    }
    template <class U, enable_if_t<!is_same_v<T, U>, int> = 0>
    constexpr explicit vec(const vec<U, N>& other) : ::msl::Elements<T, N>{{}} {
        append(0, other);
    }
    template <class V, enable_if_t<::msl::is_vector<V> && !is_same_v<::msl::plain_of<V>, V> &&
                  !is_same_v<::msl::plain_of<V>, vec>, int> = 0>
    constexpr explicit vec(const V& other) : vec(::msl::plain_of<V>(other)) {}
    template <class A, class B, class... Rest>
    constexpr vec(const A& a, const B& b, const Rest&... rest) : ::msl::Elements<T, N>{{}} {
        static_assert(::msl::total_size<A, B, Rest...> == N,
            "a vector constructor needs one value for each element");
        int i = append(append(0, a), b);
        ((i = append(i, rest)), ...);
    }
    constexpr T& operator[](int i) { return data[i]; }
    constexpr const T& operator[](int i) const { return data[i]; }

  private:
    template <class A>
    constexpr int append(int start, const A& part) {
        if constexpr (::msl::is_vector<A>) {
            const ::msl::plain_of<A> plain = part;
            for (int i = 0; i < ::msl::VectorTraits<A>::size; ++i) data[start + i] = T(plain.data[i]);
        } else {
            data[start] = T(part);
        }
        return start + ::msl::VectorTraits<A>::size;
    }
};

// Compound assignment for whatever reads as a vector and can be assigned one.
#define MSL_COMPOUND(op)                    \
    template <class B>                      \
    auto& operator op##=(const B& b) {      \
        return *this = *this op b;          \
    }
#define MSL_ALL_COMPOUNDS MSL_COMPOUND(+) MSL_COMPOUND(-) MSL_COMPOUND(*) MSL_COMPOUND(/)

template <class T, int N>
struct packed_vec : ::msl::Elements<T, N> {
    using ::msl::Elements<T, N>::data;

    packed_vec() = default;
    packed_vec(const packed_vec& other) = default;
    template <class V, enable_if_t<is_same_v<::msl::plain_of<V>, vec<T, N>>, int> = 0>
    packed_vec(const V& other) {
        *this = vec<T, N>(other);
    }
    template <class S, enable_if_t<!is_same_v<::msl::plain_of<S>, vec<T, N>>, long> = 0>
    explicit packed_vec(const S& other) {
        *this = vec<T, N>(other);
    }
    template <class A, class B, class... Rest>
    packed_vec(const A& a, const B& b, const Rest&... rest) : packed_vec(vec<T, N>(a, b, rest...)) {}
    packed_vec& operator=(const packed_vec& other) { return *this = vec<T, N>(other); }
    packed_vec& operator=(const vec<T, N>& other) {
        for (int i = 0; i < N; ++i) data[i] = other.data[i];
        return *this;
    }
    operator vec<T, N>() const {
        vec<T, N> result;
        for (int i = 0; i < N; ++i) result.data[i] = data[i];
        return result;
    }
    T& operator[](int i) { return data[i]; }
    const T& operator[](int i) const { return data[i]; }
    MSL_ALL_COMPOUNDS
};

// v.zx: a view of the vector's own elements, to be read or, when no element appears twice, assigned.
template <class T, int N, int... I>
struct swizzle {
    T data[N];

    static constexpr int size = sizeof...(I);
    operator vec<T, size>() const { return vec<T, size>(data[I]...); }
    swizzle() = default;
    swizzle(const swizzle& other) = default;
    swizzle& operator=(const swizzle& other) { return *this = vec<T, size>(other); }
    swizzle& operator=(const vec<T, size>& values) {
        static_assert(distinct(), "a swizzle that repeats an element cannot be assigned");
        int next = 0;
        ((data[I] = values.data[next++]), ...);
        return *this;
    }
    T operator[](int i) const { return vec<T, size>(*this)[i]; }
    MSL_ALL_COMPOUNDS

  private:
    static constexpr bool distinct() {
        int count[N] = {};
        return ((++count[I] == 1) && ...);
    }
};

#undef MSL_ALL_COMPOUNDS
#undef MSL_COMPOUND
}  // namespace metal

namespace msl {
// f over the elements of vectors of one size: the vector of its results.
template <class V, class F, class... A>
inline auto each(F f, const A&... a) {
    using T = decltype(f(a.data[0]...));
    metal::vec<T, VectorTraits<V>::size> result;
    for (int i = 0; i < VectorTraits<V>::size; ++i) result.data[i] = f(a.data[i]...);
    return result;
}
}  // namespace msl

namespace metal {
#define MSL_BINARY(op, Result)                                                               \
    template <class A, class B, class V = ::msl::vector_of<A, B>, class T = typename V::element_type> \
    inline auto operator op(const A& a, const B& b) {                                        \
        return ::msl::each<V>([](T p, T q) { return Result(p op q); }, V(a), V(b));          \
    }
// Like the compound assignments of the scalars: the target keeps its type.
#define MSL_ASSIGN(op)                                        \
    template <class T, int N, class B>                        \
    inline vec<T, N>& operator op##=(vec<T, N>& a, const B& b) { \
        return a = a op b;                                    \
    }
#define MSL_BOTH(op) MSL_BINARY(op, T) MSL_ASSIGN(op)
MSL_BOTH(+)
MSL_BOTH(-)
MSL_BOTH(*)
MSL_BOTH(/)
MSL_BOTH(%)
MSL_BOTH(&)
MSL_BOTH(|)
MSL_BOTH(^)
MSL_BOTH(<<)
MSL_BOTH(>>)
MSL_BINARY(==, bool)
MSL_BINARY(!=, bool)
MSL_BINARY(<, bool)
MSL_BINARY(<=, bool)
MSL_BINARY(>, bool)
MSL_BINARY(>=, bool)
MSL_BINARY(&&, bool)
MSL_BINARY(||, bool)
#undef MSL_BOTH
#undef MSL_ASSIGN
#undef MSL_BINARY

#define MSL_UNARY(op, Result)                                                            \
    template <class A, class V = ::msl::vector_of<A>, class T = typename V::element_type> \
    inline auto operator op(const A& a) {                                                \
        return ::msl::each<V>([](T p) { return Result(op p); }, V(a));                   \
    }
MSL_UNARY(-, T)
MSL_UNARY(+, T)
MSL_UNARY(~, T)
MSL_UNARY(!, bool)
#undef MSL_UNARY

#define MSL_NAMES(T)                                                        \
    using T##2 = vec<T, 2>;                                                 \
    using T##3 = vec<T, 3>;                                                 \
    using T##4 = vec<T, 4>;                                                 \
    using packed_##T##2 = packed_vec<T, 2>;                                 \
    using packed_##T##3 = packed_vec<T, 3>;                                 \
    using packed_##T##4 = packed_vec<T, 4>;
#define MSL_EACH_ELEMENT(F) \
    F(bool) F(char) F(uchar) F(short) F(ushort) F(int) F(uint) F(long) F(ulong) F(half) F(bfloat) F(float)
MSL_EACH_ELEMENT(MSL_NAMES)
#undef MSL_NAMES
}  // namespace metal

#define MSL_GLOBAL(T)                              \
    using metal::T##2, metal::T##3, metal::T##4;   \
    using metal::packed_##T##2, metal::packed_##T##3, metal::packed_##T##4;
MSL_EACH_ELEMENT(MSL_GLOBAL)
#undef MSL_GLOBAL
#undef MSL_EACH_ELEMENT
using metal::vec;
