"""The worker: crashes, hangs, state, and what stays from call to call."""

from __future__ import annotations

import os
from typing import Any

import pytest
from callables import FAULTS
from kernels import RIGHT

from conformance import worker
from conformance.case import Case
from conformance.worker import Worker
from kernel.targets import CallableTarget


def _worker(name: str) -> Worker:
    function = FAULTS[name].call if name in FAULTS else RIGHT[name]
    return Worker(CallableTarget(name, function))


def test_a_crash_is_told_and_the_next_call_is_answered() -> None:
    calls = _worker("crashes_at_head_dim_96")
    assert calls.run(Case(head_dim=96)).died == "crashed with SIGSEGV"
    assert calls.run(Case(head_dim=64)).outputs is not None
    calls.renew()


def test_an_exit_is_told() -> None:
    calls = _worker("exits_at_one_kv_head")
    assert calls.run(Case(num_kv_heads=1)).died.startswith("ended the process with status")
    calls.renew()


def test_a_hang_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "ANSWER_SECONDS", 1.0)
    calls = _worker("hangs_at_seven_tokens")
    assert calls.run(Case(num_tokens=7)).died == "gave no answer within 1 s"
    assert calls.run(Case(num_tokens=6)).outputs is not None
    calls.renew()


def test_a_call_that_takes_too_much_memory_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MEMORY_BYTES", 2**30)

    def takes_much_at_seven_tokens(*arrays: Any, **arguments: Any) -> object:
        held = [bytearray(os.urandom(1) * 2**26) for _ in range(10**6 if len(arrays[0]) == 7 else 0)]
        return RIGHT["float32_angle"](*arrays, **arguments) if not held else None

    calls = Worker(CallableTarget("takes_much", takes_much_at_seven_tokens))
    died = calls.run(Case(num_tokens=7)).died
    assert died == "gave no answer within 1.0 GiB of memory and was ended with SIGKILL"
    assert calls.run(Case(num_tokens=6)).outputs is not None
    calls.renew()


def test_after_many_hangs_no_call_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(worker, "HANGS", 2)
    calls = _worker("hangs_at_seven_tokens")
    died = [calls.run(Case(num_tokens=7)).died for _ in range(3)]
    assert died == [*["gave no answer within 0.2 s"] * 2, "was not made: 2 calls before it gave no answer"]
    calls.renew()


def test_what_a_target_prints_is_thrown_away(capfd: pytest.CaptureFixture[str]) -> None:
    def prints(*arrays: object, **arguments: object) -> object:
        print("noise", flush=True)
        return RIGHT["float32_angle"](*arrays, **arguments)

    for quiet in (True, False):
        calls = Worker(CallableTarget("prints", prints), quiet=quiet)
        assert calls.run(Case()).outputs is not None
        calls.renew()
        assert ("noise" in capfd.readouterr().out) is not quiet


def test_state_lives_as_long_as_the_process() -> None:
    calls = _worker("every_second_write_skipped")
    written = [bool(len(outcome.pools["k_pool"].rows)) for outcome in map(calls.run, [Case()] * 4) if outcome.pools]
    assert sorted(written) == [False, False, True, True]
    [first] = calls.run_fresh([Case()])
    [again] = calls.run_fresh([Case()])
    assert first.pools is not None
    assert again.pools is not None
    assert len(first.pools["k_pool"].rows) == len(again.pools["k_pool"].rows)
