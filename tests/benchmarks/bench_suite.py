"""What a case costs the suite, part by part; read the ratios within one run: `make benchmark`."""

from __future__ import annotations

import itertools

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import reference
from conformance.case import Case
from conformance.inputs import build, logical_call
from conformance.judge import expect, judge
from conformance.outcome import Observer
from conformance.standard import Standard
from kernel.msl import FunctionConstants
from kernel.targets import HostTarget

CASES = {
    "decode": Case(num_tokens=8, num_qo_heads=32, num_kv_heads=8, head_dim=128, pool_size=300, plan="split/1"),
    "prefill": Case(num_tokens=256, num_qo_heads=32, num_kv_heads=8, head_dim=128, pool_size=300, plan="rect/1"),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.fixture(scope="module")
def host() -> HostTarget:
    return HostTarget.compile()


@pytest.mark.benchmark(group="a case, part by part")
@each_case
class TestParts:
    def test_draw(self, benchmark: BenchmarkFixture, case: Case) -> None:
        seeds = itertools.count()
        assert benchmark(lambda: logical_call(case.but(seed=next(seeds)))).q.numel()

    def test_place(self, benchmark: BenchmarkFixture, case: Case) -> None:
        assert benchmark(build, case).call.q.numel()

    def test_run_on_host(self, benchmark: BenchmarkFixture, host: HostTarget, case: Case) -> None:
        call = build(case).call
        assert benchmark(host.run, call, case.launch_plan).outputs[0].numel()

    def test_judge(self, benchmark: BenchmarkFixture, host: HostTarget, case: Case) -> None:
        expected = expect(case, Standard(reference.EXACT_ANGLE))
        expected.prepare()
        outcome = Observer(host).observe(case)
        assert not benchmark(judge, expected, outcome).failed


@pytest.mark.benchmark(group="a new shape: specialise, not compile")
class TestShapes:
    def test_specialise(self, benchmark: BenchmarkFixture, host: HostTarget) -> None:
        shapes = iter(range(2, 10**9, 2))
        assert benchmark(lambda: host.program.specialise(FunctionConstants(next(shapes), 4, 2, 0.1, 1)))

    def test_compile(
        self, benchmark: BenchmarkFixture, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        def cold() -> HostTarget:
            monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
            return HostTarget.compile()

        assert benchmark.pedantic(cold, rounds=3)
