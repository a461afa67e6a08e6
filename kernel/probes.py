"""Probes: tiny kernels that measure how a target computes."""

from __future__ import annotations

import faulthandler
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernel.msl import Build, FunctionConstants, Program, compile_program

PROBES = Path(__file__).resolve().parents[1] / "shaders" / "probes.metal"
NOT_MEASURED = "not measured"
_ANSWER_SECONDS = 20.0
# The probes use none of them.
_CONSTANTS = FunctionConstants(0, 0, 0, 0.0, 1)

Words = NDArray[np.uint32]
Launch = Callable[[str, Words, Words], None]
"""Runs an entry point with two buffers, inputs and answers; one thread for each row of the answers."""


@dataclass(frozen=True)
class Probe:
    """One measurement, in words: what was probed, what was measured, and what its control showed."""

    name: str
    measured: str
    control: str


@dataclass(frozen=True)
class Behaviour:
    """How a target computes; None where it was not measured.

    Where several probes bear on one field, one that shows the looser arithmetic decides it.

    rounding: of float32 products and sums and of int to float32: `to nearest` or `toward zero`.
    narrowing: of float32 to half and to bfloat: `to nearest even` or `toward zero`.
    contraction: whether a * b + c is rounded once.
    flushes: whether a float32 subnormal operand or result becomes zero.
    flushes_half: whether a half subnormal becomes zero when it is read or converted to.
    nonfinite: whether NaN differs from itself, infinity stays infinite, and what is past every half becomes infinite.
    """

    rounding: str | None = None
    narrowing: str | None = None
    contraction: bool | None = None
    flushes: bool | None = None
    flushes_half: bool | None = None
    nonfinite: bool | None = None
    probes: tuple[Probe, ...] = ()


@dataclass(frozen=True)
class _Question:
    """What one launch of an entry point asks: a thread for each row of `inputs`, and the words of the two answers."""

    name: str
    field: str
    entry: str
    inputs: Words
    usual: tuple[str, Words]
    other: tuple[str, Words]


# What a field of Behaviour is if all its probes gave the usual answer, and if one gave the other.
_VALUES: dict[str, tuple[str | bool, str | bool]] = {
    "rounding": ("to nearest", "toward zero"),
    "narrowing": ("to nearest even", "toward zero"),
    "contraction": (False, True),
    "flushes": (False, True),
    "flushes_half": (False, True),
    "nonfinite": (True, False),
}


def measure(build: Build, source: Path = PROBES) -> Behaviour:
    """How this machine computes under `build`, by the probes of a Metal source. Never raises."""
    try:
        program = compile_program(source, probed_entries(), build)
    except Exception as error:
        return _told([str(error)] * len(_questions()))
    return measure_by(partial(_host_launch, program))


def measure_by(open_device: Callable[[], Launch], start_method: str = "fork") -> Behaviour:
    """How a device computes, by the probes that it runs. Never raises.

    A probe counts only if both its controls were recognised; else it says why not.

    Args:
        open_device: called in a process of its own, and in another one after a crash.
        start_method: how that process starts; for `spawn`, `open_device` must be fit to be pickled.
    """
    try:
        return _told(_answers(_questions(), open_device, start_method))
    except Exception as error:
        return _told([str(error)] * len(_questions()))


def _told(answers: Sequence[Words | str]) -> Behaviour:
    """What the answers to all questions, in their order, show."""
    questions = _questions()
    judged = [_judged(question, answer) for question, answer in zip(questions, answers, strict=True)]
    fields: dict[str, Any] = {}
    for field, (usual, other) in _VALUES.items():
        found = {is_other for question, (is_other, _) in zip(questions, judged, strict=True) if question.field == field}
        fields[field] = other if True in found else None if None in found else usual
    return Behaviour(**fields, probes=tuple(probe for _, probe in judged))


