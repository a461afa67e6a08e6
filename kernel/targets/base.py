"""What every system under test offers to the suite."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from kernel.call import Call
from kernel.launch import LaunchPlan
from kernel.memory import Overwritten
from kernel.probes import Behaviour

Outputs = tuple[Tensor, Tensor, Tensor, Tensor]


class TargetError(Exception):
    """The target cannot be used; the message says why and what to do."""


class DeviceLostError(Exception):
    """A kernel left its device of no more use to this process, which must end; the message says what it did."""


@dataclass(frozen=True)
class Description:
    """What the report's header says of a target."""

    name: str
    device: str
    facts: dict[str, str] = field(default_factory=dict)
    """Compiler, source, hash: whatever tells this build from another."""
    not_evidenced: tuple[str, ...] = ()
    """What no run on this target can show, in sentences."""


@dataclass(frozen=True)
class Answer:
    """q_rot, k_rot, k_pool_new, v_pool_new as the target returned them, and the target's own margins."""

    outputs: Outputs
    overwritten: tuple[Overwritten, ...] = ()


class Target(Protocol):
    """A system under test."""

    @property
    def has_launch_plans(self) -> bool:
        """Whether `run` obeys a launch plan, or decides for itself."""

    @property
    def start_method(self) -> str:
        """How a process that makes calls starts, `fork` or `spawn`: some GPU libraries do not outlive a fork."""

    def describe(self) -> Description:
        """Name, device and versions."""

    def run(self, call: Call, plan: LaunchPlan | None) -> Answer:
        """Make the call; plan None leaves the choice to the target. Raises what the call raises."""

    def measure(self) -> Behaviour:
        """How the target computes, as far as tiny kernels can be run on it; never raises."""
