"""Who asks the cases of rights: everybody is a user of its own, with exactly some rights.

`variants` has a user for each case who has all of them, and one for each right that is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kavka.protocol.registry import API
from rights import CASES, Case, Right, refusals
from rights_in_part import CASES_IN_PART, OF_BROKERS_ALONE

ALL_CASES = [*CASES, *CASES_IN_PART]
AT_CONTROLLERS = frozenset(api.stem for api in API.values() if "controller" in api.listeners)


class Variant(NamedTuple):
    """A case as one user asks it."""

    case: Case
    missing: int | None
    """Which of the rights the user does not have; None for one who has them all."""
    user: str

    @property
    def rights(self) -> list[Right]:
        return [right for index, right in enumerate(self.case.needs) if index != self.missing]

    def __str__(self) -> str:
        lacks = "" if self.missing is None else f"-without-{self.case.needs[self.missing]}"
        return f"{self.case}{lacks}"

    def check(self, response: Any) -> None:
        """Assert that exactly what is missing is refused."""
        found = refusals(response)
        if self.missing is None:
            assert found == set(), f"refused with {found}"
            assert self.case.shown is None or self.case.shown(response)
            return
        code = self.case.code(self.missing)
        assert found == ({code} if code else set())
        assert code or (self.case.shown is not None and not self.case.shown(response))


def variants() -> Iterator[Variant]:
    """Every case with all rights, and with each of them missing."""
    number = 0
    for case in ALL_CASES:
        for missing in (*range(len(case.needs)), None):  # who has all rights may make what others then find
            yield Variant(case, missing, f"u{number}")
            number += 1


def controllers_variants() -> Iterator[Variant]:
    """Those that a controller is asked in the same way."""
    for variant in variants():
        case = variant.case
        if case.stem in AT_CONTROLLERS and case.stem not in OF_BROKERS_ALONE and str(case) not in OF_BROKERS_ALONE:
            yield variant
