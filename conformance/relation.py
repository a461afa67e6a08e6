"""Relations between calls that hold bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from conformance.finding import Finding, Judgement
from conformance.judge import answered
from conformance.outcome import Outcome, PoolAfter
from conformance.pattern import extent
from kernel.memory import bits


def repeated(first: Outcome, second: Outcome) -> Judgement:
    """RUN-REPEAT: the same call twice gives the same bits."""
    judgement = Judgement()
    if first.outputs is None or second.outputs is None or first.pools is None or second.pools is None:
        return _all_returned(judgement, "RUN-REPEAT", "the same call made twice", (first, second))
    pairs = [(name, first.outputs[name], second.outputs[name]) for name in first.outputs]
    for name, one, other in pairs:
        _same(judgement, "RUN-REPEAT", f"{name} differs between two runs of one call", one, other)
    for name, pool in first.pools.items():
        _same_pool(judgement, name, pool, second.pools[name])
    return judgement


def tokenwise(whole: Outcome, single: Sequence[Outcome]) -> Judgement:
    """RUN-SPLIT: a call of T tokens gives the bits of T calls of one token."""
    judgement = Judgement()
    if whole.outputs is None or any(outcome.outputs is None for outcome in single):
        return _all_returned(judgement, "RUN-SPLIT", "a batch and its tokens one by one", (whole, *single))
    for name, together in whole.outputs.items():
        apart = torch.cat([outcome.outputs[name] for outcome in single if outcome.outputs])
        what = f"{name} of one call differs from the calls of its tokens one by one"
        _same(judgement, "RUN-SPLIT", what, together, apart)
    return judgement


def _all_returned(judgement: Judgement, requirement: str, calls: str, outcomes: Sequence[Outcome]) -> Judgement:
    """Some outcome has no arrays to compare: a finding, unless none has."""
    judgement.looked(requirement, len(outcomes))
    silent = [n for n, outcome in enumerate(outcomes) if outcome.outputs is None]
    if len(silent) < len(outcomes):
        what = f"{calls}: call {silent[0] + 1} of {len(outcomes)} returned no arrays"
        judgement.found(Finding(requirement, what, answered(outcomes[silent[0]])))
    return judgement


def _same(judgement: Judgement, requirement: str, what: str, one: Tensor, other: Tensor) -> None:
    if one.shape != other.shape or one.dtype != other.dtype:
        judgement.found(Finding(requirement, what, f"{list(one.shape)} against {list(other.shape)}"))
        return
    judgement.looked(requirement, one.numel())
    wrong = bits(one) != bits(other)
    if bool(wrong.any()):
        at = tuple(int(i) for i in wrong.nonzero()[0])
        where = f"token {at[0]}, head {at[1]}, element {at[2]}: {float(one[at]):.9g} against {float(other[at]):.9g}"
        judgement.found(Finding(requirement, what, where, extent(wrong)))


def _same_pool(judgement: Judgement, name: str, one: PoolAfter, other: PoolAfter) -> None:
    judgement.looked("RUN-REPEAT", one.data.numel())
    if not torch.equal(one.rows, other.rows) or not torch.equal(bits(one.data), bits(other.data)):
        judgement.found(Finding("RUN-REPEAT", f"{name} differs between two runs of one call"))
