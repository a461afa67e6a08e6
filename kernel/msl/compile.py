"""From Metal source to a cached shared library."""

import hashlib
import re
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

from kernel.msl.diagnostics import explain
from kernel.msl.entry_points import EntryPoint, buffer_index, find_required, place_of
from kernel.msl.errors import ShaderError
from kernel.msl.library import cache_directory, read_library, store_library
from kernel.msl.tokens import Token, source_lines, tokenise
from kernel.msl.toolchain import Compiler, has_fma_flag

HEADERS = Path(__file__).parent / "include"

LANGUAGE = (
    *("-x", "c++", "-std=c++17", "-w", "-nostdinc", "-nostdinc++", "-fno-exceptions", "-fno-rtti"),
    *("-D__METAL__=1", "-D__METAL_MACOS__=1", "-D__METAL_VERSION__=320", "-D__HAVE_BFLOAT__=1"),
    *("-isystem", str(HEADERS)),
    *("-fsingle-precision-constant", "-fdiagnostics-color=never"),
)
# Pointers to other types may alias, as shaders cast them; signed integers wrap and char is signed, as on a GPU.
_CODE = (
    "-O2",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-fwrapv",
    "-fsigned-char",
    "-fno-math-errno",
)


@dataclass(frozen=True)
class Build:
    """How the Metal source is built.

    fast_math: unqualified cos, sin, exp2 ... mean ``fast::``, not ``precise::``, and g++ gets -ffast-math.
    contract: ``a * b + c`` may become one fused operation, where the CPU has one.
    toward_zero: while a kernel runs, float32 arithmetic and int to float round toward zero.
    flush: while a kernel runs, float32 subnormal operands and results are zero.
    flush_half: subnormal halves that are read, and those that a conversion to half would give, are zero.
    """

    fast_math: bool = False
    contract: bool = False
    toward_zero: bool = False
    flush: bool = False
    flush_half: bool = False

    def __str__(self) -> str:
        return f"Build({', '.join(f'{name}=True' for name, on in vars(self).items() if on)})"

    @property
    def flags(self) -> tuple[str, ...]:
        """Compiler flags. -ffast-math goes to the compiler only: at the link it would set flush-to-zero."""
        math = "fast" if self.fast_math else "precise"
        flags = [f"-DMSL_DEFAULT_MATH={math}"]
        flags += ["-ffast-math"] if self.fast_math else []
        flags += ["-ffp-contract=fast" if self.contract else "-ffp-contract=off"]
        flags += ["-mfma"] if self.contract and has_fma_flag() else []
        modes = {"TOWARD_ZERO": self.toward_zero, "FLUSH": self.flush, "FLUSH_HALF": self.flush_half}
        flags += [f"-DMSL_{name}={int(on)}" for name, on in modes.items()]
        # The compiler rounds to nearest when it computes for itself; after -ffast-math, which would undo it.
        flags += ["-frounding-math"] if self.toward_zero else []
        return tuple(flags)


def build_library(
    source: Path, required: Mapping[str, int], may_ask: Collection[str], build: Build, compiler: Compiler
) -> Path:
    """Return the library for an absolute source path, compiled now or before.

    required: for each entry point that it must have, the number of its buffers.
    may_ask: those that may have one more buffer, the last, a table of ulong. Raises ShaderError.
    """
    flags = (*LANGUAGE, *_CODE, *build.flags)
    preprocessed = preprocess(source, build, compiler)
    buffers = [f"{name}={count}{'+' * (name in may_ask)}" for name, count in sorted(required.items())]
    identity = "\0".join([preprocessed, _own_digest(), *flags, *buffers, *compiler.command, compiler.version])
    path = cache_directory() / f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.so"
    if read_library(path) is None:
        refuse_pragmas(preprocessed, build, source)
        registration = _registration(tokenise(preprocessed), required, may_ask, source)
        store_library(path, _compile(source, registration, flags, compiler))
    return path


def preprocess(source: Path, build: Build, compiler: Compiler) -> str:
    """Expand the source's own macros and includes; keywords, attributes and our headers stay out of it.

    source: an absolute path. Raises ShaderError.
    """
    result = compiler.run(["-E", "-DMSL_SCAN", *LANGUAGE, *build.flags, source])
    if result.returncode:
        raise ShaderError(explain(result.stderr, source, HEADERS))
    return result.stdout


def refuse_pragmas(preprocessed: str, build: Build, source: Path) -> None:
    """Raise ShaderError for a pragma that asks for stricter arithmetic than the build gives."""
    asked = [(build.fast_math, r"math_mode\((?:safe|relaxed)\)"), (build.contract, r"contract\(off\)|FP_CONTRACT OFF")]
    for line in source_lines(preprocessed):
        for loose, strict in asked:
            if loose and re.search(rf"^\s*#\s*pragma (?:METAL|clang|STDC) .*(?:{strict})", line.text):
                place = place_of(line, source)
                raise ShaderError(f"{place}: {line.text.strip()} is stricter than this build ({build})")


