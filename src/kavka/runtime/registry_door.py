"""Where a node is asked for its schema registry: what that consists of is imported when somebody first asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kavka.runtime.registry import RegistryService

SERVICE: Final = "kavka.runtime.registry"


class RegistryDoor:
    """Leads to who answers for the registry; most nodes are never asked, and start faster without."""

    def __init__(self, loop: asyncio.AbstractEventLoop, make: Callable[[], RegistryService]) -> None:
        self._loop = loop
        self._make = make
        self._made: RegistryService | None = None

    async def open(self) -> RegistryService:
        """Who answers; the first time what it takes is imported, beside what is being done."""
        if self._made is None:
            await self._loop.run_in_executor(None, import_module, SERVICE)
            self._made = self._made or self._make()
        return self._made
