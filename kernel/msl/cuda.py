"""From Metal source to one CUDA translation unit, for NVIDIA's run-time compiler."""

import hashlib
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, takewhile
from pathlib import Path

from kernel.msl.compile import (
    HEADERS,
    LANGUAGE,
    Build,
    export_line,
    launch_symbol,
    preprocess,
    refuse_pragmas,
    vector_members,
)
from kernel.msl.diagnostics import explain
from kernel.msl.entry_points import EntryPoint, find_required, place_of
from kernel.msl.errors import ShaderError
from kernel.msl.program import read_source
from kernel.msl.tokens import Token, balanced_end, declarations, split_at_commas, tokenise
from kernel.msl.toolchain import Compiler, find_compiler

SPECIALISE = "msl_specialise"
"""The kernel of one thread that sets the five function constants, each a uint, and what depends on them."""
MARK_PAGES = "msl_mark_pages"
"""The kernel that finds the pages of 4096 bytes with anything but zeros: (words, number of pages, a byte for each)."""

# Everything stands in a namespace of its own: CUDA declares cos(float), min, float2 and more at the root.
_ROOT = "msl_unit"
_PREAMBLE = (
    f"namespace msl_cuda {{ {' '.join(f'using ::{name};' for name in ('fabs', 'pow', 'rint', 'sin', 'sqrt'))} }}"
)
# A floating literal without a suffix, which is a float in Metal and a double in CUDA.
_FLOATING = re.compile(r"0[xX][\da-fA-F.']*[pP][+-]?\d+|(?!0[xX])(?=.*\d)(?=.*[.eE])[\d.']+(?:[eE][+-]?\d+)?")
# Keywords after which a qualified name may begin.
_BEFORE_A_NAME = frozenset(
    {
        *("case", "class", "const", "constexpr", "else", "enum", "friend", "inline"),
        *("new", "return", "static", "struct", "typename", "using"),
    }
)
_ERROR = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?:catastrophic )?error: (?P<text>.*)")
_INSTANTIATED = re.compile(r'instantiation of .* at line (?P<line>\d+)(?: of "?(?P<file>[^"\n]+)"?)?$', re.M)


@dataclass(frozen=True)
class Unit:
    """CUDA source that is complete by itself, its compiler options, and its kernels.

    num_buffers: of each entry point, by name.
    """

    source: Path
    source_hash: str
    text: str
    options: tuple[str, ...]
    num_buffers: Mapping[str, int]

    def __hash__(self) -> int:
        return hash((self.text, self.options))

    def explain(self, log: str) -> str:
        """A few lines in terms of the Metal source for what the CUDA compiler says."""
        errors = "\n".join(_as_gcc_says(log)) or log
        return explain(errors, self.source.absolute(), HEADERS).replace("on the host target", "on the target cuda")


def kernel_name(entry: str) -> str:
    """The kernel that runs an entry point; its arguments are the buffers, three sizes of the grid, and the order."""
    return launch_symbol(entry)


def cuda_unit(source: Path, required: Mapping[str, int], build: Build, may_ask: Collection[str] = ()) -> Unit:
    """The CUDA translation unit for a Metal source.

    required: for each entry point that it must define, the number of its buffers.
    may_ask: those that may take one more buffer, the last, a table of ulong.
    Raises ShaderError if the source is at fault, CompilerMissing if there is no C++ compiler to preprocess it.
    """
    content = read_source(source)
    if build.toward_zero:
        raise ShaderError(f"{build}: no CUDA compiler rounds every operation toward zero")
    compiler, path = find_compiler(), source.absolute()
    scanned = preprocess(path, build, compiler)
    refuse_pragmas(scanned, build, path)
    tokens = tokenise(scanned)
    _refuse_double(tokens, path)
    entries = find_required(tokens, required, may_ask, path)
    changes = list(_constants(tokens))
    written = [
        vector_members(),
        *(f"#include <{header}>" for header in ("msl/prelude.h", *_headers(scanned))),
        _edited(scanned, [edit for change in changes for edit in change.edits]),
        *(export_line(entry, required[name], path, partial(_kernel, entry)) for name, entry in entries.items()),
        _specialise(change.setter for change in changes if change.setter),
        "",
    ]
    text = _rooted(_expanded("\n".join(written), path, build, compiler))
    num_buffers = {name: entry.num_buffers for name, entry in entries.items()}
    return Unit(source, hashlib.sha256(content).hexdigest()[:12], text, _options(build), num_buffers)


