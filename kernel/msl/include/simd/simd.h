#pragma once
#ifndef MSL_SCAN
namespace simd = metal;
#define MSL_SIMD_SIZE(T, N)             \
    using simd_##T##N = metal::T##N;    \
    using vector_##T##N = metal::T##N;
#define MSL_SIMD(T) MSL_SIMD_SIZE(T, 2) MSL_SIMD_SIZE(T, 3) MSL_SIMD_SIZE(T, 4)
MSL_SIMD(char)
MSL_SIMD(uchar)
MSL_SIMD(short)
MSL_SIMD(ushort)
MSL_SIMD(int)
MSL_SIMD(uint)
MSL_SIMD(long)
MSL_SIMD(ulong)
MSL_SIMD(half)
MSL_SIMD(float)
#undef MSL_SIMD
#undef MSL_SIMD_SIZE
#endif
