"""`kavka transactions`: list, describe, abort, and find those that hang."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, run
from kavka.cli.output import CommandError, Output, print_json, print_rows, tell
from kavka.client import Admin, TopicPartition
from kavka.client.admin_transactions import OpenTransaction, TransactionDescription

app = group("Look at transactions, and end those that nobody else ends.")

HANGING_COLUMNS = ["topic", "partition", "producer_id", "producer_epoch", "start_offset", "last_timestamp"]


@app.command("list")
def list_transactions(
    state: Annotated[list[str] | None, typer.Option("--state", help="Only in this state; may be repeated.")] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option("--producer-id", help="Only of this producer; may be repeated.")
    ] = None,
    longer_than: Annotated[
        float | None, typer.Option("--longer-than", metavar="SECONDS", help="Only begun longer ago than this.")
    ] = None,
    pattern: Annotated[str | None, typer.Option("--pattern", help="Only ids that this pattern matches.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """List the transactional ids.

    Example: `kavka transactions list --state Ongoing --longer-than 60`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            found = await admin.list_transactions(
                states=state or (),
                producer_ids=producer_id or (),
                longer_than_ms=-1 if longer_than is None else int(longer_than * 1000),
                pattern=pattern,
            )
        rows = [
            {
                "id": transaction.id,
                "coordinator": transaction.coordinator,
                "producer_id": transaction.producer_id,
                "state": transaction.state,
            }
            for transaction in found
        ]
        print_rows(output, ["id", "coordinator", "producer_id", "state"], rows)

    run(work())


@app.command("describe")
def describe_transactions(
    names: Annotated[list[str], typer.Argument(metavar="ID...", help="The transactional ids to describe.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Show the last transaction of transactional ids, and the partitions of an open one.

    Example: `kavka transactions describe shop-1`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            found = [await admin.describe_transaction(name) for name in dict.fromkeys(names)]
        if output is Output.JSON:
            print_json(
                [
                    {**_row(transaction), "partitions": [str(each) for each in transaction.partitions]}
                    for transaction in found
                ]
            )
            return
        columns = ["id", "coordinator", "state", "producer_id", "producer_epoch", "timeout_ms", "open_ms", "partitions"]
        print_rows(output, columns, [_row(transaction) for transaction in found])

    run(work())


def _row(found: TransactionDescription) -> dict[str, object]:
    is_open = found.state in ("Ongoing", "PrepareCommit", "PrepareAbort")
    return {
        "id": found.id,
        "coordinator": found.coordinator,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "open_ms": int(time.time() * 1000) - found.start_ms if is_open else None,
        "partitions": " ".join(str(partition) for partition in found.partitions),
    }


@app.command("abort")
def abort_transaction(
    name: Annotated[str | None, typer.Argument(metavar="[ID]", help="The transactional id.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="A hanging transaction's topic.")] = None,
    partition: Annotated[int | None, typer.Option("--partition", help="Its partition.")] = None,
    producer_id: Annotated[int | None, typer.Option("--producer-id", help="Its producer.")] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Abort the open transaction of a transactional id, whose producer is fenced; or one that hangs in a partition.

    A hanging transaction, one that its coordinator knows nothing of, is named by topic, partition and producer, as
    `kavka transactions find-hanging` shows it.

    Examples:

    - `kavka transactions abort shop-1`
    - `kavka transactions abort --topic orders --partition 0 --producer-id 1007`
    """
    given = [each is not None for each in (topic, partition, producer_id)]
    if any(given) if name is not None else not all(given):
        raise typer.BadParameter("give either a transactional id, or --topic, --partition and --producer-id")

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            if name is not None:
                await admin.fence_producer(name)
                tell(output, f"nothing of {name} is open; its producer is fenced", transactional_id=name)
                return
            assert topic is not None
            assert partition is not None
            for transaction in await admin.open_transactions(TopicPartition(topic, partition)):
                if transaction.producer_id == producer_id:
                    await admin.abort_transaction(transaction)
                    words = f"the transaction of producer {producer_id} in {transaction.partition} is aborted"
                    tell(output, words, producer_id=producer_id, topic=topic, partition=partition)
                    return
        raise CommandError(f"producer {producer_id} has no transaction open in {topic}-{partition}")

    run(work())


@app.command("find-hanging")
def find_hanging(
    topic: Annotated[list[str] | None, typer.Option("--topic", help="Only in this topic; may be repeated.")] = None,
    older_than: Annotated[
        float,
        typer.Option("--older-than", metavar="SECONDS", min=0.0, help="Only whose last record is older than this."),
    ] = 900.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Find transactions that are open in a partition but that no coordinator will ever end.

    They hold back everyone who reads committed records. No transaction may be open for longer than
    `transaction.max.timeout.ms`, by default 15 minutes; younger ones are left out.

    Example: `kavka transactions find-hanging --topic orders`
    """

    async def work() -> None:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            names = topic or [listed.name for listed in await admin.list_topics()]
            described = await admin.describe_topics(names)
            places = [
                TopicPartition(description.name, each.index)
                for description in described.values()
                for each in description.partitions
            ]
            before_ms = int((time.time() - older_than) * 1000)
            found = await admin.find_hanging(places, older_than_ms=before_ms)
        print_rows(output, HANGING_COLUMNS, [_hanging(transaction) for transaction in found])

    run(work())


def _hanging(transaction: OpenTransaction) -> dict[str, object]:
    return {
        "topic": transaction.partition.topic,
        "partition": transaction.partition.partition,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "start_offset": transaction.start_offset,
        "last_timestamp": transaction.last_timestamp,
    }