def _compile(source: Path, registration: str, flags: Sequence[str], compiler: Compiler) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        unit, library = Path(directory, "unit.cpp"), Path(directory, "unit.so")
        members = Path(directory, "members.h")
        members.write_text(vector_members(), encoding="utf-8")
        unit.write_text(registration, encoding="utf-8")
        # -include takes any file name as it is, and leaves the shader's lines their numbers.
        included = [word for file in (members, HEADERS / "msl/prelude.h", source) for word in ("-include", file)]
        objects = unit.with_suffix(".o")
        steps: tuple[list[str | Path], ...] = (
            [*flags, "-c", *included, unit, "-o", objects],
            ["-shared", "-s", "-Wl,-z,defs", objects, "-o", library, "-lm"],
        )
        for arguments in steps:
            result = compiler.run(arguments)
            if result.returncode:
                raise ShaderError(explain(result.stderr, source, HEADERS))
        return library.read_bytes()


def _registration(tokens: Sequence[Token], required: Mapping[str, int], may_ask: Collection[str], source: Path) -> str:
    """Return C++ that exports the required entry points.

    Raises ShaderError if one of them is missing or is not as required.
    """
    entries = find_required(tokens, required, may_ask, source)
    return "\n".join([*(_export(entry, required[name], source) for name, entry in entries.items()), ""])


def _export(entry: EntryPoint, num_buffers: int, source: Path) -> str:
    export = 'extern "C" __attribute__((visibility("default")))'
    return export_line(
        entry,
        num_buffers,
        source,
        lambda type_name: (
            f"{export} void {launch_symbol(entry.name)}(void* const* buffers, const uint* grid, bool reverse) "
            f"{{ {type_name}::launch(buffers, grid, reverse); }} "
            f"{export} int {buffer_count_symbol(entry.name)} = {entry.num_buffers};"
        ),
    )


def export_line(entry: EntryPoint, num_buffers: int, source: Path, define: Callable[[str], str]) -> str:
    """Return C++ that names the type of an entry point, checks it, and holds what `define` makes of the type's name.

    num_buffers: as required, without the table that it may ask for. Raises ShaderError for an unknown attribute.
    """
    indexes = [buffer_index(parameter, entry, place_of(parameter.token, source)) for parameter in entry.parameters]
    opening = " ".join(f"namespace {name} {{" for name in entry.namespaces)
    file = entry.token.file.replace("\\", "\\\\").replace('"', '\\"')
    type_name = f"msl_entry_{entry.name.encode().hex()}"
    # One line, so that whatever the compiler says about it carries the entry point's own line.
    return (
        f'#line {entry.token.line} "{file}"\n{opening} '
        f"using {type_name} = ::msl::Entry<{', '.join([entry.function, *indexes])}>; "
        f"static_assert({type_name}::indexes.dense(), "
        f'"the {entry.num_buffers} buffers of {entry.name} must be numbered from 0, each once"); '
        f"{_table_check(entry, type_name) if entry.num_buffers > num_buffers else ''}"
        f"{define(type_name)} {'}' * len(entry.namespaces)}"
    )


def _table_check(entry: EntryPoint, type_name: str) -> str:
    index = entry.num_buffers - 1
    return (
        f"static_assert(!{type_name}::indexes.dense() || {type_name}::holds<::ulong>({index}), "
        f'"buffer {index} of {entry.name} is the table it asks for: a pointer or a reference to ulong"); '
    )


def launch_symbol(entry: str) -> str:
    """Return the name under which the library exports an entry point; any host name makes a C identifier."""
    return f"msl_launch_{entry.encode().hex()}"


def buffer_count_symbol(entry: str) -> str:
    """Return the name under which the library exports an entry point's number of buffers."""
    return f"msl_buffers_{entry.encode().hex()}"


@lru_cache
def _own_digest() -> str:
    """Return a digest of this package: its headers, and the code that writes the rest of what is compiled."""
    files = sorted(path for pattern in ("*.py", "include/**/*") for path in Path(__file__).parent.glob(pattern))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files if path.is_file())).hexdigest()


@lru_cache
def vector_members() -> str:
    """Return macros that declare the elements and swizzles, in both spellings, of vectors of 2, 3 and 4."""
    macros = []
    for size in (2, 3, 4):
        members = []
        for letters in ("xyzw"[:size], "rgba"[:size]):
            members.append(f"struct {{ T {', '.join(letters)}; }};")
            for choice in (c for length in (2, 3, 4) for c in product(range(size), repeat=length)):
                name = "".join(letters[i] for i in choice)
                members.append(f"::metal::swizzle<T, {size}, {', '.join(map(str, choice))}> {name};")
        macros.append(f"#define MSL_MEMBERS_{size} {' '.join(members)}\n")
    return "".join(macros)
