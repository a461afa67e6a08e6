// Entry points: how a launch finds a kernel, hands it its buffers and walks the grid, from either end.
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

    // flatten: a call per thread, its position passed through memory, costs more than a small kernel's own work.
    template <class... P, int... I>
    __attribute__((flatten)) static void walk(
        void (*)(P...), IntegerSequence<I...>, void* const* buffers, const uint* grid, bool reverse) {
        const uint step = reverse ? -1u : 1u;
        const auto first = [=](int axis) { return reverse ? grid[axis] - 1 : 0; };
        uint at[3] = {0, 0, first(2)};
        for (uint z = grid[2]; z > 0; --z, at[2] += step) {
            at[1] = first(1);
            for (uint y = grid[1]; y > 0; --y, at[1] += step) {
                at[0] = first(0);
                for (uint x = grid[0]; x > 0; --x, at[0] += step)
                    Function(Argument<P>::of(indexes.index[I] < 0 ? nullptr : buffers[indexes.index[I]], at)...);
            }
        }
    }
    static void launch(void* const* buffers, const uint* grid, bool reverse) {
        walk(Function, typename Count<sizeof...(Index)>::type{}, buffers, grid, reverse);
    }
};
}  // namespace msl
