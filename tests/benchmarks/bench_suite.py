"""What a case costs, part by part; read the ratios within one run: `make benchmark`."""

from __future__ import annotations

import itertools

import pytest
import torch
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


@pytest.mark.benchmark(group="the oracle against plain float64")
@each_case
class TestOracle:
    def test_exact_rotation(self, benchmark: BenchmarkFixture, case: Case) -> None:
        call = logical_call(case)
        assert benchmark(reference.rotate, call.q, call.positions, call.rope_base).numel()

    def test_error_bound(self, benchmark: BenchmarkFixture, case: Case) -> None:
        call = logical_call(case)
        bound = benchmark(reference.error_bound, call.q, call.positions, call.rope_base, reference.FLOAT32_ANGLE)
        assert bound.error.numel()

    def test_plain_float64(self, benchmark: BenchmarkFixture, case: Case) -> None:
        call = logical_call(case)
        assert benchmark(_plain, call.q, call.positions, call.rope_base).numel()


def _plain(x: torch.Tensor, positions: torch.Tensor, rope_base: float) -> torch.Tensor:
    half = x.shape[-1] // 2
    frequency = rope_base ** (-2.0 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    angle = (positions.double()[:, None] * frequency)[:, None]
    first, second = x.double().chunk(2, dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)


@pytest.mark.benchmark(group="cos and sin of 8,192 positions against plain float64")
class TestAngles:
    positions = torch.arange(8192, dtype=torch.int32)

    def test_exact(self, benchmark: BenchmarkFixture) -> None:
        assert benchmark(reference.cos_sin, self.positions, 1e4, 128)[0].numel()

    def test_plain_float64(self, benchmark: BenchmarkFixture) -> None:
        angle = self.positions.double()[:, None] * reference.frequency_table(1e4, 128).radians
        assert benchmark(lambda: (angle.cos(), angle.sin()))[0].numel()


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
