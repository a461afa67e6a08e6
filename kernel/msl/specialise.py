"""Function constants as literals in the source, for a host whose compiler takes no function constants."""

import hashlib
import re
import struct
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from kernel.msl.compile import HEADERS, Build, preprocess
from kernel.msl.entry_points import find_required, place_of
from kernel.msl.errors import ShaderError
from kernel.msl.program import FunctionConstants, read_source
from kernel.msl.tokens import Token, Written, declarations, source_lines, tokenise, written_tokens
from kernel.msl.toolchain import find_preprocessor

_CONSTANT, _DEFINED = "function_constant", "is_function_constant_defined"
_FLOAT_INDEX = 3
_COUNT = 5
_DECLARATION = re.compile(
    r"(?:(?:static|inline|const) )*constant (?:const )?(?P<type>uint|uint32_t|unsigned(?: int)?|float)(?: const)? "
    rf"(?P<name>\w+) \[ \[ {_CONSTANT} \( (?P<index>\S+) \) \] \]"
)
_FORM = "`constant uint NAME [[function_constant(0)]];` and `constant float NAME [[function_constant(3)]];`"


@dataclass(frozen=True)
class _Gap:
    """A part of the text that gives way: to the value of a function constant, or to `true` where index is None."""

    start: int
    end: int
    index: int | None


@dataclass(frozen=True)
class Template:
    """Metal source whose function constants have no value yet; it can be sent to another process."""

    source: Path
    source_hash: str
    num_buffers: Mapping[str, int]
    """Of each required entry point."""
    text: str
    gaps: tuple[_Gap, ...]

    def filled(self, constants: FunctionConstants) -> str:
        """The source with these values, all else as it was and on the line where it was.

        Each `[[function_constant(n)]]` becomes an initialiser, exactly the value; `is_function_constant_defined` of
        any of them becomes `true`.
        """
        parts, end = [], 0
        for gap in self.gaps:
            given = "true" if gap.index is None else f"= {_literal(gap.index, constants)}"
            lines = "\n" * self.text.count("\n", gap.start, gap.end)
            parts += [self.text[end : gap.start], given, lines]
            end = gap.end
        return "".join([*parts, self.text[end:]])


def read_template(source: Path, required: Mapping[str, int], may_ask: Collection[str] = ()) -> Template:
    """Read Metal source, and find where its function constants go.

    required, may_ask: as for `compile_program`.
    Raises ShaderError if the source is at fault or declares its function constants in a way that is not understood,
    CompilerMissing if there is no C++ preprocessor.
    """
    content = read_source(source)
    text = content.decode("utf-8")
    path = source.absolute()
    preprocessed = preprocess(path, Build(), find_preprocessor())
    _refuse_includes(preprocessed, path)
    tokens = tokenise(preprocessed)
    entries = find_required(tokens, required, may_ask, path)
    declared = list(_declared(tokens, path))
    asked = list(_asked(tokens, {name.text for name, _ in declared}, path))
    written = list(written_tokens(text))
    gaps = [*_declared_gaps(declared, written, path), *_asked_gaps(asked, written, path)]
    return Template(
        source,
        hashlib.sha256(content).hexdigest()[:12],
        {name: entry.num_buffers for name, entry in entries.items()},
        text,
        tuple(sorted(gaps, key=lambda gap: gap.start)),
    )


def _literal(index: int, constants: FunctionConstants) -> str:
    value = astuple(constants)[index]
    if index != _FLOAT_INDEX:
        return f"{value}u"
    # Hexadecimal, as a decimal literal need not be read to the nearest float.
    return f"{struct.unpack('=f', struct.pack('=f', value))[0].hex()}f"


def _refuse_includes(preprocessed: str, source: Path) -> None:
    for line in source_lines(preprocessed):
        outside = line.file not in ("", str(source)) and not line.file.startswith(("<", f"{HEADERS}/"))
        if outside:
            raise ShaderError(f"{source.name}: includes {line.file}: this target takes one text, write it in there")


def _declared(tokens: Sequence[Token], source: Path) -> Iterator[tuple[Token, int]]:
    """The name of each function constant, and its index."""
    understood = 0
    for declaration in declarations(tokens):
        words = [token.text for token in declaration.tokens]
        if _CONSTANT not in words:
            continue
        keyword = declaration.tokens[words.index(_CONSTANT)]
        found = _DECLARATION.fullmatch(" ".join(words))
        if not found or declaration.has_body:
            raise ShaderError(f"{place_of(keyword, source)}: this function constant is not understood: use {_FORM}")
        index = re.fullmatch(r"(\d+)[uU]?", found["index"])
        is_float = found["type"] == "float"
        if not index or not int(index[1]) < _COUNT or is_float != (int(index[1]) == _FLOAT_INDEX):
            wanted = "the interface has uint for 0, 1, 2 and 4, float for 3"
            raise ShaderError(f"{place_of(keyword, source)}: {_CONSTANT}({found['index']}) {found['type']}: {wanted}")
        understood += 1
        yield declaration.tokens[words.index(found["name"])], int(index[1])
    keywords = [token for token in tokens if token.text == _CONSTANT]
    if len(keywords) != understood:
        # `declarations` steps over bodies: what is left stands in one, or on a parameter.
        raise ShaderError(
            f"{place_of(keywords[-1], source)}: [[{_CONSTANT}]] is understood at namespace scope only: use {_FORM}"
        )


def _asked(tokens: Sequence[Token], names: Collection[str], source: Path) -> Iterator[Token]:
    """The argument of each `is_function_constant_defined`."""
    for i, token in enumerate(tokens):
        if token.text != _DEFINED:
            continue
        words = [t.text for t in tokens[i + 1 : i + 4]]
        if len(words) < 3 or words[0] != "(" or words[1] not in names or words[2] != ")":
            raise ShaderError(f"{place_of(token, source)}: {_DEFINED} is understood of a function constant's name only")
        yield tokens[i + 2]


def _declared_gaps(declared: Sequence[tuple[Token, int]], written: Sequence[Written], source: Path) -> Iterator[_Gap]:
    gaps: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for i, token in enumerate(written):
        if token.text == _CONSTANT and i >= 3 and [t.text for t in written[i - 2 : i]] == ["[", "["]:
            ends = (n for n in range(i, len(written) - 2) if [t.text for t in written[n : n + 3]] == [")", "]", "]"])
            end = next(ends, None)
            if end is not None:
                before = written[i - 3]
                gaps.setdefault((before.text, before.line), []).append((written[i - 2].start, written[end + 2].end))
    for name, index in declared:
        found = gaps.get((name.text, name.line), [])
        if len(found) != 1:
            raise ShaderError(
                f"{place_of(name, source)}: the function constant {name.text} comes from a macro or a joined line: "
                "write it out"
            )
        yield _Gap(*found[0], index)


def _asked_gaps(asked: Sequence[Token], written: Sequence[Written], source: Path) -> Iterator[_Gap]:
    gaps: dict[tuple[str, int], list[_Gap]] = {}
    for i, keyword in enumerate(written[:-3]):
        if keyword.text == _DEFINED:
            name = written[i + 2]
            gaps.setdefault((name.text, name.line), []).append(_Gap(keyword.start, written[i + 3].end, None))
    for (text, line), count in Counter((token.text, token.line) for token in asked).items():
        found = gaps.get((text, line), [])
        if len(found) != count:
            raise ShaderError(
                f"{source.name}:{line}: {_DEFINED}({text}) comes from a macro or a joined line: write it out"
            )
        yield from found
