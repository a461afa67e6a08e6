"""What a record entitles one to say of the target, and where it contradicts itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reports.model import BROKEN, FAIL, FAILED, NOT_RUN, PASSED, UNKNOWN_TIER, End, Finished, Part, Plan, Run

DECIDING_TIERS = ("documented", "numeric", "memory")
CONFORMS, FAILS, INCOMPLETE = "conforms", "fails", "incomplete"
# How much a notice weighs: the run did not do what it set out to do, or its record is not to be believed; nothing was
# seen of what decides; the list of known deviations is out of date; or it is good to know.
UNSOUND, UNSEEN, OUTDATED, REMARK = "unsound", "unseen", "outdated", "remark"
# pytest's exit statuses past 1 (some tests failed), from the pytest manual, "Exit codes".
_BROKE = {2: "it was interrupted", 3: "pytest met an internal error", 4: "pytest was misused", 5: "no test ran"}
_TROUBLES = {
    "collection": "A part of the suite could not be collected",
    "internal": "The suite met an internal error",
    "interrupted": "The run was interrupted",
}
_NAMED = 3
_LONGEST = 200


@dataclass(frozen=True)
class Notice:
    """Something to know before the verdict is believed."""

    text: str
    weight: str = UNSOUND

    @property
    def blocks(self) -> bool:
        """Whether it keeps the target from being called conforming."""
        return self.weight != REMARK


@dataclass(frozen=True)
class Verdict:
    """state: `conforms`, `fails` or `incomplete`; failing, robustness: ids of requirements with failures.

    known: ids of those with known deviations.
    """

    state: str
    failing: tuple[str, ...]
    robustness: tuple[str, ...]
    notices: tuple[Notice, ...]
    known: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The verdict in one line."""
        words = {
            CONFORMS: "conforms",
            FAILS: f"does not conform: {', '.join(self.failing)}",
            INCOMPLETE: "incomplete: this record supports no verdict",
        }[self.state]
        return f"{words}, with known deviations: {', '.join(self.known)}" if self.known else words

    @property
    def finished(self) -> bool:
        """Whether the run did all that it set out to do, and its record can be believed; whatever it found."""
        return all(notice.weight != UNSOUND for notice in self.notices)


def conclude(run: Run) -> Verdict:
    """The verdict on a run, after each of its parts has been checked against itself.

    A target fails if any part shows it. It conforms if every part ended and made all that it had planned, and the
    parts together looked at every requirement that decides; a part need not hold every test of the suite.
    """
    failing, robustness = _failed(run)
    notices = tuple(_notices(run))
    blocked = any(notice.blocks for notice in notices)
    state = FAILS if failing else INCOMPLETE if blocked else CONFORMS
    return Verdict(state, failing, robustness, notices, tuple(entry.id for entry in run.requirements if entry.deviated))


def deciding(run: Run) -> set[str]:
    """Ids of the requirements that decide this run: robustness does so under `strict` alone."""
    known = (entry for entry in run.requirements if entry.tier != UNKNOWN_TIER)
    return {entry.id for entry in known if run.facts["strict"] or entry.tier in DECIDING_TIERS}


