"""Wrong kernels: each is a callable here, `tests/planted/callables.py:NAME`, and all are in FAULTS."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the suite loads this file by its path

from tests.planted import angle, arguments, layout, memory, rotation, slots, state, stored
from tests.planted.fault import Fault

MODULES = (arguments, slots, stored, rotation, angle, layout, memory, state)

FAULTS: dict[str, Fault] = {fault.name: fault for module in MODULES for fault in module.FAULTS}

globals().update({name: fault.call for name, fault in FAULTS.items()})
