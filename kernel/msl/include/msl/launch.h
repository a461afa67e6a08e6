// Entry points: how a launch finds a kernel, hands it its buffers and walks the grid.
#pragma once

namespace msl {
constexpr int automatic = -1;  // a buffer without an index of its own
constexpr int position = -2;   // thread_position_in_grid

template <int N>
struct Indexes {
    int index[N > 0 ? N : 1];

    constexpr bool holds(int wanted) const {
        for (int i = 0; i < N; ++i)
            if (index[i] == wanted) return true;
        return false;
    }
    constexpr int buffers() const {
        int count = 0;
        for (int i = 0; i < N; ++i) count += index[i] != position;
        return count;
    }
    // Each buffer without an index takes, in order, the lowest one that is free.
    constexpr Indexes assigned() const {
        Indexes result = *this;
        for (int i = 0; i < N; ++i)
            while (result.index[i] == automatic)
                for (int free = 0;; ++free)
                    if (!result.holds(free)) {
                        result.index[i] = free;
                        break;
                    }
        return result;
    }
    constexpr bool dense() const {
        for (int wanted = 0; wanted < buffers(); ++wanted)
            if (!holds(wanted)) return false;
        return true;
    }
};

template <class P>
struct Argument {  // the position in the grid, as a scalar or a vector
    static P of(void*, const uint* at) {
        if constexpr (!is_vector<P>) {
            return P(at[0]);
        } else {
            using T = typename P::element_type;
            if constexpr (VectorTraits<P>::size == 2) {
                return P(T(at[0]), T(at[1]));
            } else {
                return P(T(at[0]), T(at[1]), T(at[2]));
            }
        }
    }
};
template <class T>
struct Argument<T*> {
    static T* of(void* address, const uint*) { return static_cast<T*>(address); }
};
template <class T>
struct Argument<T&> {
    static T& of(void* address, const uint*) { return *static_cast<T*>(address); }
};

template <int... I>
struct IntegerSequence {};
template <int N, int... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <int... I>
struct Count<0, I...> {
    using type = IntegerSequence<I...>;
};

template <auto Function, int... Index>
struct Entry {
    static constexpr Indexes<sizeof...(Index)> indexes = Indexes<sizeof...(Index)>{{Index...}}.assigned();

    template <class... P, int... I>
    static void walk(void (*)(P...), IntegerSequence<I...>, void* const* buffers, const uint* grid) {
        uint at[3];
        for (at[2] = 0; at[2] < grid[2]; ++at[2])
            for (at[1] = 0; at[1] < grid[1]; ++at[1])
                for (at[0] = 0; at[0] < grid[0]; ++at[0])
                    Function(Argument<P>::of(indexes.index[I] < 0 ? nullptr : buffers[indexes.index[I]], at)...);
    }
    static void launch(void* const* buffers, const uint* grid) {
        walk(Function, typename Count<sizeof...(Index)>::type{}, buffers, grid);
    }
};
}  // namespace msl
