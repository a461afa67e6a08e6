// CUDA's names for the compiler builtins that these headers use; a build for an NVIDIA GPU defines MSL_CUDA.
// __builtin_bit_cast is NVRTC's own. Names that Metal has too are of the namespace msl_cuda, which the unit begins with.
#pragma once

#define __builtin_memcpy memcpy
#define __builtin_inff() __builtin_bit_cast(float, 0x7f800000u)
#define __builtin_nanf(text) __builtin_bit_cast(float, 0x7fc00000u)
#define __builtin_isnan(x) (__builtin_fabs_bits(x) > 0x7f800000u)
#define __builtin_isinf(x) (__builtin_fabs_bits(x) == 0x7f800000u)
#define __builtin_isfinite(x) (__builtin_fabs_bits(x) < 0x7f800000u)
#define __builtin_isnormal(x) (__builtin_fabs_bits(x) - 0x800000u < 0x7f000000u)
#define __builtin_signbit(x) (__builtin_bit_cast(unsigned, x) >> 31 != 0)
#define __builtin_fabs_bits(x) (__builtin_bit_cast(unsigned, x) & 0x7fffffffu)
#define __builtin_popcountl __popcll
#define __builtin_clzl __clzll
#define __builtin_ctzl(x) (__ffsll(x) - 1)

#define __builtin_acosf acosf
#define __builtin_acoshf acoshf
#define __builtin_asinf asinf
#define __builtin_asinhf asinhf
#define __builtin_atanf atanf
#define __builtin_atan2f atan2f
#define __builtin_atanhf atanhf
#define __builtin_ceilf ceilf
#define __builtin_copysignf copysignf
#define __builtin_cosf cosf
#define __builtin_coshf coshf
#define __builtin_expf expf
#define __builtin_exp2f exp2f
#define __builtin_fabs msl_cuda::fabs
#define __builtin_fabsf fabsf
#define __builtin_fdimf fdimf
#define __builtin_floorf floorf
#define __builtin_fmaf fmaf
#define __builtin_fmaxf fmaxf
#define __builtin_fminf fminf
#define __builtin_fmodf fmodf
#define __builtin_frexpf frexpf
#define __builtin_ilogbf ilogbf
#define __builtin_ldexpf ldexpf
#define __builtin_logf logf
#define __builtin_log10f log10f
#define __builtin_log2f log2f
#define __builtin_nextafterf nextafterf
#define __builtin_pow msl_cuda::pow
#define __builtin_powf powf
#define __builtin_roundf roundf
#define __builtin_roundeven msl_cuda::rint
#define __builtin_roundevenf rintf
#define __builtin_sin msl_cuda::sin
#define __builtin_sinf sinf
#define __builtin_sinhf sinhf
#define __builtin_sqrt msl_cuda::sqrt
#define __builtin_sqrtf __fsqrt_rn  // correctly rounded under --prec-sqrt=false, too
#define __builtin_tanf tanf
#define __builtin_tanhf tanhf
#define __builtin_truncf truncf
