"""No false alarm, and tightness: right kernels of every class by the judge's own bounds, over many elements."""

from __future__ import annotations

import itertools
import math
import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import torch
from torch import Tensor

from conformance.case import Case
from conformance.evidence.models import MODELS
from conformance.evidence.shaders import our_shaders
from conformance.evidence.tables import table
from conformance.finding import Judgement
from conformance.inputs import logical_call
from conformance.judge import expect
from conformance.judge.rotation import judge_rotation
from conformance.standard import Standard
from kernel import Call
from reference import (
    ACCURACY_CLASSES,
    FORMATS,
    Accuracy,
    Arithmetic,
    Bound,
    error_bound,
    frequency_error,
    output_bias,
    plain_error_bound,
    score,
)

PROCESSES = 2
TIGHT = 0.6
"""A class whose kernels use less of its bound than this has too wide a bound."""
# Their lengths have no common divisor, so that counting along all of them at once meets every combination.
_DTYPES = ("f16", "bf16", "f32")
_VALUES = (*7 * ("mixed",), "normal")
_HEAD_DIMS = (64, 80, 128, 192, 256)
_BASES = (1.0001, 1.5, 100.0, 1e4, 5e5, 1000000.5, 1e9)
_POSITIONS = (
    "uniform:64",
    "around:1024",
    "around:131071",
    "around:1048576",
    "around:16777217",
    "around:2147483639",
    "negative:131072",
    "around:-16777217",
    "around:-2147483640",
    "log",
    "decode:8192",
)
_HEADS = 4
# Few tokens meet more combinations; the aggregates of normal values need a sample.
_TOKENS = {"mixed": 8, "normal": 64}
_ELEMENTS = 17_000
"""Of one case by one kernel, more or less."""
_SHOWN = 5
"""Reports of one kernel that are printed; the rest are counted."""


class Kernel(Protocol):
    """A right kernel."""

    @property
    def name(self) -> str: ...

    @property
    def accuracy(self) -> Accuracy:
        """The class that it is held to."""

    @property
    def arithmetic(self) -> Arithmetic:
        """What its arithmetic does."""

    @property
    def errs_on_purpose(self) -> bool:
        """Whether it spends all that its class allows, in one direction."""

    def rotate(self, x: Tensor, positions: Tensor, rope_base: float) -> Tensor:
        """x [num_tokens, num_heads, head_dim] rotated, in its dtype."""


