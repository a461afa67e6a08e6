"""`python -m conformance nightly`: the suite, the benchmarks and the comparison with the history, each a process.

A night is a folder. Whatever is killed, at any moment, the same command continues the unfinished night, unless the
code or the kernel changed since: then the cut-off night stays beside the new one.

    command.json      what was asked, the seed, and the state of the code
    record.jsonl      the suite's record
    benchmarks.json   what the benchmarks measured
    progress.json     which steps are done
    index.html, junit.xml, summary.txt
    outcome.json      the exit status; a folder without it is unfinished
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import random
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from conformance import options, rerun
from conformance.rerun import ROOT, Timed
from conformance.step import KilledError, NightlyError, complaint, python, read, terminable, write
from kernel.targets import DEFAULT_SHADER

COULD_NOT_RUN = 4
# pytest's exit statuses: all passed, some failed; misused; nothing chosen.
_PASSED, _FAILED, _MISUSED, _NO_TESTS = 0, 1, 4, 5
_JUDGED = ("conformance", "kernel", "reference", "shaders")
_SUFFIXES = {".py", ".toml", ".metal", ".h", ""}
_VERSIONS = ("torch", "numpy", "hypothesis", "pytest")


def add_command(commands: Any) -> None:
    """Add `nightly` to the subcommands of a parser; what it does not know is left to pytest, as `more`."""
    nightly = commands.add_parser(
        "nightly",
        help="suite, benchmarks and comparison with the history; further options go to pytest",
        allow_abbrev=False,
    )
    options.add_target_options(nightly.add_argument)
    nightly.add_argument("--profile", default="nightly", help="%(default)s by default; smoke is the short form")
    nightly.add_argument("--hypothesis-seed", metavar="SEED", help="random by default; printed and kept")
    nightly.add_argument("--history", type=Path, metavar="FILE", help="history.sqlite in DIR by default")
    nightly.add_argument("--out", type=Path, default=Path("out/nightly"), metavar="DIR", help="%(default)s by default")
    nightly.add_argument("--no-benchmarks", action="store_true", help="time nothing")
    nightly.set_defaults(run=run, takes_more=True)


def run(parsed: argparse.Namespace) -> int:
    """0: held; 1: a requirement failed; 2: a regression; 3: no baseline yet; 4: could not run."""
    command = _Command.of(parsed)
    status = COULD_NOT_RUN
    try:
        command.out.mkdir(parents=True, exist_ok=True)
        with _alone(command), terminable():
            status = _made(command)
    except NightlyError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: cannot use {error.filename}: {error.strerror}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted: the same command continues this night", file=sys.stderr)
    sys.stderr.flush()
    # `make` answers 2 to every failure of a command.
    print(f"exit code {status}", flush=True)
    return status


@dataclass(frozen=True)
class _Command:
    """What was asked for."""

    timed: Timed
    """The target."""
    profile: str
    more: tuple[str, ...]
    """What else the suite is told; nights of other words are not compared."""
    seed: str | None
    benchmarks: bool
    out: Path
    history: Path

    @classmethod
    def of(cls, parsed: argparse.Namespace) -> _Command:
        # The baseline's tree may hold another list, or none, at the same path.
        deviations = parsed.deviations and str(parsed.deviations.resolve())
        chosen = {"math": parsed.math, "accuracy": parsed.accuracy, "deviations": deviations}
        others = [word for name, value in chosen.items() if value for word in (f"--{name}", value)]
        return cls(
            timed=Timed(parsed.target, parsed.shader, tuple(others), tuple(filter(_is_effort, parsed.more))),
            profile=parsed.profile,
            more=tuple(word for word in parsed.more if not _is_effort(word)),
            seed=parsed.hypothesis_seed,
            benchmarks=not parsed.no_benchmarks,
            out=parsed.out,
            history=parsed.history or parsed.out / "history.sqlite",
        )

    @property
    def key(self) -> str:
        """Tells commands apart: the command that began a night continues it."""
        return _hash(json.dumps([*self.words, f"seed={self.seed}", os.getcwd()]).encode())

    def again(self, seed: str) -> str:
        """The command that makes a night of this seed."""
        return shlex.join(["python", "-m", "conformance", "nightly", *self.words, "--hypothesis-seed", seed])

    @property
    def pytest(self) -> tuple[str, ...]:
        """Options of the suite, but for the seed."""
        return (*self.timed.options, "--profile", self.profile, *self.more)

    @property
    def words(self) -> tuple[str, ...]:
        """The command's own, but for the seed."""
        return (*self.pytest, *self.timed.effort, *(() if self.benchmarks else ("--no-benchmarks",)))

    @property
    def tests(self) -> tuple[str, ...]:
        """The whole suite, unless the command names tests."""
        named = any("::" in word or word.endswith(".py") for word in self.more)
        return () if named else (str(ROOT / "conformance"),)

    @property
    def shader(self) -> Path | None:
        """The Metal source under test; None for a callable."""
        return (self.timed.shader or DEFAULT_SHADER) if self.timed.target == "host" else None


