"""A run that is killed by SIGKILL: as soon as it has recorded as many cases as DIES_AFTER says."""

from __future__ import annotations

import os
import signal
from typing import Any

from conformance.record import Recorder

_case = Recorder.case
_left = int(os.environ["DIES_AFTER"])


def _case_then_death(self: Recorder, *arguments: Any, **options: Any) -> None:
    global _left
    _case(self, *arguments, **options)
    _left -= 1
    if not _left:
        os.kill(os.getpid(), signal.SIGKILL)


Recorder.case = _case_then_death  # type: ignore[method-assign]
