"""Where generated cases come from: the run's seed, and the failures that earlier runs drew."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis.database import DirectoryBasedExampleDatabase

# What hypothesis keeps beside a test's failures, for itself.
_ITS_OWN = (b".pareto", b".secondary")


class KeptFailures(DirectoryBasedExampleDatabase):
    """A folder of failing draws by test: one that was found once is tried first ever after, mended or not."""

    def delete(self, key: bytes, value: bytes) -> None:
        """Nothing, for a failing draw: hypothesis would drop it once it passes."""
        if key.endswith(_ITS_OWN):
            super().delete(key, value)

    def move(self, src: bytes, dest: bytes, value: bytes) -> None:
        """Nothing: a failing draw stays one when a simpler one is found."""


def seed(test: Callable[..., Any], seed: str, database: KeptFailures) -> None:
    """Let a property draw from `seed`, after the failures in `database`; to be called once for each property.

    The seed of a whole run, which hypothesis takes as an option, would turn its database off; so would the seed of a
    test, were the database not given after it.
    """
    number: int | str = seed
    with contextlib.suppress(ValueError):
        number = int(seed)
    hypothesis.seed(number)(test)
    hypothesis.settings(database=database)(test)
