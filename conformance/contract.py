"""The contract as data: requirements from contract.toml, documented errors from errors.toml."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from pathlib import Path

_HERE = Path(__file__).parent
DECIDING_TIERS = ("documented", "numeric", "memory")


@dataclass(frozen=True)
class Requirement:
    """A numbered sentence of the contract."""

    id: str
    tier: str
    sentence: str
    source: str


@dataclass(frozen=True)
class DocumentedError:
    """One of the eleven ValueErrors, as an engineer meets it."""

    number: int
    pattern: str
    """Regular expression of the whole text."""
    trigger: str
    situations: tuple[str, ...]
    """Names in `conformance.situations`."""
    common: str
    cure: str
    guard: str
    """Name of the public guard in `reference.arguments`."""

    @property
    def requirement(self) -> str:
        return f"ERR-{self.number:02d}"


@functools.cache
def requirements() -> dict[str, Requirement]:
    """All requirements by id, in the order of the contract."""
    rows = tomllib.loads((_HERE / "contract.toml").read_text())["requirement"]
    return {row["id"]: Requirement(**row) for row in rows}


@functools.cache
def documented_errors() -> dict[int, DocumentedError]:
    """The eleven errors by number."""
    rows = tomllib.loads((_HERE / "errors.toml").read_text())["error"]
    return {row["number"]: DocumentedError(**row | {"situations": tuple(row["situations"])}) for row in rows}
