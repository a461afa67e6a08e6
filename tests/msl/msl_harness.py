"""Small Metal sources, compiled and run on numpy arrays."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernel.msl import Build, FunctionConstants, Program, compile_program

CONSTANTS = FunctionConstants(
    head_dim=64, num_qo_heads=4, num_kv_heads=2, log2_base_over_head_dim=0.25, heads_per_thread=3
)
PRELUDE = "#include <metal_stdlib>\nusing namespace metal;\n"


def write(folder: Path, text: str, name: str = "my.metal") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def compile_text(
    folder: Path,
    text: str,
    required: dict[str, int],
    build: Build | None = None,
    may_ask: Collection[str] = (),
) -> Program:
    return compile_program(write(folder, text), required, build or Build(), may_ask)


def launch(
    program: Program,
    entry: str,
    arrays: Sequence[NDArray[np.generic]],
    grid: tuple[int, int, int] = (1, 1, 1),
    constants: FunctionConstants = CONSTANTS,
    reverse: bool = False,
) -> None:
    assert all(array.flags["C_CONTIGUOUS"] for array in arrays)
    program.specialise(constants).launch(entry, [array.ctypes.data for array in arrays], grid, reverse)


def evaluate(folder: Path, statements: str, count: int, declarations: str = "") -> list[float]:
    """Run statements that fill `device float* out` and return its first `count` elements."""
    text = f"{PRELUDE}{declarations}\nkernel void run(device float* out [[buffer(0)]]) {{\n{statements}\n}}\n"
    out = np.full(count + 1, -77.0, np.float32)
    launch(compile_text(folder, text, {"run": 1}), "run", [out])
    assert out[count] == -77.0
    return [float(value) for value in out[:count]]


def wrong_values(
    folder: Path, expected: Mapping[str, float], statements: str = "", declarations: str = ""
) -> dict[str, tuple[float, float]]:
    """Run expressions after `statements`; return what each one that differs gave and what it should give."""
    count = len(expected)
    assert count > 0
    assignments = "".join(f"results[{i}] = float({expression});\n" for i, expression in enumerate(expected))
    values = evaluate(
        folder,
        f"float results[{count}]; {statements}\n{assignments}"
        f"for (int i = 0; i < {count}; ++i) {{ out[i] = results[i]; }}",
        count,
        declarations,
    )
    return {e: (got, want) for (e, want), got in zip(expected.items(), values, strict=True) if got != want}
