// What Apple's compiler knows before any #include: keywords, attributes, scalar and vector types.
#pragma once

#if MSL_CUDA
#include <msl/cuda.h>
#endif

// Wider host types for the headers' own rounding; Metal has neither, hence the poison at the end.
namespace msl {
using wide = double;
using widest = long double;
}  // namespace msl

// Address spaces mean nothing in one flat host memory. `threadgroup` stays undefined: its memory is not modelled.
#define kernel
#define device
#define constant
#define thread
#define METAL_FUNC __attribute__((always_inline))

#include <msl/traits.h>

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;

static_assert(sizeof(long) == 8, "Metal's long has 64 bits");
static_assert(sizeof(0.5) == 4, "an unsuffixed literal must be a float");

#include <msl/function_constants.h>
#include <msl/narrow_float.h>
#include <msl/number_traits.h>
#include <msl/vector.h>
#include <msl/launch.h>

template <class To, class From>
inline To as_type(const From& from) {
    using Source = ::msl::plain_of<From>;
    static_assert(sizeof(To) == sizeof(Source), "as_type needs two types of the same size");
    Source source = from;
    To to;
    __builtin_memcpy(&to, &source, sizeof(To));
    return to;
}

namespace metal {
using ::as_type;
using ::int16_t, ::int32_t, ::int64_t, ::int8_t, ::ptrdiff_t, ::size_t;
using ::uchar, ::uint, ::uint16_t, ::uint32_t, ::uint64_t, ::uint8_t, ::ulong, ::ushort;
}  // namespace metal

#if !MSL_CUDA  // whose unit is preprocessed first, and searched for it then
#pragma GCC poison double
#endif
