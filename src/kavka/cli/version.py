"""`kavka version`."""

from __future__ import annotations

import platform

from kavka import __version__
from kavka.cli.options import OutputOption
from kavka.cli.output import Output, print_json, write_line


def version(output: OutputOption = Output.TABLE) -> None:
    """Show the version, and whether the kernels are compiled.

    Example: `kavka version --output json`
    """
    from kavka.kernels import COMPILED

    if output is Output.JSON:
        print_json({"kavka": __version__, "python": platform.python_version(), "compiled_kernels": COMPILED})
        return
    kernels = "compiled" if COMPILED else "plain Python (no C compiler was there at install time, or KAVKA_PURE is set)"
    write_line(f"kavka {__version__}")
    write_line(f"python {platform.python_version()}")
    write_line(f"kernels {kernels}")
