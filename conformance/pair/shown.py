"""What the end of a run prints of a pair."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.pair.book import PairBook
from conformance.pair.difference import ENDING, ulps
from conformance.terminal import columns, replay_command
from kernel.targets import Description


def names(first: Description, second: Description) -> tuple[str, str]:
    """What the two are called: by target and, where that is the same, by shader and its math model."""
    one, other = first.name, second.name
    for fact in ("shader", "math"):
        if one == other:
            one, other = (f"{one} {d.facts[fact]}" if fact in d.facts else one for d in (first, second))
    return (one, other) if one != other else (f"the first {first.name}", f"the second {second.name}")


def section(book: PairBook, named: tuple[str, str], options: str) -> Iterator[str]:
    """Counts, who is nearer, and the most telling cases.

    Args:
        named: the two targets.
        options: of a replay of both, as on a command line.
    """
    compared, differing = len(book.compared), len(book.differing)
    yield f"pair: {named[0]} against {named[1]}; what differs is told, not judged"
    cases = f"{compared:,} case{'' if compared == 1 else 's'} compared"
    yield f"{cases}: {compared - differing:,} identical, {differing:,} disagreeing"
    if not differing:
        return
    rows = [("output", "dtype", "cases", "elements", *(f"nearer: {name}" for name in named), "neither", "farthest")]
    for (output, dtype), tally in book.tallies().items():
        apart = "" if tally.largest_ulps is None else ulps(tally.largest_ulps)
        counts = (tally.cases, tally.elements, tally.nearer_first, tally.nearer_second, tally.undecided)
        rows.append((_output(output), dtype, *(f"{count:,}" for count in counts), apart))
    yield from columns(rows)
    for line, difference in book.telling():
        yield ""
        yield f"  {'case':<11}{line}"
        yield from (f"  {text}" for text in difference.lines(named))
        yield f"  {'replay':<11}{replay_command(line, options)}"


def _output(output: str) -> str:
    return "how it ended" if output == ENDING else output
