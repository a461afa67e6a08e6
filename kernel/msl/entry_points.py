"""The kernels that Metal source defines: names, buffers and position argument, found in its tokens."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel.msl.diagnostics import display_name
from kernel.msl.errors import ShaderError
from kernel.msl.tokens import (
    Declaration,
    Token,
    angle_end,
    balanced_end,
    declarations,
    split_at_commas,
    unclosed_brace,
)

_KNOWN_ATTRIBUTES = {"buffer", "maybe_unused", "thread_position_in_grid"}


@dataclass(frozen=True)
class Attribute:
    """One ``[[name(argument)]]``; the argument is source text, empty if there is none."""

    name: str
    argument: str
    token: Token


@dataclass(frozen=True)
class Parameter:
    """A kernel's parameter: its attributes, and its declaration as source text without them or a default."""

    declaration: str
    attributes: tuple[Attribute, ...]
    token: Token

    @property
    def is_position(self) -> bool:
        """Whether it is the thread's position in the grid."""
        return any(attribute.name == "thread_position_in_grid" for attribute in self.attributes)

    @property
    def is_buffer(self) -> bool:
        """Whether it is bound to a buffer: by its attribute, or as a pointer or a reference that has none."""
        names = {attribute.name for attribute in self.attributes if "::" not in attribute.name} - {"maybe_unused"}
        return "buffer" in names or (not names and ("*" in self.declaration or "&" in self.declaration))


@dataclass(frozen=True)
class EntryPoint:
    """A kernel under the name that the host asks for.

    `function` is a C++ expression for the function's address, valid inside `namespaces`.
    """

    name: str
    namespaces: tuple[str, ...]
    function: str
    parameters: tuple[Parameter, ...]
    token: Token

    @property
    def num_buffers(self) -> int:
        """How many buffers it takes."""
        return sum(parameter.is_buffer for parameter in self.parameters)


@dataclass(frozen=True)
class _Function:
    """A function declaration; `parameters` is None for an instantiation by decltype, which has no list."""

    name: str
    is_template: bool
    is_instantiation: bool
    attributes: Mapping[str, Attribute]
    is_kernel: bool
    parameters: tuple[Parameter, ...] | None
    where: Declaration

    @property
    def base_name(self) -> str:
        return self.name.partition("<")[0].rpartition("::")[2].strip()


def find_entry_points(tokens: Sequence[Token]) -> dict[str, EntryPoint]:
    """Return the source's entry points by name: kernels, and named instantiations of kernel templates."""
    functions = [f for f in map(_read_function, declarations(tokens)) if f is not None]
    templates = [f for f in functions if f.is_template and f.is_kernel]
    kernel_templates = {f.base_name for f in templates}
    entries: dict[str, EntryPoint] = {}
    for function in functions:
        if function.is_instantiation and (function.is_kernel or function.base_name in kernel_templates):
            # Without a host name it has only a mangled one, by which nobody asks.
            if "host_name" in function.attributes:
                entry = _entry_point(function, _instantiated_parameters(function, templates))
                entries[entry.name] = entry
        elif function.is_kernel and not function.is_template and function.parameters is not None:
            entry = _entry_point(function, function.parameters)
            if entry.name not in entries or function.where.has_body:
                entries[entry.name] = entry
    return entries


def find_required(
    tokens: Sequence[Token], required: Mapping[str, int], may_ask: Collection[str], source: Path
) -> dict[str, EntryPoint]:
    """Return the required entry points by name, in the order of their names.

    required: for each the number of its buffers; may_ask: those that may take one more.
    Raises ShaderError if one is missing or takes another number, and for a brace that is not closed.
    """
    if brace := unclosed_brace(tokens):
        raise ShaderError(f"{place_of(brace, source)}: this brace is not closed")
    entries = find_entry_points(tokens)
    missing = sorted(required.keys() - entries.keys())
    if missing:
        subject = "entry point" if len(missing) == 1 else "entry points"
        verb = "is" if len(missing) == 1 else "are"
        found = ", ".join(sorted(entries)) or "none"
        raise ShaderError(f"{source.name}: {subject} {', '.join(missing)} {verb} missing (found: {found})")
    for name, count in sorted(required.items()):
        allowed = (count, count + 1) if name in may_ask else (count,)
        if entries[name].num_buffers not in allowed:
            place, wanted = place_of(entries[name].token, source), " or ".join(map(str, allowed))
            raise ShaderError(f"{place}: {name} takes {entries[name].num_buffers} buffers, {wanted} are required")
    return {name: entries[name] for name in sorted(required)}


def place_of(token: Token, source: Path) -> str:
    """Return `file:line` of a token, as the shader's reader knows the file."""
    return f"{display_name(token.file, source)}:{token.line}"


def _instantiated_parameters(function: _Function, templates: Iterable[_Function]) -> tuple[Parameter, ...]:
    """Return its own parameters if they carry attributes, else those of its template."""
    own = function.parameters
    if own is not None and any(parameter.attributes for parameter in own):
        return own
    for template in templates:
        listed = template.parameters or ()
        if template.base_name == function.base_name and (own is None or len(own) == len(listed)):
            return listed
    return own or ()


