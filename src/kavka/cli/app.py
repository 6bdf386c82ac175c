"""The `kavka` command: where it begins.

`serve` is taken out before anything else is imported: a node starts faster than the command-line library loads.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command that the arguments name and exit with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["serve"] and not {"--help", "-h"}.intersection(given):
        from kavka.cli.serve import serve

        raise SystemExit(serve(given[1:]))
    from kavka.cli.commands import run

    raise SystemExit(run(given))


if __name__ == "__main__":
    main()
