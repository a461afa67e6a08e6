"""From a C++ compiler's messages to a few lines in terms of the Metal source."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What Metal has and the headers lack, as it stands between quotes in an error.
_UNMODELLED = re.compile(
    r"""['"](?:metal::)?(
        (?:simd|quad|simdgroup|atomic|os_log|unpack|pack|memory_order|texture|depth|tensor|mesh|intersect)\w*_\w+
        | (?:texture|depth)\w+ | atomic | threadgroup\w* | mem_flags | sampler | printf
        | simdgroup_(?:float|half|bfloat)8x8 | (?:packed_)?(?:float|half)[234]x[234]
    )['"]""",
    re.X,
)
_ERROR = re.compile(r"(?P<file>[^\n:]+):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<text>.*)")
_REQUIRED_FROM = re.compile(r"(?P<file>[^\n:]+):(?P<line>\d+):(?:\d+:)? +required (?:from|by)")
_UNDEFINED = re.compile(r"undefined reference to [`'](.+?)'")
_ASSERTION = "static assertion failed: "
_SHOWN = 3


@dataclass(frozen=True)
class _Error:
    text: str
    unmodelled: bool
    in_source: bool


def display_name(file: str, source: Path) -> str:
    """Spell a file as the shader's reader knows it: relative to the shader's own folder if it lies inside."""
    return file.removeprefix(f"{source.parent}/")


def explain(messages: str, source: Path, headers: Path) -> str:
    """Return up to three errors, one a line, each at the shader's own file and line.

    Constructs that the headers do not model are named alone: the other errors tend to follow from them.
    """
    errors = list(_errors(messages, source, headers))
    shown = (
        [error.text for error in errors if error.unmodelled]
        or [error.text for error in errors if error.in_source]
        or [f"{source.name}: {name} is declared but not defined" for name in _UNDEFINED.findall(messages)]
        or [error.text for error in errors]
        or [f"{source.name}: the C++ compiler failed: {messages.strip()[-200:]}"]
    )
    return "\n".join(list(dict.fromkeys(shown))[:_SHOWN])


def _errors(messages: str, source: Path, headers: Path) -> Iterator[_Error]:
    required_from = None
    for line in messages.splitlines():
        place = _REQUIRED_FROM.match(line)
        if place and not place["file"].startswith(f"{headers}/"):
            required_from = place
        error = _ERROR.match(line)
        if error:
            yield _read_error(error, required_from, source, headers)
            required_from = None


def _read_error(error: re.Match[str], required_from: re.Match[str] | None, source: Path, headers: Path) -> _Error:
    in_headers = error["file"].startswith(f"{headers}/")
    at = required_from if in_headers and required_from else error
    place = f"{display_name(at['file'], source)}:{at['line']}"
    if unmodelled := _UNMODELLED.search(error["text"]):
        return _Error(f"{place}: {unmodelled[1]} is not modelled on the host target (kernel/LIMITS.md)", True, True)
    text = error["text"].removeprefix(_ASSERTION)
    if 'poisoned "double"' in text:
        text = "Metal has no double"
    elif at is error and error["column"] and text == error["text"]:
        place += f":{error['column']}"
    return _Error(f"{place}: error: {text}", False, not in_headers or at is required_from)
