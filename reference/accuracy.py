"""What a kernel of each accuracy class may do, as data.

Common to all classes: float32 arithmetic and the conversion to the output type round to nearest, and any
subnormal operand or result, of half too, may be flushed to zero (both MSL specification, section 8).
"""

from __future__ import annotations

from dataclasses import dataclass


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
    angle_error: float | None = None
    log2_ulp: float = 1.0
    exp2_ulp: float = 4.0
    exp2_ulp_growth: float = 0.0
    trig_ulp: float | None = 4.0
    trig_absolute: float = 0.0
    trig_slope: float = 0.0


# An angle known to 2^-22 rad, four float32 roundings of a value just below 1, and sin and cos within 4 ulp.
EXACT_ANGLE = Accuracy("exact-angle", angle_error=2.0**-22)

# The recipe in float32 with the precise functions: exp2, sin and cos within 4 ulp (MSL specification, section
# 8); 1 ulp for log2f on the host is what C libraries keep.
FLOAT32_ANGLE = Accuracy("float32-angle")

# The recipe with fast math: exp2 within 3 + floor(2e) ulp, sin and cos within 2^-13 on [-pi, pi] (MSL
# specification, section 8). Beyond pi the specification gives nothing and the slope of 2^-22 is policy: to
# scale to turns in float32 costs 2.68 * 2^-24 of the angle (product 1, sum 1, constant 0.68), rounded up.
FAST = Accuracy(
    "fast",
    exp2_ulp=3.0,
    exp2_ulp_growth=2.0,
    trig_ulp=None,
    trig_absolute=2.0**-13,
    trig_slope=2.0**-22,
)

ACCURACY_CLASSES = {accuracy.name: accuracy for accuracy in (EXACT_ANGLE, FLOAT32_ANGLE, FAST)}
