"""What is wrong in a shader is said in a line or two, at the shader's own file and line."""

from collections.abc import Collection
from pathlib import Path

import pytest
from msl_harness import PRELUDE, compile_text, write

from kernel.msl import Build, FunctionConstants, ShaderError, compile_program

# Statements, on line 4, that cannot be right on the host target, and what the message says of them.
UNMODELLED = "is not modelled on the host target (kernel/LIMITS.md)"
STATEMENTS = {
    "out[0] = simd_sum(out[0]);": f"my.metal:4: simd_sum {UNMODELLED}",
    "out[0] = quad_max(out[0]);": f"my.metal:4: quad_max {UNMODELLED}",
    "threadgroup float shared[32]; shared[0] = 1;": f"my.metal:4: threadgroup {UNMODELLED}",
    "threadgroup_barrier(mem_flags::mem_threadgroup);": f"my.metal:4: threadgroup_barrier {UNMODELLED}",
    "atomic_fetch_add_explicit((device atomic_uint*)out, 1u, memory_order_relaxed);": (
        f"my.metal:4: atomic_uint {UNMODELLED}"
    ),
    "simdgroup_float8x8 m;": f"my.metal:4: simdgroup_float8x8 {UNMODELLED}",
    "float4x4 m;": f"my.metal:4: float4x4 {UNMODELLED}",
    'printf("x");': f"my.metal:4: printf {UNMODELLED}",
    "out[0] = unpack_half2x16_to_float(1).x;": UNMODELLED,
    "out[0] = undeclared(1);": "my.metal:4:10: error: 'undeclared' was not declared in this scope",
    "double x = 1;": "my.metal:4: error: Metal has no double",
    "long double x = 1;": "my.metal:4: error: Metal has no double",
    "out[0] = __builtin_foo(1.0);": "my.metal:4",
    "out[0] = as_type<ushort>(1.0f);": "my.metal:4: error: as_type needs two types of the same size",
    "float2 v = float2(1, 2); v.xx = v;": "my.metal:4: error: a swizzle that repeats an element cannot be assigned",
    "float3 v = float3(1, 2); out[0] = v.x;": (
        "my.metal:4: error: a vector constructor needs one value for each element"
    ),
    "out[0] = float2(1, 2).z;": "my.metal:4",
    "out[0] = float2(1) + float3(1);": "my.metal:4",
    "out[0] = 1.0h * 1.0bf;": "my.metal:4",
    "float2 v = half2(1);": "my.metal:4",
    "out[0] = (int2(1) * 1.5f).x;": "my.metal:4",
    "out[0] = min(1u, 2);": "my.metal:4:13: error: use of deleted function",
    "out[0] = max(out[0], 0);": "my.metal:4:13: error: use of deleted function",
    "out[0] = clamp(ulong(1), 0u, 2u);": "my.metal:4:15: error: use of deleted function",
    "out[0] = std::cos(1.0f);": "my.metal:4",
    "out[0] = cosf(1.0f);": "my.metal:4",
    "memcpy(out, out, 4);": "my.metal:4",
    "throw 1;": "my.metal:4",
    "out[0] = missing_semicolon": "my.metal:",
}


def failure(
    folder: Path,
    text: str,
    required: dict[str, int],
    build: Build | None = None,
    may_ask: Collection[str] = (),
) -> str:
    with pytest.raises(ShaderError) as caught:
        compile_text(folder, text, required, build, may_ask)
    return str(caught.value)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_construct_that_is_not_modelled_or_wrong_is_named_at_its_line(statement: str, tmp_path: Path) -> None:
    message = failure(
        tmp_path,
        f"{PRELUDE}kernel void run(device float* out [[buffer(0)]]) {{\n{statement}\n}}\n",
        {"run": 1},
    )
    assert STATEMENTS[statement] in message
    assert message.startswith("my.metal:")
    assert len(message.splitlines()) <= 3
    assert "/include/" not in message


# Whole sources (after the two lines of PRELUDE) whose kernel `run`, of two buffers, is not as required.
SOURCES = {
    "kernel void other(device float* a [[buffer(0)]]) {}\n[[kernel]] void more() {}": (
        "my.metal: entry point run is missing (found: more, other)"
    ),
    "void run() {}": "my.metal: entry point run is missing (found: none)",
    "// kernel void run(device float* a, device float* b) {}": "my.metal: entry point run is missing (found: none)",
    "template <class T> [[kernel]] void run(device T* a [[buffer(0)]], device T* b [[buffer(1)]]) {}": (
        "my.metal: entry point run is missing (found: none)"
    ),
    "\nkernel void run(device float* a [[buffer(0)]]) {}": "my.metal:4: run takes 1 buffers, 2 are required",
    "kernel void run(device float* a [[buffer(0)]],\n device float* b [[buffer(2)]]) {}": (
        "my.metal:3: error: the 2 buffers of run must be numbered from 0, each once"
    ),
    "kernel void run(device float* a [[buffer(0)]],\n device float* b [[buffer(0)]]) {}": (
        "my.metal:3: error: the 2 buffers of run must be numbered from 0, each once"
    ),
    "kernel void run(device float* a [[buffer(0)]],\n device float* b [[buffer(1)]],\n"
    " uint l [[thread_index_in_simdgroup]]) {}": f"my.metal:5: [[thread_index_in_simdgroup]] {UNMODELLED}",
    "kernel void run(device float* a,\n device float* b, uint g [[threadgroup_position_in_grid]]) {}": (
        f"my.metal:4: [[threadgroup_position_in_grid]] {UNMODELLED}"
    ),
    "kernel void run(device float* a, device float* b,\n texture2d<float> t [[texture(0)]]) {}": (
        f"my.metal:4: [[texture]] {UNMODELLED}"
    ),
    "kernel void run(device float* a, device float* b, uint n) {}": (
        "my.metal:3: `uint n` of run has no attribute such as [[buffer(0)]]"
    ),
    "constant uint X [[function_constant(7)]];\nkernel void run(device float* a, device float* b) { a[0] = X; }": (
        "my.metal:3: error: function constant index: the interface has 0 to 4 only"
    ),
    "\nconstant float X [[function_constant(0)]];\nkernel void run(device float* a, device float* b) {}": (
        "my.metal:4: error: function constant type"
    ),
    "#include <cmath>\nkernel void run(device float* a, device float* b) {}": "my.metal:3",
    "float helper(float x);\nkernel void run(device float* a, device float* b) { a[0] = helper(1); }": (
        "my.metal: helper(float) is declared but not defined"
    ),
    "#error not today": "my.metal:3",
    "kernel void run(device float* a, device float* b) {": "my.metal:3: this brace is not closed",
}