@dataclass
class Tally:
    """What the outputs of one kernel came to."""

    elements: int = 0
    violations: int = 0
    """Elements beyond their bound, and aggregates beyond their threshold."""
    narrow: float = 0.0
    """Largest error as a fraction of the plain bound, of 16-bit outputs: mostly the rounding of the output."""
    wide: float = 0.0
    """The same of float32 outputs."""
    need: float = 0.0
    """Largest score."""
    bias: float = 0.0
    """Largest bias of the output rounding as a fraction of its threshold."""
    frequency: float = 0.0
    """Largest frequency error as a fraction of six standard deviations."""
    reports: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for name in ("elements", "violations"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("narrow", "wide", "need", "bias", "frequency"):
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        self.reports += other.reports


def case_of(number: int) -> Case:
    """The case of this number: all combinations of dtype, values, head_dim, base and positions in turn."""
    values = _VALUES[number % len(_VALUES)]
    return Case(
        dtype=_DTYPES[number % len(_DTYPES)],
        num_tokens=_TOKENS[values],
        num_qo_heads=_HEADS,
        num_kv_heads=_HEADS,
        head_dim=_HEAD_DIMS[number % len(_HEAD_DIMS)],
        pool_size=1,
        rope_base=_BASES[number % len(_BASES)],
        positions=_POSITIONS[number % len(_POSITIONS)],
        slots="none",
        values=values,
        seed=number,
    )


@dataclass(frozen=True)
class _Held:
    """The bound of x under one standard."""

    bound: Bound
    specified: Tensor
    """Elements of which the bound says anything."""
    plain: Tensor
    """The plain bound; inf where a flush or an overflow may be all of the error."""


class Inputs:
    """q and k of one case as one array, x [num_tokens, num_heads, head_dim]."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.call: Call = logical_call(case)
        self.x = torch.cat((self.call.q, self.call.k), dim=1)
        self._held: dict[tuple[Accuracy, Arithmetic], _Held] = {}

    def held(self, accuracy: Accuracy, arithmetic: Arithmetic) -> _Held:
        """The bound, worked out once for all kernels that share it."""
        key = accuracy, arithmetic
        if key not in self._held:
            bound = error_bound(self.x, self.call.positions, self.case.rope_base, accuracy, arithmetic)
            fmt, size = FORMATS[self.x.dtype], bound.exact.abs()
            ordinary = (size - bound.error > fmt.smallest_normal) & (size + bound.error < fmt.largest)
            plain = torch.where(ordinary, plain_error_bound(bound, self.x.dtype), math.inf)
            self._held[key] = _Held(bound, bound.error.isfinite(), plain)
        return self._held[key]


def judged(kernel: Kernel, inputs: Inputs) -> Tally:
    """One kernel's output for one case."""
    x, call, case = inputs.x, inputs.call, inputs.case
    held = inputs.held(kernel.accuracy, kernel.arithmetic)
    out = kernel.rotate(x, call.positions, case.rope_base)
    scores = score(out, held.bound)
    error = float((out.to(torch.float64) - held.bound.exact).abs_().div_(held.plain).nan_to_num_(nan=0.0).max())
    tally = Tally(int(held.specified.sum()), need=float(scores.max()))
    if x.dtype == torch.float32:
        tally.wide = error
    else:
        tally.narrow = error
    if not tally.need <= 1:
        tally.violations += int((scores > 1).sum())
        tally.reports.append(_report(kernel, case, out))
    if case.values == "normal" and not (kernel.errs_on_purpose or kernel.arithmetic.narrows_toward_zero):
        _judge_aggregates(kernel, inputs, out, tally)
    return tally


def _judge_aggregates(kernel: Kernel, inputs: Inputs, out: Tensor, tally: Tally) -> None:
    x, positions, base = inputs.x, inputs.call.positions, inputs.case.rope_base
    bias = output_bias(out, inputs.held(kernel.accuracy, kernel.arithmetic).bound)
    frequency = frequency_error(out, x, positions, base, kernel.accuracy, kernel.arithmetic)
    tally.bias = abs(bias.mean) / bias.threshold if bias else 0.0
    tally.frequency = frequency.worst if frequency else 0.0
    for name, size in (("bias", tally.bias), ("frequency error", tally.frequency)):
        if size > 1:
            tally.violations += 1
            tally.reports.append(f"{kernel.name}: {name} of {size:.3g} times its threshold\n  case       {inputs.case}")


def _report(kernel: Kernel, case: Case, out: Tensor) -> str:
    """What the judge says of a violation."""
    judgement = Judgement()
    q_rot, k_rot = out.chunk(2, dim=1)
    judge_rotation(
        expect(case, Standard(kernel.accuracy, kernel.arithmetic)), {"q_rot": q_rot, "k_rot": k_rot}, judgement
    )
    said = [f"  {line}" for finding in judgement.findings for line in finding.lines()]
    return "\n".join([f"{kernel.name}, {kernel.arithmetic}", *said, f"  case       {case}"])


def measure(kernels: Sequence[Kernel], elements: int, processes: int = PROCESSES) -> dict[str, Tally]:
    """Cases by all kernels until `elements` have been judged; a tally by the name of each kernel."""
    tallies = {kernel.name: Tally() for kernel in kernels}
    first = judged_elements = 0
    with multiprocessing.get_context("fork").Pool(processes, _begin, (kernels,)) as pool:
        while judged_elements < elements:
            count = max(len(_DTYPES), (elements - judged_elements) // (_ELEMENTS * len(kernels)))
            for found in pool.imap(_judge_case, range(first, first + count)):
                for name, tally in found.items():
                    tallies[name].add(tally)
            first += count
            judged_elements = sum(tally.elements for tally in tallies.values())
    return tallies


_kernels: Sequence[Kernel] = ()


def _begin(kernels: Sequence[Kernel]) -> None:
    """Of a process: what it judges, which need not be picklable as the process is forked."""
    global _kernels
    _kernels = kernels
    torch.set_num_threads(1)


def _judge_case(number: int) -> dict[str, Tally]:
    inputs = Inputs(case_of(number))
    return {kernel.name: judged(kernel, inputs) for kernel in _kernels}


@dataclass(frozen=True)
class Result:
    """The tallies of all kernels."""

    kernels: Sequence[Kernel]
    tallies: dict[str, Tally]

    def of_class(self, accuracy: Accuracy) -> Tally:
        """All kernels of one class."""
        total = Tally()
        for kernel in self.kernels:
            if kernel.accuracy == accuracy:
                total.add(self.tallies[kernel.name])
        return total

    @property
    def total(self) -> Tally:
        total = Tally()
        for tally in self.tallies.values():
            total.add(tally)
        return total

    @property
    def tightness(self) -> float:
        """The smallest of the classes' largest errors over bound, of float32 outputs."""
        return min(self.of_class(accuracy).wide for accuracy in {kernel.accuracy for kernel in self.kernels})

    @property
    def holds(self) -> bool:
        return not self.total.violations and self.tightness >= TIGHT

    def lines(self) -> Iterator[str]:
        """Tables by kernel and by class, then every violation, then the totals."""
        names = ("elements", "violations", "err/B 16-bit", "err/B f32", "need/E", "bias", "frequency")
        rows = [(k.name, k.accuracy.name, *_cells(self.tallies[k.name])) for k in self.kernels]
        yield from table(("kernel", "class", *names), rows)
        yield ""
        yield "err/B: largest error over the plain bound. need/E: largest score; both are at most 1 for a right kernel."
        yield "bias, frequency: largest aggregate over its threshold; not of kernels that err on purpose."
        yield ""
        classes = [a for a in ACCURACY_CLASSES.values() if any(k.accuracy == a for k in self.kernels)]
        yield from table(("class", *names), [(a.name, *_cells(self.of_class(a))) for a in classes])
        yield ""
        yield from self._violations()
        total = self.total
        yield (
            f"{total.elements:,} elements, {total.violations:,} violations; "
            f"every class reaches {self.tightness:.3f} of its bound in f32, at least {TIGHT:g} is wanted"
        )

    def _violations(self) -> Iterator[str]:
        for kernel in self.kernels:
            reports = self.tallies[kernel.name].reports
            for report in reports[:_SHOWN]:
                yield f"VIOLATION {report}"
                yield ""
            if len(reports) > _SHOWN:
                yield f"{kernel.name}: {len(reports) - _SHOWN:,} more cases with violations"
                yield ""


def _cells(tally: Tally) -> tuple[str, ...]:
    shares = (tally.narrow, tally.wide, tally.need, tally.bias, tally.frequency)
    return f"{tally.elements:,}", f"{tally.violations:,}", *(f"{share:.3f}" if share else "-" for share in shares)


def right_kernels(folder: Path) -> list[Kernel]:
    """All of them; sources are written to `folder`. Raises TargetError where our shaders cannot be compiled."""
    return list(itertools.chain(MODELS, our_shaders(folder)))


def run(elements: int) -> int:
    """Print the result; 0 if it holds, else 1. Raises what `right_kernels` raises."""
    with TemporaryDirectory() as folder:
        kernels = right_kernels(Path(folder))
        result = Result(kernels, measure(kernels, elements))
    for line in result.lines():
        print(line)
    return 0 if result.holds else 1
