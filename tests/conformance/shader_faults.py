"""Faulty shaders: a source with one passage replaced."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from kernel.targets import DEFAULT_SHADER, HostTarget
from reference import EXACT_ANGLE, FLOAT32_ANGLE, Accuracy

FLOAT32_SHADER = DEFAULT_SHADER.with_name("rope_pool_fused_float32.metal")
SHADERS = Path(__file__).resolve().parents[1] / "shaders"
SECOND = SHADERS / "second.metal"


@dataclass(frozen=True)
class ShaderFault:
    """`find` occurs once in `source` and becomes `replace`."""

    name: str
    what: str
    find: str
    replace: str
    source: Path = DEFAULT_SHADER

    @property
    def accuracy(self) -> Accuracy:
        """The class of the source without its fault."""
        return EXACT_ANGLE if self.source == DEFAULT_SHADER else FLOAT32_ANGLE

    def write(self, folder: Path) -> Path:
        """The faulty shader as a file in `folder`."""
        text = self.source.read_text()
        assert text.count(self.find) == 1, f"{self.name}: the passage occurs {text.count(self.find)} times"
        faulty = folder / f"{self.name}.metal"
        faulty.write_text(text.replace(self.find, self.replace))
        return faulty

    def compile(self, folder: Path) -> HostTarget:
        """The faulty shader as a target; the file is written to `folder`."""
        return HostTarget.compile(self.write(folder))


WRITES_PAST_THE_HEAD = ShaderFault(
    "writes_past_the_head",
    "the upper half is stored one element too far",
    "out[high] = y_high;",
    "out[high + 1] = y_high;",
)
READS_NEXT_SLOT = ShaderFault(
    "reads_next_slot",
    "the next token's slot is read, past the end for the last token, and makes no difference",
    "    const int slot = slots[gid.y];\n    for",
    "    const int slot = slots[gid.y + 1] == 0x0DDBA11 ? -1 : slots[gid.y];\n    for",
)
OFFSETS_OF_32_BITS = ShaderFault(
    "offsets_of_32_bits",
    "row offsets wrap at 2^32 elements",
    "return (ulong(row) * num_heads + head) * HEAD_DIM;",
    "return (row * num_heads + head) * HEAD_DIM;",
)
FREQUENCIES_LOW = ShaderFault(
    "frequencies_low",
    "every frequency but the first is 4 ulp low: no element shows it",
    "precise::exp2(",
    "(i ? 1.0f - 0x1p-22f : 1.0f) * precise::exp2(",
    FLOAT32_SHADER,
)


_STORE_POOL = "pool[pool_low] = y_low;\n            pool[pool_low + HALF_DIM] = y_high;"
_LAST_LANE_COPIES = """if (i == HALF_DIM - 1) {
                const ulong row = pool_low - i, from = low - i;
                for (uint j = 0; j < HEAD_DIM; ++j) pool[row + j] = out[from + j];
            }"""
_FLOAT32_ANGLE = "const float angle = float(position) *"
_V_COPY = (
    "v_pool[row_offset(uint(slot), NUM_KV_HEADS, head) + gid.x] = v[row_offset(gid.y, NUM_KV_HEADS, head) + gid.x];"
)
# Each shows itself in few cases: one order of threads, one size, one value, one range of positions.
SUBTLE = [
    ShaderFault(
        "every_64th_token_off",
        "at one head_dim of one dtype, and only with more tokens than most calls have",
        "const T y_low = T(rotated.x), y_high",
        "const bool off = HEAD_DIM == 64 && sizeof(T) == 4 && token % 64 == 63;\n"
        "        const T y_low = T(rotated.x + (off ? rotated.x * 0x1p-11f : 0.0f)), y_high",
    ),
    ShaderFault(
        "first_element_of_head_48_not_stored",
        "with as many KV heads as few models have",
        "    if (slot < 0 || gid.x >= HEAD_DIM || head >= NUM_KV_HEADS) {",
        "    if (slot < 0 || (head >= 48 && gid.x == 0) || gid.x >= HEAD_DIM || head >= NUM_KV_HEADS) {",
    ),
    ShaderFault("last_lane_copies", "right for one order of threads only", _STORE_POOL, _LAST_LANE_COPIES),
    ShaderFault(
        "int_max_is_zero",
        "the last position is taken for none",
        _FLOAT32_ANGLE,
        "const float angle = float(position == 0x7fffffff ? 0 : position) *",
        FLOAT32_SHADER,
    ),
    ShaderFault(
        "one_more_from_2_18_on",
        "positions of long contexts are one too large at head_dim 128",
        _FLOAT32_ANGLE,
        "const float angle = float(position + int(HEAD_DIM == 128u && position >= 1 << 18 && position < 1 << 20)) *",
        FLOAT32_SHADER,
    ),
    ShaderFault(
        "sixteen_bit_rows",
        "rows of q and k past 65,535 wrap",
        "return (ulong(row) * num_heads + head) * HEAD_DIM;",
        "return ulong(ushort(row * num_heads + head)) * HEAD_DIM;",
    ),
    ShaderFault(
        "last_of_sixteen_heads",
        "the last of 16 heads keeps its lower half twice",
        "out[high] = y_high;",
        "out[high] = (num_heads == 16u && head == 15u && gid.y > 1) ? y_low : y_high;",
    ),
    ShaderFault(
        "zero_of_v_not_written",
        "a float32 zero in V is not moved",
        _V_COPY,
        "const Bits b = v[row_offset(gid.y, NUM_KV_HEADS, head) + gid.x]; if (sizeof(Bits) == 2 || b != 0) "
        "v_pool[row_offset(uint(slot), NUM_KV_HEADS, head) + gid.x] = b;",
    ),
    ShaderFault(
        "stops_past_300_tokens",
        "a long prefill at a real head_dim leaves V of its end unwritten",
        "if (slot < 0 || gid.x >= HEAD_DIM",
        "if (slot < 0 || (gid.y > 300u && HEAD_DIM > 64u) || gid.x >= HEAD_DIM",
    ),
    ShaderFault(
        "byte_lanes",
        "the pair index is held in eight bits",
        "-float(2 * i) *",
        "-float(uchar(2 * i)) *",
        FLOAT32_SHADER,
    ),
]


_PHASE = "ulong(long(position)) * frequency"
_REST = "long(phase - (quadrant << 62))"
_RADIANS = "float(rest) * RADIANS_PER_UNIT"
# Where rope_q, rope_k_pool and rope_pool_rect read the table.
_TABLE_OF_Q = "frequencies[gid.x]);\n    rotate_heads<T>(q, q_out, q_out, -1, rotation, NUM_QO_HEADS, gid);\n}"
_TABLE_OF_K = "frequencies[gid.x]);\n    rotate_heads<T>(k,"
_TABLE_OF_RECT = _TABLE_OF_Q.replace("}", "    rotate_heads<T>(k,")
# Of the exact angle: its phase in integers, the rest as a float, the quadrant, the table.
FIXED_POINT = [
    ShaderFault(
        "phase_of_32_bits", "the product has 32 bits", _PHASE, "ulong(uint(position) * uint(frequency >> 32)) << 32"
    ),
    ShaderFault(
        "phase_of_the_upper_half", "the turns that wrap are kept", _PHASE, "mulhi(ulong(long(position)), frequency)"
    ),
    ShaderFault("frequency_through_float", "it has 24 bits", _PHASE, "ulong(long(position)) * ulong(float(frequency))"),
    ShaderFault(
        "frequency_of_48_bits", "it lacks its last 16", _PHASE, "ulong(long(position)) * (frequency >> 16 << 16)"
    ),
    ShaderFault(
        "position_through_float", "past 2^24 it is rounded", _PHASE, "ulong(long(float(position))) * frequency"
    ),
    ShaderFault("position_unsigned", "a negative one is past 2^31", _PHASE, "ulong(uint(position)) * frequency"),
    ShaderFault("quadrant_of_the_rest_before", "rest and quadrant differ", _REST, "long(phase - (phase >> 62 << 62))"),
    ShaderFault(
        "quadrant_one_on",
        "a quarter turn too many",
        "& 1) ? c : s;",
        "& 1) ? c : s;\n        const float t = cosine; cosine = -sine; sine = t;",
    ),
    ShaderFault("half_turn_of_the_cosine", "the sine keeps its sign", "            sine = -sine;\n", ""),
    ShaderFault("quarter_turn_backwards", "odd quadrants turn back", "? -s : c;", "? s : c;"),
    ShaderFault(
        "rest_unsigned", "a rest below zero is nearly a turn", _RADIANS, "float(ulong(rest)) * RADIANS_PER_UNIT"
    ),
    ShaderFault("rest_of_24_bits", "its last bits are cut off", _RADIANS, "float(rest >> 40 << 40) * RADIANS_PER_UNIT"),
    ShaderFault("fast_sine", "the angle is right", "s = precise::sin(angle)", "s = fast::sin(angle)"),
    ShaderFault(
        "next_frequency",
        "rope_q reads the table one on",
        _TABLE_OF_Q,
        _TABLE_OF_Q.replace("gid.x]", "min(gid.x + 1, HALF_DIM - 1)]"),
    ),
    ShaderFault(
        "frequency_of_two_i",
        "rope_k_pool reads every second entry",
        _TABLE_OF_K,
        _TABLE_OF_K.replace("gid.x]", "2 * gid.x % HALF_DIM]"),
    ),
    ShaderFault(
        "last_frequency_twice",
        "rope_pool_rect gives the last pair but one the last entry",
        _TABLE_OF_RECT,
        _TABLE_OF_RECT.replace("gid.x]", "gid.x + uint(gid.x + 2 == HALF_DIM)]"),
    ),
]
WRITES_THE_TABLE = ShaderFault(
    "writes_the_table",
    "rope_q changes each entry by one unit, which no rotation shows",
    _TABLE_OF_Q,
    _TABLE_OF_Q.replace("\n", "\n    ((device ulong*)frequencies)[gid.x] ^= 1;\n", 1),
)
READS_PAST_THE_TABLE = ShaderFault(
    "reads_past_the_table",
    "in rope_pool_rect the lanes that only copy V read the table too, to no effect",
    "    const int slot = slots[gid.y];\n    for",
    "    const int slot = frequencies[gid.x] == 0x0DDBA11 ? -1 : slots[gid.y];\n    for",
)


def second_faults() -> list[ShaderFault]:
    """Twenty faults in the second shader, planted by its author, who had not seen the suite."""
    rows = tomllib.loads((SHADERS / "second_faults.toml").read_text())["fault"]
    return [ShaderFault(**row, source=SECOND) for row in rows]
