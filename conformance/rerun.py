"""The benchmarks, and those that seem slower measured again: what the baseline ran beside what runs now."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.step import NightlyError, complaint, python

ROOT = Path(__file__).resolve().parents[1]
# Of equal code on a busy machine (rounds that scatter by 20%), five would confirm one suspect in a hundred, nine one in
# three thousand.
ROUNDS = 9


@dataclass(frozen=True)
class Timed:
    """What is timed: a target as the options choose it, in the tree of a commit.

    Attributes:
        target: a callable's name, or `host`.
        shader: the Metal source; None for ours.
        others: further options of the target.
        effort: options of pytest-benchmark.
        tree: the root of the code that is run; None for where we are.
    """

    target: str
    shader: Path | None
    others: tuple[str, ...] = ()
    effort: tuple[str, ...] = ()
    tree: Path | None = None

    @property
    def options(self) -> tuple[str, ...]:
        target = () if self.target == "host" else ("--target", self.target)
        shader = () if self.shader is None else ("--shader", str(self.shader))
        return (*target, *shader, *self.others)

    @property
    def file(self) -> Path | None:
        """The file under test, where an option names one."""
        place = self.target.rpartition(":")[0]
        return self.shader or (Path(place) if place.endswith(".py") else None)

    @property
    def is_foreign(self) -> bool:
        """Whether what is tested is no part of this repository, so that no commit of it tells what it was."""
        if self.target != "host" and self.file is None:
            module = self.target.rpartition(":")[0].replace(".", "/")
            return not (ROOT / f"{module}.py").is_file()
        return self.file is not None and not self.file.resolve().is_relative_to(ROOT)

    def at(self, tree: Path) -> Timed:
        """The same of another tree, by paths that are relative to it."""
        place, _, function = self.target.rpartition(":")
        target = f"{_inside(Path(place))}:{function}" if place.endswith(".py") else self.target
        return replace(self, target=target, shader=self.shader and _inside(self.shader), tree=tree)


def _inside(path: Path) -> Path:
    return path.resolve().relative_to(ROOT)


def measure(timed: Timed, log: Path, measured: Path, names: Sequence[str] = ()) -> int:
    """Run the benchmarks, all or those named, into the file `measured`; pytest's exit status."""
    making = measured.with_suffix(".part").resolve()
    bench = (timed.tree or ROOT) / "conformance" / "bench"
    chosen = ["-k", " or ".join(names)] if names else []
    words = (*timed.options, *timed.effort, *chosen, "-p", "no:cacheprovider", "--benchmark-json", str(making))
    status = python(log, "pytest", str(bench), *words, cwd=timed.tree)
    # pytest-benchmark leaves an empty file where it measured nothing.
    if making.exists() and making.stat().st_size:
        making.replace(measured)
    return status


def measure_again(
    head: Timed, folder: Path, names: Sequence[str], commit: str, shader: Path | None
) -> list[tuple[str, str]]:
    """ROUNDS pairs of files in `folder`, base and head in turn. Raises NightlyError where base cannot be had.

    Args:
        commit: of the baseline.
        shader: its source, kept by the history; for a shader that no commit holds.
    """
    with _base(head, folder, commit, shader) as base:
        return [_round(base, head, folder, names, number) for number in range(ROUNDS)]


@contextlib.contextmanager
def _base(head: Timed, folder: Path, commit: str, shader: Path | None) -> Iterator[Timed]:
    if not head.is_foreign:
        with _checked_out(folder.resolve() / "base", commit) as tree:
            yield head.at(tree)
    elif head.shader is None:
        raise NightlyError("the target is no part of this repository, so its earlier state is not known")
    elif shader is None:
        raise NightlyError("the history holds no source of the baseline's shader")
    else:
        yield replace(head, shader=shader.resolve())


def _round(base: Timed, head: Timed, folder: Path, names: Sequence[str], number: int) -> tuple[str, str]:
    """One measurement of each; who comes first changes from round to round."""
    sides = [("base", base), ("head", head)]
    for side, timed in reversed(sides) if number % 2 else sides:
        log = folder / f"{side}-{number}.log"
        if measure(timed, log, folder / f"{side}-{number}.json", names):
            raise NightlyError(f"{side} could not be measured: {complaint(log)}")
    return f"base-{number}.json", f"head-{number}.json"


@contextlib.contextmanager
def _checked_out(path: Path, commit: str) -> Iterator[Path]:
    """The tree of a commit at `path`, until the block is left, however it is left."""
    if not commit:
        raise NightlyError("the baseline was made outside git")
    if commit.endswith("+"):
        raise NightlyError(f"the baseline's tree had changes beyond its commit {commit[:-1]}")
    # A night that was killed may have left one.
    _remove(path)
    try:
        if not _git("worktree", "add", "--detach", "--force", str(path), commit):
            raise NightlyError(f"git cannot check out the baseline's commit {commit} here")
        yield path
    finally:
        _remove(path)


def _remove(path: Path) -> None:
    if path.exists():
        _git("worktree", "remove", "--force", str(path))
        shutil.rmtree(path, ignore_errors=True)
    _git("worktree", "prune")


def _git(*words: str) -> bool:
    """Whether git is here and did it."""
    try:
        return not subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False).returncode
    except FileNotFoundError:
        return False
