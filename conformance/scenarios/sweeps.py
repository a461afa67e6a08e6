"""Sweeps: every value of something, as far as the profile goes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from conformance.case import DTYPES, Case
from conformance.profile import Profile

BASES = (1e4, 5e5, 1e6)
_AT_ONCE = 8192


def patterns(_: Profile) -> Iterator[Case]:
    """All 65,536 patterns of each 16-bit dtype through V."""
    for dtype in ("f16", "bf16"):
        yield Case(dtype, 64, 8, 8, 128, 64, values="normal", v_bits="every")


def every_position(profile: Profile) -> Iterator[Case]:
    """Every position, for every pair of a real head_dim, under three bases."""
    for base in BASES:
        for start in range(0, profile.swept_positions, _AT_ONCE):
            count = min(_AT_ONCE, profile.swept_positions - start)
            yield Case("f32", count, 1, 1, 128, 1, base, f"rise:{start}", "none", "normal")


def cancellation(profile: Profile) -> Iterator[Case]:
    """Each output of each pair near zero while its inputs are not."""
    for dtype, reach, seed in itertools.product(DTYPES, ("uniform:131071", "log"), range(profile.seeds**2)):
        yield Case(dtype, 64, 4, 4, 128, 64, positions=reach, values="cancel", seed=seed)
