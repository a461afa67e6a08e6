"""Faulty shaders: a source with one passage replaced."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from kernel.targets import DEFAULT_SHADER, HostTarget

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

    def compile(self, folder: Path) -> HostTarget:
        """The faulty shader as a target; the file is written to `folder`."""
        text = self.source.read_text()
        assert text.count(self.find) == 1, f"{self.name}: the passage occurs {text.count(self.find)} times"
        faulty = folder / f"{self.name}.metal"
        faulty.write_text(text.replace(self.find, self.replace))
        return HostTarget.compile(faulty)


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


_STORE_POOL = "pool[pool_low] = y_low;\n            pool[pool_low + HALF_DIM] = y_high;"
_LAST_LANE_COPIES = """if (i == HALF_DIM - 1) {
                const ulong row = pool_low - i, from = low - i;
                for (uint j = 0; j < HEAD_DIM; ++j) pool[row + j] = out[from + j];
            }"""
_ANGLE = "const float angle = float(position) *"
_V_COPY = (
    "v_pool[row_offset(uint(slot), NUM_KV_HEADS, head) + gid.x] = v[row_offset(gid.y, NUM_KV_HEADS, head) + gid.x];"
)
# Each shows itself in few cases: one order of threads, one size, one value, one range of positions.
SUBTLE = [
    ShaderFault("last_lane_copies", "right for one order of threads only", _STORE_POOL, _LAST_LANE_COPIES),
    ShaderFault(
        "int_max_is_zero",
        "the last position is taken for none",
        _ANGLE,
        "const float angle = float(position == 0x7fffffff ? 0 : position) *",
    ),
    ShaderFault(
        "one_more_from_2_18_on",
        "positions of long contexts are one too large at head_dim 128",
        _ANGLE,
        "const float angle = float(position + int(HEAD_DIM == 128u && position >= 1 << 18 && position < 1 << 20)) *",
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
    ),
]


def second_faults() -> list[ShaderFault]:
    """Twenty faults in the second shader, planted by its author, who had not seen the suite."""
    rows = tomllib.loads((SHADERS / "second_faults.toml").read_text())["fault"]
    return [ShaderFault(**row, source=SECOND) for row in rows]
