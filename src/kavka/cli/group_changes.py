"""What `kavka groups` and `kavka share` do alike: delete groups, and show where a group would go on or does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping

from kavka.cli.output import Output, print_json, print_rows, write_line
from kavka.model.errors import KafkaError
from kavka.model.types import TopicPartition


def show_reset(
    output: Output,
    group: str,
    before: Callable[[TopicPartition], int | None],
    target: Mapping[TopicPartition, int],
    *,
    done: bool,
) -> None:
    """Where a group was, and where it goes on or would."""
    rows = [
        {"group": group, "topic": tp.topic, "partition": tp.partition, "before": before(tp), "after": offset}
        for tp, offset in sorted(target.items())
    ]
    print_rows(output, ["group", "topic", "partition", "before", "after"], rows)
    if not done and output is Output.TABLE:
        write_line("nothing was changed: add --execute to do it")


async def delete_each(output: Output, groups: Iterable[str], delete: Callable[[str], Awaitable[None]]) -> None:
    """Delete the groups that can be deleted, say so, and raise the first error."""
    deleted: list[str] = []
    failure: KafkaError | None = None
    for group in groups:
        try:
            await delete(group)
            deleted.append(group)
        except KafkaError as error:
            failure = failure or type(error)(f"group {group!r}: {error}")
    if output is Output.JSON:
        print_json({"deleted": deleted})
    else:
        for group in deleted:
            write_line(f"group {group} deleted")
    if failure is not None:
        raise failure
