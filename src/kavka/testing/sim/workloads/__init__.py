"""What clients do in a run: every module here that has a `Workload` is part of the simulation."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from kavka.testing.sim.client import Workload


def all_workloads() -> list[type[Workload]]:
    """Every workload, in the order of the modules' names."""
    found: list[type[Workload]] = []
    for module in sorted(info.name for info in iter_modules(__path__)):
        members = vars(import_module(f"{__name__}.{module}")).values()
        found += [
            member
            for member in members
            if isinstance(member, type) and issubclass(member, Workload) and member.__module__.endswith(f".{module}")
        ]
    return found