def _judged(question: _Question, answer: Words | str) -> tuple[bool | None, Probe]:
    """Whether the target gave the other answer, None if that cannot be told; and the probe in words."""
    if isinstance(answer, str):
        return None, _unmeasured(question, answer)
    own, *controls = answer.T
    for (label, words), control in zip((question.usual, question.other), controls, strict=True):
        if not np.array_equal(control, words):
            return None, _unmeasured(question, f"the control for {label!r} gave {_hex(control)}, not {_hex(words)}")
    for is_other, (label, words) in enumerate((question.usual, question.other)):
        if np.array_equal(own, words):
            unseen = (question.other, question.usual)[is_other][0]
            return bool(is_other), Probe(question.name, label, f"{unseen} seen in the control")
    return None, _unmeasured(question, f"{_hex(own)} is neither {question.usual[0]!r} nor {question.other[0]!r}")


def _unmeasured(question: _Question, reason: str) -> Probe:
    return Probe(question.name, NOT_MEASURED, reason)


def _hex(words: Words) -> str:
    return " ".join(f"{word:#x}" for word in words)


def _host_launch(program: Program) -> Launch:
    def launch(entry: str, inputs: Words, answers: Words) -> None:
        addresses = [inputs.ctypes.data, answers.ctypes.data]
        program.specialise(_CONSTANTS).launch(entry, addresses, (len(answers), 1, 1))

    return launch


def _answers(questions: Sequence[_Question], open_device: Callable[[], Launch], start_method: str) -> list[Words | str]:
    """The three words of each thread of each question, or why there are none."""
    answers: list[Words | str] = []
    while len(answers) < len(questions):
        answers += _answers_of_a_child(questions[len(answers) :], open_device, start_method)
    return answers


