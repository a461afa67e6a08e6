"""Calls are made in a child process, so that a crash or a hang costs one case and not the run."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

import psutil
import torch

from conformance.case import Case
from conformance.outcome import NOT_MADE, Observer, Outcome
from kernel.memory import bits
from kernel.targets import Target

ANSWER_SECONDS = 20.0
# Once a kernel has passed a limit this often, each further case gets less time.
PATIENT_HANGS = 2
IMPATIENT_SECONDS = 3.0
# After this many no further call is made: the target would take hours to fail them all.
HANGS = 25
# A child that holds more than this is ended, before the system ends a process of its own choice.
MEMORY_BYTES = psutil.virtual_memory().total // 2
_LOOK_SECONDS = 0.05
_REMEMBERED = 64
# A child that is not forked imports everything anew.
START_SECONDS = 120.0


class Worker:
    """A child process that makes calls of one target, one after another.

    It is started on first use and again after a crash, a hang or `renew`.
    """

    def __init__(self, target: Target, *, quiet: bool = True) -> None:
        """quiet: whether what the target prints is thrown away."""
        self._quiet = quiet
        self.calls: deque[Case] = deque(maxlen=_REMEMBERED)
        """What the child has run, oldest first."""
        self._target = target
        self._process: multiprocessing.process.BaseProcess | None = None
        self._link: Connection | None = None
        self._hangs = 0

    def run(self, case: Case) -> Outcome:
        """The outcome of `case`, after whatever this process has run before."""
        self.submit(case)
        return self.collect()

    def submit(self, case: Case) -> None:
        """Begin the call of `case`; `collect` or `renew` must follow."""
        if self._hangs >= HANGS:
            return
        if self._process is None:
            self._start()
        assert self._link is not None
        self.calls.append(case)
        # A child that died between two calls is told of by `collect`.
        with contextlib.suppress(ConnectionError):
            self._link.send_bytes(pickle.dumps(case))

    def collect(self) -> Outcome:
        """The outcome of the call begun last."""
        if self._hangs >= HANGS:
            return Outcome(died=f"{NOT_MADE}: {HANGS} calls before it gave no answer")
        assert self._link is not None
        try:
            ended = self._overrun()
            if not ended:
                outcome = _unpacked(_received(self._link))
                if outcome.died:
                    # The child lives, but its device answers it no more.
                    self.renew()
                return outcome
        except (EOFError, ConnectionError):
            return Outcome(died=self._buried())
        self._hangs += 1
        self.renew()
        return Outcome(died=ended)

    def _overrun(self) -> str:
        """Wait for the answer; which limit the child passed before it gave one, empty for none."""
        assert self._link is not None
        assert self._process is not None
        seconds = ANSWER_SECONDS if self._hangs < PATIENT_HANGS else IMPATIENT_SECONDS
        end = time.monotonic() + seconds
        while not self._link.poll(min(_LOOK_SECONDS, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end:
                return f"gave no answer within {seconds:g} s"
            with contextlib.suppress(psutil.Error):
                if psutil.Process(self._process.pid).memory_info().rss > MEMORY_BYTES:
                    return f"gave no answer within {MEMORY_BYTES / 2**30:.1f} GiB of memory and was ended with SIGKILL"
        return ""

    def run_fresh(self, cases: Sequence[Case]) -> list[Outcome]:
        """The outcomes of `cases` in this order, in a process that has run nothing else."""
        self.renew()
        outcomes = [self.run(case) for case in cases]
        self.renew()
        return outcomes

    def renew(self) -> None:
        """End the child; the next call starts another."""
        if self._process is not None and self._link is not None:
            self._process.kill()
            self._process.join()
            self._link.close()
        self._process = self._link = None
        self.calls.clear()

    def _start(self) -> None:
        context: Any = multiprocessing.get_context(self._target.start_method)
        self._link, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, self._link, self._target, self._quiet), daemon=True
        )
        self._process.start()
        theirs.close()
        # `collect` tells of a child that died before it was ready.
        with contextlib.suppress(EOFError, ConnectionError):
            if self._link.poll(START_SECONDS):
                self._link.recv_bytes()

    def _buried(self) -> str:
        assert self._process is not None
        self._process.join()
        code = self._process.exitcode or 0
        self.renew()
        return f"crashed with {signal.Signals(-code).name}" if code < 0 else f"ended the process with status {code}"


class HarnessError(Exception):
    """The suite itself failed in the child; not a finding about the target."""


def _send(link: Connection, answer: Outcome | str) -> None:
    """Arrays go apart from the rest, so that a large one is not copied once more."""
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(answer, protocol=5, buffer_callback=arrays.append)
    link.send_bytes(pickle.dumps((rest, [array.raw().nbytes for array in arrays])))
    for array in arrays:
        link.send_bytes(array.raw())


def _received(link: Connection) -> Outcome:
    rest, sizes = pickle.loads(link.recv_bytes())
    arrays = [bytearray(size) for size in sizes]
    for array in arrays:
        link.recv_bytes_into(array)
    answer = pickle.loads(rest, buffers=arrays)
    if isinstance(answer, str):
        raise HarnessError(answer)
    assert isinstance(answer, Outcome)
    return answer


def _serve(link: Connection, other_end: Connection, target: Target, quiet: bool) -> None:
    other_end.close()
    # Ctrl-C is the parent's to answer.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if quiet:
        # Both Python's streams and the C library's.
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
        for stream in (1, 2):
            os.dup2(sys.stdout.fileno(), stream)
    # A crash is a finding that names its case; the interpreter's own dump would only hide it.
    faulthandler.disable()
    torch.set_num_threads(1)
    observer = Observer(target)
    link.send_bytes(b"ready")
    while True:
        try:
            case = pickle.loads(link.recv_bytes())
        except EOFError:
            return
        try:
            answer: Outcome | str = _packed(observer.observe(case))
        except Exception:
            answer = traceback.format_exc()
        _send(link, answer)


def _packed(outcome: Outcome) -> Outcome:
    # numpy pickles an array as its bytes; torch would go through shared memory.
    return _each_tensor(outcome, lambda t: (bits(t).numpy(), t.dtype))


def _unpacked(outcome: Outcome) -> Outcome:
    return _each_tensor(outcome, lambda packed: torch.from_numpy(packed[0]).view(packed[1]))


def _each_tensor(outcome: Outcome, change: Callable[[Any], Any]) -> Outcome:
    if outcome.outputs is None or outcome.pools is None:
        return outcome
    outputs = {name: change(output) for name, output in outcome.outputs.items()}
    pools = {
        name: replace(pool, rows=change(pool.rows), data=change(pool.data)) for name, pool in outcome.pools.items()
    }
    return replace(outcome, outputs=outputs, pools=pools)
