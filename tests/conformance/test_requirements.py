"""For each requirement a planted fault is seen to fail it, by its id."""

from __future__ import annotations

from pathlib import Path

import pytest
from callables import FAULTS
from drive import finds, suite_for
from shader_faults import FREQUENCIES_LOW, OFFSETS_OF_32_BITS, READS_NEXT_SLOT, WRITES_PAST_THE_HEAD, ShaderFault

from conformance.contract import documented_errors, requirements
from kernel.targets import CallableTarget
from kernel.targets.base import Target

# Requirement: the callable of tests/planted, or the faulty shader, that must fail it.
PLANTED: dict[str, str | ShaderFault] = {
    "CALL": "mqa_raises",
    "OUT-SHAPE": "outputs_in_float32",
    "ERR-01": "qkv_rank_text_wrong",
    "ERR-02": "index_rank_text_wrong",
    "ERR-03": "pool_rank_text_wrong",
    "ERR-04": "q_shape_of_other_tensor",
    "ERR-05": "k_shape_of_other_tensor",
    "ERR-06": "v_shape_of_other_tensor",
    "ERR-07": "index_length_check_slots_only",
    "ERR-08": "k_pool_shape_of_other_tensor",
    "ERR-09": "v_pool_shape_of_other_tensor",
    "ERR-10": "qkv_dtype_check_v_only",
    "ERR-11": "pool_dtype_check_k_pool_only",
    "ERR-ORDER": "index_rank_checked_before_qkv_rank",
    "ERR-INTACT": "refused_call_clears_k_pool_row",
    "ERR-CURE": "index_length_check_at_least",
    "ERR-GUARD": "v_shape_check_missing",
    "SLOT-K": "k_row_unrotated",
    "SLOT-V": "v_row_through_wider_float",
    "SLOT-SKIP": "negative_slot_wraps",
    "SLOT-REST": "also_writes_next_row",
    "SLOT-ROT": "skipped_token_not_rotated",
    "POOL-MODE": "pools_copied_for_one_token",
    "ROT-Q": "queries_unrotated",
    "ROT-K": "k_rotated_twice",
    "ROT-ZERO": "position_plus_one",
    "ROT-BIAS": "bf16_truncated",
    "ROT-FREQ": FREQUENCIES_LOW,
    "ROT-NONFINITE": "nan_spreads_over_token",
    "RUN-REPEAT": "noise_in_last_place",
    "RUN-SPLIT": "tail_tokens_in_half",
    "MEM-INPUT": "q_rotated_in_place",
    "MEM-MARGIN": WRITES_PAST_THE_HEAD,
    "MEM-READ": READS_NEXT_SLOT,
    "MEM-ALIAS": "k_rot_is_view_of_pool",
    "MEM-EARLIER": "output_buffer_reused",
    "ROB-EMPTY": "empty_batch_raises",
    "ROB-LAYOUT": "strides_of_q_ignored",
    "ROB-DUP": "duplicates_averaged",
    "ROB-SLOT": "slot_past_pool_wraps",
    "ROB-POSITION": "negative_position_made_positive",
    "ROB-DTYPE": "int64_positions_reinterpreted",
    "ROB-REFUSE": "odd_head_dim_accepted",
    "ROB-STATE": "frequency_cached_by_whole_base",
    "ROB-LARGE": OFFSETS_OF_32_BITS,
}


def _target(planted: str | ShaderFault, folder: Path) -> Target:
    if isinstance(planted, ShaderFault):
        return planted.compile(folder)
    return CallableTarget(planted, FAULTS[planted].call)


def test_every_requirement_has_a_planted_fault() -> None:
    assert set(PLANTED) == set(requirements())
    assert [error.requirement for error in documented_errors().values()] == [f"ERR-{n:02d}" for n in range(1, 12)]


@pytest.mark.parametrize("requirement", PLANTED)
def test_its_planted_fault_fails_it(requirement: str, tmp_path: Path) -> None:
    suite = suite_for(_target(PLANTED[requirement], tmp_path))
    try:
        assert finds(suite, requirement)
    finally:
        suite.close()