def _options(build: Build) -> tuple[str, ...]:
    """Options of NVRTC; --use_fast_math is none of them, as it would make precise:: functions fast too."""
    switches = {
        "fmad": build.contract,
        "ftz": build.flush or build.fast_math,
        "prec-div": not build.fast_math,
        "prec-sqrt": not build.fast_math,
    }
    return ("--std=c++17", "--device-int128", "-w", *(f"--{name}={str(on).lower()}" for name, on in switches.items()))


def _refuse_double(tokens: Sequence[Token], source: Path) -> None:
    for token in tokens:
        if token.text == "double":
            raise ShaderError(f"{place_of(token, source)}: Metal has no double")


def _headers(scanned: str) -> list[str]:
    """Our headers that the source includes, in the form in which it would."""
    return [header for header in ("metal_stdlib", "simd/simd.h") if f'"{HEADERS / header}"' in scanned]


def _kernel(entry: EntryPoint, type_name: str) -> str:
    """The definition of the kernel for an entry point whose type has this name."""
    names = [f"buffer_{i}" for i in range(entry.num_buffers)]
    parameters = [*(f"void* {name}" for name in names), "uint x", "uint y", "uint z", "uint reverse"]
    return (
        f'extern "C" __global__ void {kernel_name(entry.name)}({", ".join(parameters)}) {{ '
        f"void* const buffers[] = {{{', '.join(names)}}}; "
        f"{type_name}::launch(buffers, ::uint3(x, y, z), reverse != 0); }}"
    )


def _specialise(setters: Iterable[str]) -> str:
    words = [f"::msl::function_constant_block.words[{i}] = w{i};" for i in range(5)]
    calls = [f"{setter}();" for setter in setters]
    parameters = ", ".join(f"uint w{i}" for i in range(5))
    return f'extern "C" __global__ void {SPECIALISE}({parameters}) {{ {" ".join([*words, *calls])} }}'


@dataclass(frozen=True)
class _Edit:
    """`text` in place of what stands from offset `start` to before `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class _Change:
    """Edits of one declaration, and the function into which its initialisers went, if they did."""

    edits: tuple[_Edit, ...]
    setter: str = ""


def _edited(text: str, edits: Iterable[_Edit]) -> str:
    parts, at = [], 0
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]])


def _constants(tokens: Sequence[Token]) -> Iterator[_Change]:
    """What to change of each declaration of `constant` variables.

    CUDA knows no initialiser that is computed when a program is loaded: a kernel computes those that depend on function
    constants. The others are constants of the language too.
    """
    at = {token.start: i for i, token in enumerate(tokens)}
    dependent: set[str] = set()
    for declaration in declarations(tokens):
        declarators = [_declarator(part) for part in split_at_commas(declaration.tokens)]
        specifiers = {token.text: token for token in declarators[0]}
        if "constant" not in specifiers or specifiers.keys() & {"constexpr", "template"}:
            continue
        whole = tokens[at[declaration.tokens[0].start] : _end(tokens, at[declaration.tokens[-1].start])]
        if any(token.text in dependent | {"function_constant"} for token in whole):
            names = [_name(declarator) for declarator in declarators]
            yield _change(declaration.namespaces, whole, declarators, names, len(dependent))
            dependent.update(names)
        elif "const" not in specifiers and any(token.text == "=" for token in declaration.tokens):
            word = specifiers["constant"]
            yield _Change((_Edit(word.start, word.end, "const"),))


def _declarator(part: Sequence[Token]) -> list[Token]:
    """A declarator, with the specifiers before it, without attributes, initialiser and a function's parameters."""
    kept: list[Token] = []
    i = 0
    while i < len(part) and part[i].text not in ("=", "{", "("):
        end = balanced_end(part, i) if part[i].text == "[" else i + 1
        if [token.text for token in part[i : i + 2]] != ["[", "["]:
            kept += part[i:end]
        i = end
    return kept


def _name(declarator: Sequence[Token]) -> str:
    """The name that is declared: the last word before an array's sizes."""
    before = list(takewhile(lambda token: token.text != "[", declarator))
    return before[-1].text


