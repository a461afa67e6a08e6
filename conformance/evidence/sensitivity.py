"""The smallest defects that are found: by our judge, and by common practice, which is a fixed tolerance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from conformance.evidence.defects import ALL_POSITIONS, GROSS, OF_FREQUENCY, SEQUENTIAL, SIZED, output, sample
from conformance.evidence.judges import Elementwise, Frequencies, Judge, Rounding, tolerances
from conformance.evidence.tables import table
from conformance.evidence.trials import Trial, Workers, quiet_limit, smallest_found
from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE, FORMATS, Accuracy, Arithmetic

SEEDS = 20
DTYPES = tuple(FORMATS)
KERNELS = {EXACT_ANGLE: "exact", FLOAT32_ANGLE: "f32 recipe", FAST: "AGX-like fast"}
"""The right kernel of each class."""
_SHORT = {EXACT_ANGLE: "EXACT", FLOAT32_ANGLE: "F32", FAST: "FAST"}
_OURS = (Elementwise, Frequencies, Rounding)
_LEGEND = "(a) exact kernel, positions to 131071; (b) float32 recipe, positions 0 to 63"

Held = tuple[Accuracy, torch.dtype, Judge]
Limits = dict[Held, int | None]
Smallest = dict[tuple[str, str, torch.dtype], float | None]
"""k by defect, column of the table, and dtype."""
Shares = dict[tuple[str, str, torch.dtype], float]
"""Share of the elements, by defect, column and dtype."""


def columns(dtype: torch.dtype) -> dict[str, Trial]:
    """The columns of the tables of defects: whose kernel, at which positions, judged by whom."""
    own, loose = tolerances(dtype)
    ours = {name: Trial(a, dtype, ALL_POSITIONS, Elementwise(a)) for a, name in _SHORT.items()}
    return ours | {
        "own (a)": Trial(EXACT_ANGLE, dtype, ALL_POSITIONS, own),
        "1e-2 (a)": Trial(EXACT_ANGLE, dtype, ALL_POSITIONS, loose),
        "own (b)": Trial(FLOAT32_ANGLE, dtype, SEQUENTIAL, own),
        "1e-2 (b)": Trial(FLOAT32_ANGLE, dtype, SEQUENTIAL, loose),
    }


COLUMNS = tuple(columns(torch.float32))
_GROSS_COLUMNS = COLUMNS[2:]


def _by_tolerance() -> list[Held]:
    return [(kernel, dtype, tolerance) for dtype in DTYPES for kernel in KERNELS for tolerance in tolerances(dtype)]


def alarms(workers: Workers, seeds: int) -> dict[Held, float]:
    """Share of the cases in which the right kernel of a class is rejected, positions to 131071."""
    ours = [(a, d, judge(a)) for d in DTYPES for a in KERNELS for judge in _OURS]
    held: list[Held] = [*_by_tolerance(), *ours]
    return workers.ask(
        {(k, d, judge): partial(Trial(k, d, ALL_POSITIONS, judge).alarms, seeds) for k, d, judge in held}
    )


def quiet_limits(workers: Workers, seeds: int) -> Limits:
    """For right kernels and both tolerances, the largest power of two below which positions raise no alarm."""
    return workers.ask({held: partial(quiet_limit, *held, seeds) for held in _by_tolerance()})


def smallest(workers: Workers, seeds: int) -> Smallest:
    """k of the smallest defect 2^-k that is found."""
    return workers.ask(
        {
            (sized, column, dtype): partial(smallest_found, trial, sized, seeds)
            for dtype in DTYPES
            for column, trial in columns(dtype).items()
            for sized in SIZED
        }
    )


def gross_shares(workers: Workers, seeds: int) -> Shares:
    """Share of the elements that is flagged in every seed."""
    return workers.ask(
        {
            (name, column, dtype): partial(_least_flagged, columns(dtype)[column], name, seeds)
            for dtype in DTYPES
            for column in _GROSS_COLUMNS
            for name in GROSS
        }
    )


def _least_flagged(trial: Trial, gross: str, seeds: int) -> float:
    # Defects hold functions, which cannot be sent to another process.
    return trial.least_flagged(GROSS[gross], seeds)


@dataclass(frozen=True)
class Comparison:
    """One defect in the right kernel of a class: what is found where each tolerance is quiet, and by ours."""

    kernel: Accuracy
    dtype: torch.dtype
    sized: str
    element: float
    aggregate: float
    limits: tuple[int | None, ...]
    common: tuple[float | None, ...]
    """k by each tolerance, at positions below its limit."""

    @property
    def ours(self) -> float:
        return max(self.element, self.aggregate)

    @property
    def finer(self) -> bool:
        """Whether ours finds a smaller defect than either tolerance."""
        return all(k is None or self.ours > k for k in self.common)

    def cells(self) -> tuple[str, ...]:
        common = (f"{_shown(k)} below {_shown(n)}" for k, n in zip(self.common, self.limits, strict=True))
        mark = "*" if self.aggregate > self.element else ""
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{self.sized}, {dtype}", mark + _shown(self.ours), *common, "yes" if self.finer else "NO"


def comparisons(workers: Workers, limits: Limits, seeds: int) -> list[Comparison]:
    """Every class, dtype and defect.

    Each tolerance is used at the largest positions that it bears. Ours has no limit: it is used at all positions, and
    by element at those of the tolerances too.
    """
    keys = [(kernel, dtype, sized) for dtype in DTYPES for kernel in KERNELS for sized in SIZED]
    trials = [(trial, sized) for kernel, dtype, sized in keys for trial in _compared(kernel, dtype, sized, limits)]
    found = workers.ask({(t, sized): partial(smallest_found, t, sized, seeds, fine=True) for t, sized in trials})
    return [_comparison(*key, limits, found) for key in sorted(keys, key=lambda key: list(KERNELS).index(key[0]))]


def _compared(kernel: Accuracy, dtype: torch.dtype, sized: str, limits: Limits) -> Iterator[Trial]:
    for tolerance in tolerances(dtype):
        limit = limits[kernel, dtype, tolerance]
        if limit:
            yield Trial(kernel, dtype, limit, tolerance)
            yield Trial(kernel, dtype, limit, Elementwise(kernel))
    yield Trial(kernel, dtype, ALL_POSITIONS, Elementwise(kernel))
    if sized in OF_FREQUENCY:
        yield Trial(kernel, dtype, ALL_POSITIONS, Frequencies(kernel))


def _comparison(
    kernel: Accuracy, dtype: torch.dtype, sized: str, limits: Limits, found: dict[tuple[Trial, str], float | None]
) -> Comparison:
    def k(limit: int | None, judge: Judge) -> float | None:
        return found.get((Trial(kernel, dtype, limit, judge), sized)) if limit else None

    used = tolerances(dtype)
    quiet = tuple(limits[kernel, dtype, tolerance] for tolerance in used)
    return Comparison(
        kernel,
        dtype,
        sized,
        max(k(limit, Elementwise(kernel)) or 0.0 for limit in (*quiet, ALL_POSITIONS)),
        k(ALL_POSITIONS, Frequencies(kernel)) or 0.0,
        quiet,
        tuple(k(limit, tolerance) for limit, tolerance in zip(quiet, used, strict=True)),
    )


def aggregates(workers: Workers, seeds: int) -> Smallest:
    """k of the smallest frequency errors that ours finds in the aggregate."""
    return workers.ask(
        {
            (sized, name, dtype): partial(
                smallest_found, Trial(accuracy, dtype, ALL_POSITIONS, Frequencies(accuracy)), sized, seeds
            )
            for dtype in DTYPES
            for accuracy, name in _SHORT.items()
            for sized in OF_FREQUENCY
        }
    )


def _hidden_truncation(accuracy: Accuracy, seeds: int) -> str:
    """What a bfloat16 output that is truncated shows where the arithmetic may narrow so."""
    trial = Trial(
        accuracy,
        torch.bfloat16,
        ALL_POSITIONS,
        Elementwise(accuracy, Arithmetic(narrows_toward_zero=True)),
    )
    flagged = max(trial.flagged(seed, GROSS["truncation"]) for seed in range(seeds))
    biases = []
    for seed in range(seeds):
        given = sample(torch.bfloat16, seed, ALL_POSITIONS)
        biases.append(Rounding(accuracy).bias(output(accuracy, given, GROSS["truncation"]), given))
    least = min((bias for bias in biases if bias), key=lambda bias: bias.mean / bias.threshold)
    return f"{flagged:.0%}, {least.mean:.3f} (over {least.threshold:.3f})"


def alarm_tables(rejected: dict[Held, float], limits: Limits) -> Iterator[str]:
    """Right kernels: how often they are rejected, and up to where they are not."""
    yield "Share of the cases in which a right kernel is rejected, positions to 131071"
    yield ""
    rows = []
    for kernel, name in KERNELS.items():
        judges: list[list[Judge]] = [[tolerances(d)[n] for d in DTYPES] for n in (0, 1)]
        judges += [[judge(kernel)] * len(DTYPES) for judge in _OURS]
        shares = ([rejected[kernel, d, judge] for d, judge in zip(DTYPES, column, strict=True)] for column in judges)
        rows.append((name, *(_triple([f"{share:.0%}" for share in column]) for column in shares)))
    yield from table(("kernel", "own tolerance", "1e-2", "ours, by element", "frequencies", "rounding"), rows)
    yield ""
    yield "Largest power of two below which positions raise no false alarm"
    yield ""
    rows = []
    for kernel, name in KERNELS.items():
        quiet = [[limits[kernel, dtype, tolerances(dtype)[n]] for dtype in DTYPES] for n in (0, 1)]
        rows.append((name, *(_triple([_shown(limit) for limit in column]) for column in quiet)))
    yield from table(("kernel", "own tolerance", "1e-2"), rows)


def smallest_table(found: Smallest) -> Iterator[str]:
    """The defects of a size."""
    yield "Smallest detected 2^-k: k, f16/bf16/f32 where they differ"
    yield ""
    rows = [
        (sized, *(_triple([_shown(found[sized, column, dtype]) for dtype in DTYPES]) for column in COLUMNS))
        for sized in SIZED
    ]
    yield from table(("defect", *COLUMNS), rows)
    yield _LEGEND


def gross_table(shares: Shares) -> Iterator[str]:
    """The defects that are there or not."""
    yield "Found or not: share of the elements flagged under FAST, smallest of the seeds; - where a seed shows none"
    yield ""
    rows = []
    for name, defect in GROSS.items():
        # A float32 output is not converted, so none is truncated.
        dtypes = DTYPES[:2] if defect.truncates else DTYPES
        ours, *common = ([shares[name, column, dtype] for dtype in dtypes] for column in _GROSS_COLUMNS)
        said = (_triple(["yes" if share else "-" for share in column]) for column in common)
        rows.append((name, _triple([f"{100 * share:.2g}%" if share else "-" for share in ours]), *said))
    yield from table(("defect", *_GROSS_COLUMNS), rows)
    yield _LEGEND


def aggregate_table(found: Smallest, truncation: dict[Accuracy, str]) -> Iterator[str]:
    """What hides inside the bound of each element."""
    yield "In the aggregate: k of the smallest frequency error; and truncation to bf16 where the target may truncate:"
    yield "share flagged by element, bias in ulp (over its threshold)"
    yield ""
    rows = [
        (sized, *(_triple([_shown(found[sized, name, dtype]) for dtype in DTYPES]) for name in _SHORT.values()))
        for sized in dict.fromkeys(sized for sized, _, _ in found)
    ]
    yield from table(("defect", *_SHORT.values()), [*rows, ("truncation", *truncation.values())])


def comparison_tables(compared: Sequence[Comparison]) -> Iterator[str]:
    """A table for each class, and the sum."""
    for kernel, name in KERNELS.items():
        yield f"{kernel.name}, kernel {name}: k found by ours, and by tolerances at positions where they are quiet"
        yield ""
        rows = [row.cells() for row in compared if row.kernel == kernel]
        yield from table(("defect, dtype", "ours", "own tolerance", "1e-2", "ours finer"), rows)
        yield "* in the aggregate; the others by element"
        yield ""
    yield f"ours is finer in {sum(row.finer for row in compared)} of {len(compared)} rows"


def _triple(cells: Sequence[str]) -> str:
    """One text for the dtypes, and only one where they agree."""
    return cells[0] if len(set(cells)) == 1 else "/".join(cells)


def _shown(value: float | None) -> str:
    return "-" if value is None else str(value) if isinstance(value, int) else f"{value:.4g}"


def run(seeds: int) -> int:
    """Print the tables, each as it is ready; 0 if ours is finer in every row of the comparison, else 1."""
    with Workers() as workers:
        limits = quiet_limits(workers, seeds)
        _print(alarm_tables(alarms(workers, seeds), limits))
        _print(smallest_table(smallest(workers, seeds)))
        _print(gross_table(gross_shares(workers, seeds)))
        truncation = workers.ask({accuracy: partial(_hidden_truncation, accuracy, seeds) for accuracy in KERNELS})
        _print(aggregate_table(aggregates(workers, seeds), truncation))
        compared = comparisons(workers, limits, seeds)
    _print(comparison_tables(compared))
    return 0 if all(row.finer for row in compared) else 1


def _print(lines: Iterator[str]) -> None:
    print("\n".join((*lines, "")), flush=True)
