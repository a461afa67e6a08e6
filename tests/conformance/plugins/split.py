"""Stands in for pytest-xdist: what its option leaves on the configuration."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processes", dest="numprocesses", default=2)
