"""The two commands that show how far the judge can be trusted: their figures, and that they can fail."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from shader_faults import SECOND
from torch import Tensor

from conformance.__main__ import main
from conformance.case import Case
from conformance.evidence import sensitivity, soundness
from conformance.evidence.defects import ALL_POSITIONS, GROSS, SIZED, output, sample
from conformance.evidence.judges import Elementwise, Frequencies, Tolerance
from conformance.evidence.models import MODELS, Model, exact_angle, recipe_angle, rounded, turns_trig
from conformance.evidence.sensitivity import DTYPES, Comparison, columns
from conformance.evidence.shaders import BUILDS, in_every_build, our_shaders
from conformance.evidence.soundness import Kernel, Result, measure
from conformance.evidence.trials import last_true, smallest_found
from reference import EXACT_ANGLE, FAST, FLOAT32_ANGLE, Accuracy, Arithmetic

F16, BF16, F32 = DTYPES
BY_NAME = {model.name: model for model in MODELS}


def judged(kernels: Sequence[Kernel], elements: int) -> Result:
    return Result(kernels, measure(kernels, elements))


# Soundness.


def test_right_kernels_are_right_in_every_class(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["soundness", "--elements", "2e6"]) == 0
    printed = capsys.readouterr().out
    total = re.search(r"^([\d,]+) elements, 0 violations; every class reaches (\S+) of its bound", printed, re.M)
    assert total is not None
    assert int(total[1].replace(",", "")) >= 2_000_000
    assert 0.9 < float(total[2]) <= 1
    assert "VIOLATION" not in printed


def test_every_class_is_tried_in_every_arithmetic(tmp_path: Path) -> None:
    kernels = [*MODELS, *our_shaders(tmp_path)]
    assert len({kernel.name for kernel in kernels}) == len(kernels)
    for accuracy in (EXACT_ANGLE, FLOAT32_ANGLE, FAST):
        of_class = [kernel for kernel in kernels if kernel.accuracy == accuracy]
        seen = {(k.arithmetic.toward_zero, k.arithmetic.flushes) for k in of_class if not k.errs_on_purpose}
        seen |= {(k.arithmetic.toward_zero, k.arithmetic.flushes) for k in of_class if "rope_pool" in k.name}
        assert seen == {(False, False), (False, True), (True, False), (True, True)}
        assert sum(k.errs_on_purpose for k in of_class) >= 3


def test_the_second_shader_is_right_in_every_build() -> None:
    result = judged(list(in_every_build(SECOND, FLOAT32_ANGLE, "second")), 1_000_000)
    assert len(result.kernels) == len(BUILDS)
    assert result.total.violations == 0


def cosine_off(positions: Tensor, base: float, head_dim: int, arithmetic: Arithmetic) -> tuple[Tensor, Tensor]:
    cos, sin = exact_angle(positions, base, head_dim, arithmetic)
    return cos + 2.0**-12, sin


def test_a_violation_is_told_as_the_judge_tells_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted = Model("planted", EXACT_ANGLE, cosine_off)
    monkeypatch.setattr(soundness, "right_kernels", lambda _: [BY_NAME["exact angle"], planted])
    assert main(["soundness", "--elements", "1e5"]) == 1
    printed = capsys.readouterr().out
    told = printed.partition("VIOLATION planted")[2]
    assert re.search(r"where +token \d+, head \d+, element \d+: got \S+, wanted \S+, right from \S+ to", told)
    assert "its error bound" in told
    line = re.search(r"^ +case +(.*)$", told, re.M)
    assert line is not None
    assert Case.parse(line[1]) in map(soundness.case_of, range(100))
    assert "more cases with violations" in told
    assert re.search(r"\| planted +\| +exact-angle \| +[\d,]+ \| +[1-9][\d,]* \|", printed)
    assert re.search(r"\| exact angle +\| +exact-angle \| +[\d,]+ \| +0 \|", printed)


@pytest.mark.parametrize(
    ("name", "other"),
    [("float32 recipe", EXACT_ANGLE), ("fast turns", FLOAT32_ANGLE), ("fast Cody-Waite", EXACT_ANGLE)],
)
def test_a_kernel_held_to_a_class_that_is_not_its_own_is_wrong(name: str, other: Accuracy) -> None:
    assert judged([replace(BY_NAME[name], accuracy=other)], 100_000).total.violations > 100


class Truncates(Model):
    """Cuts off the bits that bfloat16 has not, where it is held to round."""

    def rotate(self, x: Tensor, positions: Tensor, rope_base: float) -> Tensor:
        wide = super().rotate(x.float(), positions, rope_base)
        return (
            (wide.view(torch.int32) & -65536).view(torch.float32).to(x.dtype) if x.dtype == BF16 else wide.to(x.dtype)
        )


def test_an_arithmetic_that_is_not_its_own_is_seen() -> None:
    assert judged([Truncates("truncates", EXACT_ANGLE, exact_angle)], 500_000).total.violations > 100


def test_a_bound_that_is_too_wide_is_seen() -> None:
    result = judged([BY_NAME["exact angle"]], 100_000)
    assert result.total.violations == 0
    assert result.tightness < soundness.TIGHT
    assert not result.holds


def frequency_off(positions: Tensor, base: float, head_dim: int, arithmetic: Arithmetic) -> tuple[Tensor, Tensor]:
    """All frequencies but the first off by 2^-21.5 of themselves."""
    angle = recipe_angle(positions, base, head_dim, arithmetic)
    angle[:, 1:] *= 1 + 2.0**-21.5
    return turns_trig(rounded(angle, arithmetic), arithmetic)


def test_an_aggregate_is_a_violation_though_no_element_shows_it() -> None:
    case = Case("bf16", 64, 4, 4, 128, 1, positions="uniform:131071", slots="none", values="normal")
    tally = soundness.judged(Model("off", FAST, frequency_off), soundness.Inputs(case))
    assert tally.need <= 1
    assert tally.violations == 1
    assert f"frequency error of {tally.frequency:.3g} times its threshold" in tally.reports[0]
    assert str(case) in tally.reports[0]
    assert soundness.judged(BY_NAME["fast turns"], soundness.Inputs(case)).violations == 0


def test_the_cases_meet_every_combination() -> None:
    axes = [soundness._DTYPES, soundness._VALUES, soundness._HEAD_DIMS, soundness._BASES, soundness._POSITIONS]
    lengths = [len(axis) for axis in axes]
    assert math.lcm(*lengths) == math.prod(lengths)
    assert soundness.case_of(7).seed != soundness.case_of(7 + math.prod(lengths)).seed


# Sensitivity: design figures, k of the smallest defect 2^-k found, at 20 seeds.

SMALLEST = {
    ("inv_freq rel., all i", "EXACT"): (35.5, 34, 37.5),
    ("inv_freq rel., all i", "1e-2 (a)"): (23.5, 23.5, 23.5),
    ("inv_freq rel., i >= 1", "F32"): (21.5, 21.5, 21.5),
    ("inv_freq rel., i >= 1", "FAST"): (20.5, 20.5, 20.5),
    ("inv_freq rel., i >= 1", "own (a)"): (27, 22.5, 30),
    ("cos, sin + 2^-k", "F32"): (23.5, 22.5, 29.5),
    ("cos, sin + 2^-k", "own (b)"): (11.5, 7.5, 15),
    ("cos, sin +- 2^-k", "FAST"): (14.5, 14, 15.5),
    ("base rel.", "FAST"): (17.5, 17.5, 17.5),
    ("base rel.", "1e-2 (b)"): (9, 9, 9),
}
# Share of the elements flagged under FAST, smallest of 20 seeds.
FLAGGED = {
    "base + 1e-3": (0.47, 0.34, 0.54),
    "position + 1": (0.79, 0.64, 0.88),
    "position to f16": (0.14, 0.12, 0.15),
    "position to bf16": (0.28, 0.25, 0.30),
    "i/D for 2i/D": (0.98, 0.98, 0.98),
    "angle in f16": (0.38, 0.27, 0.44),
    "angle in bf16": (0.56, 0.44, 0.63),
    "cos, sin to bf16": (0.44, 0.13, 0.56),
    "cos, sin to f16": (0.016, 0.002, 0.12),
    "truncation": (None, 0.33, None),
}


@pytest.mark.parametrize(("sized", "column"), SMALLEST)
def test_the_smallest_defects_are_those_of_the_design(sized: str, column: str) -> None:
    found = [smallest_found(columns(dtype)[column], sized, sensitivity.SEEDS) for dtype in DTYPES]
    assert found == pytest.approx(SMALLEST[sized, column], abs=0.5)


@pytest.mark.parametrize("gross", GROSS)
def test_gross_defects_are_flagged_as_in_the_design(gross: str) -> None:
    for dtype, wanted in zip(DTYPES, FLAGGED[gross], strict=True):
        if wanted is not None:
            share = columns(dtype)["FAST"].least_flagged(GROSS[gross], sensitivity.SEEDS)
            assert share == pytest.approx(wanted, abs=0.01)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["exact angle", "float32 recipe", "fast turns"])
def test_a_kernel_without_a_defect_is_the_right_one(name: str, dtype: torch.dtype) -> None:
    given, model = sample(dtype, 0, ALL_POSITIONS), BY_NAME[name]
    assert torch.equal(output(model.accuracy, given), model.rotate(given.x, given.positions, 1e4))


def test_every_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["sensitivity", "--seeds", "1"])
    printed = capsys.readouterr().out
    for name in (*SIZED, *GROSS, "exact-angle", "float32-angle", "fast"):
        assert name in printed
    total = re.search(r"^ours is finer in (\d+) of 45 rows$", printed, re.M)
    assert total is not None
    assert status == (total[1] != "45")


def test_a_judge_that_finds_less_than_common_practice_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for judge in (Elementwise, Frequencies):
        monkeypatch.setattr(judge, "flagged", lambda *_: 0.0)
    monkeypatch.setattr(sensitivity, "SIZED", ["base rel."])
    monkeypatch.setattr(sensitivity, "OF_FREQUENCY", ["base rel."])
    monkeypatch.setattr(sensitivity, "GROSS", {"truncation": GROSS["truncation"]})
    assert main(["sensitivity", "--seeds", "1"]) == 1
    assert "ours is finer in 0 of 9 rows" in capsys.readouterr().out


def test_as_fine_is_not_finer() -> None:
    row = Comparison(FAST, F32, "base rel.", 15.0, 16.0, (256, 32768), (16.0, 8.5))
    assert not row.finer
    assert replace(row, aggregate=16.0625).finer
    assert replace(row, common=(None, 8.5), limits=(None, 32768)).finer


def test_a_nan_is_out_of_tolerance() -> None:
    given = sample(F16, 0, 64)
    out = output(EXACT_ANGLE, given)
    out[0, 0, 0] = math.nan
    assert Tolerance(1e-2).flagged(out, given) == 1 / out.numel()
    assert Elementwise(EXACT_ANGLE).flagged(out, given) == 1 / out.numel()


@pytest.mark.parametrize(
    ("true", "wanted"),
    [
        (range(2, 31), 30),
        (range(2, 99), 98),
        (range(2, 3), 2),
        ((), None),
        # Not monotone: found true at 60, though false before it.
        ((*range(2, 40), 60), 39),
        ((*range(2, 50), 51), 49),
    ],
)
def test_the_last_true_number(true: Sequence[int], wanted: int | None) -> None:
    assert last_true(lambda number: number in true, 2, 98) == wanted


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "inf", "nan", "1e400", ""])
@pytest.mark.parametrize("command", ["sensitivity --seeds", "soundness --elements"])
def test_a_number_that_is_none_is_a_usage_error(command: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), text])
    assert ended.value.code == 4
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert repr(text) in error
