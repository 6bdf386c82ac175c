"""`kavka serve` with a store that fails while a file exists: `node_with_store.py FLAG DIR serve ...`."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kavka.broker.config import load_config
from kavka.broker.main import run_node
from kavka.cli.serve import parse_serve
from kavka.testing.faulty_store import Fault, FaultyStore
from kavka.tiered.objects.local import LocalStore

BAD_DAY = {
    Fault.UNAVAILABLE: 0.1,
    Fault.LATE: 0.05,
    Fault.SHORT: 0.02,
    Fault.LOSES: 0.01,
    Fault.REFUSED: 0.01,
    Fault.HANGS: 0.01,
}


class FlaggedStore(FaultyStore):
    """A store that fails as often as it should, while a file exists."""

    def __init__(self, flag: str, folder: str) -> None:
        seed = int.from_bytes(os.urandom(4))
        super().__init__(LocalStore(folder, ThreadPoolExecutor(4)), rates=BAD_DAY, seed=seed)
        self._flag = flag

    def _choose(self, operation: str) -> Any:
        return super()._choose(operation) if os.path.exists(self._flag) else None


def main() -> int:
    """Serve until told to stop."""
    flag, folder, _, *arguments = sys.argv[1:]
    options = parse_serve(arguments)
    config = load_config(options.config, overrides=options.override, data_dir=options.data_dir, listen=options.listen)
    return run_node(config=config, ready_file=options.ready_file, store=FlaggedStore(flag, folder))


if __name__ == "__main__":
    sys.exit(main())
