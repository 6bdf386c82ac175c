"""`kavka cluster add-voter`, `remove-voter` and `unregister`: who belongs to a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, run
from kavka.cli.output import CommandError, Output, print_json, write_line
from kavka.client import Admin
from kavka.client.dial import parse_address
from kavka.model.types import Uuid

Node = Annotated[int, typer.Argument(metavar="NODE", min=0, help="The node's id.")]
DirectoryId = Annotated[
    str | None,
    typer.Option(
        "--directory-id", metavar="ID", show_default="as the quorum knows it", help="Of its metadata directory."
    ),
]


def add_voter(
    node: Node,
    endpoint: Annotated[
        list[str],
        typer.Option("--endpoint", metavar="NAME://HOST:PORT", help="Where its controller listens; may be repeated."),
    ],
    directory_id: DirectoryId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Give a controller that runs and has read the metadata a vote.

    Example: `kavka cluster add-voter 4 --endpoint CONTROLLER://four.example:9093`
    """
    endpoints = dict(_endpoint(text) for text in endpoint)

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            known = {observer.id: observer.directory_id for observer in (await admin.describe_quorum()).observers}
            await admin.add_voter(node, _directory(directory_id, known, node, "observers"), endpoints)

    run(work())
    _tell(output, {"node": node, "voter": True}, f"node {node} has a vote")


def remove_voter(
    node: Node,
    directory_id: DirectoryId = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Take a controller's vote away.

    Example: `kavka cluster remove-voter 4`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            known = {voter.id: voter.directory_id for voter in (await admin.describe_quorum()).voters}
            await admin.remove_voter(node, _directory(directory_id, known, node, "voters"))

    run(work())
    _tell(output, {"node": node, "voter": False}, f"node {node} has no vote any more")


def unregister(
    node: Node,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Forget a broker that is gone for good.

    Example: `kavka cluster unregister 4`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            described = await admin.describe_cluster(include_fenced=True)
            if node in {one.id for one in described.nodes} - described.fenced:
                raise CommandError(f"node {node} is in service: stop it first")
            await admin.unregister_broker(node)

    run(work())
    _tell(output, {"node": node, "registered": False}, f"node {node} is forgotten")


def _directory(given: str | None, known: dict[int, Uuid], node: int, where: str) -> Uuid:
    if given is not None:
        try:
            return Uuid.parse(given)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--directory-id") from None
    if node not in known:
        there = ", ".join(map(str, sorted(known))) or "none"
        raise CommandError(f"node {node} is not among the quorum's {where}: {there}")
    return known[node]


def _endpoint(text: str) -> tuple[str, tuple[str, int]]:
    name, separator, address = text.partition("://")
    try:
        if not separator or not name:
            raise ValueError
        return name, parse_address(address)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not NAME://HOST:PORT", param_hint="--endpoint") from None


def _tell(output: Output, result: dict[str, object], text: str) -> None:
    print_json(result) if output is Output.JSON else write_line(text)
