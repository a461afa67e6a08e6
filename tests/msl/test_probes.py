"""Probes: each behaviour is told from its opposite, and only by controls that show the difference."""

from pathlib import Path

import pytest

from kernel import probes
from kernel.msl import Build, Specialisation
from kernel.msl.toolchain import has_fma_flag
from kernel.probes import NOT_MEASURED, PROBES, Behaviour, measure
from kernel.targets import CallableTarget, HostTarget

FIELDS = ("rounding", "narrowing", "contraction", "flushes", "flushes_half", "nonfinite")
DEFAULT = Behaviour("to nearest", "to nearest even", False, False, False, True)
SEEN_OTHERWISE = {
    "rounding": (Build(toward_zero=True), "toward zero"),
    "contraction": (Build(contract=True), True),
    "flushes": (Build(flush=True), True),
    "flushes_half": (Build(flush_half=True), True),
    "nonfinite": (Build(fast_math=True), False),
}


def fields(behaviour: Behaviour) -> dict[str, object]:
    return {name: getattr(behaviour, name) for name in FIELDS}


def changed(folder: Path, find: str, replace: str, count: int = 1) -> Path:
    """A copy of the probes with one expression replaced wherever it stands."""
    text = PROBES.read_text()
    assert text.count(find) == count
    path = folder / "probes.metal"
    path.write_text(text.replace(find, replace))
    return path


def test_the_default_build_is_ieee_arithmetic() -> None:
    measured = measure(Build())
    assert fields(measured) == fields(DEFAULT)
    assert len({probe.name for probe in measured.probes}) == len(measured.probes) == 15
    assert all(probe.control.endswith("seen in the control") for probe in measured.probes)


@pytest.mark.parametrize("field", SEEN_OTHERWISE)
def test_a_build_that_computes_otherwise_is_measured_so(field: str) -> None:
    if field == "contraction" and not has_fma_flag():
        pytest.skip("this CPU fuses nothing")
    build, value = SEEN_OTHERWISE[field]
    measured = measure(build)
    assert fields(measured) == fields(DEFAULT) | {field: value}
    assert all(probe.control.endswith("seen in the control") for probe in measured.probes)


def test_every_mode_at_once_is_measured() -> None:
    measured = measure(Build(fast_math=True, contract=True, toward_zero=True, flush=True, flush_half=True))
    want = {field: value for field, (_, value) in SEEN_OTHERWISE.items() if field != "contraction" or has_fma_flag()}
    assert fields(measured) == fields(DEFAULT) | want


@pytest.mark.parametrize(
    ("find", "replace"),
    [
        ("as_type<ushort>(half(as_type<float>(in[i]))), sign | (r", "sign | rebased >> 13, sign | (r"),
        ("as_type<ushort>(bfloat(as_type<float>(in[i])))", "in[i] >> 16"),
    ],
    ids=["half", "bfloat"],
)
def test_a_conversion_that_truncates_is_measured_so(find: str, replace: str, tmp_path: Path) -> None:
    measured = measure(Build(), changed(tmp_path, find, replace))
    assert fields(measured) == fields(DEFAULT) | {"narrowing": "toward zero"}


@pytest.mark.parametrize(
    ("find", "replace"),
    [
        ("as_type<uint>(x + x), in[i]", "0x7f7fffffu | (in[i] & 0x80000000), in[i]"),
        (
            "as_type<ushort>(half(as_type<float>(in[i]))), sign | (magnitude",
            "sign | 0x7bff, sign | (magnitude",
        ),
    ],
    ids=["infinity", "overflow"],
)
def test_a_device_that_saturates_is_measured_so(find: str, replace: str, tmp_path: Path) -> None:
    assert fields(measure(Build(), changed(tmp_path, find, replace))) == fields(DEFAULT) | {"nonfinite": False}


@pytest.mark.parametrize(
    ("find", "replace", "said"),
    [
        ("+ 2] = other", "+ 2] = usual", "the control for "),
        ("+ 1] = usual", "+ 1] = other", "the control for "),
        ("+ 1] = usual", "+ 1] = 7", "the control for "),
        ("[3 * i] = own", "[3 * i] = 0xdead", "is neither "),
    ],
)
def test_nothing_is_measured_where_a_control_does_not_show_the_difference(
    find: str, replace: str, said: str, tmp_path: Path
) -> None:
    measured = measure(Build(), changed(tmp_path, find, replace))
    assert fields(measured) == dict.fromkeys(FIELDS)
    assert len(measured.probes) == 15
    for probe in measured.probes:
        assert probe.measured == NOT_MEASURED
        assert said in probe.control


def test_a_broken_control_leaves_the_other_probes_alone(tmp_path: Path) -> None:
    source = changed(tmp_path, "as_type<uint>(fma(a, b, c))", "as_type<uint>(a * b + c)")
    measured = measure(Build(), source)
    assert fields(measured) == fields(DEFAULT) | {"contraction": None}
    [unmeasured] = [probe for probe in measured.probes if probe.measured == NOT_MEASURED]
    assert unmeasured.name == "a * b + c"
    assert unmeasured.control == "the control for 'fused' gave 0x0 0x0, not 0x33800000 0x33000000"


# The first statement of the kernel that multiplies.
PRODUCT = "const ulong exact = significand(a) * significand(b);\n"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("*(device uint*)16 = 1;", "crashed with SIGSEGV"),
        ("for (volatile uint n = 1; n != 0;) {}", "no answer within 0.5 s"),
    ],
)
def test_a_probe_that_crashes_or_hangs_is_not_measured(
    fault: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "_ANSWER_SECONDS", 0.5)
    measured = measure(Build(), changed(tmp_path, PRODUCT, f"{PRODUCT} {fault}\n"))
    assert fields(measured) == fields(DEFAULT) | {"rounding": None}
    assert {probe.name: probe.control for probe in measured.probes if probe.measured == NOT_MEASURED} == {
        "float32 product": said
    }


def test_a_probe_that_raises_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def torn(*_: object) -> None:
        raise RuntimeError("torn")

    monkeypatch.setattr(Specialisation, "launch", torn)
    measured = measure(Build())
    assert fields(measured) == dict.fromkeys(FIELDS)
    assert {probe.control for probe in measured.probes} == {"RuntimeError: torn"}


def test_probes_without_a_compiler_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    measured = measure(Build())
    assert fields(measured) == dict.fromkeys(FIELDS)
    assert all("CXX names 'no-such-compiler'" in probe.control for probe in measured.probes)


def test_probes_that_do_not_compile_are_not_measured(tmp_path: Path) -> None:
    measured = measure(Build(), changed(tmp_path, PRODUCT, "{"))
    assert fields(measured) == dict.fromkeys(FIELDS)
    assert all("brace is not closed" in probe.control for probe in measured.probes)


def test_a_second_measurement_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = measure(Build())

    def refuse(*_: object) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr("kernel.msl.compile._compile", refuse)
    assert measure(Build()) == first


def test_targets_measure_themselves() -> None:
    assert fields(HostTarget.compile(build=Build(flush=True)).measure()) == fields(DEFAULT) | {"flushes": True}
    assert CallableTarget("a function", print).measure() == Behaviour()