@dataclass
class _Night:
    """One night's folder, and what is done of it."""

    folder: Path
    seed: str
    started: str
    done: dict[str, Any] = field(default_factory=dict)
    """Steps and what came of them."""
    fresh: bool = True
    """Whether nothing of it was there before."""

    @classmethod
    def begun(cls, command: _Command, state: str) -> _Night:
        """A new folder."""
        now = datetime.now(UTC)
        folder = command.out / f"{now:%Y%m%dT%H%M%S.%f}Z-{command.key}"
        folder.mkdir()
        night = cls(folder, command.seed or str(random.SystemRandom().randrange(2**32)), f"{now:%Y-%m-%dT%H:%M:%SZ}")
        asked = {"command": command.again(night.seed), "seed": night.seed, "started": night.started, "state": state}
        write(night.path("command.json"), asked)
        return night

    @classmethod
    def unfinished(cls, command: _Command, state: str) -> _Night | None:
        """The last night that this command began and did not finish, if the code is still what it was."""
        for folder in sorted(command.out.glob(f"*Z-{command.key}"), reverse=True):
            asked = read(folder / "command.json")
            if not asked or (folder / "outcome.json").exists():
                continue
            night = cls(folder, asked["seed"], asked["started"], read(folder / "progress.json"), fresh=False)
            if asked["state"] == state:
                return night
            night.set_aside("the code or the kernel changed since")
        return None

    def set_aside(self, why: str) -> None:
        """Leave an unfinished night as it is: it is not continued."""
        print(f"{self.folder} was cut off and stays as it is: {why}")
        write(self.path("outcome.json"), {"status": COULD_NOT_RUN, "seed": self.seed, "why": why})

    def finish(self, step: str, result: Any) -> None:
        """Note that a step is done."""
        self.done[step] = result
        write(self.path("progress.json"), self.done)

    def show(self, command: _Command) -> None:
        """Let `latest` lead here."""
        link = command.out / f".latest-{self.folder.name}"
        link.unlink(missing_ok=True)
        link.symlink_to(self.folder.name)
        link.replace(command.out / "latest")

    def close(self, status: int) -> int:
        """The night is over, with `status`."""
        write(self.path("outcome.json"), {"status": status, "seed": self.seed, "steps": self.done})
        return status

    def could_not_run(self, command: _Command, step: str) -> None:
        """The summary of a night that a step of the night could not be made for."""
        text = (
            f"night of {self.started}: could not run (exit code {COULD_NOT_RUN})\n"
            f"{step:<12}{complaint(self.path(f'{step}.log'))}\n"
            f"{'again':<12}{command.again(self.seed)}\n"
        )
        write(self.path("summary.txt"), text)
        print(text, end="", flush=True)
        self.show(command)

    def path(self, name: str) -> Path:
        return self.folder / name


def _made(command: _Command) -> int:
    """Make or continue a night; its exit status."""
    state = _state_of_code(command)
    night = _Night.unfinished(command, state) or _Night.begun(command, state)
    try:
        status = _suite(command, night)
        if status == _MISUSED and not night.fresh:
            night.set_aside(complaint(night.path("suite.log")))
            night = _Night.begun(command, state)
            status = _suite(command, night)
    except KilledError as error:
        return _cut_off(command, night, error)
    if status in (_MISUSED, _NO_TESTS):
        night.could_not_run(command, "suite")
        return night.close(COULD_NOT_RUN)
    if status not in (_PASSED, _FAILED):
        return _cut_off(
            command, night, NightlyError(f"the suite ended with status {status}; the same command continues this night")
        )
    told = [*_benchmarks(command, night), *_suspects(command, night)]
    concluded = _conclude(command, night, told)
    return COULD_NOT_RUN if concluded is None else night.close(concluded)


def _suite(command: _Command, night: _Night) -> int:
    """pytest's exit status for all of the suite, however often it was cut off."""
    if "suite" in night.done:
        return int(night.done["suite"])
    print(f"{'night' if night.fresh else 'continued:'} {night.folder}, seed {night.seed}", flush=True)
    _wait_for_writer(night.path("record.jsonl"))
    words = (*command.tests, *command.pytest, "-p", "no:cacheprovider")
    draws = ("--hypothesis-seed", night.seed, "--examples-database", str(command.out / "examples"))
    record = ("--record", str(night.path("record.jsonl")), "--resume")
    status = python(night.path("suite.log"), "pytest", *words, *draws, *record)
    if status in (_PASSED, _FAILED):
        night.finish("suite", status)
    return status


