"""What a planted fault is: the right recipe with one step replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tests.right.recipe import Kernel, Recipe, kernel

WIDER = {torch.float16: torch.float32, torch.bfloat16: torch.float32, torch.float32: torch.float64}


@dataclass(frozen=True)
class Fault:
    """A wrong kernel: its name, what is wrong in one sentence, and the kernel itself.

    `ends_process` marks one that crashes or hangs, so it may be called in a process of its own only.
    """

    name: str
    what: str
    call: Kernel
    ends_process: bool = False


def plant(name: str, what: str, *, on: type[Recipe] = Recipe, ends_process: bool = False, **steps: Any) -> Fault:
    """The recipe `on` with the given steps (methods by name, or `refusals`) in place of its own."""
    unknown = [step for step in steps if not hasattr(on, step)]
    if unknown:
        raise TypeError(f"{name} replaces {unknown}, which {on.__name__} does not have; name one of its steps")
    return Fault(name, what, kernel(type(name, (on,), steps)(), name, what), ends_process)


def through(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Rounds to a dtype and comes back."""
    return lambda x: x.to(dtype).to(x.dtype)
