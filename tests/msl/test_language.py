"""Constructs of the Metal language: each expression is run and compared with what the specification gives."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from msl_harness import wrong_values


@dataclass(frozen=True)
class Group:
    """Expressions that share declarations at program scope and statements before them."""

    name: str
    expressions: dict[str, float]
    statements: str = ""
    declarations: str = ""


GROUPS = [
    Group(
        "scalars",
        {
            "sizeof(0.1)": 4,
            "0.1": float(np.float32(0.1)),
            "sizeof(1.0h)": 2,
            "sizeof(2.5bf)": 2,
            "1.0h + 2.5h": 3.5,
            "2.5bf": 2.5,
            "sizeof(long)": 8,
            "sizeof(ulong)": 8,
            "sizeof(size_t)": 8,
            "sizeof(ptrdiff_t)": 8,
            "sizeof(ushort) + sizeof(uchar) + sizeof(bool)": 4,
            "char(200)": -56,
            "uchar(200)": 200,
            "int32_t(-1) < 0 && uint32_t(-1) > 0 && int64_t(1) << 40 > 0": 1,
            "metal::uint(7) + metal::half(1)": 8,
            "INFINITY > MAXFLOAT": 1,
            "__METAL_VERSION__ >= 310 && defined_bfloat": 1,
            "M_PI_F": float(np.float32(np.pi)),
        },
        declarations="\n#ifdef __HAVE_BFLOAT__\nconstant bool defined_bfloat = true;\n#endif\n",
    ),
    Group(
        "vector layout",
        {
            "sizeof(float2)": 8,
            "sizeof(float3)": 16,
            "sizeof(float4)": 16,
            "sizeof(half2)": 4,
            "sizeof(half3)": 8,
            "sizeof(half4)": 8,
            "sizeof(bfloat4)": 8,
            "sizeof(char3)": 4,
            "sizeof(bool4)": 4,
            "sizeof(ulong2)": 16,
            "sizeof(long4)": 32,
            "sizeof(packed_float3)": 12,
            "sizeof(packed_half3)": 6,
            "sizeof(packed_bfloat2)": 4,
            "sizeof(packed_uchar4)": 4,
            "alignof(float2)": 8,
            "alignof(float3)": 16,
            "alignof(half4)": 8,
            "alignof(uchar2)": 2,
            "alignof(packed_float4)": 4,
            "alignof(packed_half2)": 2,
        },
    ),
    Group(
        "vector construction",
        {
            "a.x + 10 * a.y + 100 * a.z + 1000 * a.w": 4321,
            "b.w": 7,
            "c.z": 5,
            "d.y": 9,
            "e.x + 10 * e.y + 100 * e.z + 1000 * e.w": 9834,
            "metal::float2(3).y": 3,
            "float2(1, 2)[1]": 2,
            "float4(half4(1.5h)).z": 1.5,
            "int2(float2(2.9, -2.9)).y": -2,
            "half2(float2(0.1)).x": float(np.float16(0.1)),
            "float(bfloat2(half2(0.1h)).y)": 0.10009765625,
            "uint3(ushort3(7)).z": 7,
            "float2(packed_half2(half2(4))).x": 4,
            "packed_float3(1, 2, 3).z": 3,
            "static_cast<float2>(half2(3)).x": 3,
            "((float2)half2(3)).y": 3,
            "listed.z": 6,
        },
        "float4 a = float4(1, float2(2, 3), 4.0h); float4 b(7); float3 c = 5; vec<float, 2> d = {8, 9};"
        "float4 e = float4(a.wz, d); float3 listed{4, 5, 6};",
    ),
    Group(
        "swizzles",
        {
            "b.x + 10 * b.y + 100 * b.z": 123,
            "c.x + 10 * c.y": 31,
            "d.x + 10 * d.y + 100 * d.z + 1000 * d.w": 2144,
            "a.a + a.r": 5,
            "(a.xy + a.zw).y": 6,
            "a.xy[1]": 2,
            "dot(a.xy, a.zw)": 11,
            "max(a.xy, 1.5).x": 1.5,
            "float2(a.zx).x": 3,
            "half2(a.yw).y": 4,
            "w.x + 10 * w.y + 100 * w.z + 1000 * w.w": 4612,
            "s.x + 10 * s.y": 12,
            "g.x + 10 * g.y + 100 * g.z": 222,
            "p.x + 10 * p.y + 100 * p.z": 333,
            "t.x + 10 * t.y + 100 * t.z": 542,
        },
        "float4 a = float4(1, 2, 3, 4); float3 b = a.zyx; float2 c = a.rb; float4 d = a.wwxy;"
        "float4 w = a; w.xy = w.yx; w.z *= 2; float2 s = float2(1, 2); s.xy = s.yx; float3 g = 1; g.rgb = 2;"
        "packed_float3 p = a.xyz; p = packed_float3(3, 3, 3);"
        "float3 t = float3(1, 2, 3); t.xy += 1; t.yz += float2(1, 2);",
    ),
    Group(
        "vector operators",
        {
            "(a + b).x": 4,
            "(a - 1).y": 1,
            "(2 * a).y": 4,
            "(a / b).y": 0.5,
            "(-a).x": -1,
            "(a += b, a.y)": 6,
            "any(b > 3.5)": 1,
            "all(b > 3.5)": 0,
            "all(b == float2(3, 4))": 1,
            "any(!(b == float2(3, 4)))": 0,
            "(i % 4).x": 3,
            "(i & 5).x": 5,
            "(i << 2).y": 32,
            "(~i).x": -8,
            "(i ^ int2(1)).x": 6,
            "(u - 2u).x > 0u": 1,
            "select(float2(1), float2(2), bool2(true, false)).x": 2,
            "sizeof(half2(1) * 2.0f)": 4,
            "(half2(1) * 2.0f).x": 2,
            "(half4(2048) + half4(1)).x": 2048,
            "(bool2(true) && bool2(false, true)).y": 1,
            "sizeof(uchar2(200) + uchar2(100))": 2,
            "(uchar2(200) + uchar2(100)).x": 44,
        },
        "float2 a = float2(1, 2), b = float2(3, 4); int2 i = int2(7, 8); uint2 u = uint2(1);",
    ),
    Group(
        "half and bfloat arithmetic",
        {
            "sizeof(h * h)": 2,
            "sizeof(h * 2)": 2,
            "sizeof(2u * h)": 2,
            "sizeof(h * 2.0f)": 4,
            "sizeof(b + b)": 2,
            "sizeof(b + 1.0)": 4,
            "half(2048) + half(1)": 2048,
            "half(2048) + 1": 2048,
            "half(2048) + 1.0f": 2049,
            "half(60000) + half(60000)": float("inf"),
            "bfloat(256) + bfloat(1)": 256,
            "bfloat(256) * 1.0f + 1": 257,
            "-h": -1.5,
            "h > 1 && h < 2.0f && h == 1.5h && h != b": 1,
            "(c += 0.5f, c)": 2,
            "(d *= 3, d)": 4.5,
            "(e /= h, e)": 2,
            "n++": 1,
            "++n": 3,
            "int(h)": 1,
            "(ushort)h": 1,
            "static_cast<half>(0.1f)": float(np.float16(0.1)),
            "h ? 1 : 2": 1,
            "half(bfloat(1.5))": 1.5,
            "bfloat(half(1.5))": 1.5,
            "float(h) * b": 3.75,
            "!h": 0,
        },
        "half h = 1.5h, c = h, d = 1.5, e = 3; bfloat b = 2.5; half n = 1;",
    ),
    Group(
        "reinterpretation",
        {
            "as_type<uint>(1.0f) == 0x3f800000u": 1,
            "as_type<float>(0x40000000)": 2,
            "as_type<ushort>(1.0h)": 0x3C00,
            "as_type<bfloat>(ushort(0x3f80))": 1,
            "as_type<float>(uint(as_type<ushort>(bfloat(-3))) << 16)": -3,
            "as_type<half2>(0x40003c00u).y": 2,
            "as_type<uint2>(float4(1).xy).y == 0x3f800000u": 1,
            "as_type<ushort4>(half4(1)).w": 0x3C00,
            "pairs[1].x": 3,
            "reinterpret_cast<device const half4*>(out)[0].y": 1,
            "*(device uint*)(out + 1) == 0x40000000u": 1,
            "((device const ushort*)out)[1]": 0x3C00 + 0x380 - 0x380,
        },
        "out[0] = as_type<float>(0x3c003c00u); out[1] = 2; out[2] = 3; device float2* pairs = (device float2*)(out);",
    ),
    Group(
        "integers",
        {
            "min(3u, 4u)": 3,
            "max(-1, 1)": 1,
            "clamp(9, 1, 5)": 5,
            "abs(-3)": 3,
            "popcount(255u)": 8,
            "clz(1u)": 31,
            "clz(ushort(1))": 15,
            "ctz(8)": 3,
            "mulhi(0x80000000u, 4u)": 2,
            "mulhi(-1, 1)": -1,
            "addsat(uchar(200), uchar(100))": 255,
            "subsat(3u, 4u)": 0,
            "madsat(short(300), short(300), short(1))": 32767,
            "hadd(0xffffffffu, 1u) == 0x80000000u": 1,
            "rotate(0x80000001u, 1u)": 3,
            "absdiff(-5, 5)": 10,
            "min(int2(1, 5), int2(3)).y": 3,
            "popcount(uint2(3)).x": 2,
            "median3(3, 1, 2)": 2,
            "min(ulong(1) << 40, ulong(7))": 7,
        },
    ),
    Group(
        "float functions",
        {
            "min(1.0, 2.0)": 1,
            "fmax(NAN, 2.0)": 2,
            "clamp(1.5, 0.0, 1.0)": 1,
            "saturate(-1.0)": 0,
            "mix(1.0, 3.0, 0.5)": 2,
            "sign(-2.0)": -1,
            "step(1.0, 0.5)": 0,
            "fract(-0.25)": 0.75,
            "floor(-1.5) + ceil(1.2) + trunc(-1.7)": -1,
            "round(2.5)": 3,
            "rint(2.5)": 2,
            "fmod(-7.0, 3.0)": -1,
            "copysign(2.0, -1.0)": -2,
            "abs(-1.5) + fabs(-1.5)": 3,
            "fma(2.0, 3.0, 4.0)": 10,
            "ldexp(1.5, 3)": 12,
            "(frexp(12.0, exponent) == 0.75 && exponent == 4)": 1,
            "modf(-2.5, whole) + whole": -2.5,
            "whole": -2,
            "sincos(0.0, cosine) + cosine": 1,
            "isnan(NAN) && !isnan(1.0h) && isinf(INFINITY) && isfinite(1.0) && signbit(-0.0)": 1,
            "isnormal(1.0) && !isnormal(0x1p-130f) && !isnormal(half(0x1p-20f))": 1,
            "select(1.0, 2.0, true)": 2,
            "sqrt(2.25h)": 1.5,
            "sizeof(sqrt(2.25h))": 2,
            "max(1.0h, 2.0h)": 2,
            "rsqrt(4.0)": 0.5,
            "sinpi(0.5)": 1,
            "cospi(1.0)": -1,
            "pow(2.0, 10.0)": 1024,
            "powr(2.0, 3.0)": 8,
            "exp10(2.0)": 100,
            "metal::precise::exp2(3.0)": 8,
            "precise::sqrt(float2(4, 9)).y": 3,
            "clamp(float2(-1, 3), 0.0, 1.0).y": 1,
            "length(float2(3, 4))": 5,
            "cross(float3(1, 0, 0), float3(0, 1, 0)).z": 1,
            "distance(float2(0), float2(3, 4))": 5,
            "normalize(float2(0, 2)).y": 1,
            "isnan(float2(NAN, 1)).x": 1,
            "isnan(powr(-1.0, 2.0))": 1,
        },
        "int exponent; float whole, cosine;",
    ),
    Group(
        "program scope",
        {
            "A + B + C + E": 11,
            "sizes[1]": 20,
            "inner::K": 9,
            "(is_same_v<half, metal::half> && is_same<float, float>::value)": 1,
            "conditional_t<true, float, half>(1.5)": 1.5,
            "twice<float>(2)": 4,
            "pick(Pair{1, 2})": 2,
            "area.data[2]": 8,
            "local": 4,
            "K2.y": 2,
        },
        "float local_array[A + 2]; local_array[0] = 4; thread float* pointer = local_array; float local = *pointer;"
        "struct { float data[3]; } area = {{1, 2, 8}};\n"
        "#pragma unroll\nfor (uint i = 0; i < 3; ++i) { area.data[0] += i; }",
        "constant uint A = 2; constant constexpr uint B = 3; constexpr constant float C = 2;"
        "static constant float E = 4;"
        "constant const float sizes[2] = {10, 20}; namespace inner { constant int K = 9; }"
        "constant float2 K2 = float2(1, 2); template <typename T> inline T twice(T x) { return x + x; }"
        "struct Pair { float a; float b; }; inline float pick(thread const Pair& pair) { return pair.b; }",
    ),
    Group(
        "function constants",
        {
            "HEAD_DIM": 64,
            "HALF_DIM": 32,
            "STEP": 0.25,
            "SCALE": 0.5,
            "rope::KV": 2,
            "HPT": 3,
            "is_function_constant_defined(HPT)": 1,
            "PER": 3,
        },
        "",
        "constant uint HEAD_DIM [[function_constant(0)]]; constant uint HALF_DIM = HEAD_DIM / 2;\n"
        "#define STEP_INDEX 3\n"
        "constant float STEP [[ function_constant(STEP_INDEX) ]]; static constant float SCALE = STEP * 2;"
        "namespace rope { constant const uint KV [[function_constant(1 + 1)]]; }"
        "constant uint HPT [[function_constant(4)]]; constant uint PER = is_function_constant_defined(HPT) ? HPT : 1;",
    ),
]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_expressions_have_the_values_of_the_specification(group: Group, tmp_path: Path) -> None:
    assert not wrong_values(tmp_path, group.expressions, group.statements, group.declarations)
