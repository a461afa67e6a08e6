"""The commands of a report can be pasted into a shell."""

from __future__ import annotations

import shlex

import pytest
import sample_record as sample

from reports.replay import replay_command


@pytest.mark.parametrize(
    ("facts", "options"),
    [
        ({"target": "host", "math": "libm", "accuracy": "auto"}, ["--target", "host", "--accuracy", "auto"]),
        ({"target": "mps", "math": "metal-fast"}, ["--target", "mps", "--math", "metal-fast"]),
        ({}, []),
        (
            {"target": "my kernels.py:rope", "accuracy": "fast"},
            ["--target", "my kernels.py:rope", "--accuracy", "fast"],
        ),
        (
            {"target": "host", "shader": "a.metal 67319d", "shader path": "my dir/a.metal"},
            ["--target", "host", "--shader", "my dir/a.metal"],
        ),
    ],
)
@pytest.mark.parametrize("case", [sample.CASE, "f32 T=1 ; f32 T=2", 'it\'s $(a) `case`; rm -rf \\ "x"'])
def test_replay_commands_survive_the_shell(facts: dict[str, str], options: list[str], case: str) -> None:
    words = shlex.split(replay_command(case, facts))
    assert words == ["python", "-m", "conformance", "replay", case, *options]


def test_a_class_may_be_named() -> None:
    words = shlex.split(replay_command(sample.CASE, {"accuracy": "fast"}, "exact-angle"))
    assert words[-2:] == ["--accuracy", "exact-angle"]
