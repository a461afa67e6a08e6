"""Compiled Metal source, its specialisations, and their launch."""

import ctypes
import hashlib
import struct
import tempfile
import weakref
from _ctypes import dlclose
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import lru_cache
from pathlib import Path

from kernel.msl.compile import Build, buffer_count_symbol, build_library, launch_symbol
from kernel.msl.errors import ShaderError
from kernel.msl.library import read_library
from kernel.msl.toolchain import find_compiler

_MAGIC = b"MSL-fn-constants"
_LOADED_AT_ONCE = 16
_PRECISE = Build()


@dataclass(frozen=True)
class FunctionConstants:
    """The five function constants of the interface, in index order (uint, uint, uint, float32, uint)."""

    head_dim: int
    num_qo_heads: int
    num_kv_heads: int
    log2_base_over_head_dim: float
    heads_per_thread: int


class Specialisation:
    """A program loaded with one set of function constants; unloaded when nothing refers to it any more."""

    def __init__(self, library: Path, constants: FunctionConstants) -> None:
        self._library = _load(library, constants)
        weakref.finalize(self, dlclose, self._library._handle)

    def num_buffers(self, entry: str) -> int:
        """How many buffers an entry point takes. Raises ShaderError for one that was not required of the program."""
        try:
            return ctypes.c_int.in_dll(self._library, buffer_count_symbol(entry)).value
        except ValueError:
            raise ShaderError(f"{entry} is not an entry point that was required of this program") from None

    def launch(self, entry: str, addresses: Sequence[int], grid: tuple[int, int, int], reverse: bool = False) -> None:
        """Run every thread of the grid, x fastest, on the calling thread.

        addresses: of the buffers, in index order; the caller keeps them alive and large enough.
        reverse: in exactly the opposite order, last thread first; Metal promises no order at all.
        Raises ShaderError for an entry point that was not required of the program, and for a wrong number of
        buffers.
        """
        num_buffers = self.num_buffers(entry)
        if len(addresses) != num_buffers:
            raise ShaderError(f"{entry} takes {num_buffers} buffers, {len(addresses)} were given")
        buffers = (ctypes.c_void_p * num_buffers)(*addresses)
        self._library[launch_symbol(entry)](buffers, (ctypes.c_uint32 * 3)(*grid), ctypes.c_bool(reverse))


@dataclass(frozen=True)
class Program:
    """Compiled Metal source; it holds paths only, so it can be sent to another process."""

    source: Path
    source_hash: str
    compiler: str
    build: Build
    library: Path

    def specialise(self, constants: FunctionConstants) -> Specialisation:
        """Return the program loaded with these constants, without compiling anything."""
        return _specialise(self.library, constants)


def compile_program(
    source: Path, required: Mapping[str, int], build: Build = _PRECISE, may_ask: Collection[str] = ()
) -> Program:
    """Compile Metal source for the CPU, or find it compiled.

    required: for each entry point that it must define, the number of its buffers.
    may_ask: those that may take one more buffer, the last, a table of ulong.
    Raises ShaderError if the source is at fault, CompilerMissing if there is no C++ compiler.
    """
    content = read_source(source)
    compiler = find_compiler()
    library = build_library(source.absolute(), required, may_ask, build, compiler)
    return Program(source, hashlib.sha256(content).hexdigest()[:12], compiler.version, build, library)


def read_source(source: Path) -> bytes:
    """The bytes of a Metal source, UTF-8 text. Raises ShaderError."""
    try:
        content = source.read_bytes()
        content.decode("utf-8")
    except FileNotFoundError:
        raise ShaderError(f"{source}: no such file") from None
    except IsADirectoryError:
        raise ShaderError(f"{source}: a directory, not a Metal source file") from None
    except OSError as error:
        raise ShaderError(f"{source}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ShaderError(f"{source}: not UTF-8 text (byte {error.start})") from None
    if not content.strip():
        raise ShaderError(f"{source}: the file is empty")
    return content


@lru_cache(maxsize=_LOADED_AT_ONCE)
def _specialise(library: Path, constants: FunctionConstants) -> Specialisation:
    return Specialisation(library, constants)


def _load(library: Path, constants: FunctionConstants) -> ctypes.CDLL:
    """Load a copy of the library whose block of function constants holds these values.

    A copy, because the loader gives one path one set of globals; and those are initialised from the block.
    """
    body = read_library(library)
    if body is None:
        raise ShaderError(f"{library}: the compiled library is gone or damaged; compile the program again")
    start = body.index(_MAGIC) + len(_MAGIC)
    words = struct.pack("=IIIfI", *astuple(constants))
    with tempfile.NamedTemporaryFile(dir=library.parent, suffix=".so") as file:
        file.write(body[:start] + words + body[start + len(words) :])
        file.flush()
        return ctypes.CDLL(file.name)
