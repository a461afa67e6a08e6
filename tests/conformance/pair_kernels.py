"""Second targets of a pair: right kernels, but for what each one's docstring says."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the suite loads this file by its path

from tests.right.kernels import exact

AT = (1, 0, 5)
"""Token, head and element."""


def one_ulp_off(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """One element of q_rot is an ulp farther from zero, in float32."""
    outputs = exact(*arrays, **arguments)
    if arrays[0].dtype == torch.float32 and len(arrays[0]) > 1:
        outputs[0].view(torch.int32)[AT] += 1
    return outputs


def swaps_zeros_and_nans(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """Zeros of q_rot change their sign, NaNs their payload."""
    outputs = exact(*arrays, **arguments)
    q_rot = outputs[0]
    q_rot[q_rot == 0] *= -1
    q_rot.view(torch.int32)[q_rot.isnan()] = 0x7FC01234
    return outputs


def skips_v(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """The row of v_pool of token 0 stays as it was."""
    kept = arrays[6].clone()
    outputs = exact(*arrays, **arguments)
    slot = int(arrays[4][0])
    outputs[3][slot] = kept[slot]
    return outputs


def overwrites_v(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """The row of v_pool of token 0, in float32, holds one number."""
    outputs = exact(*arrays, **arguments)
    outputs[3].view(torch.int32)[int(arrays[4][0])] = 0x12345678
    return outputs


def first_wins(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """Of two tokens with one slot it is the first whose v stays."""
    outputs = exact(*arrays, **arguments)
    for token in reversed(range(len(arrays[4]))):
        outputs[3][int(arrays[4][token])] = arrays[2][token]
    return outputs


def raises(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """Calls of float32 are refused."""
    if arrays[0].dtype == torch.float32:
        raise RuntimeError("no float32 here")
    return exact(*arrays, **arguments)


def crashes(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:
    """Calls of float32 end the process."""
    if arrays[0].dtype == torch.float32:
        os.abort()
    return exact(*arrays, **arguments)


def never_ends(*arrays: Tensor, **arguments: Any) -> tuple[Tensor, ...]:  # noqa: ARG001
    """No call returns."""
    while True:
        pass
