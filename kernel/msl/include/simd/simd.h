#ifndef MSL_SCAN
namespace simd = metal;
#endif
