"""Shared by the project's tests: helper modules are found beside the tests that use them."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

TESTS = Path(__file__).parent

for folder in ("conformance", "planted", "right"):
    sys.path.insert(0, str(TESTS / folder))
torch.set_num_threads(1)
