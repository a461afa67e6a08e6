"""One run of the suite: a target held to an accuracy class, its worker, its books and its record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from conformance import relation
from conformance.accuracy import AccuracyBook
from conformance.case import Case, joined
from conformance.deviations import Deviations
from conformance.finding import FAILURE, Finding, Judgement
from conformance.judge import Expected, expect, judge, judge_guards
from conformance.ledger import Ledger
from conformance.outcome import Outcome
from conformance.pair.beside import Beside
from conformance.pair.book import PairBook
from conformance.record import Recorder
from conformance.standard import Standard, arithmetic_of
from conformance.worker import Worker
from kernel.targets import Target
from reference import Accuracy

PROBE = Case(dtype="f32", values="normal")
# A failure is run again alone to tell a wrong answer from one that earlier calls left behind; the first few
# of each requirement tell it, and a kernel that fails everywhere is not run twice everywhere.
_CONFIRMED_PER_REQUIREMENT = 3
# These compare the call with the suite's own guards: running it again tells nothing.
_NOT_CONFIRMED = {"ERR-GUARD"}


class NonConformanceError(AssertionError):
    """A judgement that fails the run; the message is the finding, ready to print."""


@dataclass(frozen=True)
class Settings:
    """How strictly a target is judged, and under which launch plans."""

    accuracy: Accuracy
    """The class that decides."""
    tighter: tuple[Accuracy, ...] = ()
    """Classes that are told of, tightest first."""
    launch: str = "all"
    """`split`, `rect` or `all`."""
    strict: bool = False
    deviations: Deviations = field(default_factory=Deviations)
    """Failures that are known and fail nothing."""


class Suite:
    """Makes calls of one target and judges them."""

    def __init__(
        self,
        target: Target,
        settings: Settings,
        recorder: Recorder,
        *,
        quiet: bool = True,
        beside: Beside | None = None,
    ) -> None:
        """beside: a second target to compare with, case by case."""
        self.target = target
        self.settings = settings
        self.behaviour = target.measure()
        self.standard = Standard(settings.accuracy, arithmetic_of(self.behaviour), settings.tighter)
        self.ledger = Ledger(settings.deviations)
        self.accuracy = AccuracyBook(self.standard)
        self.beside = beside
        self.pairs = PairBook()
        self._test, self._drawn, self._since = "", False, time.monotonic()
        self._recorder = recorder
        self._worker = Worker(target, quiet=quiet)
        self._before: list[Case] = []
        """What the worker had run before the last case."""
        self.in_place: bool | None = None
        """Whether the target writes its pools in place; None until a call has returned pools."""
        self._note_pools(self._worker.run(self._planned(PROBE)))

    def _note_pools(self, outcome: Outcome) -> None:
        if self.in_place is None and outcome.pools is not None:
            self.in_place = outcome.pools["k_pool"].in_place

    def _planned(self, case: Case) -> Case:
        plan = "split/1" if self.settings.launch == "all" else f"{self.settings.launch}/1"
        return case.but(plan=plan) if self.target.has_launch_plans else case

    def begin(self, test: str, *, drawn: bool) -> None:
        """Say which test makes the cases that follow, and whether hypothesis draws them: for the record."""
        self._test, self._drawn, self._since = test, drawn, time.monotonic()

    @property
    def launch(self) -> str:
        """The plans to try: `split`, `rect` or `all`; empty where the target decides."""
        return self.settings.launch if self.target.has_launch_plans else ""

    def close(self) -> None:
        """End the worker, and that of a second target."""
        self._worker.renew()
        if self.beside is not None:
            self.beside.renew()

    def finish(self, facts: dict[str, Any]) -> None:
        """Record the verdicts and close the record."""
        for entry in self.ledger.entries.values():
            self._recorder.requirement(entry)
        self._recorder.end({**facts, "cases": len(self.ledger.cases)})

    def remember(self, line: dict[str, Any]) -> None:
        """Enter a judgement that an earlier part of this run recorded in the books; `line` is its case line."""
        judgement = Judgement.from_json(line)
        self.ledger.add(line["line"], judgement, line["note"])
        if judgement.measure is not None:
            self.accuracy.add(line["line"], judgement.measure, drawn=line["drawn"])
        if judgement.pair is not None:
            self.pairs.add(line["line"], judgement.pair)

    def standard_facts(self) -> dict[str, Any]:
        """What rotations are held to, for the record: the classes' terms, and what probes showed of the target."""
        return {
            "classes": [accuracy.name for accuracy in self.standard.classes],
            "decides": self.standard.accuracy.name,
            "terms": [{"class": a.name, **asdict(term)} for a in self.standard.classes for term in a.terms],
            "probes": [asdict(probe) for probe in self.behaviour.probes],
            "allowed": asdict(self.standard.arithmetic),
        }

    def expected(self, case: Case) -> Expected:
        return expect(case, self.standard)

    def judged(self, case: Case, outcome: Outcome) -> Judgement:
        """What the judge says, nothing booked; known deviations are failures still."""
        return judge(self.expected(case), outcome, self.in_place)

    def check(self, case: Case, *, guards: bool = False) -> Judgement:
        """Run and judge one case. Raises NonConformanceError when a deciding requirement fails."""
        outcome, judgement = self._run_and_judge(case)
        if guards:
            _merge(judgement, judge_guards(self.expected(case), outcome))
        self.settings.deviations.marked(judgement, [case])
        replayed, note = [case], ""
        if judgement.failed and "answer" not in outcome.died:
            replayed, note = self._confirm(case, judgement)
        if "MEM-MARGIN" in {finding.requirement for finding in judgement.findings}:
            # What was written outside the buffers may be the worker's own memory.
            self._worker.renew()
        self._book(replayed, judgement, note)
        return judgement

    def check_repeat(self, case: Case) -> None:
        """RUN-REPEAT, beside the judgement of the case itself; where threads run one by one, in the other order."""
        plan = case.launch_plan
        other = case.but(plan=str(replace(plan, reversed=not plan.reversed))) if plan else case
        first, judgement = self._run_and_judge(case)
        self._book([case], _merge(judgement, relation.repeated(first, self._run(other))))

    def check_tokenwise(self, case: Case) -> None:
        """RUN-SPLIT, beside the judgement of the case itself."""
        whole, judgement = self._run_and_judge(case)
        single = [self._run(case.but(token=token)) for token in range(case.num_tokens)]
        self._book([case], _merge(judgement, relation.tokenwise(whole, single)))

    def check_sequence(self, cases: Sequence[Case]) -> None:
        """ROB-STATE: calls in one fresh process, each judged; one that is right alone was disturbed."""
        outcomes = self._worker.run_fresh(cases)
        state, failures = Judgement(), []
        if self.beside is not None:
            state.pair = self.beside.sequence([self.expected(case) for case in cases], outcomes, cases)
        for index, (case, outcome) in enumerate(zip(cases, outcomes, strict=True)):
            judgement = self.judged(case, outcome)
            state.looked("ROB-STATE", sum(check.elements for check in judgement.checks.values()))
            if not judgement.failed:
                continue
            [alone] = self._worker.run_fresh([case])
            if self.judged(case, alone).failed:
                failures += self._booked([case], judgement)
            else:
                found = next(finding for finding in judgement.findings if finding.severity == FAILURE)
                what = f"call {index + 1} of {len(cases)} is right alone, wrong after the others: {found.what}"
                state.found(Finding("ROB-STATE", what, found.where, found.extent, found.looks_like))
        failures += self._booked(list(cases), state)
        if failures:
            raise NonConformanceError("\n".join(failures))

    def _run_and_judge(self, case: Case) -> tuple[Outcome, Judgement]:
        """The outcome of a case judged, and compared with that of the second target if there is one."""
        if self.beside is None:
            outcome = self._run(case)
            return outcome, self.judged(case, outcome)
        self.beside.submit(case)
        try:
            outcome = self._run(case)
            judgement = self.judged(case, outcome)
            judgement.pair = self.beside.differences(self.expected(case), outcome)
        except BaseException:
            self.beside.renew()
            raise
        return outcome, judgement

    def _run(self, case: Case) -> Outcome:
        expected = self.expected(case)
        self._before = list(self._worker.calls)
        self._worker.submit(case)
        try:
            # The oracle works while the target does.
            expected.prepare()
        except BaseException:
            # The answer under way would be taken for the next case's.
            self._worker.renew()
            raise
        outcome = self._worker.collect()
        self._note_pools(outcome)
        return outcome

    def _confirm(self, case: Case, judgement: Judgement) -> tuple[list[Case], str]:
        """The calls that show the failure from a fresh process, and what to say of them."""
        failed = {finding.requirement for finding in judgement.findings if finding.severity == FAILURE}
        if failed <= _NOT_CONFIRMED or all(
            len(self.ledger.entries[id].failed) >= _CONFIRMED_PER_REQUIREMENT for id in failed
        ):
            return [case], ""
        earlier = self._before
        for before in ([], *([one] for one in reversed(earlier[-8:])), earlier):
            calls = [*before, case]
            outcome = self._worker.run_fresh(calls)[-1]
            if self.settings.deviations.marked(self.judged(case, outcome), [case]).failed:
                return calls, "only after earlier calls in the same process" if before else ""
        return [case], "seen once; not seen again in a fresh process, with or without the calls before it"

    def _seconds(self) -> float:
        """Since the test began, or its last case ended."""
        before, self._since = self._since, time.monotonic()
        return self._since - before

    def _book(self, cases: list[Case], judgement: Judgement, note: str = "") -> None:
        failures = self._booked(cases, judgement, note)
        if failures:
            raise NonConformanceError("\n".join(failures))

    def _booked(self, cases: list[Case], judgement: Judgement, note: str = "") -> list[str]:
        """Enter one judgement in books and record; its report, in lines, when it fails the run."""
        line = joined(cases)
        self.settings.deviations.marked(judgement, cases)
        self.ledger.add(line, judgement, note)
        measure = judgement.measure
        raised = self.accuracy.add(line, measure, drawn=self._drawn) if measure is not None else {}
        if judgement.pair is not None:
            self.pairs.add(line, judgement.pair)
        violation = self.expected(cases[-1]).violation
        self._recorder.case(
            self._test,
            cases,
            judgement,
            raised,
            drawn=self._drawn,
            expected_error=violation.number if violation else 0,
            seconds=self._seconds(),
            note=note,
        )
        failed = self.ledger.decides_failure(judgement, strict=self.settings.strict)
        return list(_report(line, judgement, note)) if failed else []


def _report(line: str, judgement: Judgement, note: str) -> Iterator[str]:
    """The findings of one judgement, as an engineer reads them."""
    for finding in judgement.findings:
        yield from [f"{finding.requirement}", *(f"  {text}" for text in finding.lines())]
    yield f"  {'case':<11}{line}"
    if note:
        yield f"  {'note':<11}{note}"


def _merge(judgement: Judgement, other: Judgement) -> Judgement:
    for id, check in other.checks.items():
        judgement.looked(id, check.elements, check.worst)
    judgement.findings.extend(other.findings)
    return judgement
