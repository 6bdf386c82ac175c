"""Groups of all kinds: how far they have read, who reads, and having them go on elsewhere after a dry run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from kavka.client import LATEST, Admin, GroupDescription, KafkaError, TopicPartition
from kavka.console.places import PLACE, offsets_of, parse_place, shifted
from kavka.console.rates import lag_of
from kavka.console.visits import RefusedError, Visit, redirect
from kavka.model.errors import GroupIdNotFound

PER_PAGE: Final = 50
RESTING: Final = ("Empty", "Dead")
KINDS: Final = ("classic", "consumer", "share", "streams")
MOST_ROWS: Final = 1000
MOST_ID: Final = 4096


async def show(visit: Visit) -> Response:
    """The list of groups."""
    watch = visit.seat.watch
    await watch.known()
    search, kind = visit.asked("search")[:249].strip(), visit.asked("kind")
    kind = kind if kind in KINDS else ""
    look = watch.look
    found = [
        (group, lag_of(look, group.id) if look is not None else None)
        for group in (look.groups if look is not None else ())
        if search.lower() in group.id.lower() and kind in ("", group.type)
    ]
    by_lag = visit.asked("sort") == "lag"
    found.sort(key=lambda row: (-(row[1] or 0), row[0].id) if by_lag else (0, row[0].id))
    pages = max(1, -(-len(found) // PER_PAGE))
    page = visit.asked_number("page", 1, 1, pages)
    return visit.page(
        "groups.html",
        rows=found[(page - 1) * PER_PAGE : page * PER_PAGE],
        total=len(found),
        everything=len(look.groups) if look is not None else 0,
        known=look is not None,
        search=search,
        kind=kind,
        kinds=KINDS,
        sort="lag" if by_lag else "name",
        page_number=page,
        pages=pages,
        asked={"search": search, "kind": kind, "sort": "lag" if by_lag else ""},
        lacking=list(look.lacking.values()) if look is not None else [],
    )


async def _described(admin: Admin, id_: str) -> GroupDescription:
    """A group of any kind; raises KafkaError."""
    try:
        return await admin.describe_group(id_)
    except GroupIdNotFound:
        return await admin.describe_share_group(id_)


async def _positions(admin: Admin, group: GroupDescription) -> dict[TopicPartition, tuple[int | None, int | None]]:
    """Where a group is in each partition, and its lag if it tells that itself."""
    if group.type == "share":
        found = await admin.share_group_offsets(group.id)
        return {tp: (each.start_offset, each.lag) for tp, each in found.items()}
    return {tp: (each.offset, None) for tp, each in (await admin.group_offsets(group.id)).items()}


def _id(text: str) -> str:
    if not text or len(text) > MOST_ID:
        raise RefusedError(404, "Not there", "no group has such a name")
    return text


async def _page(visit: Visit, id_: str, status: int = 200, **more: Any) -> Response:
    admin = visit.admin
    group = await _described(admin, id_)
    at = await _positions(admin, group)
    owners = {tp: member for member in group.members for tp in member.partitions}
    known = sorted({*at, *owners})
    ends = await admin.find_offsets(dict.fromkeys(known, LATEST)) if known else {}
    rows = []
    for tp in known:
        offset, told = at.get(tp, (None, None))
        found = ends[tp]
        end = None if isinstance(found, KafkaError) else found.offset
        lag = told if told is not None else max(0, end - offset) if end is not None and offset is not None else None
        rows.append({"tp": tp, "offset": offset, "end": end, "lag": lag, "member": owners.get(tp)})
    values: dict[str, Any] = {"plan": None, "packed": "", "problem": None, "done": None, **more}
    values["form"] = {name: visit.form.get(name, "") for name in ("topic", "how", "place")}
    return visit.page(
        "group.html",
        status,
        group=group,
        rows=rows[:MOST_ROWS],
        hidden=max(0, len(known) - MOST_ROWS),
        lag=sum(lags) if (lags := [row["lag"] for row in rows if row["lag"] is not None]) or not rows else None,
        topics=sorted({tp.topic for tp in known}),
        resting=group.state in RESTING,
        place_help=PLACE,
        **values,
    )


async def group(visit: Visit) -> Response:
    """One group."""
    done = visit.asked_number("done", 0, 0, 1 << 31)
    return await _page(visit, _id(visit.asked("id")), done=done or None)


async def plan(visit: Visit) -> Response:
    """What a reset would do: nothing is changed."""
    id_ = _id(visit.form.get("id", ""))
    try:
        found = await _planned(visit.admin, id_, visit.form)
    except ValueError as error:
        return await _page(visit, id_, 400, problem=str(error))
    return await _page(visit, id_, plan=found, packed=_packed(found))


async def _planned(admin: Admin, id_: str, form: Mapping[str, str]) -> list[dict[str, Any]]:
    group = await _described(admin, id_)
    at = {tp: offset for tp, (offset, _) in (await _positions(admin, group)).items()}
    topic = form.get("topic", "")
    chosen = sorted(tp for tp in at if topic in ("", tp.topic))
    if topic and not chosen:
        count = len((await admin.describe_topic(topic)).partitions)
        chosen = [TopicPartition(topic, index) for index in range(count)]
    how, text = form.get("how", "to"), form.get("place", "").strip()
    if how == "shift":
        if not text.removeprefix("-").isdecimal() or len(text) > 19:
            raise ValueError("a shift is a number of records, negative to go back")
        target = await shifted(admin, {tp: at[tp] or 0 for tp in chosen if at.get(tp) is not None}, int(text))
    else:
        target = await offsets_of(admin, chosen, parse_place(text))
    if not target:
        raise ValueError("there is nothing to reset: the group has no offsets in what was chosen")
    return [{"tp": tp, "before": at.get(tp), "after": offset} for tp, offset in sorted(target.items())]


def _packed(found: list[dict[str, Any]]) -> str:
    return json.dumps([[row["tp"].topic, row["tp"].partition, row["after"]] for row in found])


def _unpacked(text: str) -> dict[TopicPartition, int]:
    """The offsets of a plan that comes back; raises ValueError."""
    found = {}
    try:
        rows = json.loads(text)
    except RecursionError:
        rows = None
    if not isinstance(rows, list) or not rows:
        raise ValueError("the plan is damaged: preview it again")
    for row in rows:
        match row:
            case [str(topic), int(partition), int(offset)] if partition >= 0 and offset >= 0:
                found[TopicPartition(topic, partition)] = offset
            case _:
                raise ValueError("the plan is damaged: preview it again")
    return found


async def reset(visit: Visit) -> Response:
    """Carry a plan out."""
    id_ = _id(visit.form.get("id", ""))
    try:
        target = _unpacked(visit.form.get("plan", ""))
        group = await _described(visit.admin, id_)
        if group.state not in RESTING:
            raise ValueError(f"the group has members again ({group.state}): they must leave it first")
        if group.type == "share":
            await visit.admin.alter_share_group_offsets(id_, target)
        else:
            await visit.admin.alter_group_offsets(id_, target)
    except (ValueError, KafkaError) as error:
        return await _page(visit, id_, 400, problem=str(error))
    return redirect(f"/group?{urlencode({'id': id_, 'done': len(target)})}")
