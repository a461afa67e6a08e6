"""`python -m conformance`: replay a case; make a night; show how far the judge can be trusted."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable
from typing import NoReturn

import torch

from conformance import nightly, options, terminal
from conformance.case import JOINT, Case, CaseError
from conformance.deviations import DeviationError
from conformance.evidence import sensitivity, soundness
from conformance.inputs import build
from conformance.pair import shown
from conformance.record import Recorder
from conformance.suite import NonConformanceError, Suite
from kernel.targets import TargetError

USAGE_ERROR = 4
# Calls token by token multiply the work; more tokens than this are judged in one call only.
_TOKENWISE_LIMIT = 64
_MOST = 1e12


def main(arguments: list[str] | None = None) -> int:
    """0: the case conforms, or the judge is what it should be; 1: not; 4: the command or the target cannot be used."""
    parser = _parser()
    parsed, more = parser.parse_known_args(arguments)
    if more and not getattr(parsed, "takes_more", False):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    parsed.more = more
    torch.set_num_threads(1)
    try:
        return int(parsed.run(parsed))
    except BrokenPipeError:
        # Whoever reads has seen enough; what is left to flush goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (CaseError, DeviationError, TargetError) as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE_ERROR


def _run_replay(parsed: argparse.Namespace) -> int:
    cases = [Case.parse(line) for line in parsed.case.split(JOINT)]
    for case in cases:
        build(case)
    target, beside = options.load_target(parsed), options.load_beside(parsed, quiet=False)
    settings = options.settings(parsed, target, strict=True)
    suite = Suite(target, settings, Recorder(None), quiet=False, beside=beside)
    conforms = _replay(suite, cases)
    for line in terminal.findings(suite.ledger, options.replay_options(parsed)):
        print(line)
    for line in terminal.deviations(suite.ledger, closely=True):
        print(line)
    suite.close()
    described = suite.target.describe()
    print(f"{described.facts.get('shader', described.name)}, held to {suite.standard.accuracy.name}")
    for line in terminal.classes(suite.accuracy) if suite.accuracy.measured else ():
        print(line)
    if beside is not None:
        named = shown.names(described, beside.target.describe())
        print(*shown.section(suite.pairs, named, options.pair_replay_options(parsed)), sep="\n")
    for line in suite.ledger.outdated(whole=False):
        print(line)
    verdict = "this case conforms" if conforms else "does not conform"
    print(f"{verdict}{terminal.with_known(suite.ledger)}")
    return 0 if conforms else 1


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_ERROR, f"error: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m conformance", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="replay|nightly|sensitivity|soundness")
    replay = commands.add_parser("replay", help="make the calls of a case again and judge them")
    replay.add_argument("case", metavar="CASE", help="a line that a run printed; ' ; ' joins calls of one process")
    options.add_target_options(replay.add_argument)
    options.add_pair_options(replay.add_argument)
    replay.set_defaults(run=_run_replay)
    nightly.add_command(commands)
    finds = commands.add_parser("sensitivity", help="the smallest defects that the judge finds, and fixed tolerances")
    finds.add_argument("--seeds", type=_count, default=sensitivity.SEEDS, metavar="N", help="%(default)s by default")
    finds.set_defaults(run=lambda parsed: sensitivity.run(parsed.seeds))
    alarms = commands.add_parser("soundness", help="right kernels before the judge: no false alarm, and how tight")
    alarms.add_argument("--elements", type=_count, default=10**7, metavar="N", help="at least; 1e7 by default")
    alarms.set_defaults(run=lambda parsed: soundness.run(parsed.elements))
    return parser


def _count(text: str) -> int:
    """A whole number from 1 to 1e12, as 20 or 1e9."""
    with contextlib.suppress(ValueError, OverflowError):
        if _MOST >= float(text) == int(float(text)) >= 1:
            return int(float(text))
    raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 1e12, such as 20 or 1e9, got {text!r}")


def _replay(suite: Suite, cases: list[Case]) -> bool:
    """Whether the calls, and for a single one its repetition and its tokens one by one, conform."""
    if len(cases) > 1:
        return _conforms(lambda: suite.check_sequence(cases))
    [case] = cases
    conforms = _conforms(lambda: suite.check(case, guards=bool(case.fault or case.situation)))
    if conforms and suite.expected(case).violation is None and case.memory == "margins":
        conforms = _conforms(lambda: suite.check_repeat(case))
        if 1 < case.num_tokens <= _TOKENWISE_LIMIT and case.token < 0 and not case.situation:
            conforms &= _conforms(lambda: suite.check_tokenwise(case))
    return conforms


def _conforms(check: Callable[[], object]) -> bool:
    try:
        check()
    except NonConformanceError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
