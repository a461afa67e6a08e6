"""Targets by callable: any Python function with the public signature, torch tensors in and out."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from kernel.call import Call
from kernel.launch import LaunchPlan
from kernel.probes import Behaviour
from kernel.targets.base import Answer, Description, TargetError


@dataclass(frozen=True)
class CallableTarget:
    """A function called as `rope_pool_fused` is."""

    name: str
    function: Callable[..., Any]

    @classmethod
    def load(cls, name: str) -> CallableTarget:
        """Import `package.module:function` or `path/to/file.py:function`.

        Raises:
            TargetError: no such module, file or function, or one that fails to import.
        """
        place, _, attribute = name.rpartition(":")
        module = _import(place, name)
        function = getattr(module, attribute, None)
        if not callable(function):
            known = ", ".join(n for n, f in vars(module).items() if inspect.isfunction(f)) or "no functions"
            raise TargetError(f"{place} has no callable {attribute!r}; it has {known}")
        return cls(name, function)

    start_method = "fork"

    @property
    def has_launch_plans(self) -> bool:
        return False

    def describe(self) -> Description:
        facts = {"torch": str(torch.__version__)}
        code = inspect.getsourcefile(inspect.unwrap(self.function)) if inspect.isfunction(self.function) else None
        if code:
            digest = hashlib.sha256(Path(code).read_bytes()).hexdigest()[:12]
            facts["source"] = f"{Path(code).name} {digest}"
        return Description(self.name, "decided by the callable", facts)

    def run(self, call: Call, plan: LaunchPlan | None = None) -> Answer:  # noqa: ARG002
        """Call the function. Raises what it raises."""
        outputs = self.function(*(tensor for _, tensor in call.tensors()), **call.arguments())
        return Answer(outputs)

    def measure(self) -> Behaviour:
        """Nothing: a device that only the callable knows runs no kernels of ours."""
        return Behaviour()


def _import(place: str, name: str) -> ModuleType:
    try:
        if not place.endswith(".py"):
            # As `python -m` does; the pytest command does not.
            sys.path.insert(0, str(Path.cwd()))
            return importlib.import_module(place)
        path = Path(place).resolve()
        if not path.is_file():
            raise TargetError(f"no file {place}: a target by file is path/to/file.py:function")
        # A name of its own: the file may be called as a package that it imports.
        spec = importlib.util.spec_from_file_location(f"conformance_target_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # A file may import its neighbours, as a script does, where no installed package has their name.
        sys.path.append(str(path.parent))
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module
    except TargetError:
        raise
    except Exception as error:
        raise TargetError(f"cannot import target {name}: {type(error).__name__}: {error}") from error