def _answers_of_a_child(
    questions: Sequence[_Question], open_device: Callable[[], Launch], start_method: str
) -> Iterator[Words | str]:
    """The answers of a child process, up to one that it crashes or hangs at."""
    context: Any = multiprocessing.get_context(start_method)
    link, theirs = context.Pipe()
    child = context.Process(target=_serve, args=(questions, open_device, theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        for _ in questions:
            if not link.poll(_ANSWER_SECONDS):
                yield f"no answer within {_ANSWER_SECONDS:g} s"
                return
            yield link.recv()
    except (EOFError, ConnectionError):
        child.join()
        code = child.exitcode or 0
        yield f"crashed with {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
    finally:
        child.kill()
        child.join()
        link.close()


def _serve(questions: Sequence[_Question], open_device: Callable[[], Launch], link: Connection) -> None:
    # A crash is told of by the parent.
    faulthandler.disable()
    try:
        launch = open_device()
    except Exception as error:
        for _ in questions:
            link.send(str(error))
        return
    for question in questions:
        answer: Words | str
        try:
            answer = np.zeros((len(question.inputs), 3), np.uint32)
            launch(question.entry, question.inputs, answer)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        link.send(answer)


def probed_entries() -> dict[str, int]:
    """The probes' entry points, each with the number of its buffers."""
    return {question.entry: 2 for question in _questions()}


@cache
def _questions() -> tuple[_Question, ...]:
    return (*_rounding(), *_contraction(), *_subnormals(), *_nonfinite())


def _rounding() -> Iterator[_Question]:
    ulp = 2.0**-23
    # 3/4, 1/4 and twice 1/2 of an ulp above a float, and below a negative one.
    products = np.array([[1.75, 1 + ulp], [1.25, 1 + ulp], [1.5, 1 + ulp], [1.5, 1 + 3 * ulp], [-1.75, 1 + ulp]])
    sums = np.array([[1, 0.75 * ulp], [1, 0.25 * ulp], [1, 0.5 * ulp], [1 + ulp, 0.5 * ulp], [-1, -0.75 * ulp]])
    ints = np.array([2**24 + 1, 2**24 + 3, 2**25 + 3, 2**25 + 1, -(2**25) - 3])
    yield _of_rounding("float32 product", "probe_product", _floats(products), products.prod(1), 24)
    yield _of_rounding("float32 sum", "probe_sum", _floats(sums), sums.sum(1), 24)
    yield _of_rounding("int to float32", "probe_int_to_float", ints.astype(np.int32).view(np.uint32), ints, 24)
    for name, digits in (("half", 11), ("bfloat", 8)):
        parts = np.array([0.75, 0.25, 0.5, 1.5]) * 2.0 ** (1 - digits)
        values = np.concatenate([1 + parts, -1 - parts, 1024 + 1024 * parts])
        yield _of_rounding(f"float32 to {name}", f"probe_float_to_{name}", _floats(values), values, digits)


def _of_rounding(name: str, entry: str, inputs: Words, exact: NDArray[Any], digits: int) -> _Question:
    """A question whose exact results are given, to be rounded to `digits` binary digits."""
    unit = np.exp2(np.floor(np.log2(np.abs(exact))) - digits + 1)
    encode = {24: _floats, 11: _halves, 8: _bfloats}[digits]
    field = "rounding" if digits == 24 else "narrowing"
    nearest, zero = (str(label) for label in _VALUES[field])
    usual, other = encode(np.rint(exact / unit) * unit), encode(np.trunc(exact / unit) * unit)
    return _Question(name, field, entry, inputs, (nearest, usual), (zero, other))


def _contraction() -> Iterator[_Question]:
    # c is minus the rounded product, which loses 2^-24 and 2^-25: a fused sum brings them back.
    inputs = np.array(
        [[1 + 2.0**-12, 1 + 2.0**-12, -1 - 2.0**-11], [1 + 2.0**-12, 1 + 2.0**-13, -1 - 2.0**-12 - 2.0**-13]]
    )
    fused = _floats(np.array([2.0**-24, 2.0**-25]))
    separate = ("rounded twice", np.zeros(2, np.uint32))
    yield _Question("a * b + c", "contraction", "probe_contraction", _floats(inputs), separate, ("fused", fused))


def _subnormals() -> Iterator[_Question]:
    tiny = 2.0**-126  # the smallest normal float32
    for name, entry, inputs, kept, flushed in (
        ("subnormal factor", "probe_subnormal_product", [[0.75 * tiny, 2.0]], 1.5 * tiny, 0.0),
        ("subnormal product", "probe_subnormal_product", [[1.5 * tiny, 0.5]], 0.75 * tiny, 0.0),
        ("subnormal term", "probe_subnormal_difference", [[1.75 * tiny, 0.5 * tiny]], 1.25 * tiny, 1.75 * tiny),
        ("subnormal difference", "probe_subnormal_difference", [[1.5 * tiny, tiny]], 0.5 * tiny, 0.0),
    ):
        answers = ("kept", _floats(np.array([kept]))), ("flushed", _floats(np.array([flushed])))
        yield _Question(f"float32 {name}", "flushes", entry, _floats(np.array(inputs)), *answers)
    halves = np.array([0.5, 0.75]) * 2.0**-14
    zeros = ("flushed", np.zeros(2, np.uint32))
    for name, encode, decode in (("read", _halves, _floats), ("written", _floats, _halves)):
        kept_halves = ("kept", decode(halves))
        yield _Question(
            f"half subnormal {name}", "flushes_half", f"probe_half_{name}", encode(halves), kept_halves, zeros
        )


def _nonfinite() -> Iterator[_Question]:
    for name, entry, inputs, usual, other in (
        ("NaN", "probe_nan", _floats([np.nan, 1]), ("unequal to itself", [1, 0]), ("equal to itself", [0, 0])),
        (
            "infinity",
            "probe_infinity",
            _floats([np.inf, -np.inf]),
            ("infinite when doubled", [0x7F800000, 0xFF800000]),
            ("finite when doubled", [0x7F7FFFFF, 0xFF7FFFFF]),
        ),
        (
            "float32 past every half",
            "probe_half_overflow",
            _floats([1e5, -1e5]),
            ("infinite", [0x7C00, 0xFC00]),
            ("the largest half", [0x7BFF, 0xFBFF]),
        ),
    ):
        answers = [(label, np.array(words, np.uint32)) for label, words in (usual, other)]
        yield _Question(name, "nonfinite", entry, inputs, answers[0], answers[1])


def _floats(values: NDArray[Any] | Sequence[float]) -> Words:
    return np.asarray(values, np.float32).view(np.uint32)


def _halves(values: NDArray[Any]) -> Words:
    return values.astype(np.float16).view(np.uint16).astype(np.uint32)


def _bfloats(values: NDArray[Any]) -> Words:
    return _floats(values) >> np.uint32(16)
