// Entry points: how a launch finds a kernel, hands it its buffers and walks the grid, from either end.
#pragma once

namespace msl {
// The CPU's control register of float arithmetic, set for the time of a launch as the build asks.
#if !MSL_TOWARD_ZERO && !MSL_FLUSH
struct ArithmeticMode {};
#else
#if defined(__x86_64__)
using ControlRegister = uint;  // MXCSR: rounding in bits 13 and 14, results flushed by bit 15, operands by bit 6
constexpr ControlRegister toward_zero_bits = 3u << 13, flush_bits = 1u << 15 | 1u << 6;
inline ControlRegister control_register() { return __builtin_ia32_stmxcsr(); }
inline void set_control_register(ControlRegister value) { __builtin_ia32_ldmxcsr(value); }
#elif defined(__aarch64__)
using ControlRegister = ulong;  // FPCR: rounding in bits 22 and 23, operands and results flushed by bit 24
constexpr ControlRegister toward_zero_bits = 3ul << 22, flush_bits = 1ul << 24;
inline ControlRegister control_register() {
    ControlRegister value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
}
inline void set_control_register(ControlRegister value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#else
#error "rounding toward zero and flushing are modelled on x86-64 and aarch64 only: build without them"
#endif

class ArithmeticMode {
    const ControlRegister before = control_register();

  public:
    ArithmeticMode() {
        set_control_register(before | (MSL_TOWARD_ZERO ? toward_zero_bits : 0) | (MSL_FLUSH ? flush_bits : 0));
    }
    ~ArithmeticMode() { set_control_register(before); }
};
#endif

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
    using element = void;
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
    using element = metal::remove_cv_t<T>;
    static T* of(void* address, const uint*) { return static_cast<T*>(address); }
};
template <class T>
struct Argument<T&> {
    using element = metal::remove_cv_t<T>;
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

    // Whether a buffer's elements are of type T, but for const.
    template <class T, class... P>
    static constexpr bool holds(void (*)(P...), int buffer) {
        constexpr bool of_t[] = {metal::is_same_v<typename Argument<P>::element, T>...};
        for (unsigned long i = 0; i < sizeof...(P); ++i)
            if (indexes.index[i] == buffer) return of_t[i];
        return false;
    }
    template <class T>
    static constexpr bool holds(int buffer) {
        return holds<T>(Function, buffer);
    }

#if MSL_CUDA
    // The calling thread's part of the grid: one position, or more where the device allows no more threadgroups.
    template <class... P, int... I>
    static void walk(void (*)(P...), IntegerSequence<I...>, void* const* buffers, uint3 grid, bool reverse) {
        for (uint z = blockIdx.z; z < grid.z; z += gridDim.z)
            for (uint y = blockIdx.y * blockDim.y + threadIdx.y; y < grid.y; y += gridDim.y * blockDim.y)
                for (uint x = blockIdx.x * blockDim.x + threadIdx.x; x < grid.x; x += gridDim.x * blockDim.x) {
                    const uint at[3] = {reverse ? grid.x - 1 - x : x, reverse ? grid.y - 1 - y : y,
                                        reverse ? grid.z - 1 - z : z};
                    Function(Argument<P>::of(indexes.index[I] < 0 ? nullptr : buffers[indexes.index[I]], at)...);
                }
    }
    static void launch(void* const* buffers, uint3 grid, bool reverse) {
        walk(Function, typename Count<sizeof...(Index)>::type{}, buffers, grid, reverse);
    }
#else
    // flatten: a call per thread, its position passed through memory, costs more than a small kernel's own work.
    template <class... P, int... I>
    // noipa: the compiler, which does not know of arithmetic modes, moves nothing out of the walk.
    __attribute__((flatten, noipa)) static void walk(
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
        [[maybe_unused]] const ArithmeticMode mode;
        walk(Function, typename Count<sizeof...(Index)>::type{}, buffers, grid, reverse);
    }
#endif
};

#if MSL_CUDA
// Which pages of 4096 bytes hold anything but zeros.
extern "C" __global__ void msl_mark_pages(const ulong* words, ulong pages, uchar* marks) {
    for (ulong page = ulong(blockIdx.x) * blockDim.x + threadIdx.x; page < pages; page += gridDim.x * blockDim.x) {
        ulong any = 0;
        for (int i = 0; i < 512; ++i) any |= words[page * 512 + i];
        marks[page] = any != 0;
    }
}
#endif
}  // namespace msl
