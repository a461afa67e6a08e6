"""q_rot and k_rot against the exact rotation and the bound of the accuracy class."""

from __future__ import annotations

import torch
from torch import Tensor

import reference
from conformance.diagnose import Rotation, error_size, looks_like
from conformance.finding import FAILURE, WARNING, Finding, Judgement
from conformance.judge.expected import Expected, worst_finite
from conformance.pattern import extent
from kernel.memory import is_pattern
from reference import Accuracy, Bound


def judge_rotation(expected: Expected, outputs: dict[str, Tensor], judgement: Judgement) -> None:
    """Every element of q_rot and k_rot."""
    for name, bound in (("q", expected.q), ("k", expected.k)):
        out = outputs[f"{name}_rot"]
        if out.numel():
            _judge_bound(expected, name, out, bound, judgement)
            _judge_position_zero(expected, name, out, judgement)


def _judge_bound(expected: Expected, name: str, out: Tensor, bound: Bound, judgement: Judgement) -> None:
    base = "ROT-NONFINITE" if expected.case.values == "nonfinite" else f"ROT-{name.upper()}"
    scores = reference.score(out, bound)
    specified = ~bound.error.isinf()
    judgement.looked(base, int(specified.sum()), worst_finite(scores))
    wrong = scores > 1
    if bool(expected.skipped.any()):
        # A kernel that is wrong everywhere says nothing of skipped tokens.
        worst = None if bool(wrong.any()) else worst_finite(scores[expected.skipped])
        judgement.looked("SLOT-ROT", int(specified[expected.skipped].sum()), worst)
    if expected.accuracy is reference.FAST:
        wrong = wrong & ~_warn_of_overflow(base, name, out, bound, wrong, judgement)
    if not bool(wrong.any()):
        return
    x = getattr(expected.call, name)
    rotation = Rotation(x, expected.positions, expected.call.rope_base, out)
    judgement.found(
        Finding(
            "SLOT-ROT" if _only_where_skipped(expected, bound, wrong) else base,
            f"{name}_rot is beyond the {expected.accuracy.name} bound",
            _first_place(out, bound, scores, wrong),
            f"{extent(wrong, expected.skipped)}; {error_size(out, bound, wrong)}",
            _likeness(rotation, bound, wrong, expected.accuracy),
        )
    )


def _warn_of_overflow(
    requirement: str, name: str, out: Tensor, bound: Bound, wrong: Tensor, judgement: Judgement
) -> Tensor:
    """Where a result may overflow the output type: fast math assumes that none does, so it is a warning there."""
    void = bound.exact.abs() + bound.error >= torch.finfo(out.dtype).max
    if bool((wrong & void).any()):
        what = f"{name}_rot past the largest finite value is not an infinity"
        judgement.found(Finding(requirement, what, extent=extent(wrong & void), severity=WARNING))
    return void


def _only_where_skipped(expected: Expected, bound: Bound, wrong: Tensor) -> bool:
    """Whether the tokens that write no row are wrong, all of them, and those that write one are right.

    A token tells only where its elements are judged more finely than zero; one at position 0 tells little: a kernel
    that does not rotate at all is right there.
    """
    telling = (bound.exact.abs() > bound.error) & (expected.positions != 0)[:, None, None] & wrong.any(dim=0)
    telling, hit = telling.flatten(1).any(dim=1), wrong.flatten(1).any(dim=1)
    skipped = expected.skipped
    return bool((telling & ~skipped).any()) and not bool(hit[~skipped].any()) and bool(hit[skipped & telling].all())


def _likeness(rotation: Rotation, bound: Bound, wrong: Tensor, accuracy: Accuracy) -> str:
    if bool(is_pattern(rotation.out)[wrong].all()):
        return "never written: the output still holds the pattern that filled its buffer"
    return looks_like(rotation, bound, wrong) or _other_class(rotation, accuracy)


def _other_class(rotation: Rotation, accuracy: Accuracy) -> str:
    """The next class whose bound holds this rotation: a kernel of another recipe, or an error too small for it."""
    classes = list(reference.ACCURACY_CLASSES.values())
    for looser in classes[classes.index(accuracy) + 1 :]:
        bound = reference.error_bound(rotation.x, rotation.positions, rotation.rope_base, looser)
        if bool((reference.score(rotation.out, bound) <= 1).all()):
            return f"no known mistake; all of it is within the bound of the class {looser.name}"
    return ""


def _first_place(out: Tensor, bound: Bound, scores: Tensor, wrong: Tensor) -> str:
    at = tuple(int(i) for i in wrong.nonzero()[0])
    token, head, element = at
    low, high = (float(t) for t in reference.allowed_interval(Bound(bound.exact[at], bound.error[at]), out.dtype))
    return (
        f"token {token}, head {head}, element {element}: got {float(out[at]):.9g}, "
        f"wanted {float(bound.exact[at]):.9g}, right from {low:.9g} to {high:.9g}; "
        f"off by {float(scores[at]):.3g} times its error bound {float(bound.error[at]):.3g}"
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