def _end(tokens: Sequence[Token], last: int) -> int:
    """The index after the semicolon that ends the declaration of which `last` is the last token before a body."""
    i = last + 1
    while i < len(tokens) and tokens[i].text != ";":
        i = balanced_end(tokens, i) if tokens[i].text == "{" else i + 1
    return i + 1


def _change(
    namespaces: Sequence[str],
    whole: Sequence[Token],
    declarators: Sequence[Sequence[Token]],
    names: Sequence[str],
    n: int,
) -> _Change:
    setter = f"msl_set_{n}"
    dropped = ("constant", "static", "const")
    bare = [_spelled([token for token in declarator if token.text not in dropped]) for declarator in declarators]
    variables = " ".join(f"auto& msl_{i} = {name};" for i, name in enumerate(names))
    sets = " ".join(f"::msl::set(msl_{i}, {name});" for i, name in enumerate(names))
    edits = [
        _Edit(whole[0].start, whole[0].start, f"{', '.join(bare)}; inline void {setter}() {{ {variables} "),
        *(_Edit(token.start, token.end, "") for token in whole if token.text == "static"),
        _Edit(whole[-1].start, whole[-1].end, f"; {sets} }}"),
    ]
    return _Change(tuple(edits), "::".join([*filter(None, namespaces), setter]))


def _spelled(tokens: Sequence[Token]) -> str:
    """The tokens as they stood, with one space wherever there was any."""
    spaced = [" " * (before.end != token.start) + token.text for before, token in pairwise(tokens)]
    return "".join([tokens[0].text, *spaced])


def _expanded(written: str, source: Path, build: Build, compiler: Compiler) -> str:
    """The unit with every macro and header in it expanded."""
    macros = {
        "CUDA": 1,
        "DEFAULT_MATH": "fast" if build.fast_math else "precise",
        "TOWARD_ZERO": 0,
        "FLUSH": 0,
        "FLUSH_HALF": int(build.flush_half),
    }
    with tempfile.TemporaryDirectory() as directory:
        unit = Path(directory, "unit.cpp")
        unit.write_text(written, encoding="utf-8")
        result = compiler.run(["-E", *LANGUAGE, *(f"-DMSL_{name}={value}" for name, value in macros.items()), unit])
    if result.returncode:
        raise ShaderError(explain(result.stderr, source, HEADERS))
    # The name of one run would make the unit another one in every run.
    return result.stdout.replace(str(unit), "unit.cpp")


def _rooted(expanded: str) -> str:
    """The unit inside its namespace, without attributes, and with every literal a float that Metal takes for one."""
    edits, tokens = [], tokenise(expanded)
    i = 0
    while i < len(tokens):
        token, end = tokens[i], i + 1
        if [one.text for one in tokens[i : i + 2]] == ["[", "["]:
            # CUDA allows none on an instantiation, where Metal gives a kernel its name.
            end = balanced_end(tokens, i)
            edits.append(_Edit(token.start, tokens[end - 1].end, ""))
        elif token.text == "::" and _is_of_root(token, tokens[i - 1]):
            edits.append(_Edit(token.end, token.end, f"{_ROOT}::"))
        elif _FLOATING.fullmatch(token.text):
            edits.append(_Edit(token.end, token.end, "f"))
        i = end
    text = re.sub(r'^# ([1-9]\d* "(?:\\.|[^"\\])*").*$', r"#line \1", _edited(expanded, edits), flags=re.M)
    return f"{_PREAMBLE}\nnamespace {_ROOT} {{\n{text}\n}}\n"


def _is_of_root(colons: Token, before: Token) -> bool:
    """Whether a `::` begins a name, and does not go on with the name before it."""
    if before.text in (">", ")"):
        return before.end != colons.start
    return before.text in _BEFORE_A_NAME or not re.match(r"[A-Za-z_]", before.text)


def _as_gcc_says(log: str) -> Iterator[str]:
    """The errors of a CUDA compiler's log in g++'s form, each after the places that instantiated what is wrong."""
    for block in re.split(r"^(?=.+\(\d+\): )", log, flags=re.M):
        error = _ERROR.match(block)
        if error:
            for place in reversed(list(_INSTANTIATED.finditer(block))):
                yield f"{place['file'] or error['file']}:{place['line']}: required from here"
            text = error["text"].replace(f"{_ROOT}::", "")
            text = re.sub(r'^static assertion failed with "(.*)"$', r"static assertion failed: \1", text)
            yield f"{error['file']}:{error['line']}: error: {text}"
