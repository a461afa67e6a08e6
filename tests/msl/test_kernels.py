"""Ways to write an entry point: each is found, given its buffers and run over the grid."""

from pathlib import Path

import numpy as np
import pytest
from msl_harness import CONSTANTS, PRELUDE, compile_text, launch

from kernel.msl import FunctionConstants, compile_program

# Each defines `twice`, which reads buffer 0 and writes its double to buffer 1. FLOATS and TS stand for the usual
# parameters (of float and of T), BODY for the usual body.
FLOATS = "device const float* in [[buffer(0)]], device float* out [[buffer(1)]], uint i [[thread_position_in_grid]]"
FORMS = {
    "keyword": "kernel void twice(FLOATS) BODY",
    "attribute": "[[kernel]] void twice(FLOATS) BODY",
    "host name first": '[[host_name("twice")]] kernel void f(FLOATS) BODY',
    "host name last": '[[kernel]] [[host_name("tw" "ice")]] void f(FLOATS) BODY',
    "attribute after the name": 'kernel void f [[host_name("twice")]] (FLOATS) BODY',
    "one list": '[[kernel, host_name("twice"), max_total_threads_per_threadgroup(256)]] void f(FLOATS) BODY',
    "automatic indexes": """
        kernel void twice(const device float* in, device float* out, uint i [[thread_position_in_grid]]) BODY""",
    "some automatic indexes": """
        kernel void twice(device float* out [[buffer(1)]], device const float* in,
                          uint i [[thread_position_in_grid]]) BODY""",
    "position first": """
        kernel void twice(uint3 gid [[thread_position_in_grid]], device float* out [[buffer(1)]],
                          device const float* in [[buffer(0)]]) { out[gid.x] = 2 * in[gid.x]; }""",
    "position of two": """
        kernel void twice(device const float* in, device float* out,
                          const ushort2 gid [[thread_position_in_grid]]) { out[gid.x] = 2 * in[gid.x]; }""",
    "no position": """
        kernel void twice(device const float4& in [[buffer(0)]], device float4& out [[buffer(1)]]) {
            out = 2 * in;
        }""",
    "references": """
        struct Row { float x[4]; };
        kernel void twice(constant Row& in [[buffer(0)]], device Row& out [[buffer(1)]],
                          ushort i [[thread_position_in_grid]]) { out.x[i] = 2 * in.x[i]; }""",
    "index expressions": """
        #define FIRST 0
        enum Index { kOut = 1 };
        kernel void twice(device const float* in [[buffer(FIRST)]], device float* out [[ buffer(FIRST + kOut) ]],
                          uint i [[thread_position_in_grid]]) BODY""",
    "namespaces": """
        namespace a { namespace b { using T = float; kernel void twice(TS) BODY } }""",
    "unnamed namespace": "namespace { struct Unused { int x; }; kernel void twice(FLOATS) BODY }",
    "nested namespace": """
        namespace a::b { template <class T> [[kernel]] void f(TS) BODY
        template [[host_name("twice")]] [[kernel]] decltype(f<float>) f<float>; }""",
    "instantiation from outside": """
        namespace a { template <class T> [[kernel]] void f(TS) BODY }
        template [[host_name("twice")]] [[kernel]] void a::f<float>(FLOATS);""",
    "explicit instantiation": """
        template <typename T, uint N = 2> [[kernel]] void f(TS) { out[i] = N * in[i]; }
        template [[host_name("twice")]] [[kernel]] void f<float>(FLOATS);""",
    "deduced instantiation": """
        template <typename T> kernel void f(TS) BODY
        template [[host_name("twice")]] kernel void f(FLOATS);""",
    "instantiation without attributes": """
        template <typename T> kernel void f(TS) BODY
        template [[host_name("twice")]] void f<float>(device const float*, device float*, uint);""",
    "values and types": """
        template <typename T, int N, bool Twice> [[kernel]] void f(TS) { out[i] = (Twice ? N : 0) * in[i]; }
        template [[host_name("twice")]] [[kernel]]
        decltype(f<float, (4 > 3) ? 2 : 1, true>) f<float, (4 > 3) ? 2 : 1, true>;""",
    "macro": """
        template <typename T> [[kernel]] void double_each(TS) BODY
        #define CAT(a, b) a##b
        #define INSTANTIATE(name, T) template [[host_name(#name)]] [[kernel]] void CAT(double_, each)<T>(TS);
        INSTANTIATE(twice, float)
        INSTANTIATE(twice_half, half)""",
    "overloads": """
        template <typename T> [[kernel]] void f(TS) BODY
        template <typename T> [[kernel]] void f(device T* in [[buffer(0)]]) { in[0] = 0; }
        template [[host_name("twice")]] [[kernel]] void f<float>(FLOATS);
        template [[host_name("other")]] [[kernel]] void f<float>(device float* in [[buffer(0)]]);""",
    "declared before": "kernel void twice(FLOATS);\nkernel void twice(FLOATS) BODY",
    "helper class and lambda": """
        struct Op { float operator()(float x) const { return 2 * x; } };
        kernel void twice(FLOATS) { auto g = [](float x) { return Op()(x); }; out[i] = g(in[i]); }""",
    "short macro names": """
        #define N 2
        #define T float
        #define P position
        #define I index
        kernel void twice(FLOATS) { const T P[N] = {N * in[i]}; out[i] = P[0]; }""",
    "class of the source's own": """
        template <typename T, uint N> struct Scale { METAL_FUNC static T apply(T x) { return x * T(N); } };
        template <typename Op, typename T> [[kernel]] void f(TS) { out[i] = Op::apply(in[i]); }
        template [[host_name("twice")]] [[kernel]] decltype(f<Scale<float, 2>, float>) f<Scale<float, 2>, float>;""",
    "simd types": """
        #include <simd/simd.h>
        kernel void twice(FLOATS) { simd::float2 x = 2; out[i] = x.y * in[i]; }""",
    "carriage returns": "kernel void twice(\r\nFLOATS) \\\r\nBODY\r\n",
    "pragmas": """
        #pragma METAL internals : enable
        #pragma clang diagnostic ignored "-Wfoo"
        kernel void twice(FLOATS) { _Pragma("unroll") for (int j = 0; j < 1; ++j) { out[i] = 2 * in[i]; } }""",
}


