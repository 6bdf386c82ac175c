"""Places and partitions as commands are given them."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from kavka.cli.output import CommandError
from kavka.client import Admin, Place, TopicPartition
from kavka.console import places


def parse_place(text: str, option: str = "--from") -> Place:
    """Read a place; times are UTC unless they say otherwise."""
    try:
        return places.parse_place(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None


async def partitions_of(admin: Admin, texts: Iterable[str], option: str = "--topic") -> list[TopicPartition]:
    """The partitions that a user names: topics, or some partitions of them as TOPIC:P,P."""
    chosen = []
    for text in texts:
        name, colon, indexes = text.rpartition(":")
        if not colon:
            name, indexes = text, ""
        count = len((await admin.describe_topic(name)).partitions)
        try:
            wanted = [int(index) for index in indexes.split(",")] if indexes else list(range(count))
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not TOPIC or TOPIC:P,P", param_hint=option) from None
        missing = [index for index in wanted if not 0 <= index < count]
        if missing:
            raise CommandError(f"topic {name!r} has no partition {missing[0]}")
        chosen += [TopicPartition(name, index) for index in wanted]
    return chosen
