"""Faults of our shaders; a second shader, by someone who had only seen the interface, and its faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from drive import first_finding, suite_for
from shader_faults import SECOND, SUBTLE, ShaderFault, second_faults

from kernel.targets import HostTarget


def test_the_second_shader_conforms() -> None:
    suite = suite_for(HostTarget.compile(SECOND))
    try:
        assert first_finding(suite, every=3) == ""
        assert sum(entry.elements for entry in suite.ledger.entries.values()) > 10**7
    finally:
        suite.close()


@pytest.mark.parametrize("fault", SUBTLE, ids=lambda fault: fault.name)
def test_each_subtle_fault_of_ours_is_found(fault: ShaderFault, tmp_path: Path) -> None:
    suite = suite_for(fault.compile(tmp_path), fault.accuracy)
    try:
        assert first_finding(suite, first="ROT"), fault.what
    finally:
        suite.close()


@pytest.mark.parametrize("fault", second_faults(), ids=lambda fault: fault.name)
def test_each_of_its_twenty_faults_is_found(fault: ShaderFault, tmp_path: Path) -> None:
    suite = suite_for(fault.compile(tmp_path))
    try:
        assert first_finding(suite), fault.what
    finally:
        suite.close()
