"""The suite itself: what it confirms, what it calls its own error, what it does not miss between calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from callables import FAULTS
from drive import suite_for
from kernels import RIGHT
from torch import Tensor

import reference.arguments
from conformance import outcome
from conformance.case import Case
from conformance.suite import NonConformanceError, Suite
from conformance.worker import HarnessError
from kernel.targets import CallableTarget

Kernel = Callable[..., tuple[Tensor, ...]]
PLAIN = Case(values="normal")


def _suite(kernel: Kernel) -> Suite:
    return suite_for(CallableTarget("kernel", kernel))


def _raises_when_called_again() -> Kernel:
    seen: set[bytes] = set()

    def kernel(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
        key = arrays[0].view(torch.uint8).numpy().tobytes()
        if key in seen:
            raise RuntimeError("already answered")
        seen.add(key)
        return RIGHT["float32_angle"](*arrays, **arguments)

    return kernel


def _raises_for_one_token(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    if len(arrays[0]) == 1:
        raise RuntimeError("no single tokens")
    return RIGHT["float32_angle"](*arrays, **arguments)


def _one_pool_buffer() -> Kernel:
    buffers: dict[tuple[object, ...], Tensor] = {}

    def kernel(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
        q, k, k_pool, v_pool = RIGHT["float32_angle_fresh"](*arrays, **arguments)
        kept = buffers.setdefault((k_pool.dtype, *k_pool.shape), torch.empty_like(k_pool))
        return q, k, kept.copy_(k_pool), v_pool

    return kernel


def test_a_second_call_that_raises_breaks_repetition() -> None:
    suite = _suite(_raises_when_called_again())
    with pytest.raises(NonConformanceError, match="RUN-REPEAT"):
        suite.check_repeat(PLAIN)
    suite.close()


def test_a_token_alone_that_raises_breaks_the_split() -> None:
    suite = _suite(_raises_for_one_token)
    with pytest.raises(NonConformanceError, match="RUN-SPLIT"):
        suite.check_tokenwise(PLAIN)
    suite.close()


def test_a_returned_pool_that_a_later_call_changes_is_found() -> None:
    suite = _suite(_one_pool_buffer())
    suite.check(PLAIN)
    with pytest.raises(NonConformanceError, match="k_pool_new that an earlier call returned"):
        suite.check(PLAIN.but(seed=1))
    suite.close()


def test_a_failure_left_by_earlier_calls_says_so_and_names_them() -> None:
    suite = _suite(FAULTS["frequency_cached_by_whole_base"].call)
    suite.check(PLAIN.but(rope_base=10.25))
    with pytest.raises(NonConformanceError) as failure:
        suite.check(PLAIN.but(rope_base=10.75, positions="rise:100"))
    text = str(failure.value)
    assert "only after earlier calls in the same process" in text
    assert text.count("base=10.") == 2
    suite.close()


def _says_true(q: Tensor, num_qo_heads: int, head_dim: int) -> bool:  # noqa: ARG001
    return True


def test_a_lying_guard_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference.arguments, "q_shape_ok", _says_true)
    suite = _suite(RIGHT["float32_angle"])
    with pytest.raises(NonConformanceError, match="ERR-GUARD"):
        suite.check(PLAIN.but(fault="q:3x5x64"), guards=True)
    suite.close()


def test_an_error_of_the_suite_is_not_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = _suite(RIGHT["float32_angle"])
    monkeypatch.setattr(outcome, "_aliases", lambda *_: 1 / 0)
    suite.close()
    with pytest.raises(HarnessError, match="ZeroDivisionError"):
        suite.check(PLAIN)
    suite.close()


def test_a_case_that_cannot_be_judged_does_not_shift_the_answers() -> None:
    suite = _suite(RIGHT["float32_angle"])
    expected = suite.expected(PLAIN.but(num_tokens=5))
    object.__setattr__(expected, "prepare", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        suite.check(PLAIN.but(num_tokens=5))
    assert not suite.check(PLAIN.but(num_tokens=4)).failed
    suite.close()


def _ruins(change: Callable[[Tensor], object]) -> Kernel:
    def kernel(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
        outputs = RIGHT["float32_angle"](*arrays, **arguments)
        change(arrays[0])
        return outputs

    return kernel


@pytest.mark.parametrize(
    "change",
    [
        lambda q: q.resize_(0),
        lambda q: q.transpose_(0, 1),
        lambda q: q.requires_grad_(True),
        lambda q: setattr(q, "data", torch.zeros_like(q)),
    ],
)
def test_an_array_that_is_not_what_it_was_is_found(change: Callable[[Tensor], object]) -> None:
    suite = _suite(_ruins(change))
    with pytest.raises(NonConformanceError, match="MEM-INPUT"):
        suite.check(PLAIN)
    suite.close()


def test_an_exit_is_told_by_its_name() -> None:
    def leaves(*_: Tensor, **__: Any) -> tuple[Tensor, ...]:
        raise SystemExit(3)

    suite = _suite(leaves)
    with pytest.raises(NonConformanceError, match="got SystemExit: 3"):
        suite.check(PLAIN.but(memory="page-end", num_tokens=4))
    assert not suite.ledger.entries["MEM-READ"].failed
    suite.close()


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "NoneType in place of"),
        ([1, 2, 3, 4], "q_rot is a int, not a tensor"),
        ((torch.zeros(3),) * 3, "tuple of 3 in place of"),
        ((torch.zeros(3, dtype=torch.complex128),) * 4, "complex128"),
        ((torch.zeros(3).to_sparse(),) * 4, "sparse"),
    ],
)
def test_what_is_not_four_arrays_is_a_finding(returned: object, words: str) -> None:
    suite = _suite(lambda *_, **__: returned)  # type: ignore[arg-type,return-value]
    with pytest.raises(NonConformanceError, match=words):
        suite.check(PLAIN)
    suite.close()


@pytest.mark.parametrize("positions", ["list:2147483647/-2147483648/0", "list:-1/65536/131071"])
@pytest.mark.parametrize("name", ["queries_unrotated", "turned_backwards", "position_plus_one", "position_plus_head"])
def test_a_wrong_answer_at_any_position_is_a_finding(name: str, positions: str) -> None:
    suite = _suite(FAULTS[name].call)
    with pytest.raises(NonConformanceError):
        suite.check(PLAIN.but(positions=positions, dtype="f32"))
    suite.close()
