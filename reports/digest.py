"""One night in short: what is kept of a run to compare later ones with."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reports.model import Cell, Requirement, Run
from reports.verdict import conclude

# Facts of a run that must be equal for a comparison; of a source its name alone, for its text is what is guarded.
_COMPARED = (
    "target",
    "device",
    "compiler",
    "math",
    "accuracy",
    "arithmetic",
    "launch",
    "profile",
    "strict",
)
_SOURCES = ("shader", "source")
_VERSIONS = ("python", "torch", "numpy", "platform")

CellKey = tuple[str, str, int]
"""Accuracy class, dtype, decade of positions."""


class BenchmarkError(Exception):
    """The benchmarks cannot be read; the text is one line that says why."""


@dataclass(frozen=True)
class Peak:
    """The largest score, an error as a fraction of its bound, and the case that shows it."""

    score: float
    case: str


@dataclass(frozen=True)
class RequirementNight:
    """What one night showed of a requirement."""

    verdict: str
    cases: int
    worst: float | None
    """Largest score of all cases, generated ones among them."""
    planned: Peak | None
    """Of the planned cases, which are the same every night."""


@dataclass(frozen=True)
class ClassNight:
    """How an accuracy class fared, as `model.ClassResult`."""

    kept: bool
    worst: float
    beyond: int | None


@dataclass(frozen=True)
class CellNight:
    """What one night showed of one dtype at the positions of one decade, under one class."""

    positions: str
    """The decade in words."""
    worst: float
    error: float
    """Largest error as a fraction of the length of its pair."""
    planned: Peak | None


@dataclass(frozen=True)
class Benchmark:
    """Quantiles of one benchmark in seconds; share: bandwidth over the copy ceiling, None where no kernel is timed."""

    name: str
    p20: float
    p50: float
    p80: float
    share: float | None


@dataclass(frozen=True)
class Digest:
    """One run as the history keeps it."""

    identity: tuple[tuple[str, str], ...]
    """Target, device, versions and all else that must be equal for a comparison, sorted by name."""
    run_id: str
    started: str
    commit: str
    """12 hex digits, `+` appended where the tree was changed; empty outside git."""
    machine: str
    shader: str
    """Name and hash of the source under test; empty where none is known."""
    seed: str
    standard: str
    """Hash of the bounds' terms: errors are compared under equal ones only."""
    state: str
    """As `verdict.conclude`."""
    finished: bool
    """Whether the run did all that it set out to do, whatever it found."""
    failing: tuple[str, ...]
    """Requirements that decide and failed."""
    robustness: tuple[str, ...]
    """Other requirements that failed."""
    requirements: Mapping[str, RequirementNight]
    planned: frozenset[str]
    """Lines of the planned cases."""
    cases: int
    """Distinct cases, generated ones among them."""
    classes: Mapping[str, ClassNight]
    """Tightest first."""
    decides: str
    cells: Mapping[CellKey, CellNight]
    benchmarks: tuple[Benchmark, ...]
    seconds: float
    outdated: tuple[str, ...] = ()
    """What the list of known deviations says and is no longer so."""

    @classmethod
    def of(cls, run: Run, benchmarks: tuple[Benchmark, ...] = (), options: str = "") -> Digest:
        """What of `run` is kept; options: those that chose its tests."""
        verdict = conclude(run)
        ends = [part.end for part in run.parts if part.end is not None]
        return cls(
            identity=_identity(run, options),
            run_id="+".join(sorted({part.run_id for part in run.parts})),
            started=min(part.started for part in run.parts),
            commit=str(run.facts.get("commit", "")),
            machine=str(run.facts.get("machine", "")),
            shader=next((str(run.facts[name]) for name in _SOURCES if name in run.facts), ""),
            seed=", ".join(dict.fromkeys(part.seed for part in run.parts)),
            standard=_hash(asdict(run.standard)["terms"], asdict(run.standard)["allowed"]),
            state=verdict.state,
            finished=verdict.finished,
            failing=verdict.failing,
            robustness=verdict.robustness,
            requirements={entry.id: _requirement(entry) for entry in run.requirements},
            planned=frozenset(line for line, drawn in zip(run.index.lines, run.index.drawn, strict=True) if not drawn),
            cases=len(run.index.lines),
            classes={result.name: ClassNight(result.kept, result.worst, result.beyond) for result in run.classes},
            decides=run.decides,
            cells={(cell.accuracy, cell.dtype, cell.decade): _cell(cell) for cell in run.cells},
            benchmarks=benchmarks,
            seconds=sum(end.seconds for end in ends),
            outdated=tuple(dict.fromkeys(text for end in ends for text in end.outdated)),
        )

    @property
    def held(self) -> bool:
        """Whether the run finished, no requirement that decides failed, and no known deviation is out of date."""
        return self.finished and not self.failing and not self.outdated

    def to_json(self) -> dict[str, Any]:
        """All but the planned cases, which most nights share."""
        fields = asdict(self) | {"cells": [[*key, asdict(cell)] for key, cell in self.cells.items()]}
        del fields["planned"]
        return fields

    @classmethod
    def from_json(cls, fields: dict[str, Any], planned: frozenset[str]) -> Digest:
        """What `to_json` gave, with its planned cases."""
        return cls(
            **fields
            | {
                "identity": tuple((name, value) for name, value in fields["identity"]),
                "failing": tuple(fields["failing"]),
                "robustness": tuple(fields["robustness"]),
                # Older nights know of none.
                "outdated": tuple(fields.get("outdated", ())),
                "requirements": {id: _with_peak(RequirementNight, f) for id, f in fields["requirements"].items()},
                "planned": planned,
                "classes": {name: ClassNight(**f) for name, f in fields["classes"].items()},
                "cells": {(a, dtype, decade): _with_peak(CellNight, f) for a, dtype, decade, f in fields["cells"]},
                "benchmarks": tuple(Benchmark(**f) for f in fields["benchmarks"]),
            }
        )

    def without_cases(self) -> Digest:
        """The same without its planned cases, for trends."""
        return replace(self, planned=frozenset())