def _entry_point(function: _Function, parameters: tuple[Parameter, ...]) -> EntryPoint:
    host_name = function.attributes.get("host_name")
    address = f"&{function.name}"
    if function.parameters is not None:
        signature = ", ".join(parameter.declaration for parameter in function.parameters)
        address = f"static_cast<void (*)({signature})>({address})"
    return EntryPoint(
        name=_string_value(host_name.argument) if host_name else function.base_name,
        namespaces=function.where.namespaces,
        function=address,
        parameters=parameters,
        token=function.where.tokens[0],
    )


def _read_function(declaration: Declaration) -> _Function | None:
    """Read a declaration as a function that may be a kernel; None if it is none."""
    rest, attributes = _without_attributes(declaration.tokens)
    is_template = is_instantiation = False
    if rest and rest[0].text == "template":
        is_template = len(rest) > 1 and rest[1].text == "<"
        is_instantiation = not is_template
        rest = rest[angle_end(rest, 1) :] if is_template else rest[1:]
    by_name = {attribute.name: attribute for attribute in attributes}
    is_kernel = "kernel" in by_name or any(token.text == "kernel" for token in rest)
    if not is_kernel and not is_instantiation:
        return None
    rest = [token for token in rest if token.text not in ("kernel", "static", "inline")]
    parameters: tuple[Parameter, ...] | None = None
    if rest and rest[0].text == "decltype":
        name = _text(rest[balanced_end(rest, 1) :])
    else:
        opening = _find_parameter_list(rest)
        if opening is None:
            return None
        name = _text(_name_before(rest, opening))
        inside = rest[opening + 1 : balanced_end(rest, opening) - 1]
        parameters = tuple(_read_parameter(part) for part in split_at_commas(inside) if _text(part) != "void")
    return _Function(name, is_template, is_instantiation, by_name, is_kernel, parameters, declaration)


def _find_parameter_list(tokens: Sequence[Token]) -> int | None:
    i = 0
    while i < len(tokens) and tokens[i].text != "(":
        i = angle_end(tokens, i) if tokens[i].text == "<" else i + 1
    return i if i < len(tokens) else None


def _name_before(tokens: Sequence[Token], end: int) -> Sequence[Token]:
    """Return the qualified name, with its template arguments, that ends before `end`."""
    start = end - 1
    if start >= 0 and tokens[start].text == ">":
        depth = 1
        while depth and start > 0:
            start -= 1
            depth += (tokens[start].text == ">") - (tokens[start].text == "<")
        start -= 1
    while start >= 2 and tokens[start - 1].text == "::":
        start -= 2
    return tokens[max(start, 0) : end]


def _read_parameter(tokens: Sequence[Token]) -> Parameter:
    plain, attributes = _without_attributes(tokens)
    default = next((i for i, token in enumerate(plain) if token.text == "="), len(plain))
    return Parameter(_text(plain[:default]), tuple(attributes), tokens[0])


def _without_attributes(tokens: Sequence[Token]) -> tuple[list[Token], list[Attribute]]:
    """Split off the ``[[...]]`` that stand outside parentheses."""
    plain: list[Token] = []
    attributes: list[Attribute] = []
    i = 0
    while i < len(tokens):
        end = balanced_end(tokens, i) if tokens[i].text in ("(", "[") else i + 1
        if tokens[i].text == "[" and i + 1 < len(tokens) and tokens[i + 1].text == "[":
            attributes.extend(_read_attribute(part) for part in split_at_commas(tokens[i + 2 : end - 2]))
        else:
            plain.extend(tokens[i:end])
        i = end
    return plain, attributes


def _read_attribute(tokens: Sequence[Token]) -> Attribute:
    opening = next((i for i, token in enumerate(tokens) if token.text == "("), len(tokens))
    name = "".join(token.text for token in tokens[:opening])
    return Attribute(name, _text(tokens[opening + 1 : -1]), tokens[0])


def _text(tokens: Iterable[Token]) -> str:
    return " ".join(token.text for token in tokens)


def _string_value(literals: str) -> str:
    """Join adjacent string literals, as the compiler would."""
    return "".join(part for part in literals.split('"')[1::2])


def buffer_index(parameter: Parameter, entry: EntryPoint, place: str) -> str:
    """Return the C++ expression that says where the argument comes from; `place` starts an error's message.

    Raises ShaderError for an attribute that the host target does not model, and if nothing says it.
    """
    for attribute in parameter.attributes:
        if attribute.name == "buffer":
            return f"({attribute.argument})"
        if attribute.name not in _KNOWN_ATTRIBUTES and "::" not in attribute.name:
            raise ShaderError(f"{place}: [[{attribute.name}]] is not modelled on the host target (kernel/LIMITS.md)")
    if parameter.is_position:
        return "::msl::position"
    if "*" in parameter.declaration or "&" in parameter.declaration:
        return "::msl::automatic"
    raise ShaderError(f"{place}: `{parameter.declaration}` of {entry.name} has no attribute such as [[buffer(0)]]")