@pytest.mark.parametrize("form", FORMS)
def test_an_entry_point_runs_in_whatever_form_it_is_written(form: str, tmp_path: Path) -> None:
    text = FORMS[form].replace("FLOATS", FLOATS).replace("TS", FLOATS.replace("float", "T"))
    program = compile_text(tmp_path, PRELUDE + text.replace("BODY", "{ out[i] = 2 * in[i]; }"), {"twice": 2})
    numbers, doubled = np.arange(1, 5, dtype=np.float32), np.zeros(4, np.float32)
    launch(program, "twice", [numbers, doubled], (4, 1, 1))
    assert doubled.tolist() == [2, 4, 6, 8]


# Each defines `look`, which copies entry i of the table, buffer 1, to entry i of buffer 0.
ASKING = {
    "pointer": "kernel void look(device ulong* out [[buffer(0)]], device const ulong* table [[buffer(1)]], INDEX) BODY",
    "constant": "kernel void look(device ulong* out [[buffer(0)]], constant ulong* table [[buffer(1)]], INDEX) BODY",
    "not const": "kernel void look(device ulong* out [[buffer(0)]], device ulong* table [[buffer(1)]], INDEX) BODY",
    "another name": "kernel void look(device ulong* out, const device uint64_t* table, INDEX) BODY",
    "automatic": "kernel void look(device ulong* out, constant ulong* table, INDEX) BODY",
    "first in the list": """
        kernel void look(INDEX, constant ulong* table [[buffer(1)]], device ulong* out [[buffer(0)]]) BODY""",
    "reference": """
        kernel void look(device ulong* out, constant ulong& first [[buffer(1)]], INDEX) {
            constant ulong* table = &first;
            out[i] = table[i];
        }""",
    "template": """
        template <class T> [[kernel]] void f(device T* out, device const T* table [[buffer(1)]], INDEX) BODY
        template [[host_name("look")]] [[kernel]] decltype(f<ulong>) f<ulong>;""",
}


@pytest.mark.parametrize("form", ASKING)
def test_an_entry_point_may_ask_for_a_table(form: str, tmp_path: Path) -> None:
    text = ASKING[form].replace("INDEX", "uint i [[thread_position_in_grid]]").replace("BODY", "{ out[i] = table[i]; }")
    program = compile_text(tmp_path, PRELUDE + text, {"look": 1}, may_ask={"look"})
    assert program.specialise(CONSTANTS).num_buffers("look") == 2
    table, seen = np.array([2**64 - 1, 3], np.uint64), np.zeros(2, np.uint64)
    launch(program, "look", [seen, table], (2, 1, 1))
    assert seen.tolist() == table.tolist()


