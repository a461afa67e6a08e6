"""The host target gives each entry point the buffers that it asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from kernel import Call, LaunchPlan
from kernel.frequency import frequency_table
from kernel.memory import Overwritten
from kernel.targets import DEFAULT_SHADER, HostTarget, TargetError

FLOAT32_SHADER = DEFAULT_SHADER.with_name("rope_pool_fused_float32.metal")
HEAD_DIM, BASE = 6, 10000.0
TABLE = [entry - 2**64 * (entry >> 63) for entry in frequency_table(BASE, HEAD_DIM)]


def changed(folder: Path, entry: str, statement: str) -> Path:
    """The float32 shader with one more buffer of `entry` and a first statement in it."""
    text = FLOAT32_SHADER.read_text()
    first = text.index("uint3 gid", text.index(f"void {entry}("))
    body = text.index("{", first) + 1
    listed = text.index("uint3 gid", text.index(f"void {entry}<"))
    asked = "device ulong* frequencies, "
    text = f"{text[:first]}{asked}{text[first:body]} {statement} {text[body:listed]}{asked}{text[listed:]}"
    path = folder / "mine.metal"
    path.write_text(text)
    return path


def call(**changes: float) -> Call:
    positions = torch.arange(3, dtype=torch.int32)
    x, pool = torch.ones(3, 2, HEAD_DIM), torch.zeros(4, 2, HEAD_DIM)
    return Call(x, x, x, positions, positions, pool, pool.clone(), HEAD_DIM, 2, 2, BASE).but(**changes)


def test_an_entry_point_that_asks_sees_the_table_and_the_others_none(tmp_path: Path) -> None:
    """The table is copied, as bits, to where q of the one call and k of the other would go."""
    copy = "for (uint i = 0; i < HALF_DIM; ++i) ((device ulong*)OUT)[i] = frequencies[i]; return;"
    for entry, out, index, plan in (
        ("rope_q", "q_out", 0, "split"),
        ("rope_k_pool", "k_out", 1, "split"),
        ("rope_pool_rect", "q_out", 0, "rect"),
    ):
        shader = changed(tmp_path, entry, copy.replace("OUT", out))
        outputs = HostTarget.compile(shader).run(call(), LaunchPlan.parse(plan)).outputs
        assert outputs[index].view(torch.int64).flatten()[: len(TABLE)].tolist() == TABLE
        if plan == "split":
            assert torch.equal(outputs[1 - index], HostTarget.compile(FLOAT32_SHADER).run(call()).outputs[1 - index])


def test_a_call_that_writes_the_table_is_told_of_and_harms_no_other(tmp_path: Path) -> None:
    shader = changed(tmp_path, "rope_q", "frequencies[1] = 0;")
    target, exact = HostTarget.compile(shader), HostTarget.compile()
    before = exact.run(call())
    for _ in range(2):
        assert target.run(call()).overwritten == (Overwritten("frequencies", 1, 1, "inside"),)
    after = exact.run(call())
    assert before.overwritten == after.overwritten == ()
    assert torch.equal(before.outputs[0], after.outputs[0])


def test_v_to_pool_may_not_ask(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=r"mine\.metal:\d+: v_to_pool_bf16 takes 4 buffers, 3 are required"):
        HostTarget.compile(changed(tmp_path, "v_to_pool", ""))


def test_a_table_of_another_type_is_refused(tmp_path: Path) -> None:
    shader = changed(tmp_path, "rope_q", "")
    shader.write_text(shader.read_text().replace("device ulong* frequencies", "device const long* frequencies"))
    with pytest.raises(TargetError, match=r"mine\.metal:\d+: error: buffer 3 of rope_q_f16 is the table it asks for"):
        HostTarget.compile(shader)


@pytest.mark.parametrize("base", [0.0, -10000.0, 1e-60, 1e39, float("nan")])
def test_a_base_that_is_no_positive_float32_is_refused(base: float) -> None:
    with pytest.raises(RuntimeError, match="rope_base must be a positive float32"):
        HostTarget.compile().run(call(rope_base=base))
