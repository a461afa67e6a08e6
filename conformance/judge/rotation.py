"""q_rot and k_rot against the exact rotation and the bound of the accuracy class."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

import reference
from conformance import measure
from conformance.diagnose import Rotation, error_size, looks_like
from conformance.finding import FAILURE, WARNING, Finding, Judgement
from conformance.judge.aggregate import judge_aggregate
from conformance.judge.expected import Expected, worst_finite
from conformance.measure import Measure, Rotated
from conformance.pattern import extent
from kernel.memory import is_pattern
from reference import ACCURACY_CLASSES, Accuracy, Bound


def judge_rotation(expected: Expected, outputs: dict[str, Tensor], judgement: Judgement) -> None:
    """Every element of q_rot and k_rot."""
    for name in ("q", "k"):
        out = outputs[f"{name}_rot"]
        if out.numel():
            _judge_bound(expected, name, out, judgement)
            _judge_position_zero(expected, name, out, judgement)
            judge_aggregate(expected, name, out, judgement)


@dataclass(frozen=True)
class _Scored:
    """One output of the tokens of `part`, and how much of its bound each element needs."""

    name: str
    part: slice
    rotation: Rotation
    bound: Bound
    scores: Tensor
    wrong: Tensor


def _judge_bound(expected: Expected, name: str, out: Tensor, judgement: Judgement) -> None:
    wrong = torch.zeros(out.shape, dtype=torch.bool)
    first: _Scored | None = None
    for part in expected.parts():
        scored = _scored(expected, name, out, part, judgement)
        wrong[part] = scored.wrong
        if first is None and bool(scored.wrong.any()):
            first = scored
    if first is not None:
        judgement.found(_finding(expected, first, wrong))


def _scored(expected: Expected, name: str, out: Tensor, part: slice, judgement: Judgement) -> _Scored:
    """Score one part and count what was looked at; what is only a warning is found here."""
    bound = expected.bound(name, part, expected.accuracy)
    x: Tensor = getattr(expected.call, name)[part]
    rotation = Rotation(x, expected.positions[part], expected.call.rope_base, out[part])
    scores = _scores(expected, name, part, rotation, expected.accuracy)
    wrong = scores > 1
    base, skipped = _requirement(expected, name), expected.skipped[part]
    specified = ~bound.error.isinf()
    judgement.looked(base, int(specified.sum()), worst_finite(scores))
    if bool(skipped.any()):
        # A kernel that is wrong everywhere says nothing of skipped tokens.
        worst = None if bool(wrong.any()) else worst_finite(scores[skipped])
        judgement.looked("SLOT-ROT", int(specified[skipped].sum()), worst)
    judgement.measured(_measure(expected, name, part, rotation, scores))
    if _overflow_is_void(expected, expected.accuracy):
        _warn_of_overflow(base, name, rotation.out, bound, judgement)
    return _Scored(name, part, rotation, bound, scores, wrong)


def _requirement(expected: Expected, name: str) -> str:
    return "ROT-NONFINITE" if expected.case.values == "nonfinite" else f"ROT-{name.upper()}"


def _scores(expected: Expected, name: str, part: slice, rotation: Rotation, accuracy: Accuracy) -> Tensor:
    """The scores of the class or, if all of the output is right in a tighter one, of that: it is right in both.

    The classes bound different errors: near position 0 the float32 recipe knows its angle better than 2^-22 rad.
    """
    own = _scores_of(expected, name, part, rotation, accuracy)
    if not bool((own > 1).any()):
        return own
    for tighter in ACCURACY_CLASSES.values():
        if tighter is accuracy:
            return own
        scores = _scores_of(expected, name, part, rotation, tighter)
        if not bool((scores > 1).any()):
            return scores
    return own


def _scores_of(expected: Expected, name: str, part: slice, rotation: Rotation, accuracy: Accuracy) -> Tensor:
    bound = expected.bound(name, part, accuracy)
    scores = reference.score(rotation.out, bound)
    if _overflow_is_void(expected, accuracy):
        scores = scores.masked_fill(_saturated(rotation.out, bound) & (scores > 1), 0.0)
    return scores


def _measure(expected: Expected, name: str, part: slice, rotation: Rotation, scores: Tensor) -> Measure:
    """How near to its bound each class came; `scores` are those of the class that decides."""
    told = Measure(str(rotation.out.dtype).removeprefix("torch."))
    exact = expected.bound(name, part, expected.accuracy).exact
    errors, told.ulps = measure.deviation(rotation.x, rotation.out, exact)
    for accuracy in expected.standard.classes:
        held = expected.bound(name, part, accuracy)
        own = accuracy is expected.accuracy
        needed = scores if own else _scores(expected, name, part, rotation, accuracy)
        rotated = Rotated(rotation.x, rotation.positions, rotation.out, held)
        told.classes[accuracy.name] = measure.kept(needed, rotation.positions)
        for decade, seen in measure.decades(needed, rotated, expected.turn(part, accuracy), errors).items():
            told.decades[accuracy.name, decade] = seen
    return told


def _finding(expected: Expected, first: _Scored, wrong: Tensor) -> Finding:
    """What is wrong with an output: told of its first part that is, and of the extent over all parts."""
    size = error_size(first.rotation.out, first.bound, first.wrong)
    return Finding(
        "SLOT-ROT" if _only_where_skipped(expected, first) else _requirement(expected, first.name),
        f"{first.name}_rot is beyond the {expected.accuracy.name} bound",
        _first_place(first),
        "; ".join(filter(None, (extent(wrong, expected.skipped), _from_position(expected, wrong), size))),
        _likeness(expected, first),
    )


def _from_position(expected: Expected, wrong: Tensor) -> str:
    """From which position on tokens are wrong, where it is the position that tells them from the right ones."""
    hit, distance = wrong.flatten(1).any(dim=1), expected.positions.abs()
    if bool(hit.all()):
        return ""
    lowest, highest_right = int(distance[hit].min()), int(distance[~hit].max())
    if highest_right < lowest:
        return f"from position {lowest} on, right up to {highest_right}"
    return f"lowest position {lowest}"


def _overflow_is_void(expected: Expected, accuracy: Accuracy) -> bool:
    """Whether the class assumes that no result overflows, as fast math does, and the target may take it at its word."""
    return accuracy is reference.FAST and not expected.standard.arithmetic.honours_nonfinite


def _saturated(out: Tensor, bound: Bound) -> Tensor:
    """Where a result may overflow the output type and is what is left of it: NaN, or the largest value of its sign."""
    largest = torch.finfo(out.dtype).max
    overflows = bound.exact.abs() + bound.error >= largest
    return overflows & (out.isnan() | ((out.abs() >= largest) & (out.sign() == bound.exact.sign())))


def _warn_of_overflow(requirement: str, name: str, out: Tensor, bound: Bound, judgement: Judgement) -> None:
    void = _saturated(out, bound) & (reference.score(out, bound) > 1)
    if bool(void.any()):
        what = f"{name}_rot past the largest finite value is no infinity but NaN or the largest finite value"
        judgement.found(Finding(requirement, what, extent=extent(void), severity=WARNING))


def _only_where_skipped(expected: Expected, scored: _Scored) -> bool:
    """Whether the tokens that write no row are wrong, all of them, and those that write one are right.

    A token tells only where its elements are judged more finely than zero; one at position 0 tells little: a kernel
    that does not rotate at all is right there.
    """
    skipped, wrong, bound = expected.skipped[scored.part], scored.wrong, scored.bound
    telling = (bound.exact.abs() > bound.error) & (scored.rotation.positions != 0)[:, None, None] & wrong.any(dim=0)
    telling, hit = telling.flatten(1).any(dim=1), wrong.flatten(1).any(dim=1)
    missed = skipped & telling
    if not bool((telling & ~skipped).any()) or bool(hit[~skipped].any()) or not bool(hit[missed].all()):
        return False
    # A token that is not rotated is wrong in most of its elements; one with a small error is wrong in few, by chance.
    return bool(missed.any()) and float(wrong[missed].double().mean()) > 0.25


def _likeness(expected: Expected, scored: _Scored) -> str:
    if bool(is_pattern(scored.rotation.out)[scored.wrong].all()):
        return "never written: the output still holds the pattern that filled its buffer"
    return looks_like(scored.rotation, scored.bound, scored.wrong) or _other_class(expected, scored)


def _other_class(expected: Expected, scored: _Scored) -> str:
    """The next class whose bound holds this rotation: a kernel of another recipe, or an error too small for it."""
    classes = list(reference.ACCURACY_CLASSES.values())
    for looser in classes[classes.index(expected.accuracy) + 1 :]:
        bound = expected.bound(scored.name, scored.part, looser)
        if bool((reference.score(scored.rotation.out, bound) <= 1).all()):
            return f"no known mistake; all of it is within the bound of the class {looser.name}"
    return ""


def _first_place(scored: _Scored) -> str:
    token, head, element = (int(i) for i in scored.wrong.nonzero()[0])
    at = (slice(token, token + 1), head, element)
    out, bound = scored.rotation.out, scored.bound.at(at)
    unflushed = Bound(bound.exact, bound.error, replace(bound.arithmetic, flushes=False, flushes_half=False))
    low, high = (float(t) for t in reference.allowed_interval(unflushed, out.dtype))
    zero = torch.zeros(1, dtype=out.dtype)
    flushed = ", or a flushed 0" if not low <= 0 <= high and float(reference.score(zero, bound)) <= 1 else ""
    return (
        f"token {scored.part.start + token}, head {head}, element {element}: got {float(out[at]):.9g}, "
        f"wanted {float(bound.exact):.9g}, right from {low:.9g} to {high:.9g}{flushed}; "
        f"off by {float(scored.scores[at]):.3g} times its error bound {float(bound.error):.3g}"
    )


def _judge_position_zero(expected: Expected, name: str, out: Tensor, judgement: Judgement) -> None:
    x = getattr(expected.call, name)
    half = x.shape[-1] // 2
    tiny = torch.finfo(x.dtype).smallest_normal
    plain = x.isfinite() & ((x.abs() >= tiny) | (x == 0))
    plain &= x.roll(half, dims=-1).isfinite() & (expected.positions == 0)[:, None, None]
    if not bool(plain.any()):
        return
    judgement.looked("ROT-ZERO", int(plain.sum()))
    wrong = plain & (out != x)
    if bool(wrong.any()):
        at = tuple(int(i) for i in wrong.nonzero()[0])
        where = f"token {at[0]}, head {at[1]}, element {at[2]}: got {float(out[at]):.9g}, wanted {float(x[at]):.9g}"
        severity = WARNING if expected.accuracy is reference.FAST else FAILURE
        what = f"{name}_rot at position 0 is not {name}"
        judgement.found(Finding("ROT-ZERO", what, where, extent(wrong), severity=severity))
