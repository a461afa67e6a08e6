"""Overrides that break a call: `q:2x4x1x64` (shape), `q:scalar`, `k@f32` (dtype), `head_dim=128` (argument)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from conformance.case import CaseError
from conformance.draw import TORCH_DTYPES
from kernel import Call
from kernel.call import INPUTS, POOLS

ARGUMENTS = ("head_dim", "num_qo_heads", "num_kv_heads")
TENSORS = (*INPUTS, *POOLS)


def shaped(name: str, shape: Iterable[int]) -> str:
    """The override that gives `name` this shape."""
    return f"{name}:{'x'.join(map(str, shape)) or 'scalar'}"


def apply(call: Call, faults: str) -> Call:
    """`call` with every override applied, in order. Raises CaseError."""
    for fault in filter(None, faults.split("+")):
        call = call.but(**_override(call, fault))
    return call


def _override(call: Call, fault: str) -> dict[str, Tensor | int]:
    for separator, make in ((":", _with_shape), ("@", _with_dtype)):
        name, found, text = fault.partition(separator)
        if found and name in TENSORS:
            return {name: make(getattr(call, name), text)}
    name, found, text = fault.partition("=")
    if found and name in ARGUMENTS and text.isdigit():
        return {name: int(text)}
    raise CaseError(f"{fault!r} is not an override such as q:2x4x64, k@f32 or head_dim=128")


def _with_shape(tensor: Tensor, text: str) -> Tensor:
    try:
        shape = [] if text == "scalar" else [int(size) for size in text.split("x")]
    except ValueError:
        raise CaseError(f"a shape is written 2x4x64 or scalar, got {text!r}") from None
    size = int(torch.Size(shape).numel())
    flat = tensor.reshape(-1)
    if size > len(flat):
        flat = flat.repeat(-(-size // max(1, len(flat)))) if len(flat) else tensor.new_zeros(size)
    return flat[:size].reshape(shape)


def _with_dtype(tensor: Tensor, text: str) -> Tensor:
    if text not in TORCH_DTYPES:
        raise CaseError(f"a dtype is one of {', '.join(TORCH_DTYPES)}, got {text!r}")
    return tensor.to(TORCH_DTYPES[text])