def read_benchmarks(path: Path) -> tuple[Benchmark, ...]:
    """What `pytest conformance/bench --benchmark-json` wrote. Raises BenchmarkError."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
        return tuple(_benchmark(entry) for entry in entries)
    except OSError as error:
        raise BenchmarkError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BenchmarkError(f"{path} holds no benchmarks of this suite ({error!r})") from error


def pooled(rounds: Sequence[Benchmark]) -> Benchmark:
    """Several rounds of one benchmark as one: a quantile of all of them is told by that quantile of the rounds' own."""
    p20, p50, p80 = ([getattr(one, name) for one in rounds] for name in ("p20", "p50", "p80"))
    shares = [one.share for one in rounds if one.share is not None]
    share = statistics.median(shares) if shares else None
    return Benchmark(rounds[0].name, _quantile(p20, 1), statistics.median(p50), _quantile(p80, 4), share)


def _quantile(values: Sequence[float], fifths: int) -> float:
    return statistics.quantiles(values, n=5, method="inclusive")[fifths - 1] if len(values) > 1 else values[0]


def _benchmark(entry: dict[str, Any]) -> Benchmark:
    extra = entry["extra_info"]
    share = extra.get("share")
    p20, p50, p80 = (float(extra[name]) for name in ("p20", "p50", "p80"))
    if not 0 < p20 <= p50 <= p80:
        raise ValueError(f"quantiles {p20}, {p50}, {p80} of {entry['name']}")
    return Benchmark(str(entry["name"]), p20, p50, p80, None if share is None else float(share))


def _identity(run: Run, options: str) -> tuple[tuple[str, str], ...]:
    facts = {name: str(run.facts[name]) for name in _COMPARED if name in run.facts}
    facts |= {name: str(run.facts[name]).rpartition(" ")[0] for name in _SOURCES if name in run.facts}
    versions = run.facts.get("versions", {})
    facts |= {name: str(versions[name]) for name in _VERSIONS if name in versions}
    return tuple(sorted((facts | ({"options": options} if options else {})).items()))


def _requirement(entry: Requirement) -> RequirementNight:
    return RequirementNight(entry.verdict, entry.cases, entry.worst, _peak(entry.planned))


def _cell(cell: Cell) -> CellNight:
    return CellNight(cell.positions, cell.worst, cell.error, _peak(cell.planned))


def _peak(found: tuple[float, str] | None) -> Peak | None:
    return None if found is None else Peak(*found)


def _with_peak(kind: Any, fields: dict[str, Any]) -> Any:
    peak = fields["planned"]
    return kind(**fields | {"planned": None if peak is None else Peak(**peak)})


def _hash(*values: Any) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]
