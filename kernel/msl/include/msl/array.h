// <metal_array>: a fixed number of elements, initialised and copied as a whole.
#pragma once

namespace metal {
template <class T, size_t N>
struct array {
    T elements[N];

    constexpr T& operator[](size_t i) { return elements[i]; }
    constexpr const T& operator[](size_t i) const { return elements[i]; }
    constexpr T* data() { return elements; }
    constexpr const T* data() const { return elements; }
    static constexpr size_t size() { return N; }
};
}  // namespace metal
