"""pytest as the suite's runner: options, cases, books, and the table at the end."""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from conformance import draws, options, origin, resume, selection, terminal
from conformance.case import joined
from conformance.contract import requirements
from conformance.deviations import DeviationError
from conformance.draws import KeptFailures
from conformance.pair import shown
from conformance.pair.beside import Beside
from conformance.profile import PROFILES, Profile
from conformance.record import Recorder
from conformance.recording import Recording, is_drawn, is_nonconformance, is_whole, mark_nonconformance
from conformance.resume import Past, RecordError
from conformance.suite import NonConformanceError, Suite
from kernel.targets import Target, TargetError

_HERE = Path(__file__).parent
collect_ignore = ["bench"]
_SUITE = pytest.StashKey[Suite]()
_TARGET = pytest.StashKey[Target]()
_BESIDE = pytest.StashKey[Beside | None]()
_POOLS = {True: "written in place", False: "returned fresh", None: "unknown: the probe returned none"}
_RECORDER = pytest.StashKey[Recorder]()
_RECORDING = pytest.StashKey[Recording]()
_ANNOUNCED = pytest.StashKey[set[str]]()
_SEED = pytest.StashKey[str]()
_OUTDATED = pytest.StashKey[list[str]]()
# Of a run that came to the end of its tests.
_ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "what is tested, and how strictly")
    options.add_target_options(group.addoption)
    options.add_pair_options(group.addoption)
    group.addoption(
        "--launch",
        choices=("split", "rect", "all"),
        default="all",
        help="launch plans to try, where the target has them; all by default",
    )
    group.addoption(
        "--profile", choices=sorted(PROFILES), default="default", help="how much to try; default by default"
    )
    group.addoption("--record", type=Path, metavar="FILE", help="write every judgement to FILE, a JSON object a line")
    group.addoption(
        "--resume",
        action="store_true",
        help="with --record, continue the run of that record where it was cut off; begin it if there is none",
    )
    group.addoption(
        "--examples-database",
        type=Path,
        metavar="DIR",
        help="where the profile nightly keeps draws that failed once, to try them first ever after; "
        ".hypothesis/examples by default; the other profiles draw the same cases in every run and keep none",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or getattr(config.option, "numprocesses", None):
        raise pytest.UsageError("the suite keeps one set of books: run it without -n (pytest-xdist)")
    config.stash[_ANNOUNCED] = set()
    torch.set_num_threads(1)
    profile = _profile(config)
    hypothesis.settings.register_profile(profile.name, profile.hypothesis())
    hypothesis.settings.load_profile(profile.name)
    if config.getoption("resume") and not config.getoption("record"):
        raise pytest.UsageError("--resume goes with --record FILE, the record to continue")
    config.stash[_SEED] = _choose_seed(config, profile)
    try:
        config.stash[_TARGET] = options.load_target(config.option)
        config.stash[_BESIDE] = options.load_beside(config.option)
    except TargetError as error:
        raise pytest.UsageError(str(error)) from error
    if config.getoption("launch") != "all" and not config.stash[_TARGET].has_launch_plans:
        raise pytest.UsageError("--launch goes with the target host: a callable decides for itself")


def _profile(config: pytest.Config) -> Profile:
    return PROFILES[config.getoption("profile")]


def _strict(config: pytest.Config) -> bool:
    # pytest has this option, for strictness of its own; here robustness findings fail the run under it.
    return bool(config.getini("strict"))


def _choose_seed(config: pytest.Config, profile: Profile) -> str:
    """The run's seed: `--hypothesis-seed`, or a random one.

    The option is taken from hypothesis, which would keep no failures under it.
    """
    if profile.derandomised:
        return "derandomised"
    asked, config.option.hypothesis_seed = getattr(config.option, "hypothesis_seed", None), None
    return str(asked) if asked is not None else _recorded_seed(config) or str(random.SystemRandom().randrange(2**32))


def _recorded_seed(config: pytest.Config) -> str:
    try:
        return resume.seed(config.getoption("record")) if config.getoption("resume") else ""
    except (OSError, RecordError) as error:
        raise pytest.UsageError(f"cannot resume: {error}") from error


def _kept_failures(config: pytest.Config) -> KeptFailures:
    return KeptFailures(config.getoption("examples_database") or config.rootpath / ".hypothesis" / "examples")


def _facts(config: pytest.Config) -> dict[str, str]:
    described, known = config.stash[_TARGET].describe(), config.stash[_SUITE].settings.deviations
    return {
        "target": described.name,
        "device": described.device,
        **described.facts,
        **({"shader path": str(config.option.shader)} if config.option.shader else {}),
        **({"deviations": f"{known.file} {known.hash}"} if known.file else {}),
        **({"deviations path": str(config.option.deviations)} if config.option.deviations else {}),
        "accuracy": options.accuracy(config.option),
        "arithmetic": terminal.arithmetic(config.stash[_SUITE].behaviour),
        "launch": config.getoption("launch") if config.stash[_TARGET].has_launch_plans else "the target's own",
        "pools": _POOLS[config.stash[_SUITE].in_place],
        "profile": _profile(config).name,
        "seed": config.stash[_SEED],
    }


def pytest_report_header(config: pytest.Config) -> list[str]:
    pair = options.pair_facts(config.option, config.stash[_BESIDE])
    facts = _facts(config) | {name: ", ".join(told.values()) for name, told in pair.items()}
    return [f"{name}: {value}" for name, value in facts.items()]


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    try:
        settings = options.settings(config.option, config.stash[_TARGET], strict=_strict(config))
        recorder = Recorder(config.getoption("record"))
    except (DeviationError, RecordError) as error:
        raise pytest.UsageError(str(error)) from error
    except OSError as error:
        raise pytest.UsageError(f"cannot write the record: {error}") from error
    suite = Suite(config.stash[_TARGET], settings, recorder, beside=config.stash[_BESIDE])
    config.stash[_SUITE] = suite
    config.stash[_RECORDER] = recorder
    config.stash[_RECORDING] = Recording(recorder, _profile(config), _begin_record(config))
    config.pluginmanager.register(config.stash[_RECORDING])


def _begin_record(config: pytest.Config) -> Past | None:
    """Begin the record, or go on with it; what it holds then."""
    suite, recorder = config.stash[_SUITE], config.stash[_RECORDER]
    past = None
    if recorder.path is not None:
        limits = list(config.stash[_TARGET].describe().not_evidenced)
        made = {"versions": origin.versions(), "machine": origin.machine(), "commit": origin.commit()}
        pair = options.pair_facts(config.option, suite.beside)
        facts = {
            **_facts(config),
            **pair,
            **suite.standard_facts(),
            "strict": _strict(config),
            "limits": limits,
            **made,
        }
        try:
            past = recorder.resume(facts, suite.remember) if config.getoption("resume") else None
            kept = recorder.start(facts) if past is None else None
        except RecordError as error:
            raise pytest.UsageError(str(error)) from error
        except OSError as error:
            raise pytest.UsageError(f"cannot write the record: {error}") from error
        for line in terminal.record(recorder.path, past, kept):
            _say(config, line)
    recorder.contract()
    recorder.deviations(suite.settings.deviations)
    recorder.envelopes(suite.standard.arithmetic)
    return past


def _say(config: pytest.Config, line: str) -> None:
    if reporter := config.pluginmanager.get_plugin("terminalreporter"):
        reporter.ensure_newline()
        reporter.write_line(line)


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[_SUITE].begin(item.nodeid, drawn=is_drawn(item))


@pytest.fixture(scope="session")
def suite(request: pytest.FixtureRequest) -> Suite:
    """The run's suite. It holds books only: every call gets arrays of its own."""
    return request.config.stash[_SUITE]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    suite, profile = metafunc.config.stash[_SUITE], _profile(metafunc.config)
    if hypothesis.is_hypothesis_test(metafunc.function) and not profile.derandomised:
        draws.seed(metafunc.function, metafunc.config.stash[_SEED], _kept_failures(metafunc.config))
    if marker := metafunc.definition.get_closest_marker("cases"):
        cases = selection.cases(suite, profile, marker.kwargs["scenario"], planned=marker.kwargs.get("planned", True))
        metafunc.parametrize("case", cases, ids=str)
    if marker := metafunc.definition.get_closest_marker("sequences"):
        sequences = selection.sequences(suite, profile, marker.kwargs["scenario"])
        metafunc.parametrize("sequence", sequences, ids=joined)


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    if not any(_is_of_suite(item) for item in items):
        return
    checked: set[str] = set()
    for item in items:
        ids = [id for marker in item.iter_markers("requirement") for id in marker.args]
        if unknown := set(ids) - set(requirements()):
            raise pytest.UsageError(f"{item.nodeid} checks unknown requirements: {', '.join(sorted(unknown))}")
        if _is_of_suite(item) and not ids:
            raise pytest.UsageError(f"{item.nodeid} names no requirement")
        checked.update(ids)
    if is_whole(session, items) and (untested := set(requirements()) - checked):
        raise pytest.UsageError(f"requirements without a test: {', '.join(sorted(untested))}")


def _is_of_suite(item: pytest.Item) -> bool:
    """Whether it is a test of the contract, and not a benchmark or a user's own test."""
    return item.path.parent == _HERE


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.excinfo is not None and call.excinfo.errisinstance(NonConformanceError):
        # The findings are shown once, by requirement, after the last test.
        report.longrepr = str(call.excinfo.value)
        mark_nonconformance(report)
        _announce(item.config)
    return report


def _announce(config: pytest.Config) -> None:
    """Say what was found as soon as it is; the whole of it follows after the last test."""
    for line in terminal.first_failures(config.stash[_SUITE].ledger, config.stash[_ANNOUNCED]):
        _say(config, line)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> Iterator[None]:
    failed = terminalreporter.stats.pop("failed", [])
    others = [report for report in failed if not is_nonconformance(report)]
    if others:
        terminalreporter.stats["failed"] = others
    result = yield
    if failed:
        terminalreporter.stats["failed"] = failed
    suite = config.stash.get(_SUITE, None)
    if suite is not None and suite.ledger.cases:
        for line in terminal.findings(suite.ledger, options.replay_options(config.option)):
            terminalreporter.write_line(line)
        for line in terminal.deviations(suite.ledger):
            terminalreporter.write_line(line)
        for line in (*terminal.accuracy(suite.accuracy), "", *terminal.table(suite.ledger), *_pair(config)):
            terminalreporter.write_line(line)
        terminalreporter.write_line("")
        broken = len(others) + len(terminalreporter.stats.get("error", [])) + config.stash[_RECORDING].broken
        interrupted = exitstatus == pytest.ExitCode.INTERRUPTED
        outdated = config.stash[_OUTDATED]
        for line in outdated:
            terminalreporter.write_line(line)
        line = terminal.summary(
            suite.ledger,
            strict=_strict(config),
            broken=broken,
            interrupted=interrupted,
            outdated=bool(outdated),
            profile=_profile(config).name,
        )
        terminalreporter.write_line(line)
        if error := config.stash[_RECORDER].error:
            terminalreporter.write_line(f"the record {config.getoption('record')} is incomplete: {error}")
    return result


def _pair(config: pytest.Config) -> Iterator[str]:
    """What a second target showed."""
    suite = config.stash[_SUITE]
    if suite.beside is not None:
        yield ""
        named = shown.names(suite.target.describe(), suite.beside.target.describe())
        yield from shown.section(suite.pairs, named, options.pair_replay_options(config.option))


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    suite = session.config.stash.get(_SUITE, None)
    if suite is None:
        return
    suite.close()
    recording = session.config.stash[_RECORDING]
    session.exitstatus = recording.exit_status(exitstatus)
    missing = suite.ledger.not_run(strict=_strict(session.config))
    outdated = suite.ledger.outdated(whole=_is_exhaustive(session))
    session.config.stash[_OUTDATED] = outdated
    if session.exitstatus == pytest.ExitCode.OK and (outdated or (recording.whole and missing)):
        # A run of everything in which a deciding requirement looked at nothing has not judged it.
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    suite.finish(recording.end(session) | {"outdated": outdated})
    if session.config.stash[_RECORDER].error and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_exhaustive(session: pytest.Session) -> bool:
    """Whether every case was judged that can show what the target does: a deviation not seen then is none."""
    config = session.config
    stopped = bool(session.shouldstop or session.shouldfail) or session.exitstatus not in _ENDED
    cut_down = _profile(config).cases_per_test is not None or config.getoption("launch") != "all"
    return config.stash[_RECORDING].whole and not stopped and not cut_down
