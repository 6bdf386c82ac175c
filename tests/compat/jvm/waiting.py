"""The cases that wait for a part of Kavka that is not built yet, by name, with what they wait for.

A name is file::test, with the parameters where only some of them wait. They are skipped; KAVKA_COMPAT_TRY_WAITING=1
runs them and fails for each that passes, because then it has to leave this table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


WAITING: dict[str, str] = {}


def try_them() -> bool:
    """Whether to run them anyway."""
    return os.environ.get("KAVKA_COMPAT_TRY_WAITING") == "1"


def name_of(item: pytest.Item) -> str:
    """The name a case has here."""
    return f"{item.path.stem}::{item.name}"


def name_in(node_id: str) -> str:
    """The name a case has here, by pytest's name for it; in a group, that ends with @ and the group."""
    file, _, case = node_id.partition("::")
    if case.rfind("@") > case.rfind("]"):
        case = case.rpartition("@")[0]
    return f"{PurePath(file).stem}::{case}"


def reason(name: str) -> str | None:
    """What a case waits for, if it does: its own entry, its test's, or its whole file's."""
    test = name.split("[", 1)[0]
    file = name.split("::", 1)[0] + "::"
    return WAITING.get(name) or WAITING.get(test) or WAITING.get(file)


def by_reason(names: Iterable[str]) -> dict[str, list[str]]:
    """The waiting cases among these, by what they wait for."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        why = reason(name)
        if why:
            found.setdefault(why, []).append(name)
    return found


def unknown(names: Iterable[str]) -> list[str]:
    """The entries of the table that name no case."""
    names = set(names)
    known = names | {name.split("[", 1)[0] for name in names} | {name.split("::", 1)[0] + "::" for name in names}
    return sorted(WAITING.keys() - known)
