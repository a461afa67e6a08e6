"""What a kernel of each accuracy class may do, and what its arithmetic may, as data.

Each allowance is a Term: a value with its unit, who grants it and why. `OURS` marks what no specification grants.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MSL = "Metal Shading Language specification, section 8"
C_LIBRARY = "C library of the host"
DEFINITION = "definition of the class"
OURS = "ours: the specification promises nothing here"


@dataclass(frozen=True)
class Term:
    """One allowance of an accuracy class; `name` is the field of Accuracy that it sets."""

    name: str
    value: float
    unit: str
    source: str
    reason: str


@dataclass(frozen=True)
class Accuracy:
    """The error allowances of one class; ulps are float32 ulps, angles are in radians.

    `angle_error` bounds the angle outright; where it is None the angle follows the float32 recipe
    float(position) * exp2(-2i * (log2(rope_base) / head_dim)), with log2 off by at most `log2_ulp` and
    exp2(-e) by exp2_ulp + floor(exp2_ulp_growth * e), but exact at 0.
    cos and sin are off by at most `trig_ulp`; where it is None by `trig_absolute` up to pi, and beyond pi by
    trig_absolute + trig_slope * |angle|.
    """

    name: str
    terms: tuple[Term, ...] = field(default=(), repr=False, compare=False)
    angle_error: float | None = None
    log2_ulp: float = 0.0
    exp2_ulp: float = 0.0
    exp2_ulp_growth: float = 0.0
    trig_ulp: float | None = None
    trig_absolute: float = 0.0
    trig_slope: float = 0.0

    @classmethod
    def of(cls, name: str, *terms: Term) -> Accuracy:
        """The class whose allowances are these terms and no others."""
        values: dict[str, float] = {term.name: term.value for term in terms}
        return cls(name, terms, **values)


_PRECISE_TRIG = Term("trig_ulp", 4.0, "ulp", MSL, "precise sin and cos of the kernel's own angle")
_LOG2 = Term("log2_ulp", 1.0, "ulp", C_LIBRARY, "log2f of rope_base, taken on the host")

EXACT_ANGLE = Accuracy.of(
    "exact-angle",
    Term(
        "angle_error",
        2.0**-22,
        "rad",
        DEFINITION,
        "the exact angle, reduced below 1 rad and held in float32: four roundings of half an ulp of 1",
    ),
    _PRECISE_TRIG,
)
FLOAT32_ANGLE = Accuracy.of(
    "float32-angle",
    _LOG2,
    Term("exp2_ulp", 4.0, "ulp", MSL, "precise exp2"),
    _PRECISE_TRIG,
)
FAST = Accuracy.of(
    "fast",
    _LOG2,
    Term("exp2_ulp", 3.0, "ulp", MSL, "fast exp2: 3 + floor(|2x|) ulp"),
    Term("exp2_ulp_growth", 2.0, "ulp per unit of |x|", MSL, "fast exp2: 3 + floor(|2x|) ulp"),
    Term("trig_absolute", 2.0**-13, "1", MSL, "fast sin and cos on [-pi, pi]"),
    Term(
        "trig_slope",
        2.0**-22,
        "1 per rad of |angle|",
        OURS,
        "fast sin and cos beyond pi: scaling to turns in float32 costs 2.68 * 2^-24 of the angle (product 1, sum 1, "
        "constant 0.68), rounded up to 4 * 2^-24; twice that where arithmetic rounds toward zero",
    ),
)

ACCURACY_CLASSES = {accuracy.name: accuracy for accuracy in (EXACT_ANGLE, FLOAT32_ANGLE, FAST)}
"""By name, tightest first."""


@dataclass(frozen=True)
class Arithmetic:
    """What the target's arithmetic may do to any result; by default what is granted to a target not measured.

    The MSL specification, section 8, lets float32 arithmetic round to nearest even or toward zero, and lets any
    subnormal operand or result be flushed; conversions to half and bfloat round to nearest even.
    """

    toward_zero: bool = False
    """float32 + - * and int to float32 may round toward zero; else they round to nearest."""
    narrows_toward_zero: bool = False
    """The conversion to the 16-bit output type may round toward zero; else it rounds to nearest even."""
    flushes: bool = True
    """Subnormal float32 and bfloat16 operands and results may become zero."""
    flushes_half: bool = True
    """Subnormal float16 operands and results may become zero."""
    honours_nonfinite: bool = False
    """Inf and NaN are treated as IEEE 754 does; else a result that overflows is not held against a fast kernel."""

    @property
    def ulps(self) -> float:
        """Largest error of one float32 operation, in float32 ulps of its result."""
        return 1.0 if self.toward_zero else 0.5


GRANTED = Arithmetic()