@pytest.mark.parametrize("text", SOURCES)
def test_a_source_that_is_not_as_required_is_refused_with_the_reason(text: str, tmp_path: Path) -> None:
    message = failure(tmp_path, f"{PRELUDE}{text}\n", {"run": 2})
    assert SOURCES[text] in message
    assert len(message.splitlines()) <= 3


# Buffers of a kernel `run` that needs one and may ask for a table, and what the message says of them.
NO_TABLE = "my.metal:3: error: buffer 1 of run is the table it asks for: a pointer or a reference to ulong"
TABLES = {
    "device float* a [[buffer(0)]], device const float* b [[buffer(1)]]": NO_TABLE,
    "device float* a [[buffer(0)]], device const long* b [[buffer(1)]]": NO_TABLE,
    "device float* a [[buffer(0)]], constant uint& b [[buffer(1)]]": NO_TABLE,
    "device float* a [[buffer(0)]], device const ulong2* b [[buffer(1)]]": NO_TABLE,
    "device const ulong* b [[buffer(0)]], device float* a [[buffer(1)]]": NO_TABLE,
    "device float* a [[buffer(0)]], device const ulong* b [[buffer(2)]]": (
        "my.metal:3: error: the 2 buffers of run must be numbered from 0, each once"
    ),
    "device float* a, device ulong* b, device ulong* c": "my.metal:3: run takes 3 buffers, 1 or 2 are required",
    "uint i [[thread_position_in_grid]]": "my.metal:3: run takes 0 buffers, 1 or 2 are required",
}


@pytest.mark.parametrize("buffers", TABLES)
def test_a_table_that_is_none_is_refused_with_the_reason(buffers: str, tmp_path: Path) -> None:
    text = f"{PRELUDE}kernel void run({buffers}) {{}}\n"
    assert failure(tmp_path, text, {"run": 1}, may_ask={"run"}) == TABLES[buffers]


@pytest.mark.parametrize(
    ("pragma", "build"),
    [
        ("#pragma METAL fp math_mode(safe)", Build(fast_math=True)),
        ("#pragma METAL fp contract(off)", Build(contract=True)),
        ("#pragma clang fp contract(off)", Build(contract=True)),
        ("#pragma STDC FP_CONTRACT OFF", Build(contract=True)),
    ],
)
def test_a_pragma_that_the_build_cannot_honour_is_refused(pragma: str, build: Build, tmp_path: Path) -> None:
    text = f"{PRELUDE}{pragma}\nkernel void run(device float* a) {{ a[0] = 1; }}\n"
    assert failure(tmp_path, text, {"run": 1}, build).startswith(f"my.metal:3: {pragma} is stricter than this build")
    compile_text(tmp_path, text, {"run": 1})


def test_several_missing_entry_points_are_named_in_one_message(tmp_path: Path) -> None:
    assert failure(tmp_path, PRELUDE, {"a": 1, "b": 1}) == "my.metal: entry points a, b are missing (found: none)"


def test_an_error_in_an_included_file_is_placed_in_that_file(tmp_path: Path) -> None:
    (tmp_path / "helper.h").write_text("inline float f() {\n return nothing;\n}\n")
    message = failure(tmp_path, f'{PRELUDE}#include "helper.h"\n', {})
    assert message == "helper.h:2:9: error: 'nothing' was not declared in this scope"


def test_without_the_standard_library_its_functions_are_unknown(tmp_path: Path) -> None:
    text = "kernel void run(device float* a [[buffer(0)]]) { a[0] = metal::precise::cos(1.0); }\n"
    assert failure(tmp_path, text, {"run": 1}).startswith("my.metal:1:")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no such file"),
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"a\xff", "not UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_a_shader_is_refused(content: bytes | None, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "my.metal"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ShaderError, match=reason) as caught:
        compile_program(path, {})
    assert "my.metal" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ShaderError, match="a directory"):
        compile_program(tmp_path, {})


def test_a_wrong_launch_is_refused(tmp_path: Path) -> None:
    program = compile_program(
        write(tmp_path, f"{PRELUDE}kernel void run(device float* a [[buffer(0)]]) {{}}\n"), {"run": 1}
    )
    specialisation = program.specialise(FunctionConstants(64, 1, 1, 0.1, 1))
    with pytest.raises(ShaderError, match="run takes 1 buffers, 2 were given"):
        specialisation.launch("run", [0, 0], (1, 1, 1))
    with pytest.raises(ShaderError, match="other is not an entry point"):
        specialisation.launch("other", [0], (1, 1, 1))
