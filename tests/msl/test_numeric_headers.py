"""Limits, constants, type traits, array and bit functions, each with the value of the specification or of numpy."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from msl_harness import PRELUDE, compile_text, launch, wrong_values

from kernel.msl import Build

INTEGERS = {
    "char": np.int8,
    "uchar": np.uint8,
    "short": np.int16,
    "ushort": np.uint16,
    "int": np.int32,
    "uint": np.uint32,
    "long": np.int64,
    "ulong": np.uint64,
}
FLOATS = {"float": torch.float32, "half": torch.float16, "bfloat": torch.bfloat16}
CONSTANTS = {
    "E": math.e,
    "LOG2E": math.log2(math.e),
    "LOG10E": math.log10(math.e),
    "LN2": math.log(2),
    "LN10": math.log(10),
    "PI": math.pi,
    "PI_2": math.pi / 2,
    "PI_4": math.pi / 4,
    "1_PI": 1 / math.pi,
    "2_PI": 2 / math.pi,
    "2_SQRTPI": 2 / math.sqrt(math.pi),
    "SQRT2": math.sqrt(2),
    "SQRT1_2": math.sqrt(0.5),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_limits_of_an_integer_type(name: str, tmp_path: Path) -> None:
    info = np.iinfo(INTEGERS[name])
    macro = {"char": "CHAR", "short": "SHRT", "int": "INT", "long": "LONG"}[name.removeprefix("u")]
    macro = "U" * name.startswith("u") + macro
    lowest, highest = f"{info.min + (info.min < 0)}l{' - 1' * (info.min < 0)}", f"{info.max}ul"
    limits = f"numeric_limits<{name}>"
    expected = {
        f"{limits}::min() == {lowest} && {limits}::lowest() == {lowest}": 1,
        f"{limits}::max() == {highest} && numeric_limits<const {name}>::max() == {highest}": 1,
        f"{macro}_MAX == {highest}": 1,
        f"is_same_v<decltype({limits}::max()), {name}>": 1,
        f"{limits}::is_signed": info.min < 0,
        f"{limits}::is_integer && {limits}::is_exact && {limits}::is_specialized": 1,
        f"{limits}::digits": info.bits - (info.min < 0),
        f"{limits}::digits10": len(str(info.max)) - 1,
        f"{limits}::infinity() + {limits}::epsilon()": 0,
        "CHAR_BIT == 8 && SCHAR_MAX == CHAR_MAX && SCHAR_MIN == CHAR_MIN": 1,
        "in_preprocessor": 1,
    }
    if info.min < 0:
        expected |= {f"{macro}_MIN == {lowest}": 1}
    declarations = (
        f"\n#if {macro}_MAX == {highest}\nconstant bool in_preprocessor = true;\n#endif\n"
        f'static_assert({limits}::max() > 0, "");'
    )
    assert not wrong_values(tmp_path, expected, declarations=declarations)


@pytest.mark.parametrize(("name", "prefix"), [("float", "FLT"), ("half", "HALF"), ("bfloat", "BFLT")])
def test_limits_of_a_floating_point_type(name: str, prefix: str, tmp_path: Path) -> None:
    info = torch.finfo(FLOATS[name])
    limits = f"metal::numeric_limits<{name}>"
    binary_digits = 1 - round(math.log2(info.eps))
    _, max_exponent = math.frexp(info.max)
    _, min_exponent = math.frexp(info.tiny)
    expected = {
        f"{limits}::max()": info.max,
        f"{limits}::lowest()": info.min,
        f"{limits}::min()": info.tiny,
        f"{limits}::epsilon()": info.eps,
        f"{limits}::denorm_min()": info.tiny * info.eps,
        f"{limits}::round_error()": 0.5,
        f"{limits}::infinity()": math.inf,
        f"isnan(float({limits}::quiet_NaN()))": 1,
        f"{limits}::has_infinity && {limits}::has_quiet_NaN && {limits}::is_signed && !{limits}::is_integer": 1,
        f"{limits}::digits": binary_digits,
        f"{limits}::digits10": int((binary_digits - 1) * math.log10(2)),
        f"{limits}::max_digits10": math.ceil(1 + binary_digits * math.log10(2)),
        f"{limits}::max_exponent": max_exponent,
        f"{limits}::max_exponent10": int(math.log10(info.max)),
        f"{limits}::min_exponent": min_exponent,
        f"{limits}::min_exponent10": math.ceil(math.log10(info.tiny)),
        f"is_same_v<decltype({limits}::max()), {name}>": 1,
        f"{prefix}_MAX": info.max,
        f"{prefix}_MIN": info.tiny,
        f"{prefix}_EPSILON": info.eps,
        f"MAX{ {'FLT': 'FLOAT', 'BFLT': 'BFLOAT'}.get(prefix, prefix) }": info.max,
        f"HUGE_VAL{ {'float': 'F', 'half': 'H', 'bfloat': 'BF'}[name] }": math.inf,
        "largest": info.max,
    }
    assert not wrong_values(tmp_path, expected, declarations=f"constant constexpr {name} largest = {limits}::max();")


@pytest.mark.parametrize(("name", "suffix"), [("float", "F"), ("half", "H"), ("bfloat", "BF")])
def test_mathematical_constants_are_the_nearest_values(name: str, suffix: str, tmp_path: Path) -> None:
    nearest = {f"M_{c}_{suffix}": torch.tensor(x, dtype=torch.float64).to(FLOATS[name]) for c, x in CONSTANTS.items()}
    expected = {constant: float(value) for constant, value in nearest.items()}
    assert not wrong_values(tmp_path, expected | {f"sizeof(M_PI_{suffix})": FLOATS[name].itemsize})


def test_infinity_and_nan_keep_their_bits_in_every_build(tmp_path: Path) -> None:
    text = (
        "kernel void run(device uint* out) { out[0] = as_type<uint>(numeric_limits<float>::infinity());"
        " out[1] = as_type<uint>(INFINITY); out[2] = as_type<ushort>(numeric_limits<half>::infinity());"
        " out[3] = as_type<ushort>(numeric_limits<bfloat>::quiet_NaN()); }"
    )
    for build in (Build(), Build(fast_math=True)):
        out = np.zeros(4, np.uint32)
        launch(compile_text(tmp_path, PRELUDE + text, {"run": 1}, build), "run", [out])
        assert out.tolist() == [0x7F800000, 0x7F800000, 0x7C00, 0x7FC0]


TRAITS = {
    "is_floating_point_v": "float half bfloat",
    "is_integral_v": "bool char uchar short ushort int uint long ulong int8_t",
    "is_arithmetic_v": "float half bfloat bool char uchar short ushort int uint long ulong int8_t",
    "is_signed_v": "float half bfloat char short int long int8_t",
    "is_unsigned_v": "bool uchar ushort uint ulong",
}
TYPES = [*TRAITS["is_arithmetic_v"].split(), "float2", "void", "Plain", "thread int*", "thread int&"]


@pytest.mark.parametrize("trait", TRAITS)
def test_a_trait_of_numbers_holds_for_exactly_its_types(trait: str, tmp_path: Path) -> None:
    holds = {name: name in TRAITS[trait].split() for name in TYPES}
    expected: dict[str, float] = {f"metal::{trait}<{name}>": value for name, value in holds.items()}
    expected |= {f"{trait.removesuffix('_v')}<const {name}>::value": value for name, value in holds.items()}
    assert not wrong_values(tmp_path, expected, declarations="struct Plain { int x; };")


def test_traits_that_make_and_compare_types(tmp_path: Path) -> None:
    same = {
        "remove_const_t<const int>": "int",
        "remove_const_t<const volatile int>": "volatile int",
        "remove_volatile_t<volatile int>": "int",
        "remove_cv_t<const volatile half>": "half",
        "remove_cv_t<device const half*>": "device const half*",
        "remove_reference_t<thread float&>": "float",
        "make_unsigned_t<int>": "uint",
        "make_unsigned_t<char>": "uchar",
        "make_unsigned_t<ulong>": "ulong",
        "make_signed_t<ushort>": "short",
        "make_signed_t<ulong>": "long",
        "make_signed_t<uchar>": "int8_t",
        "conditional_t<is_floating_point_v<half>, float, int>": "float",
        "conditional_t<is_floating_point_v<uint>, float, int>": "int",
        "enable_if_t<is_integral_v<uint>, half>": "half",
        "enable_if_t<true>": "void",
    }
    expected: dict[str, float] = {f"(is_same_v<{made}, {want}>)": 1 for made, want in same.items()}
    expected |= {
        "(is_same<half, bfloat>::value)": 0,
        "(is_convertible_v<half, float>)": 1,
        "(is_convertible<int, half>::value)": 1,
        "(is_convertible_v<half, bfloat>)": 0,
        "(is_convertible_v<half2, float2>)": 0,
        "(is_convertible_v<float, float4>)": 1,
        "(is_convertible_v<thread int*, float>)": 0,
        "kind(1.0h)": 1,
        "kind(1u)": 2,
        "kind(-1)": 3,
    }
    kinds = (("is_floating_point", 1), ("is_unsigned", 2), ("is_integral_v<T> && is_signed", 3))
    declarations = "".join(
        f"template <typename T, enable_if_t<{trait}_v<T>, int> = {k}> inline int kind(T) {{ return {k}; }}\n"
        for trait, k in kinds
    )
    overloads = declarations.replace("int> = 2", "uint> = 2").replace("int> = 3", "short> = 3")
    assert not wrong_values(tmp_path, expected, declarations=overloads)


def test_an_array_is_an_aggregate_of_its_elements(tmp_path: Path) -> None:
    expected = {
        "table[2]": 30,
        "table.size()": 3,
        "fixed[1]": 2.5,
        "sizeof(fixed)": 4,
        "copy[0] + copy[1]": 8,
        "local[1]": 2,
        "total(local)": 3,
        "*(copy.data() + 1)": 7,
        "nested[1][0]": 3,
        "zero[3]": 0,
        "from_template.size()": 2,
    }
    statements = (
        "array<int, 2> local = {1, 2}; auto copy = local; copy[1] = 7; array<float, 4> zero = {};"
        "array<array<int, 2>, 2> nested = {{{1, 2}, {3, 4}}}; array<float, kWidth> from_template;"
    )
    declarations = (
        "constant metal::array<float, 3> table = {10, 20, 30}; constant constexpr array<half, 2> fixed = {1.5h, 2.5h};"
        'constant constexpr uint kWidth = 2; static_assert(fixed.size() == 2 && fixed[0] == 1.5h, "");'
        "template <typename T, size_t N> inline T total(array<T, N> x) {"
        " T sum = 0; for (uint i = 0; i < x.size(); ++i) { sum += x[i]; } return sum; }"
    )
    assert not wrong_values(tmp_path, expected, statements, declarations)


def test_an_array_is_laid_out_as_its_elements_in_a_buffer(tmp_path: Path) -> None:
    text = (
        "kernel void run(constant array<float2, 3>& in [[buffer(0)]], device array<float, 3>& out [[buffer(1)]],"
        " uint i [[thread_position_in_grid]]) { out[i] = in[i].y; }"
    )
    pairs, out = np.arange(6, dtype=np.float32), np.zeros(3, np.float32)
    launch(compile_text(tmp_path, PRELUDE + text, {"run": 2}), "run", [pairs, out], (3, 1, 1))
    assert out.tolist() == [1, 3, 5]


def test_functions_of_bits_and_of_24_bits(tmp_path: Path) -> None:
    expected = {
        "mul24(3, -5)": -15,
        "mul24(0x1000003u, 0x2000005u)": 15,
        "mul24(0xffffff, 2)": -2,
        "mul24(0xffffffu, 2u) == 0x1fffffeu": 1,
        "mul24(0xffffffu, 0xffffffu) == 0xfe000001u": 1,
        "mad24(3, 4, -5)": 7,
        "mad24(3u, 4u, 0xff000000u) == 0xff00000cu": 1,
        "mad24(int2(2, 3), int2(4), 1).y": 13,
        "extract_bits(0xabcdu, 4, 8)": 0xBC,
        "extract_bits(0xabcd, 4, 8)": -0x44,
        "extract_bits(0xabcd, 4, 9)": 0xBC,
        "extract_bits(-1, 0, none)": 0,
        "extract_bits(uchar(0xf0), 4, 4)": 15,
        "extract_bits(char(0x70), 4, 3)": -1,
        "extract_bits(0xf000000000000000ul, 60, 4)": 15,
        "extract_bits(0x12345678u, 0, 32) == 0x12345678u": 1,
        "extract_bits(uint2(0xab, 0xcd), 4, 4).y": 0xC,
        "insert_bits(0xffffu, 0x3u, 4, 8)": 0xF03F,
        "insert_bits(0, -1, 8, 4)": 0xF00,
        "insert_bits(7, 0, 1, none)": 7,
        "insert_bits(1u, 0xdeadbeefu, 0, 32) == 0xdeadbeefu": 1,
        "insert_bits(uchar(0), uchar(255), 6, 2)": 0xC0,
        "insert_bits(0ul, 5ul, 40, 3) == 5ul << 40": 1,
        "insert_bits(int2(0, 0xff), int2(1), 4, 4).y": 0x1F,
        "reverse_bits(1u) == 0x80000000u": 1,
        "reverse_bits(0x0f000000)": 0xF0,
        "reverse_bits(uchar(0x1b))": 0xD8,
        "reverse_bits(short(1))": -32768,
        "reverse_bits(3ul) == 0xc000000000000000ul": 1,
        "reverse_bits(ushort4(1)).z": 32768,
    }
    assert not wrong_values(tmp_path, expected, "volatile uint none = 0;")


@pytest.mark.parametrize("header", ["metal_compute", "metal_limits", "metal_array", "metal_assert", "metal_math"])
def test_a_header_can_be_included_on_its_own_and_again(header: str, tmp_path: Path) -> None:
    use = {
        "metal_limits": "metal::numeric_limits<int>::digits == 31",
        "metal_array": "metal::array<int, 31>().size() == 31",
    }.get(header, "true")
    text = (
        f"#include <{header}>\n#include <{header}>\nkernel void run(device float* out) {{\n"
        f"#ifdef assert\nassert(out != nullptr);\n#endif\nout[0] = {use}; }}\n"
    )
    out = np.zeros(1, np.float32)
    launch(compile_text(tmp_path, text, {"run": 1}), "run", [out])
    assert out[0] == 1


def test_an_assertion_compiles_its_condition_and_does_not_evaluate_it(tmp_path: Path) -> None:
    expected = {"calls": 1, "(assert(calls == 1), 5)": 5}
    assert not wrong_values(tmp_path, expected, "int calls = 1; assert(++calls == 7); assert(calls < 0);")


def test_the_platform_is_macos(tmp_path: Path) -> None:
    declarations = (
        "\n#if defined(__METAL__) && defined(__METAL_MACOS__)\nconstant int platform = 1;\n"
        "#elif defined(__METAL_IOS__)\nconstant int platform = 2;\n#endif\n"
    )
    assert not wrong_values(tmp_path, {"platform": 1}, declarations=declarations)


def test_simd_names_are_those_of_metal(tmp_path: Path) -> None:
    same = {
        "simd::float2": "float2",
        "simd::uint3": "uint3",
        "simd::packed_float3": "packed_float3",
        "simd_float4": "float4",
        "simd_half2": "half2",
        "vector_float2": "float2",
        "vector_ulong3": "ulong3",
    }
    expected = {f"(is_same_v<{name}, {want}>)": 1 for name, want in same.items()} | {"simd::float2(1, 2).y": 2}
    assert not wrong_values(tmp_path, expected, declarations="\n#include <simd/simd.h>\n#include <simd/simd.h>\n")
