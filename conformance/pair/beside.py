"""The second target of a pair, in a worker of its own beside the first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from conformance.case import Case
from conformance.judge import Expected
from conformance.outcome import Outcome
from conformance.pair.compare import compare
from conformance.pair.difference import Difference
from conformance.worker import Worker
from kernel.targets import Target

Differences = tuple[Difference, ...]
_PROBE = Case(dtype="f32", values="normal")


class Beside:
    """Makes the calls of the first target's cases too. What it does is compared, never judged."""

    def __init__(self, target: Target, *, quiet: bool = True) -> None:
        self.target = target
        self._worker = Worker(target, quiet=quiet)
        self._submitted = False

    @cached_property
    def _in_place(self) -> bool:
        """Whether the target writes its pools in place."""
        pools = self._worker.run(self._planned(_PROBE)).pools
        return pools is not None and pools["k_pool"].in_place

    def _planned(self, case: Case) -> Case:
        return case if self.target.has_launch_plans else case.but(plan="")

    def _can(self, case: Case) -> bool:
        # A pool larger than memory can be written in place, not returned fresh.
        return case.memory != "sparse" or self._in_place

    def submit(self, case: Case) -> None:
        """Begin the call of `case`, if the target can make it; `differences` or `renew` must follow."""
        self._submitted = self._can(case)
        if self._submitted:
            self._worker.submit(self._planned(case))

    def differences(self, expected: Expected, first: Outcome) -> Differences | None:
        """Where the call begun last differs from what the first target did; None if it was not made."""
        return self._compared(expected, first, self._worker.collect()) if self._submitted else None

    def sequence(
        self, expected: Sequence[Expected], first: Sequence[Outcome], cases: Sequence[Case]
    ) -> Differences | None:
        """The same of calls made in one fresh process; None unless all were made."""
        if not all(map(self._can, cases)):
            return None
        second = self._worker.run_fresh([self._planned(case) for case in cases])
        found: list[Difference] = []
        for number, calls in enumerate(zip(expected, first, second, strict=True)):
            differences = self._compared(*calls)
            if differences is None:
                return None
            found += [difference.of_call(number) for difference in differences]
        return tuple(found)

    def _compared(self, expected: Expected, first: Outcome, second: Outcome) -> Differences | None:
        if any(change.where == "outside" for change in second.changes):
            # What was written outside the buffers may be the worker's own memory.
            self.renew()
        if first.was_not_made or second.was_not_made:
            return None
        return compare(expected, first, second)

    def renew(self) -> None:
        """End the worker; the next call starts another."""
        self._worker.renew()
        self._submitted = False
