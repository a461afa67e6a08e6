"""Nights as the history keeps them, made of small records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import sample_record as sample

from reports.digest import Benchmark, Digest, Peak, RequirementNight
from reports.record import read

LINES = tuple(sample.CASE.replace("seed=0", f"seed={seed}") for seed in range(3))


def digest(path: Path, lines: list[sample.Line]) -> Digest:
    """The digest of a record, which is written to `path`."""
    [run] = read([sample.write(path, lines)])
    return Digest.of(run)


def night(folder: Path, name: str = "first", **changes: Any) -> Digest:
    """A green night of three planned cases; `name` gives its run id."""
    made = digest(folder / f"{name}.jsonl", sample.measured(*[sample.measure(0.5, 0.25)] * 3))
    return replace(made, run_id=name, **changes)


def benchmark(name: str = "decode", median: float = 1e-3, share: float | None = 0.5) -> Benchmark:
    """A benchmark that scatters by 2% around its median in seconds."""
    return Benchmark(name, 0.98 * median, median, 1.02 * median, share)


def scored(made: Digest, planned: float, worst: float | None = None, case: str = LINES[0], id: str = "ROT-Q") -> Digest:
    """A night with other scores of a requirement; worst: of all cases, the planned ones by default."""
    before = made.requirements[id]
    entry = replace(before, planned=Peak(planned, case), worst=planned if worst is None else worst)
    return replace(made, requirements={**made.requirements, id: entry})


def without_requirement(made: Digest, id: str) -> Digest:
    return replace(made, requirements={key: entry for key, entry in made.requirements.items() if key != id})


def not_looked_at(made: Digest, id: str) -> Digest:
    return replace(made, requirements={**made.requirements, id: RequirementNight("not run", 0, None, None)})
