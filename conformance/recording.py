"""A pytest plugin that books in the record what is planned, each test that finishes, and what befalls the run."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from conformance.case import Case
from conformance.profile import Profile
from conformance.record import Recorder
from conformance.resume import Past

_HERE = Path(__file__).parent
_NONCONFORMANCE = "nonconformance"


class Recording:
    """One run's recording; of one that was cut off, the rest of it."""

    def __init__(self, recorder: Recorder, profile: Profile, past: Past | None) -> None:
        self.whole = False
        """Whether the run was asked for every test of the suite."""
        self.past = past
        self._recorder = recorder
        self._profile = profile
        self._started = time.monotonic()
        self._where = ""
        """The test that is running."""
        self._phases: list[pytest.TestReport] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> Generator[None]:
        """Plan what is left when every other plugin has taken its share away; then leave out what is done."""
        yield
        self.whole = is_whole(session, items)
        plan = self._plan(items)
        if self.past is not None and not session.testsfailed:
            self._check_plan(plan, {item.nodeid for item in items})
        self._recorder.plan(plan)
        if self.past is not None:
            done = {item.nodeid for item in items} if self.past.finished else self.past.done
            config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
            items[:] = [item for item in items if item.nodeid not in done]

    def _plan(self, items: list[pytest.Item]) -> dict[str, Any]:
        drawn = sum(is_drawn(item) for item in items)
        return {
            "tests": len(items),
            "cases": sum(map(_makes_a_case, items)),
            "examples": drawn * self._profile.examples,
            "whole": self.whole,
        }

    def _check_plan(self, plan: dict[str, Any], ids: set[str]) -> None:
        assert self.past is not None
        if self.past.plan not in (None, plan) or not self.past.tests.keys() <= ids:
            # Nothing was written yet, and nothing shall be.
            self._recorder.close()
            raise pytest.UsageError(
                f"the record {self._recorder.path} is of a run of other tests: choose the same ones, "
                "or run without --resume to start anew"
            )

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if report.failed:
            # A file outside pytest's root has no id.
            self._recorder.trouble("collection", collector.nodeid or str(collector.path), report.longreprtext)
        return report

    def pytest_internalerror(self, excrepr: object) -> None:
        self._recorder.trouble("internal", self._where, str(excrepr))

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        self._recorder.trouble("interrupted", self._where, excinfo.exconly())

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._where = nodeid
        self._phases = []

    def pytest_runtest_logfinish(self) -> None:
        self._where = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        self._phases.append(report)
        if report.when == "teardown":
            self._finish(item.nodeid)
        return report

    def _finish(self, id: str) -> None:
        failed = [report for report in self._phases if report.failed]
        broken = [report for report in failed if not is_nonconformance(report)]
        outcome = "broken" if broken else "failed" if failed else "passed"
        text = "\n\n".join(report.longreprtext for report in broken)
        self._recorder.test(id, outcome, sum(report.duration for report in self._phases), text)

    def exit_status(self, status: int) -> int:
        """Of the whole run; status: of this part of it."""
        if self.past is None:
            return status
        if self.past.finished:
            assert self.past.end is not None
            return int(self.past.end["exit_status"])
        if status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) and self.past.tests:
            return int(pytest.ExitCode.TESTS_FAILED if self.past.count("failed") else pytest.ExitCode.OK)
        return status

    @property
    def broken(self) -> int:
        """Tests that broke in an earlier part of the run and are not made again."""
        return self.past.count("broken") if self.past is not None and self.past.finished else 0

    def end(self, session: pytest.Session) -> dict[str, Any]:
        """How the whole run ended."""
        past = self.past or Past()
        return {
            "exit_status": int(session.exitstatus),
            "tests_failed": past.count("failed") + session.testsfailed,
            "tests_collected": len(past.done) + session.testscollected,
            "seconds": round(past.seconds + time.monotonic() - self._started, 1),
        }


def is_drawn(item: pytest.Item) -> bool:
    """Whether hypothesis makes the cases of a test."""
    return isinstance(item, pytest.Function) and hypothesis.is_hypothesis_test(item.obj)


def _makes_a_case(item: pytest.Item) -> bool:
    """Whether a test has a case, or a sequence, as its parameter; one with none to choose from is skipped by pytest."""
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return isinstance(params.get("case"), Case) or isinstance(params.get("sequence"), tuple)


def is_whole(session: pytest.Session, items: list[pytest.Item]) -> bool:
    """Whether the run was asked for every test of the suite."""
    option = session.config.option
    chosen = option.deselect or option.keyword or option.markexpr or getattr(option, "lf", False)
    parts = any("::" in argument for argument in session.config.args)
    return not chosen and not parts and set(_HERE.glob("test_*.py")) <= {item.path for item in items}


def mark_nonconformance(report: pytest.TestReport) -> None:
    """Tell a test that found something from one that broke."""
    report.user_properties.append((_NONCONFORMANCE, report.nodeid))


def is_nonconformance(report: pytest.TestReport) -> bool:
    return any(name == _NONCONFORMANCE for name, _ in report.user_properties)
