"""The situations in which engineers meet the documented errors, each with the cure that its document names.

A situation takes a right call to the mistaken one; its cure mends the mistaken call, knowing only what
the engineer at the call site knows: the arrays and the model's configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from conformance.case import CaseError
from kernel import Call

CHUNK_START = 2
_LAYER = 1


@dataclass(frozen=True)
class Situation:
    """A mistake and its cure; errors.toml says which documented error it raises."""

    mistake: Callable[[Call], Call]
    cure: Callable[[Call], Call]


def _each(names: str, change: Callable[[Tensor], Tensor]) -> Callable[[Call], Call]:
    """Change every array named in `names`."""

    def changed(call: Call) -> Call:
        arrays = {name: change(getattr(call, name)) for name in names.split()}
        return call.but(**arrays)

    return changed


def _arguments(**make: Callable[[Call], int]) -> Callable[[Call], Call]:
    """Set arguments, each from the call."""
    return lambda call: call.but(**{name: value(call) for name, value in make.items()})


def _longer(t: Tensor) -> Tensor:
    return torch.cat((t, t[:1]))


def _cut(names: str) -> Callable[[Call], Call]:
    """Cut the arrays to q's tokens."""
    return lambda call: _each(names, lambda t: t[: call.q.shape[0]])(call)


def _per_head(t: Tensor, head_dim: int) -> Tensor:
    return t.view(t.shape[0], -1, head_dim)


def _cumulated(call: Call) -> Call:
    last_len = int(call.positions[0])
    return call.but(positions=torch.arange(last_len + len(call.slots), dtype=torch.int32))


def _chunk_positions(call: Call) -> Call:
    last_len = len(call.positions) - call.q.shape[0]
    chunk = torch.arange(last_len, last_len + call.q.shape[0], dtype=torch.int32)
    return call.but(positions=chunk)


def _group(call: Call) -> int:
    return call.num_qo_heads // call.num_kv_heads


def _repeat_heads(names: str) -> Callable[[Call], Call]:
    return lambda call: _each(names, lambda t: t.repeat_interleave(_group(call), dim=1))(call)


SITUATIONS: dict[str, Situation] = {
    "packed-q": Situation(
        _each("q", lambda t: t.reshape(t.shape[0], -1)),
        lambda call: _each("q", lambda t: _per_head(t, call.head_dim))(call),
    ),
    "leading-axis-qkv": Situation(_each("q k v", lambda t: t.unsqueeze(0)), _each("q k v", lambda t: t.squeeze(0))),
    "leading-axis-positions": Situation(
        _each("positions slots", lambda t: t.unsqueeze(0)), _each("positions slots", lambda t: t.reshape(-1))
    ),
    "column-slots": Situation(_each("slots", lambda t: t.unsqueeze(1)), _each("slots", lambda t: t.reshape(-1))),
    "paged-cache": Situation(
        _each("k_pool v_pool", lambda t: t.view(-1, 2, *t.shape[1:])),
        _each("k_pool v_pool", lambda t: t.view(-1, *t.shape[2:])),
    ),
    "layer-stacked-pool": Situation(
        _each("k_pool v_pool", lambda t: torch.stack((t, t, t))), _each("k_pool v_pool", lambda t: t[_LAYER])
    ),
    "flattened-pool": Situation(
        _each("k_pool v_pool", lambda t: t.view(t.shape[0], -1)),
        lambda call: _each("k_pool v_pool", lambda t: _per_head(t, call.head_dim))(call),
    ),
    "leading-axis-pool": Situation(
        _each("k_pool v_pool", lambda t: t.unsqueeze(0)), _each("k_pool v_pool", lambda t: t.squeeze(0))
    ),
    "head-counts-swapped": Situation(
        _arguments(num_qo_heads=lambda c: c.num_kv_heads, num_kv_heads=lambda c: c.num_qo_heads),
        _arguments(num_qo_heads=lambda c: c.num_kv_heads, num_kv_heads=lambda c: c.num_qo_heads),
    ),
    "head-dim-of-another-model": Situation(
        _arguments(head_dim=lambda c: 2 * c.head_dim), _arguments(head_dim=lambda c: c.q.shape[2])
    ),
    "q-projection-widened": Situation(
        _each("q", lambda t: torch.cat((t, t), dim=1)), _arguments(num_qo_heads=lambda c: c.q.shape[1])
    ),
    "mha-k-under-gqa": Situation(_repeat_heads("k v k_pool v_pool"), _arguments(num_kv_heads=lambda c: c.k.shape[1])),
    "attention-heads-as-kv-heads": Situation(
        _arguments(num_kv_heads=lambda c: c.num_qo_heads), _arguments(num_kv_heads=lambda c: c.k.shape[1])
    ),
    "k-of-a-longer-range": Situation(_each("k v", _longer), _cut("k v")),
    "v-of-a-longer-range": Situation(_each("v", _longer), _cut("v")),
    "chunked-prefill": Situation(
        _each("q k v", lambda t: t[CHUNK_START:]), _each("positions slots", lambda t: t[CHUNK_START:])
    ),
    "cumulated-positions": Situation(_cumulated, _chunk_positions),
    "slots-of-another-batch": Situation(_each("slots", _longer), _cut("slots")),
    "pool-of-query-heads": Situation(
        _repeat_heads("k_pool v_pool"),
        lambda call: _each("k_pool v_pool", lambda t: t[:, : call.num_kv_heads].clone())(call),
    ),
    "only-k-pool-grown": Situation(_each("k_pool", _longer), _each("v_pool", _longer)),
    "k-left-in-float32": Situation(
        _each("k", lambda t: t.to(torch.float32)), lambda call: _each("k", lambda t: t.to(call.q.dtype))(call)
    ),
    "pool-in-default-dtype": Situation(
        _each("k_pool v_pool", lambda t: torch.zeros(t.shape)),
        lambda call: _each("k_pool v_pool", lambda t: torch.zeros_like(t, dtype=call.q.dtype))(call),
    ),
}


def apply(call: Call, situation: str) -> Call:
    """The mistaken call of `name`, or the mended one of `name/cured`. Raises CaseError."""
    name, _, cured = situation.partition("/")
    if name not in SITUATIONS or cured not in ("", "cured"):
        raise CaseError(f"no situation {situation!r}; there are {', '.join(SITUATIONS)}, each also as NAME/cured")
    mistaken = SITUATIONS[name].mistake(call)
    return SITUATIONS[name].cure(mistaken) if cured else mistaken