def _failed(run: Run) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Ids with a failure, by the verdicts or by the cases: those that decide, and the others of the contract."""
    decide, told = deciding(run), set().union(*(_told_failing(part) for part in run.parts))
    known = [entry for entry in run.requirements if entry.tier != UNKNOWN_TIER]
    ids = [entry.id for entry in known if entry.failed or entry.id in told]
    return tuple(id for id in ids if id in decide), tuple(id for id in ids if id not in decide)


def _told_failing(part: Part) -> set[str]:
    return {entry.id for entry in part.verdicts if entry.verdict == FAIL}


def _notices(run: Run) -> Iterator[Notice]:
    tests: list[list[Finished]] = [[] for _ in run.parts]
    for test in run.tests:
        tests[test.part].append(test)
    for part, own in zip(run.parts, tests, strict=True):
        # A run of one part needs no name for it.
        name = f"{part.path}: " if len(run.parts) > 1 else ""
        for notice in _of_part(run, part, own):
            yield Notice(name + notice.text, notice.weight)
    for trouble in run.troubles:
        where = f" at {_short(trouble.where)}" if trouble.where else ""
        yield Notice(f"{_TROUBLES[trouble.what]}{where}: {_last_line(trouble.text)}")
    yield from _between(run)
    yield from _not_run(run)


def _of_part(run: Run, part: Part, tests: list[Finished]) -> Iterator[Notice]:
    decide = deciding(run)
    if part.end is None:
        yield Notice(_died(part))
    if part.plan is not None:
        yield from _against_plan(part, part.plan)
    yield from _of_tests(tests, decide)
    if part.end is not None:
        yield from _of_end(run, part, part.end, tests)
    yield from _disagreements(part)


def _died(part: Part) -> str:
    cut = "its last line is cut off" if part.torn else "it has no end line"
    planned = "" if part.plan else " It died before its tests were known."
    return (
        f"The record is incomplete: {cut}; the run died. "
        f"It holds {_cases(part.distinct_cases)}, {part.failed_cases:,} with failures.{planned}"
    )


def _against_plan(part: Part, plan: Plan) -> Iterator[Notice]:
    """What was planned and is not there; of generated cases any number is right, up to the most."""
    if part.planned_cases < plan.cases:
        yield Notice(f"Of {plan.cases:,} planned cases {part.planned_cases:,} were recorded.")
    if part.tests < plan.tests:
        yield Notice(f"Of {plan.tests:,} planned tests {part.tests:,} finished.")
    if part.planned_cases > plan.cases or part.tests > plan.tests:
        yield Notice(
            f"The record contradicts itself: {part.tests:,} tests and {part.planned_cases:,} cases of them stand "
            f"against {plan.tests:,} and {plan.cases:,} planned."
        )


def _of_tests(tests: list[Finished], decide: set[str]) -> Iterator[Notice]:
    """Tests that broke, and outcomes that their cases do not bear out."""
    broken = [test for test in tests if test.outcome == BROKEN]
    if broken:
        yield Notice(f"{_tests(len(broken))} of the suite broke: {_named(broken)}. {_last_line(broken[0].text)}")
    unexplained = [test for test in tests if test.outcome == FAILED and decide.isdisjoint(test.failed)]
    if unexplained:
        yield Notice(f"{_tests(len(unexplained))} failed, and no case explains it: {_named(unexplained)}.")
    hidden = [test for test in tests if test.outcome == PASSED and not decide.isdisjoint(test.failed)]
    if hidden:
        yield Notice(f"{_tests(len(hidden))} passed, though a case of it failed: {_named(hidden)}.")


def _of_end(run: Run, part: Part, end: End, tests: list[Finished]) -> Iterator[Notice]:
    outcomes = Counter(test.outcome for test in tests)
    failed = bool(deciding(run) & (_told_failing(part) | {entry.id for entry in part.counted if entry.failed}))
    if end.exit_status in _BROKE:
        yield Notice(f"The suite itself broke: exit status {end.exit_status}, {_BROKE[end.exit_status]}.")
    elif end.exit_status != 0 and not failed and not end.outdated:
        yield Notice(f"The suite itself broke: exit status {end.exit_status}, though no deciding requirement failed.")
    elif end.exit_status == 0 and failed:
        yield Notice("The record contradicts itself: exit status 0, though a deciding requirement failed.")
    for text in end.outdated:
        yield Notice(f"{text[:1].upper()}{text[1:]}.", OUTDATED)
    if part.torn:
        yield Notice("The record is damaged: something follows its end line.")
    if part.plan is None:
        yield Notice("The record does not tell what was planned.")
    if end.tests_collected == 0:
        yield Notice("No test was collected: nothing was tested.")
    counted = outcomes[FAILED] + outcomes[BROKEN]
    # pytest counts a test that breaks twice, in the call and after it, as two; what was not collected as failed.
    if counted > end.tests_failed or (counted < end.tests_failed and not (outcomes[BROKEN] or run.troubles)):
        yield Notice(f"The run counted {end.tests_failed:,} failed tests; the record holds {counted:,}.")
    if end.cases != part.distinct_cases:
        yield Notice(f"The run counted {end.cases:,} distinct cases; the record holds {_cases(part.distinct_cases)}.")


def _disagreements(part: Part) -> Iterator[Notice]:
    """Verdicts that the cases do not bear out; a run that died may have given none."""
    counted = {entry.id: entry for entry in part.counted}
    for told in part.verdicts:
        seen = counted.pop(told.id, None)
        if seen is None:
            yield Notice(f"The record gives a verdict on {told.id}, which its contract does not hold.")
        elif (told.verdict, told.cases, told.failed, told.warned, told.deviated) != (
            seen.verdict,
            seen.cases,
            seen.failed,
            seen.warned,
            seen.deviated,
        ):
            yield Notice(
                f"{told.id} has the verdict {told.verdict!r} of {told.cases:,} cases, {told.failed:,} failing and "
                f"{told.warned:,} warned; the record's cases show {seen.cases:,}, {seen.failed:,} and {seen.warned:,}."
                if told.deviated == seen.deviated
                else f"{told.id} is told to deviate in {told.deviated:,} cases; the record's cases show "
                f"{seen.deviated:,}."
            )
    for entry in counted.values():
        if entry.tier == UNKNOWN_TIER:
            failed = "failed" if entry.failed else "looked at"
            yield Notice(f"Cases {failed} {entry.id}, which the record's contract does not hold.")
    known = [id for id, entry in counted.items() if entry.tier != UNKNOWN_TIER]
    if part.end is not None and not part.verdicts:
        yield Notice("The record gives no verdict on any requirement.")
    elif part.end is not None and known:
        yield Notice(f"The record gives no verdict on {', '.join(known)}.")


def _between(run: Run) -> Iterator[Notice]:
    """What the parts are to each other."""
    if len({part.facts.get("commit") for part in run.parts}) > 1:
        yield Notice("The records were made at different commits.", REMARK)
    outcomes: dict[str, set[str]] = {}
    for test in run.tests:
        outcomes.setdefault(test.id, set()).add(test.outcome)
    if twice := len(run.tests) - len(outcomes):
        yield Notice(f"The records overlap in {_tests(twice)}.", REMARK)
    if differing := [id for id, seen in outcomes.items() if len(seen) > 1]:
        yield Notice(f"The outcome differs from record to record: {_listed(differing)}.", REMARK)
    plans = [part.plan for part in run.parts if part.plan is not None]
    if plans and not any(plan.whole for plan in plans):
        yield Notice(f"Not the whole suite was asked for: {_tests(len(outcomes))}.", REMARK)


def _not_run(run: Run) -> Iterator[Notice]:
    hidden = {id for one in run.deviations if one.lasts for id in one.hides}
    not_run = [entry.id for entry in run.requirements if entry.verdict == NOT_RUN]
    idle, decide = [id for id in not_run if id not in hidden], deciding(run)
    if ids := [id for id in not_run if id in hidden]:
        yield Notice(f"Not run: {', '.join(ids)}. A known deviation hides what they ask for.", REMARK)
    if ids := [id for id in idle if id in decide]:
        yield Notice(f"Not run: {', '.join(ids)}. Without these nothing is called conforming.", UNSEEN)
    if ids := [id for id in idle if id not in decide]:
        yield Notice(f"Not run: {', '.join(ids)}. This does not decide.", REMARK)


def _cases(count: int) -> str:
    return f"{count:,} distinct {'case' if count == 1 else 'cases'}"


def _tests(count: int) -> str:
    return f"{count:,} {'test' if count == 1 else 'tests'}"


def _named(tests: Iterable[Finished]) -> str:
    return _listed([test.id for test in tests])


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(map(_short, names[:_NAMED])) + more


def _last_line(text: str) -> str:
    """The line of a traceback that names the error."""
    return _short(next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no text"))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