def _cut_off(command: _Command, night: _Night, why: NightlyError) -> int:
    """The suite did not come to its end: how far it came is told, and the night stays unfinished."""
    if not night.path("record.jsonl").exists():
        raise why
    concluded = _conclude(command, night, ["--could-not-run", str(why)])
    return COULD_NOT_RUN if concluded is None else concluded


def _benchmarks(command: _Command, night: _Night) -> list[str]:
    """Time the kernel; what the conclusion is to be told of it."""
    if not command.benchmarks:
        return ["--note", "no benchmarks (--no-benchmarks): nothing is said of the speed"]
    measured, log = night.path("benchmarks.json"), night.path("benchmarks.log")
    if "benchmarks" not in night.done:
        night.finish("benchmarks", rerun.measure(command.timed, log, measured))
    status = night.done["benchmarks"]
    told = ["--benchmarks", str(measured)] if measured.exists() else []
    if status == _FAILED:
        told += ["--note", f"not every benchmark was timed: see {log}"]
    elif status != _PASSED:
        told += ["--could-not-run", f"the benchmarks: {complaint(log)}"]
    return told


def _suspects(command: _Command, night: _Night) -> list[str]:
    """Measure again what seems slower than on the baseline; what the conclusion is to be told of it."""
    measured, found = night.path("benchmarks.json"), night.path("rerun.json")
    if measured.exists() and "suspects" not in night.done:
        listed, shader = night.path("suspects.json"), night.path("base.metal")
        words = (*_compared(command, night), "--benchmarks", str(measured), "--shader", str(shader), "-o", str(listed))
        if python(night.path("suspects.log"), "reports", "suspects", *words):
            # The conclusion meets the same obstacle, and says so.
            return []
        suspected = read(listed)
        if suspected["names"]:
            write(found, _measured_again(command, night, suspected["names"], suspected["commit"]))
        night.finish("suspects", suspected["names"])
    return ["--rerun", str(found)] if found.exists() else []


def _measured_again(command: _Command, night: _Night, names: Sequence[str], commit: str) -> dict[str, Any]:
    print(f"slower than on the baseline, measured again beside it: {', '.join(names)}", flush=True)
    kept = night.path("base.metal")
    try:
        rounds = rerun.measure_again(command.timed, night.folder, names, commit, kept if kept.exists() else None)
    except KilledError:
        raise
    except NightlyError as error:
        return {"why": f"not measured again: {error}", "rounds": []}
    return {"why": "", "rounds": rounds}


def _conclude(command: _Command, night: _Night, told: Sequence[str]) -> int | None:
    """Compare, store and report; the exit status of the night, None where that could not be done."""
    night.path("summary.txt").unlink(missing_ok=True)
    source = ("--source", str(command.shader)) if command.shader is not None else ()
    words = (*_compared(command, night), "-o", str(night.folder), "--again", command.again(night.seed))
    status = python(night.path("report.log"), "reports", "night", *words, *source, *told)
    if not night.path("summary.txt").exists():
        # It is written last: a status without it is not one of a night.
        night.could_not_run(command, "report")
        return None
    night.show(command)
    return status


def _compared(command: _Command, night: _Night) -> tuple[str, ...]:
    """What is compared with what: the record, and the nights that the history holds of the same options."""
    options = (f"--options={shlex.join(command.more)}",) if command.more else ()
    return (str(night.path("record.jsonl")), "--history", str(command.history), *options)


@contextlib.contextmanager
def _alone(command: _Command) -> Iterator[None]:
    """One night of these arguments at a time; the lock is gone with the process, however it ends."""
    with (command.out / f".{command.key}.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise NightlyError(f"a night of these arguments is under way: process {file.read().strip()}") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def _wait_for_writer(record: Path) -> None:
    """Wait for a suite that outlived the night that began it: it goes on with its record."""
    if not record.exists():
        return
    with record.open("rb+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            print("waiting: the suite of the killed night is still running", flush=True)
            fcntl.lockf(file, fcntl.LOCK_EX)


def _state_of_code(command: _Command) -> str:
    """A hash of all that a record depends on: sources, what is tested, versions."""
    sources = (path for name in _JUDGED for path in (ROOT / name).rglob("*") if path.suffix in _SUFFIXES)
    tested = command.timed.file
    files = [*sorted(path for path in sources if path.is_file()), *([tested] if tested and tested.is_file() else [])]
    versions = [sys.version, *(metadata.version(name) for name in _VERSIONS)]
    return _hash(json.dumps([[_hash(path.read_bytes()) for path in files], versions]).encode())


def _is_effort(word: str) -> bool:
    """Whether an option is for the benchmarks, such as --benchmark-max-time=0."""
    return word.startswith("--benchmark-")


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
