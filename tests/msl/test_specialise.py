"""Function constants written into the text: exactly their values, and nothing else changed, or a refusal."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msl_harness import CONSTANTS, PRELUDE, compile_text, launch, write

from kernel.launch import ENTRIES_THAT_MAY_ASK, REQUIRED_ENTRIES
from kernel.msl import FunctionConstants, ShaderError
from kernel.msl.specialise import read_template

SHADERS = sorted(Path("shaders").glob("rope_*.metal"))
REPORT = """
kernel void report(device uint* out [[buffer(0)]]) {
    out[0] = A; out[1] = B; out[2] = C; out[3] = as_type<uint>(D); out[4] = E;
}
"""
ALL = """constant uint A [[function_constant(0)]];
constant uint B [[function_constant(1)]];
constant uint C [[function_constant(2)]];
constant float D [[function_constant(3)]];
constant uint E [[function_constant(4)]];
"""


def filled(folder: Path, text: str, constants: FunctionConstants = CONSTANTS) -> str:
    return read_template(write(folder, text), {}).filled(constants)


def words(folder: Path, text: str) -> list[int]:
    """What REPORT tells of the values, run with function constants that are all others."""
    out = np.zeros(5, np.uint32)
    launch(compile_text(folder, text, {"report": 1}), "report", [out], constants=FunctionConstants(9, 9, 9, 9.0, 9))
    return [int(word) for word in out]


@pytest.mark.parametrize("shader", [*SHADERS, Path("tests/shaders/second.metal")], ids=lambda path: path.name)
def test_only_the_declarations_of_a_shader_change(shader: Path) -> None:
    template = read_template(shader, REQUIRED_ENTRIES, ENTRIES_THAT_MAY_ASK)
    before, after = shader.read_text().split("\n"), template.filled(CONSTANTS).split("\n")
    assert len(before) == len(after)
    literals = {"0": "64u", "1": "4u", "2": "2u", "3": "0x1.0000000000000p-2f", "4": "3u"}
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    assert len(changed) == len(template.gaps) >= 4
    for old, new in changed:
        start, _, rest = old.partition("[[function_constant(")
        assert new == f"{start}= {literals[rest[0]]}{rest[3 + 1 :]}"


def test_the_values_are_those_that_the_host_would_give(tmp_path: Path) -> None:
    text = filled(tmp_path, PRELUDE + ALL + REPORT, FunctionConstants(0, 1, 2**32 - 1, -0.75, 7))
    assert words(tmp_path, text) == [0, 1, 2**32 - 1, 0xBF400000, 7]


def test_floats_keep_every_bit(tmp_path: Path) -> None:
    """Both signs, powers of two, neighbours of a rounding boundary, and the smallest and largest of them."""
    rng = np.random.default_rng(5)
    bits = [0, 1 << 31, 1, 0x7F7FFFFF, 0x00800000, 0x3E549A78, *rng.integers(0, 0x7F800000, 250), 0xC0490FDB]
    template = read_template(write(tmp_path, ALL), {})
    declarations, statements = "", ""
    for i, word in enumerate(bits):
        value = struct.unpack("=f", struct.pack("=I", word))[0]
        line = template.filled(replace(CONSTANTS, log2_base_over_head_dim=value)).split("\n")[3]
        declarations += line.replace("float D", f"float D{i}") + "\n"
        statements += f"out[{i}] = as_type<uint>(D{i});\n"
    out = np.zeros(len(bits), np.uint32)
    text = f"{PRELUDE}{declarations}kernel void report(device uint* out [[buffer(0)]]) {{\n{statements}}}\n"
    launch(compile_text(tmp_path, text, {"report": 1}), "report", [out])
    assert out.tolist() == bits


def test_what_looks_like_a_declaration_and_is_none_stays(tmp_path: Path) -> None:
    text = (
        f"{PRELUDE}// constant uint A [[function_constant(0)]];\r\n"
        "/* constant uint A [[function_constant(1)]];\n is_function_constant_defined(A) */\n"
        "#if 0\nconstant uint A [[function_constant(2)]];\n#endif\n"
        "// joined \\\nconstant uint A [[function_constant(2)]];\n"
        "#define UNUSED(x) is_function_constant_defined(x) /* over\n two lines */\n"
        'static_assert(true, "constant uint A [[function_constant(0)]];");\n'
        "constant uint A[[function_constant(1)]];\r\n"
        "\tconstant   const float\tD   [[ function_constant ( 3 ) ]] ; // x\n"
    )
    after = (
        text.replace("A[[function_constant(1)]];\r", "A= 4u;\r")
        .replace("[[ function_constant ( 3 ) ]] ;", "= 0x1.0000000000000p-2f ;")
        .encode()
    )
    path = tmp_path / "my.metal"
    path.write_bytes(text.encode())
    assert read_template(path, {}).filled(CONSTANTS).encode() == after


def test_what_is_spread_over_lines_leaves_the_later_ones_their_numbers(tmp_path: Path) -> None:
    text = f'{PRELUDE}constant uint A [[\n  function_constant(\n0)\n]];\nstatic_assert(__LINE__ == 7, "");\n'
    after = filled(tmp_path, text)
    assert after == f'{PRELUDE}constant uint A = 64u\n\n\n;\nstatic_assert(__LINE__ == 7, "");\n'


def test_an_index_and_a_type_may_come_from_macros(tmp_path: Path) -> None:
    text = f"{PRELUDE}#define AT(n) (n)\n#define FIRST 0\n#define U uint\nconstant U A [[function_constant(FIRST)]];\n"
    assert filled(tmp_path, text).endswith("constant U A = 64u;\n")


def test_constants_are_defined(tmp_path: Path) -> None:
    text = ALL + "constant bool both = is_function_constant_defined(A) && is_function_constant_defined ( A );\n"
    assert filled(tmp_path, text).endswith("constant bool both = true && true;\n")


def test_namespaces_keep_constants_of_one_name_apart(tmp_path: Path) -> None:
    text = "namespace a { constant uint N [[function_constant(%s)]]; }\nnamespace b {\nconstant uint N %s; }\n"
    after = filled(tmp_path, text % ("0", "[[function_constant(1)]]"))
    assert after == text.replace("[[function_constant(%s)]]", "%s") % ("= 64u", "= 4u")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("#define C(n, i) constant uint n [[function_constant(i)]];\nC(A, 0)", "my.metal:4: the function constant A"),
        ("#define A_ATTRIBUTE [[function_constant(0)]]\nconstant uint A A_ATTRIBUTE;", "my.metal:4: the function"),
        ("constant uint A \\\n[[function_constant(0)]];", "my.metal:3: the function constant A comes"),
        ("constant uint A [[function_constant(0)]], B [[function_constant(1)]];", "my.metal:3: this function constant"),
        ("[[function_constant(0)]] constant uint A;", "my.metal:3: this function constant is not understood"),
        ("constant uint A [[function_constant(0), maybe_unused]];", "my.metal:3: this function constant"),
        ("constant uint A <:<:function_constant(0):>:>;", "my.metal:3: this function constant is not understood"),
        ("using U = uint;\nconstant U A [[function_constant(0)]];", "my.metal:4: this function constant"),
        ("constant uint A [[function_constant(0)]] = 3;", "my.metal:3: this function constant"),
        ("struct S { constant uint A [[function_constant(0)]]; };", r"my.metal:3: \[\[function_constant\]\] is und"),
        ("void f(uint A [[function_constant(0)]]) {}", r"my.metal:3: this function constant"),
        ("constant uint A [[function_constant(1 + 1)]];", "my.metal:3: this function constant is not understood"),
        ("constant uint A [[function_constant(5)]];", r"my.metal:3: function_constant\(5\) uint: the interface has"),
        ("constant float A [[function_constant(0)]];", r"my.metal:3: function_constant\(0\) float: the interface has"),
        ("constant uint A [[function_constant(3)]];", r"my.metal:3: function_constant\(3\) uint: the interface has"),
        ("constant int A [[function_constant(0)]];", "my.metal:3: this function constant is not understood"),
        ("constant bool b = is_function_constant_defined(A);", "my.metal:3: is_function_constant_defined is"),
        (
            "constant uint A [[function_constant(0)]];\n#define HAS(x) is_function_constant_defined(x)\n"
            "constant bool b = HAS(A);",
            r"my.metal:5: is_function_constant_defined\(A\) comes from a macro",
        ),
        ('#include "mine.h"', "my.metal: includes .*mine.h: this target takes one text"),
        ("void f() {", "my.metal:3: this brace is not closed"),
        ('#include "absent.h"', "my.metal:3:.* absent.h"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    write(tmp_path, "constant uint A [[function_constant(0)]];\n", "mine.h")
    with pytest.raises(ShaderError, match=message) as error:
        filled(tmp_path, f"{PRELUDE}{line}\n")
    assert "\n" not in str(error.value)


def test_a_missing_entry_point_is_named() -> None:
    with pytest.raises(ShaderError, match="entry point nothing_f16 is missing"):
        read_template(SHADERS[0], {"nothing_f16": 1})


def test_built_in_arguments_are_no_buffers(tmp_path: Path) -> None:
    buffers = "device uint* out, constant uint& n [[buffer(1)]]"
    others = "uint3 size [[threads_per_grid]], uint i [[thread_position_in_grid]]"
    text = f"{PRELUDE}kernel void run({buffers}, {others}) {{}}\n"
    assert read_template(write(tmp_path, text), {"run": 2}).num_buffers == {"run": 2}
