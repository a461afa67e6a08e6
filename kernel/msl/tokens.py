"""Preprocessed Metal source as tokens that know their file and line, and the declarations they form."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_MARKER = re.compile(r'#\s*(?:line\s+)?(\d+)\s+"((?:\\.|[^"\\])*)"')
_TOKEN = re.compile(
    r""" "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | [A-Za-z_]\w* | \.?\d(?:[eEpP][+-]|[\w.'])* | :: | \S """,
    re.X,
)
# A comment, a directive with the lines joined to it, or a raw string: nothing in them is a token of the program.
_ASIDE = re.compile(
    r""" //(?:\\\r?\n|[^\n])* | /\*.*?(?:\*/|\Z) | R"([^()\s\\]*)\(.*?\)\1"
      | ^[ \t]*\#(?:\\\r?\n|/\*.*?\*/|//(?:\\\r?\n|[^\n])*|[^\n])* """,
    re.X | re.S | re.M,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Token:
    """One token; `file` is spelled as the preprocessor spells it, `line` counts from 1.

    start: its offset in the preprocessed text.
    """

    text: str
    file: str
    line: int
    start: int = 0

    @property
    def end(self) -> int:
        """The offset past it."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Written:
    """One token of a source as it is written, from offset `start` to before `end`; `line` counts from 1."""

    text: str
    start: int
    end: int
    line: int


@dataclass(frozen=True)
class Declaration:
    """The tokens of one declaration at namespace scope, without its body or semicolon."""

    namespaces: tuple[str, ...]
    tokens: tuple[Token, ...]
    has_body: bool


def source_lines(preprocessed: str) -> Iterator[Token]:
    """Yield the lines of ``-E`` output, each as one token; line markers are followed, not yielded."""
    file, line, start = "", 0, 0
    for text in preprocessed.split("\n"):
        marker = _MARKER.match(text)
        if marker:
            line, file = int(marker[1]), re.sub(r"\\(.)", r"\1", marker[2])
        else:
            yield Token(text, file, line, start)
            line += 1
        start += len(text) + 1


def tokenise(preprocessed: str) -> list[Token]:
    """Return the tokens of ``-E`` output; pragmas are left out."""
    return [
        Token(word[0], line.file, line.line, line.start + word.start())
        for line in source_lines(preprocessed)
        if not line.text.lstrip().startswith("#")
        for word in _TOKEN.finditer(line.text)
    ]


def written_tokens(text: str) -> Iterator[Written]:
    """Yield the tokens of a source before preprocessing; comments, directives and raw strings are left out."""
    at, line = 0, 1
    while at < len(text):
        aside = _ASIDE.match(text, at)
        found = aside or _TOKEN.match(text, at)
        end = found.end() if found else at + 1
        if found and not aside:
            yield Written(found[0], at, end, line)
        line += text.count("\n", at, end)
        at = end


def balanced_end(tokens: Sequence[Token], start: int) -> int:
    """Return the index after the bracket that closes the one at `start` (the end, when none does)."""
    depth = 0
    for i in range(start, len(tokens)):
        text = tokens[i].text
        depth += (text in _CLOSING) - (text in _CLOSING.values())
        if depth == 0:
            return i + 1
    return len(tokens)


def unclosed_brace(tokens: Sequence[Token]) -> Token | None:
    """Return the innermost opening brace that nothing closes."""
    opened: list[Token] = []
    for token in tokens:
        if token.text == "{":
            opened.append(token)
        elif token.text == "}":
            del opened[-1:]
    return opened[-1] if opened else None


def angle_end(tokens: Sequence[Token], start: int) -> int:
    """Return the index after the ``>`` that closes the ``<`` at `start`; parentheses hide what they hold."""
    depth, i = 0, start
    while i < len(tokens):
        text = tokens[i].text
        if text in _CLOSING:
            i = balanced_end(tokens, i)
            continue
        depth += (text == "<") - (text == ">")
        i += 1
        if depth == 0:
            break
    return i


def split_at_commas(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split an argument list at its outermost commas, template arguments included; no token gives no part."""
    parts: list[list[Token]] = [[]] if tokens else []
    i = 0
    while i < len(tokens):
        text, end = tokens[i].text, i + 1
        if text in _CLOSING:
            end = balanced_end(tokens, i)
        elif text == "<":
            end = angle_end(tokens, i)
        if text == ",":
            parts.append([])
        else:
            parts[-1].extend(tokens[i:end])
        i = end
    return parts


def declarations(tokens: Sequence[Token]) -> Iterator[Declaration]:
    """Walk the declarations at namespace scope; bodies of functions and classes are stepped over."""
    scopes: list[tuple[str, ...]] = []
    current: list[Token] = []
    i = 0
    while i < len(tokens):
        text, end = tokens[i].text, i + 1
        if text == "{" and (opened := _scope_opened_by(current)) is not None:
            scopes.append(opened)
            current = []
        elif text in ("{", ";"):
            if current:
                yield Declaration(tuple(name for scope in scopes for name in scope), tuple(current), text == "{")
            current = []
            end = balanced_end(tokens, i) if text == "{" else end
        elif text == "}":
            del scopes[-1:]
            current = []
        else:
            end = balanced_end(tokens, i) if text in _CLOSING else end
            current.extend(tokens[i:end])
        i = end


def _scope_opened_by(tokens: Sequence[Token]) -> tuple[str, ...] | None:
    """Return the namespaces that a brace after these tokens opens (an unnamed one is ""); None for a body."""
    words = [token.text for token in tokens]
    if words[:1] == ["inline"]:
        words = words[1:]
    if words[:1] == ["namespace"] and "=" not in words:
        return tuple(word for word in words[1:] if word != "::") or ("",)
    if words[:1] == ["extern"] and len(words) == 2:
        return ()
    return None
