"""One topic: its messages, what arrives, producing, its partitions and its config."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from starlette.responses import Response

from kavka.client import EARLIEST, LATEST, ConfigResource, ConfigSource, KafkaError, Last, Producer, TopicPartition
from kavka.client.schemas.framing import Part
from kavka.console.places import PLACE, parse_place
from kavka.console.reading import default_place, read_one, read_records, shown, wanted_by
from kavka.console.rendering import is_topic_name
from kavka.console.sessions import MOST_TAILS
from kavka.console.tailing import EventStream, tail
from kavka.console.visits import RefusedError, Visit, redirect

LIMITS: Final = (25, 50, 100, 250)
MOST_RECORD_BYTES: Final = 256 * 1024
MOST_HEADERS: Final = 50
PRODUCING: Final[dict[str, Any]] = {
    "idempotence": False,  # one record needs no more, and a principal no more rights than those of the topic
    "linger_ms": 0,
    "max_request_bytes": 8 << 20,
    "request_timeout_ms": 8_000,
    "delivery_timeout_ms": 9_000,
    "max_block_ms": 5_000,
}
_POSITIONS: Final = re.compile(r"[0-9]{1,6}:[0-9]{1,19}(,[0-9]{1,6}:[0-9]{1,19}){0,999}", re.ASCII)


async def _topic(visit: Visit) -> str:
    """The topic that is asked for; raises KafkaError if it is not there."""
    name: str = visit.request.path_params["topic"]
    if not is_topic_name(name):
        raise RefusedError(404, "Not there", "no topic has such a name")
    await visit.pool.topic(name)
    return name


def _partition(visit: Visit, name: str) -> int | None:
    text = visit.asked("partition")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise RefusedError(400, "That cannot be read", "a partition is a number")
    if int(text) not in visit.pool.view.topics[name].partitions:
        raise RefusedError(404, "Not there", f"topic {name} has no partition {text}")
    return int(text)


def _about(visit: Visit, name: str, tab: str) -> dict[str, Any]:
    """What all tabs of a topic show."""
    topic = visit.pool.view.topics[name]
    watch = visit.seat.watch
    sizes = watch.look.sizes if watch.look is not None and "sizes" not in watch.look.lacking else None
    own = [TopicPartition(name, index) for index in topic.partitions]
    return {
        "topic": name,
        "internal": topic.internal,
        "indexes": sorted(topic.partitions),
        "tab": tab,
        "stored": None if sizes is None else sum(sizes.get(tp, 0) for tp in own),
        "rate": watch.topic_rates.get(name),
    }


async def messages(visit: Visit) -> Response:
    """Messages by offset, time, key and filter."""
    name = await _topic(visit)
    partition, limit = _partition(visit, name), visit.asked_number("limit", 50, 1, LIMITS[-1])
    text, key = visit.asked("filter"), visit.asked("key")
    place, at = visit.asked("from").strip(), visit.asked("at")
    found, problem = None, None
    try:
        wanted = wanted_by(text, key)
        start = parse_place(place) if place else default_place(wanted, limit)
        newest_first = isinstance(start, Last)
        if at:
            if not _POSITIONS.fullmatch(at):
                raise ValueError("what to read on from is damaged: begin anew")
            pairs = (pair.split(":") for pair in at.split(","))
            positions = {int(index): int(offset) for index, offset in pairs}
            newest_first = False
        found = await read_records(
            visit.pool,
            name,
            positions if at else start,
            wanted,
            partition=partition,
            limit=limit,
            newest_first=newest_first,
            values=visit.seat.values,
        )
    except ValueError as error:
        problem = str(error)
    on = ",".join(f"{index}:{offset}" for index, offset in found.positions.items()) if found is not None else ""
    asked = {"partition": visit.asked("partition"), "limit": limit, "filter": text, "key": key, "from": place}
    return visit.page(
        "messages.html",
        200 if problem is None else 400,
        **_about(visit, name, "messages"),
        found=found,
        problem=problem,
        filtered=bool(text.strip() or key),
        default=not place and not at,
        asked=asked,
        read_on=on if found is not None and not found.complete and len(on) < 4000 else "",
        limits=LIMITS,
        place_help=PLACE,
    )


def _place_of(visit: Visit, name: str) -> tuple[TopicPartition, int]:
    partition = _partition(visit, name)
    offset = visit.asked_number("offset", -1, 0, (1 << 63) - 1)
    if partition is None or offset < 0:
        raise RefusedError(400, "That cannot be read", "a record is at a partition and an offset")
    return TopicPartition(name, partition), offset


async def record(visit: Visit) -> Response:
    """One record, with more of it than a list has."""
    name = await _topic(visit)
    tp, offset = _place_of(visit, name)
    found = await read_one(visit.pool, tp, offset)
    if found is None:
        raise RefusedError(404, "Not there", f"{tp} has no record at offset {offset}: it was deleted, or is a marker")
    return visit.page(
        "record.html",
        **_about(visit, name, "messages"),
        record=await shown(found, visit.seat.values, MOST_RECORD_BYTES),
        partition=tp.partition,
    )


async def raw(visit: Visit) -> Response:
    """The bytes of a key or value, to be saved and never to be shown."""
    name = await _topic(visit)
    tp, offset = _place_of(visit, name)
    found = await read_one(visit.pool, tp, offset)
    part = "key" if visit.asked("part") == "key" else "value"
    data = None if found is None else found.key if part == "key" else found.value
    if data is None:
        raise RefusedError(404, "Not there", f"there is no such {part}")
    disposition = f'attachment; filename="{name}-{tp.partition}-{offset}.{part}.bin"'
    return Response(data, media_type="application/octet-stream", headers={"Content-Disposition": disposition})


async def live(visit: Visit) -> Response:
    """What arrives, as it does."""
    name = await _topic(visit)
    text, problem = visit.asked("filter"), None
    try:
        wanted_by(text)
    except ValueError as error:
        problem = str(error)
    _partition(visit, name)
    asked = {"partition": visit.asked("partition"), "filter": text}
    return visit.page("live.html", **_about(visit, name, "live"), asked=asked, problem=problem)


async def events(visit: Visit) -> Response:
    """The events of a live tail."""
    name = await _topic(visit)
    partition, wanted = _partition(visit, name), wanted_by(visit.asked("filter"))
    seat = visit.seat
    if seat.tails >= MOST_TAILS * (1 if visit.settings.signs_in else 4):
        raise RefusedError(429, "Too many live tails", "close some of the others first")

    async def watched() -> AsyncGenerator[dict[str, Any], None]:
        async with aclosing(tail(visit.pool, name, partition, wanted, seat.values)) as found:
            async for event in found:
                seat.watch.touch()
                yield event

    def over() -> None:
        seat.tails -= 1

    seat.tails += 1
    return EventStream(watched(), over, visit.ending)  # type: ignore[return-value]  # an ASGI application, as responses are


async def produce_form(visit: Visit) -> Response:
    """The form for a new record."""
    name = await _topic(visit)
    sent = visit.asked("sent")
    values: dict[str, Any] = dict.fromkeys(("key", "value", "headers", "partition"), "")
    values |= {"no_key": True, "tombstone": False, "key_schema": False, "value_schema": False}
    where = sent.split(":") if re.fullmatch(r"[0-9]{1,9}:[0-9]{1,19}", sent, re.ASCII) else None
    return _produce_page(visit, name, values, sent=where)


async def produce(visit: Visit) -> Response:
    """Produce a record."""
    name, form = await _topic(visit), visit.form
    values = {
        "key": form.get("key", ""),
        "value": form.get("value", ""),
        "headers": form.get("headers", ""),
        "partition": form.get("partition", ""),
        "no_key": "no_key" in form and not form.get("key"),
        **{flag: flag in form for flag in ("tombstone", "key_schema", "value_schema")},
    }
    try:
        headers = _headers(form.get("headers", ""))
        text = form.get("partition", "")
        if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise ValueError("a partition is a number")
        key = None if values["no_key"] else await _bytes(visit, "key", name)
        value = None if values["tombstone"] else await _bytes(visit, "value", name)
        async with Producer(visit.pool, **PRODUCING) as producer:
            sent = await producer.send_and_wait(
                name,
                value,
                key=key,
                partition=int(text) if text else None,
                headers=headers,
            )
    except (ValueError, KafkaError) as error:
        return _produce_page(visit, name, values, problem=str(error))
    return redirect(f"/topics/{name}/produce?sent={sent.partition}:{sent.offset}")


def _produce_page(
    visit: Visit, name: str, values: dict[str, Any], *, sent: list[str] | None = None, problem: str | None = None
) -> Response:
    about = {**_about(visit, name, "produce"), "schemas": visit.seat.values is not None}
    return visit.page("produce.html", 400 if problem else 200, **about, values=values, sent=sent, problem=problem)


async def _bytes(visit: Visit, part: Part, name: str) -> bytes:
    """A key or value as the form has it, or written by its schema; raises ValueError."""
    text: str = visit.form.get(part, "")
    if f"{part}_schema" not in visit.form:
        return text.replace("\r\n", "\n").encode()
    if visit.seat.values is None:
        raise ValueError("this console knows of no schema registry")
    return await visit.seat.values.written(part, name, text)


def _headers(text: str) -> list[tuple[str, bytes]]:
    """Headers, one on each line as name: value."""
    found = []
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if line.strip() and (not colon or not name.strip()):
            raise ValueError("a header is written as name: value, on a line of its own")
        if line.strip():
            found.append((name.strip(), value.strip().encode()))
    if len(found) > MOST_HEADERS:
        raise ValueError(f"at most {MOST_HEADERS} headers can be given here")
    return found


async def partitions(visit: Visit) -> Response:
    """Where each partition is and what it has."""
    name = await _topic(visit)
    view = (await visit.pool.refresh([name])).topics[name]
    own = [TopicPartition(name, index) for index in view.partitions]
    starts = await visit.admin.find_offsets(dict.fromkeys(own, EARLIEST))
    ends = await visit.admin.find_offsets(dict.fromkeys(own, LATEST))
    look = visit.seat.watch.look
    rows = []
    for tp in own:
        start, end = starts[tp], ends[tp]
        known = not isinstance(start, KafkaError) and not isinstance(end, KafkaError)
        rows.append(
            {
                "index": tp.partition,
                "is": view.partitions[tp.partition],
                "start": None if isinstance(start, KafkaError) else start.offset,
                "end": None if isinstance(end, KafkaError) else end.offset,
                "records": end.offset - start.offset if known else None,  # type: ignore[union-attr]
                "size": look.sizes.get(tp) if look is not None else None,
            }
        )
    return visit.page("partitions.html", **_about(visit, name, "partitions"), rows=rows)


async def config(visit: Visit) -> Response:
    """The topic's settings, its own first."""
    name = await _topic(visit)
    resource = ConfigResource.topic(name)
    found = (await visit.admin.describe_configs(resource))[resource]
    entries = sorted(found.values(), key=lambda entry: (entry.source != ConfigSource.TOPIC, entry.name))
    rows = [
        {
            "name": entry.name,
            "value": "hidden" if entry.sensitive else entry.value,
            "source": entry.source.name.lower().replace("_", " "),
            "own": entry.source == ConfigSource.TOPIC,
        }
        for entry in entries
    ]
    return visit.page("config.html", **_about(visit, name, "config"), rows=rows)
