// Probes: how a device rounds, narrows, contracts, flushes, and treats what is not finite.
//
// Each thread answers one question three times: by the device's own arithmetic, then by integers in the usual way and
// in the other way that a device may take. The last two are the controls: they show that the difference can be seen.
// Every value comes from the buffer, so that no compiler computes an answer itself.

#include <metal_stdlib>
using namespace metal;

static void answer(device uint* out, uint i, uint own, uint usual, uint other) {
    out[3 * i] = own;
    out[3 * i + 1] = usual;
    out[3 * i + 2] = other;
}

// The significand of a normal float, an integer of 24 bits.
static ulong significand(uint bits) {
    return (bits & 0x7fffff) | 0x800000;
}

// The float whose magnitude lies in [1, 2) and is a number of units of 2^-46, cut to 24 bits after half a unit of the
// last of them is added to round to nearest even, or nothing to round toward zero.
static uint to_nearest(uint sign, ulong units) {
    const ulong rounded = units + 0x3fffff + ((units >> 23) & 1);
    return (sign & 0x80000000) | (uint(rounded >> 23) + (126u << 23));
}
static uint toward_zero(uint sign, ulong units) {
    return (sign & 0x80000000) | (uint(units >> 23) + (126u << 23));
}

kernel void probe_product(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const uint a = in[2 * i], b = in[2 * i + 1];
    const ulong exact = significand(a) * significand(b);
    answer(out, i, as_type<uint>(as_type<float>(a) * as_type<float>(b)), to_nearest(a ^ b, exact),
           toward_zero(a ^ b, exact));
}

// a in [1, 2), b of its sign and at least 2^-24.
kernel void probe_sum(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const uint a = in[2 * i], b = in[2 * i + 1];
    const ulong exact = (significand(a) << 23) + (significand(b) << 23 >> (127 - ((b >> 23) & 0xff)));
    answer(out, i, as_type<uint>(as_type<float>(a) + as_type<float>(b)), to_nearest(a, exact), toward_zero(a, exact));
}

// Integers of 25 bits and more; the conversion of one that a float holds is exact.
kernel void probe_int_to_float(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const int value = as_type<int>(in[i]);
    const uint magnitude = uint(abs(value)), unit = 1u << (8 - clz(magnitude));
    const uint nearest = (magnitude + unit / 2 - 1 + ((magnitude / unit) & 1)) & ~(unit - 1);
    const uint sign = in[i] & 0x80000000;
    answer(out, i, as_type<uint>(float(value)), sign | as_type<uint>(float(nearest)),
           sign | as_type<uint>(float(magnitude & ~(unit - 1))));
}

// Normal halves; 112 is the difference of the exponents' biases.
kernel void probe_float_to_half(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const uint sign = in[i] >> 16 & 0x8000, rebased = (in[i] & 0x7fffffff) - (112u << 23);
    answer(out, i, as_type<ushort>(half(as_type<float>(in[i]))), sign | (rebased + 0xfff + (rebased >> 13 & 1)) >> 13,
           sign | rebased >> 13);
}

kernel void probe_float_to_bfloat(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    answer(out, i, as_type<ushort>(bfloat(as_type<float>(in[i]))), (in[i] + 0x7fff + (in[i] >> 16 & 1)) >> 16,
           in[i] >> 16);
}

// The usual control adds to a product that integers made: nothing can be fused with that.
kernel void probe_contraction(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const uint bits = to_nearest(in[3 * i] ^ in[3 * i + 1], significand(in[3 * i]) * significand(in[3 * i + 1]));
    const float a = as_type<float>(in[3 * i]), b = as_type<float>(in[3 * i + 1]), c = as_type<float>(in[3 * i + 2]);
    answer(out, i, as_type<uint>(a * b + c), as_type<uint>(as_type<float>(bits) + c), as_type<uint>(fma(a, b, c)));
}

// Zero for the bits of a subnormal float.
static uint flushed(uint bits) {
    return (bits & 0x7f800000) != 0 ? bits : bits & 0x80000000;
}

// Twice or half of a float below 2^-125: its bits, as an integer, are in proportion to it.
kernel void probe_subnormal_product(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const uint a = in[2 * i];
    const float b = as_type<float>(in[2 * i + 1]);
    answer(out, i, as_type<uint>(as_type<float>(a) * b), b > 1 ? a << 1 : a >> 1,
           b > 1 ? flushed(a) << 1 : flushed(a >> 1));
}

// The difference of two floats below 2^-125.
kernel void probe_subnormal_difference(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const uint a = in[2 * i], b = in[2 * i + 1];
    answer(out, i, as_type<uint>(as_type<float>(a) - as_type<float>(b)), a - b, flushed(flushed(a) - flushed(b)));
}

// A subnormal half is a number of units of 2^-24.
kernel void probe_half_read(device const half* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const uint bits = ((device const ushort*)in)[2 * i];
    const float units = float(bits & 0x3ff), rest = float(bits & 0x7c00);
    answer(out, i, as_type<uint>(float(in[2 * i])), as_type<uint>(units * 0x1p-24f), as_type<uint>(rest));
}

kernel void probe_half_written(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const float x = as_type<float>(in[i]);
    const uint units = uint(x * 0x1p24f);
    answer(out, i, as_type<ushort>(half(x)), units, units & 0x7c00);
}

// Whether x differs from itself; the other control compares the bits, where NaN is no exception.
kernel void probe_nan(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const float x = as_type<float>(in[i]);
    answer(out, i, x != x ? 1 : 0, (in[i] & 0x7fffffff) > 0x7f800000 ? 1 : 0, in[i] != in[i] ? 1 : 0);
}

// x + x of an infinity; the other control saturates.
kernel void probe_infinity(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const float x = as_type<float>(in[i]);
    answer(out, i, as_type<uint>(x + x), in[i], (in[i] & 0x80000000) | min(in[i] & 0x7fffffff, 0x7f7fffffu));
}

// Floats past every half: 0x477fe000 is the largest half, in float's bits.
kernel void probe_half_overflow(device const uint* in, device uint* out, uint i [[thread_position_in_grid]]) {
    const uint sign = in[i] >> 16 & 0x8000, magnitude = in[i] & 0x7fffffff;
    answer(out, i, as_type<ushort>(half(as_type<float>(in[i]))), sign | (magnitude > 0x477fe000 ? 0x7c00u : 0u),
           sign | (min(magnitude, 0x477fe000u) - (112u << 23)) >> 13);
}
