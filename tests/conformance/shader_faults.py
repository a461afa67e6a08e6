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


def second_faults() -> list[ShaderFault]:
    """Twenty faults in the second shader, planted by its author, who had not seen the suite."""
    rows = tomllib.loads((SHADERS / "second_faults.toml").read_text())["fault"]
    return [ShaderFault(**row, source=SECOND) for row in rows]
