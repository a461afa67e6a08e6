"""A Case: one call, described so that every machine builds the same tensors from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from kernel import LaunchPlan

DTYPES = ("f16", "bf16", "f32")
_SHORT = {
    "num_tokens": "T",
    "num_qo_heads": "Hq",
    "num_kv_heads": "Hkv",
    "head_dim": "D",
    "pool_size": "P",
    "rope_base": "base",
    "positions": "pos",
}
_ALWAYS = (*_SHORT, "slots", "values", "seed")


class CaseError(ValueError):
    """A text or a record that describes no case."""


@dataclass(frozen=True)
class Case:
    """One call of rope_pool_fused.

    Attributes:
        positions, slots, values: how they are drawn, see `conformance.draw`.
        v_bits: `arbitrary`, or `every` for each pattern of a 16-bit dtype in turn.
        layout: `dense`, or `operand:kind` joined by commas, see `conformance.placement`.
        memory: `margins`; `page-end` or `page-start` for buffers flush against unreadable pages; `sparse` for
            pools of zeros larger than memory; `kept` for the arrays of the call before, refilled; `donated` for arrays
            that nobody keeps, so that a framework may reuse their memory (on the targets mlx and sgl).
        fault: overrides that break the call, joined by `+`: `q:2x4x1x64` (shape), `k@f32` (dtype),
            `head_dim=128` (argument).
        situation: a documented situation, or `name/cured`, see `conformance.situations`.
        token: when not -1, the call holds this token of the drawn batch alone.
        plan: the launch plan, `split/1`; empty where the target decides.
    """

    dtype: str = "bf16"
    num_tokens: int = 3
    num_qo_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    pool_size: int = 8
    rope_base: float = 10000.0
    positions: str = "rise:0"
    slots: str = "permuted"
    values: str = "mixed"
    seed: int = 0
    v_bits: str = "arbitrary"
    layout: str = "dense"
    memory: str = "margins"
    fault: str = ""
    situation: str = ""
    token: int = -1
    plan: str = ""

    def __post_init__(self) -> None:
        """Raises CaseError for sizes, seed, base or plan that no call can have."""
        least = {"num_tokens": 0, "num_qo_heads": 1, "num_kv_heads": 1, "head_dim": 1, "pool_size": 0, "seed": 0}
        for name, smallest in least.items():
            if getattr(self, name) < smallest:
                raise CaseError(f"{_SHORT.get(name, name)} must be at least {smallest}, got {getattr(self, name)}")
        if not 1 <= self.rope_base < 2.0**127:
            raise CaseError(
                f"base must be at least 1 and below 2^127, got {self.rope_base}: the oracle holds for no other"
            )
        try:
            _ = self.launch_plan
        except ValueError as error:
            raise CaseError(str(error)) from error

    def but(self, **changes: Any) -> Case:
        """This case with some fields changed."""
        return dataclasses.replace(self, **changes)

    @property
    def launch_plan(self) -> LaunchPlan | None:
        return LaunchPlan.parse(self.plan) if self.plan else None

    def __str__(self) -> str:
        words = [self.dtype]
        for field in dataclasses.fields(self)[1:]:
            value = getattr(self, field.name)
            if field.name in _ALWAYS or value != field.default:
                words.append(f"{_SHORT.get(field.name, field.name)}={_text(value)}")
        return " ".join(words)

    def to_json(self) -> dict[str, Any]:
        """Every field by name."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Case:
        """The inverse of `to_json`. Raises CaseError on unknown fields."""
        known = {field.name for field in dataclasses.fields(cls)}
        if set(fields) - known:
            raise CaseError(f"unknown fields of a case: {', '.join(sorted(set(fields) - known))}")
        return cls(**fields)

    @classmethod
    def parse(cls, line: str) -> Case:
        """Read the line that `str` prints; what it leaves out has its default. Raises CaseError."""
        names = {short: name for name, short in _SHORT.items()}
        kinds: dict[str, Callable[[str], Any]] = {f.name: type(f.default) for f in dataclasses.fields(cls)}
        dtype, *words = line.split() or [""]
        if dtype not in DTYPES:
            raise CaseError(f"a case begins with its dtype (f16, bf16 or f32), got {dtype!r}")
        fields: dict[str, Any] = {}
        for word in words:
            short, equals, text = word.partition("=")
            name = names.get(short, short)
            if not equals or name not in kinds:
                raise CaseError(f"{word!r} is not name=value of a case, such as T=3 or slots=permuted")
            try:
                fields[name] = kinds[name](text)
            except ValueError as error:
                raise CaseError(f"{short} must be a number, got {text!r}") from error
        return cls(dtype, **fields)


JOINT = " ; "


def joined(cases: Iterable[Case]) -> str:
    """Calls of one process in a line; `split(JOINT)` takes it apart."""
    return JOINT.join(map(str, cases))


def _text(value: object) -> str:
    # 10000.0 reads better as 10000; str of a float is exact either way.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
