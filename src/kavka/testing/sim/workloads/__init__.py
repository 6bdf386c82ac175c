"""What clients do in a run: every module here that has a `Workload` is part of the simulation."""

from __future__ import annotations

from collections.abc import Iterable
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


def named(names: Iterable[str]) -> list[type[Workload]]:
    """Workloads by their names; raises KeyError for one that there is not."""
    known = {workload.__name__.lower(): workload for workload in all_workloads()}
    return [known[name.lower()] for name in names]
