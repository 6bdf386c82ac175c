"""`kavka doctor`: look at everything that commonly goes wrong, and say what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, run
from kavka.cli.output import CommandError, Output, print_json, write_line
from kavka.client import Pool
from kavka.console.checks import Finding, Level, Seen, findings
from kavka.console.examining import examine

MARKS: Final = {Level.OK: "ok", Level.WARNING: "!", Level.PROBLEM: "!!"}

MetricsPages = Annotated[
    list[str] | None,
    typer.Option(
        "--metrics",
        envvar="KAVKA_METRICS",
        metavar="HOST:PORT",
        help="The page of metrics of a node (kavka.metrics.listener); may be repeated.",
    ),
]


def doctor(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    metrics: MetricsPages = None,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 10.0,
) -> None:
    """Look at the cluster's health, and say what to do about what is found.

    Nodes and whether their advertised addresses can be reached from here, the quorum, partitions and ISRs, disks,
    clocks; with `--metrics` also open files and readiness. The exit code is 1 if there is a problem, not for a warning.

    Example: `kavka doctor --bootstrap broker1:9092 --metrics broker1:9404`
    """
    found = findings(run(_look(bootstrap, metrics or [], timeout)))
    if output is Output.JSON:
        print_json([finding._asdict() for finding in found])
    else:
        show(found)
    if any(finding.level is Level.PROBLEM for finding in found):
        raise typer.Exit(1)


def show(found: Sequence[Finding]) -> None:
    """Print findings for a person."""
    for finding in found:
        write_line(f"{MARKS[finding.level]:<3} {finding.area:<11} {finding.what}")
        if finding.do is not None:
            write_line(f"{'':<15} -> {finding.do}")
    counts = {level: sum(finding.level is level for finding in found) for level in Level}
    problems, warnings = counts[Level.PROBLEM], counts[Level.WARNING]
    write_line(f"\n{problems} problem{'s' * (problems != 1)}, {warnings} warning{'s' * (warnings != 1)}")


async def _look(bootstrap: str, pages: Sequence[str], seconds: float) -> Seen:
    async with Pool(bootstrap, timeout_ms=int(seconds * 1000)) as pool:
        try:
            return await examine(bootstrap, pool, pages, seconds)
        except (TimeoutError, OSError) as error:
            reason = str(error) or f"no answer within {seconds:g} s"
            raise CommandError(f"nobody answers at {bootstrap}: {reason}. Is a node running there?") from None
