"""What no single element shows: a bias of the output rounding, a frequency that is a little off."""

from __future__ import annotations

from torch import Tensor

import reference
from conformance.finding import FAILURE, WARNING, Finding, Judgement
from conformance.judge.expected import Expected

# Fewer elements of q or k than this are no sample.
_SAMPLE = 1 << 15
# Truncation shifts the mean by half an ulp.
_TRUNCATES = 0.25


def judge_aggregate(expected: Expected, name: str, out: Tensor, judgement: Judgement) -> None:
    """ROT-BIAS and ROT-FREQ, where the values are independent and many; of one part of the tokens at a time."""
    if expected.case.values != "normal" or expected.case.layout != "dense":
        return
    for part in expected.parts():
        if out[part].numel() >= _SAMPLE:
            _judge_bias(expected, name, out, part, judgement)
            _judge_frequency(expected, name, out, part, judgement)


def _judge_bias(expected: Expected, name: str, out: Tensor, part: slice, judgement: Judgement) -> None:
    bias = reference.output_bias(out[part], expected.bound(name, part, expected.accuracy))
    if bias is None:
        return
    if judgement.failed and abs(bias.mean) < _TRUNCATES:
        # Elements beyond their bound shift the mean too, and are told of already.
        return
    judgement.looked("ROT-BIAS", bias.elements, abs(bias.mean) / bias.threshold)
    if abs(bias.mean) > bias.threshold:
        way = "toward" if bias.mean > 0 else "away from"
        what = f"{name}_rot lies {abs(bias.mean):.3f} ulp {way} zero on average, at most {bias.threshold:.3f} is right"
        # A target whose own conversions round so was found to by a probe: no fault of the kernel.
        severity = WARNING if expected.standard.arithmetic.narrows_toward_zero else FAILURE
        extent = f"mean of {bias.elements} elements"
        likeness = "rounded toward zero in place of to nearest" if bias.mean > _TRUNCATES else ""
        judgement.found(Finding("ROT-BIAS", what, extent=extent, looks_like=likeness, severity=severity))


def _judge_frequency(expected: Expected, name: str, out: Tensor, part: slice, judgement: Judgement) -> None:
    if judgement.failed:
        # A wrong angle is told of already.
        return
    call, standard = expected.call, expected.standard
    x: Tensor = getattr(call, name)[part]
    error = reference.frequency_error(
        out[part], x, expected.positions[part], call.rope_base, standard.accuracy, standard.arithmetic
    )
    if error is None:
        return
    judgement.looked("ROT-FREQ", x.numel(), error.worst)
    if error.worst > 1:
        statistics = {
            f"all pairs are off by {error.relative:.3g} of their frequency": error.common,
            "pairs are off the more, the higher they are, as by another rope_base": error.slope,
            f"pair {error.index} is off by {error.pair_relative:.3g} of its frequency": error.pair,
        }
        what = f"the frequencies recovered from {name}_rot are not those of the {standard.accuracy.name} recipe"
        off = [
            f"{words} ({abs(size) * 6:.1f} standard deviations)" for words, size in statistics.items() if abs(size) > 1
        ]
        judgement.found(Finding("ROT-FREQ", what, "; ".join(off), f"{x.numel()} elements", severity=WARNING))
