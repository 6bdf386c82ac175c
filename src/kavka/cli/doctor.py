"""`kavka doctor`: look at everything that commonly goes wrong, and say what to do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import typer

from kavka.cli.checks import Finding, Health, Level, Reached, Seen, findings
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, run
from kavka.cli.output import CommandError, Output, print_json, write_line
from kavka.cli.scraping import get, numbers
from kavka.client import Admin, ConfigResource, KafkaError, Node, Pool, Quorum, ResourceType
from kavka.client.admin_topics import TopicDescription
from kavka.client.security import SecuredBootstrap

MARKS: Final = {Level.OK: "ok", Level.WARNING: "!", Level.PROBLEM: "!!"}
MIN_ISR: Final = "min.insync.replicas"

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
    async with Pool(bootstrap, timeout_ms=int(seconds * 1000)) as pool, Admin(pool) as admin:
        try:
            async with asyncio.timeout(seconds):
                await pool.refresh()
                cluster = await admin.describe_cluster(include_fenced=True)
        except (TimeoutError, OSError) as error:
            reason = str(error) or f"no answer within {seconds:g} s"
            raise CommandError(f"nobody answers at {bootstrap}: {reason}. Is a node running there?") from None
        reached = await asyncio.gather(*(_reach(bootstrap, node, cluster.fenced, seconds) for node in cluster.nodes))
        quorum, quorum_error = await _quorum(admin, seconds)
        topics = await admin.describe_topics([topic.name for topic in await admin.list_topics(internal=True)])
        in_service = [each.node.id for each in reached if each.error is None and each.node.id not in cluster.fenced]
        return Seen(
            str(bootstrap),
            cluster.cluster_id,
            reached,
            cluster.fenced,
            quorum,
            quorum_error,
            topics,
            await _min_isr(admin, topics),
            await admin.describe_log_dirs(nodes=in_service),
            int(time.time() * 1000),
            await asyncio.gather(*(asyncio.to_thread(_page, page, seconds) for page in pages)),
        )


async def _reach(bootstrap: str, node: Node, fenced: frozenset[int], seconds: float) -> Reached:
    if node.id in fenced:
        return Reached(node)
    host = f"[{node.host}]" if ":" in node.host else node.host
    address = f"{host}:{node.port}"
    if isinstance(bootstrap, SecuredBootstrap):
        address = SecuredBootstrap(address, bootstrap.security)
    try:
        async with asyncio.timeout(seconds), Admin(address, timeout_ms=int(seconds * 1000)) as there:
            return Reached(node, None, (await there.describe_cluster()).cluster_id)
    except TimeoutError:
        return Reached(node, f"no answer within {seconds:g} s")
    except (KafkaError, OSError) as error:
        return Reached(node, str(error))


async def _quorum(admin: Admin, seconds: float) -> tuple[Quorum | None, str | None]:
    try:
        async with asyncio.timeout(seconds):
            return await admin.describe_quorum(), None
    except TimeoutError:
        return None, f"no leader of the metadata quorum has answered within {seconds:g} s"
    except KafkaError as error:
        return None, str(error)


async def _min_isr(admin: Admin, topics: Mapping[str, TopicDescription]) -> dict[str, int]:
    replicated = [name for name, topic in topics.items() if any(len(each.replicas) > 1 for each in topic.partitions)]
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in replicated]
    found = await admin.describe_configs(*resources, names=[MIN_ISR]) if resources else {}
    return {resource.name: int(entries[MIN_ISR].value or 1) for resource, entries in found.items()}


def _page(address: str, seconds: float) -> Health:
    """What a node's page says; it is asked in a thread."""
    try:
        status, ready = get(address, "/readyz", seconds)
        _, text = get(address, "/metrics", seconds)
    except OSError as error:
        return Health(address, error=str(error))
    found = numbers(text)
    told = found.get("kavka_time_seconds")
    ahead = None if told is None else told - time.time()
    return Health(address, None, None if status == 200 else ready.strip(), found, ahead)
