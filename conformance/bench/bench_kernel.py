"""The kernel at decode and prefill: its bandwidth, and how much of a plain copy's that is."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from conformance.bench.timing import Effort, beside, bytes_moved, copies
from conformance.case import DTYPES, Case
from conformance.inputs import build
from conformance.record import Recorder
from conformance.scenarios.serving import MODELS, Model
from conformance.suite import NonConformanceError, Suite

# Two head shapes of different head_dim.
_MODELS = [model for model in MODELS if model.name in ("llama-3-8b", "gpt-oss-20b")]
_BATCHES = {f"decode-{n}": (n, "decode:32768") for n in (1, 64, 256)} | {"prefill-2048": (2048, "rise:0")}


def _case(model: Model, batch: str, dtype: str) -> Case:
    num_tokens, positions = _BATCHES[batch]
    return Case(
        dtype=dtype,
        num_tokens=num_tokens,
        num_qo_heads=model.num_qo_heads,
        num_kv_heads=model.num_kv_heads,
        head_dim=model.head_dim,
        rope_base=model.rope_base,
        pool_size=4096,
        positions=positions,
        slots="permuted",
        values="normal",
    )


CASES = {
    f"{model.name}-{batch}-{dtype}": _case(model, batch, dtype)
    for model, batch, dtype in itertools.product(_MODELS, _BATCHES, DTYPES)
}


@pytest.fixture(scope="session")
def wrong(request: pytest.FixtureRequest, suite: Suite) -> dict[str, str]:
    """What the judge says against the cases that are to be timed, where it says anything.

    All are judged before the first is timed: the judged calls are forked off this process, and a GPU that a timed call
    has woken here would be lost to them.
    """
    judging = Suite(suite.target, suite.settings, Recorder(None))
    found: dict[str, str] = {}
    timed = {item.callspec.id for item in request.session.items if isinstance(item, pytest.Function)}
    for name in (name for name in CASES if name in timed):
        try:
            judging.check(CASES[name])
        except NonConformanceError as error:
            found[name] = str(error)
    judging.close()
    return found


@pytest.mark.filterwarnings("ignore:Benchmark fixture was not used")
@pytest.mark.parametrize("name", CASES)
def test_kernel(
    benchmark: BenchmarkFixture, suite: Suite, effort: Effort, facts: dict[str, Any], wrong: dict[str, str], name: str
) -> None:
    if name in wrong:
        pytest.fail(f"not timed, for it is wrong\n{wrong[name]}", pytrace=False)
    call = build(CASES[name]).call
    moved = bytes_moved(call)
    times, copy = beside(benchmark, effort, lambda: suite.target.run(call, None), copies(moved))
    benchmark.extra_info.update(
        facts,
        case=str(CASES[name]),
        bytes=moved,
        copy_ceiling=moved / copy.p50,
        bandwidth=moved / times.p50,
        share=copy.p50 / times.p50,
        **asdict(times),
    )
