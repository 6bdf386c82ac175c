"""What ShareFetch and ShareAcknowledge are refused for, in Kafka's order.

Of the whole request: the feature, the group's id, the right to read the group, the member's id, the limits of a fetch
that only renews, the session. Of each partition: its topic's id, its acknowledgements, the right to read the topic,
whether there is such a partition, who leads it. Nobody asks whether the member belongs to the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kavka.model.errors import InvalidRequest, UnsupportedVersion
from kavka.share.partition import RENEW, Acknowledgement

MEMBER_ID_LENGTH: Final = 36
RENEW_SINCE: Final = 2
"""The version of both requests that knows how to renew locks."""


def check_group(share_version: int, group_id: str | None) -> str:
    """The group's id, before it is authorized; raises if there is none or no share groups are to be had."""
    if share_version < 1:
        raise UnsupportedVersion("share groups are switched off: share.version is 0")
    if group_id is None:
        raise InvalidRequest("a share group has an id")
    return group_id


def check_member(member_id: str | None) -> str:
    """The member's id, after the group was authorized."""
    if not member_id or len(member_id) > MEMBER_ID_LENGTH:
        raise InvalidRequest(f"a member's id has 1 to {MEMBER_ID_LENGTH} characters")
    return member_id


def check_renewal(version: int, is_renewal: bool, limits: Sequence[int]) -> None:
    """A fetch that renews reads nothing: its bytes, its records and its waiting are all 0."""
    if version >= RENEW_SINCE and is_renewal and any(limits):
        raise InvalidRequest("a fetch that renews locks asks for no records and does not wait")


def check_acknowledgements(said: Sequence[Acknowledgement], version: int, is_renewal: bool) -> None:
    """The acknowledgements of one partition, before anything is asked of it."""
    before = -1
    highest = RENEW if version >= RENEW_SINCE else RENEW - 1
    for first, last, types, _ in said:
        if first > last:
            raise InvalidRequest(f"{first} to {last} is no range of records")
        if first < before:
            raise InvalidRequest(f"records are acknowledged in order: {first} comes after {before}")
        if not types:
            raise InvalidRequest("an acknowledgement has a type")
        if len(types) > 1 and last - first + 1 != len(types):
            raise InvalidRequest(f"{last - first + 1} records have {len(types)} types of acknowledgement")
        if any(not 0 <= each <= highest for each in types):
            raise InvalidRequest(f"types of acknowledgement are 0 to {highest}, not {list(types)}")
        if RENEW in types and not is_renewal:
            raise InvalidRequest("the request does not say that it renews locks")
        before = last
