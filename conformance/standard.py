"""What rotations are held to: an accuracy class, the target's arithmetic, and the tighter classes to tell of."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.targets import Behaviour
from reference import GRANTED, Accuracy, Arithmetic


@dataclass(frozen=True)
class Standard:
    """`accuracy` decides; `tighter` classes are measured beside it, tightest first."""

    accuracy: Accuracy
    arithmetic: Arithmetic = GRANTED
    tighter: tuple[Accuracy, ...] = ()

    @property
    def classes(self) -> tuple[Accuracy, ...]:
        """Every class that is measured, tightest first."""
        return (*self.tighter, self.accuracy)


def arithmetic_of(behaviour: Behaviour) -> Arithmetic:
    """What is allowed to a target that was measured so; what was not measured is granted as the specification does.

    Contraction grants nothing: a fused operation only drops a rounding that the bound has counted.
    """
    return Arithmetic(
        toward_zero=behaviour.rounding == "toward zero",
        narrows_toward_zero=behaviour.narrowing == "toward zero",
        flushes=behaviour.flushes is not False,
        flushes_half=behaviour.flushes_half is not False,
        honours_nonfinite=behaviour.nonfinite is True,
    )
