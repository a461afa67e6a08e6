// Function constants: the host target patches their values into a copy of the library before it is loaded; on an
// NVIDIA GPU a kernel sets them, and then every `constant` variable that depends on them, before the others run.
#pragma once

namespace msl {
struct FunctionConstants {
    char magic[16];
    uint words[5];
};
// volatile: the value that the compiler sees here is never the value that the kernel runs with.
__attribute__((used)) static volatile FunctionConstants function_constant_block = {
    {'M', 'S', 'L', '-', 'f', 'n', '-', 'c', 'o', 'n', 's', 't', 'a', 'n', 't', 's'}, {}};

constexpr unsigned long function_constant_count = sizeof(FunctionConstants::words) / sizeof(uint);

template <unsigned long N>
struct Slot {
    template <class T>
    operator T() const {
        using Declared = metal::conditional_t<N == 3, float, uint>;
        static_assert(N < function_constant_count, "function constant index: the interface has 0 to 4 only");
        static_assert(metal::is_same_v<T, Declared>,
            "function constant type: the interface has uint for 0, 1, 2 and 4, float for 3");
        const uint word = function_constant_block.words[N];
        T value;
        __builtin_memcpy(&value, &word, sizeof(T));
        return value;
    }
};
template <unsigned long N>
constexpr Slot<N> slot{};

// `name [[function_constant(3)]];` becomes `name [[maybe_unused]] = function_constants[index_of[slot<3>]];`
struct Subscript {
    template <unsigned long N>
    constexpr Slot<N> operator[](Slot<N> which) const {
        return which;
    }
};
constexpr Subscript function_constants{}, index_of{};
}  // namespace msl

#define function_constant(index) maybe_unused]] = ::msl::function_constants[::msl::index_of[::msl::slot<(index)>
#if MSL_CUDA
namespace msl {
// Gives a `constant` variable, or an array, its value.
template <class T>
inline void set(T& variable, const T& value) {
    __builtin_memcpy(&variable, &value, sizeof(T));
}
}  // namespace msl
#endif

// All five values are given at every launch.
#define is_function_constant_defined(name) ((void)(name), true)
