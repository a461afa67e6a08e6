"""cos and sin against mpmath at 300 bits, at the positions where p * w lies nearest a multiple of pi/2."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction

import mpmath
import pytest
import torch

from reference import cos_sin, frequency_table
from reference.angle import HALF_PI

PRECISION = 300
TOLERANCE = 2.0**-52
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
BASES = (1.0, 1.0001, 2.0, 100.0, 1e4, 26e3, 5e5, 1e6, 1e9, 3e38)
HEAD_DIMS = (2, 6, 64, 66, 80, 96, 128, 256)
FLOAT32_EDGES = (2**24 - 1, 2**24, 2**24 + 1, -(2**24) - 1)
SPECIAL = (0, 1, -1, 2**17 - 1, *FLOAT32_EDGES, 2**30 + 1, INT32_MAX, -INT32_MAX, INT32_MIN)


@dataclass(frozen=True)
class Worst:
    points: int
    oracle: float
    plain_float64: float


def near_quarter_turns(frequency: mpmath.mpf) -> list[int]:
    """Convergents and last semiconvergent of w / (pi/2): p for which p * w is nearest a multiple of pi/2."""
    found: list[int] = []
    before, last, rest = 1, 0, 2 * frequency / mpmath.pi
    while True:
        digit = int(mpmath.floor(rest))
        denominator = digit * last + before
        if denominator > INT32_MAX:
            return [*found, (INT32_MAX - before) // last * last + before] if last else found
        if denominator:
            found.append(denominator)
        before, last = last, denominator
        fraction = rest - digit
        if fraction < mpmath.mpf(2) ** -200:
            return found
        rest = 1 / fraction


def positions_for(frequency: mpmath.mpf, rng: random.Random) -> list[int]:
    near = near_quarter_turns(frequency)
    multiples = [INT32_MAX // p * p for p in near if p < INT32_MAX // 2]
    return [
        *near,
        *(-p for p in near),
        *multiples,
        *SPECIAL,
        *(rng.randint(INT32_MIN, INT32_MAX) for _ in range(8)),
    ]


@pytest.fixture(scope="module")
def worst() -> Worst:
    rng = random.Random(20240607)
    points, oracle, plain = 0, 0.0, 0.0
    with mpmath.workprec(PRECISION):
        for base in (*BASES, *(10 ** rng.uniform(0.001, 9) for _ in range(8))):
            float32_base = mpmath.mpf(torch.tensor(base, dtype=torch.float32).item())
            for head_dim in HEAD_DIMS:
                for i in {0, head_dim // 2 - 1, rng.randrange(head_dim // 2), rng.randrange(head_dim // 2)}:
                    frequency = mpmath.exp(-mpmath.log(float32_base) * (2 * i) / head_dim)
                    positions = positions_for(frequency, rng)
                    cos, sin = cos_sin(torch.tensor(positions, dtype=torch.int32), base, head_dim)
                    angle = torch.tensor(positions, dtype=torch.float64) * float(frequency)
                    for n, p in enumerate(positions):
                        right_cos, right_sin = mpmath.cos_sin(p * frequency)
                        oracle = max(oracle, abs(cos[n, i].item() - right_cos), abs(sin[n, i].item() - right_sin))
                        plain = max(plain, abs(torch.sin(angle[n]).item() - right_sin))
                    points += len(positions)
    return Worst(points, float(oracle), float(plain))


def test_every_int32_position_is_right_to_2_to_the_minus_52(worst: Worst) -> None:
    assert worst.points >= 20_000
    assert worst.oracle <= TOLERANCE


def test_plain_float64_would_fail(worst: Worst) -> None:
    assert worst.plain_float64 > 2.0**-24


@pytest.mark.parametrize("base", BASES)
def test_the_first_two_chunks_have_exact_products(base: float) -> None:
    """Whether or not the machine fuses the product with the sum that follows."""
    table = frequency_table(base, 256)
    factors = [(INT32_MAX, chunk) for chunk in (*table.chunk0.tolist(), *table.chunk1.tolist())]
    factors += [(int(2**31 * 2 / math.pi), chunk) for chunk in HALF_PI[:2]]
    assert all(Fraction(n * chunk) == n * Fraction(chunk) for n, chunk in factors)


def test_the_base_is_rounded_to_float32() -> None:
    position = torch.tensor([INT32_MAX])
    rounded = torch.tensor(10000.0003, dtype=torch.float32).item()
    assert rounded != 10000.0003
    assert torch.equal(cos_sin(position, 10000.0003, 64)[0], cos_sin(position, rounded, 64)[0])


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_any_integer_positions(dtype: torch.dtype) -> None:
    cos, sin = cos_sin(torch.tensor([3], dtype=dtype), 1e4, 4)
    assert cos.dtype == torch.float64
    assert cos.shape == (1, 2)
    assert (cos[0, 0].item(), sin[0, 0].item()) == pytest.approx((-0.9899924966004454, 0.1411200080598672), abs=1e-15)


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        (torch.tensor([1.0]), "positions must be integers, got torch.float32"),
        (torch.tensor([True]), "positions must be integers, got torch.bool"),
        (torch.tensor([2**31]), "positions must fit int32"),
        (torch.tensor([INT32_MIN - 1]), "positions must fit int32"),
    ],
)
def test_positions_refused(positions: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cos_sin(positions, 1e4, 64)


@pytest.mark.parametrize("base", [0.0, -1.0, 0.999, float("nan"), float("inf"), 1e39])
def test_bases_refused(base: float) -> None:
    with pytest.raises(ValueError, match="rope_base must be a finite float32 of at least 1"):
        frequency_table(base, 64)


@pytest.mark.parametrize("head_dim", [-2, 0, 1, 65])
def test_head_dims_refused(head_dim: int) -> None:
    with pytest.raises(ValueError, match="head_dim must be even and positive"):
        frequency_table(1e4, head_dim)


def test_no_tokens() -> None:
    cos, sin = cos_sin(torch.empty(0, dtype=torch.int32), 1e4, 64)
    assert cos.shape == sin.shape == (0, 32)