def test_an_entry_point_that_may_ask_need_not(tmp_path: Path) -> None:
    text = "kernel void plain(device float* out) { out[0] = 1; }"
    program = compile_text(tmp_path, PRELUDE + text, {"plain": 1}, may_ask={"plain"})
    assert program.specialise(CONSTANTS).num_buffers("plain") == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_every_thread_of_the_grid_runs_once_in_the_order_asked_for(reverse: bool, tmp_path: Path) -> None:
    text = (
        "kernel void mark(device uint* order [[buffer(0)]], device uint& next [[buffer(1)]],"
        " uint3 gid [[thread_position_in_grid]]) { order[next++] = gid.x + 10 * gid.y + 100 * gid.z; }"
    )
    program = compile_text(tmp_path, PRELUDE + text, {"mark": 2})
    order, count = np.zeros(24, np.uint32), np.zeros(1, np.uint32)
    launch(program, "mark", [order, count], (2, 3, 4), reverse=reverse)
    x_fastest = [x + 10 * y + 100 * z for z in range(4) for y in range(3) for x in range(2)]
    assert order.tolist() == (x_fastest[::-1] if reverse else x_fastest)
    for empty in ((0, 3, 4), (2, 0, 4), (2, 3, 0)):
        launch(program, "mark", [order, count], empty, reverse=reverse)
    assert count[0] == 24


def test_code_that_is_right_for_one_order_of_threads_gives_itself_away(tmp_path: Path) -> None:
    text = "kernel void run(device uint* x, uint i [[thread_position_in_grid]]) { x[i + 1] = x[i] + 1; }"
    program = compile_text(tmp_path, PRELUDE + text, {"run": 1})
    forwards, backwards = np.zeros(5, np.uint32), np.zeros(5, np.uint32)
    launch(program, "run", [forwards], (4, 1, 1))
    launch(program, "run", [backwards], (4, 1, 1), reverse=True)
    assert forwards.tolist() == [0, 1, 2, 3, 4]
    assert backwards.tolist() == [0, 1, 1, 1, 1]


def test_includes_beside_the_shader_are_found(tmp_path: Path) -> None:
    (tmp_path / "helper.h").write_text("inline float twice_of(float x) { return 2 * x; }\n")
    text = (
        '#include "helper.h"\nkernel void twice(device float* x [[buffer(0)]],'
        " uint i [[thread_position_in_grid]]) { x[i] = twice_of(x[i]); }"
    )
    x = np.full(3, 3, np.float32)
    launch(compile_text(tmp_path, PRELUDE + text, {"twice": 1}), "twice", [x], (3, 1, 1))
    assert x.tolist() == [6, 6, 6]


@pytest.mark.parametrize(("entry", "error"), [("rope_k_f32", 2.0**-20), ("rope_k_fast", 2.0**-11)])
def test_a_rotary_kernel_in_another_style_rotates(entry: str, error: float) -> None:
    required = {"rope_q_f16": 3, "rope_q_bf16": 3, "rope_k_f32": 3, "rope_k_fast": 3}
    program = compile_program(Path(__file__).with_name("another_style.metal"), required)
    head_dim, num_heads, positions = 8, 4, np.arange(-2, 3, dtype=np.int32)
    x = np.random.default_rng(3).uniform(-1, 1, (positions.size, num_heads, head_dim)).astype(np.float32)
    out = np.full_like(x, np.nan)
    constants = FunctionConstants(head_dim, 2, num_heads, float(np.log2(1e4)) / head_dim, heads_per_thread=3)
    launch(program, entry, [x, out, positions], (head_dim // 2, positions.size, 2), constants)
    pairs = x[..., : head_dim // 2] + 1j * x[..., head_dim // 2 :]
    angle = positions[:, None, None] * 1e4 ** (-2 * np.arange(head_dim // 2) / head_dim)
    turned = pairs * np.exp(1j * angle)
    assert np.max(np.abs(out - np.concatenate([turned.real, turned.imag], -1))) < error
