"""Classic groups: joining, staying, leaving, looking at them; every code that a wrong request gets."""

from __future__ import annotations

from collections.abc import Callable

from jvm.differential.areas.topics import create, topic
from jvm.differential.case import Case, Seen, cases

from kavka.protocol.consumer_protocol import ConsumerProtocolSubscription, write_assignment, write_subscription
from kavka.protocol.schemas.delete_groups import DeleteGroupsRequest
from kavka.protocol.schemas.describe_groups import DescribeGroupsRequest
from kavka.protocol.schemas.find_coordinator import FindCoordinatorRequest
from kavka.protocol.schemas.heartbeat import HeartbeatRequest
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.protocol.schemas.leave_group import LeaveGroupRequest, MemberIdentity
from kavka.protocol.schemas.list_groups import ListGroupsRequest
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kavka.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest

Built = Callable[[Seen], object]

SUBSCRIBED = write_subscription(ConsumerProtocolSubscription(topics=["grouped"]), 3)
ASSIGNED = write_assignment({"grouped": [0, 1, 2]}, 3)


def join(group: str, member: str = "", *, session_ms: int = 60_000, **rest: object) -> JoinGroupRequest:
    """A member joins as a consumer."""
    protocols = rest.pop("protocols", ["range"])
    assert isinstance(protocols, list)
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=2_000,
        member_id=member,
        protocol_type=rest.pop("protocol_type", "consumer"),
        protocols=[JoinGroupRequestProtocol(name=name, metadata=SUBSCRIBED) for name in protocols],
        **rest,
    )


def member_of(case: str) -> Callable[[Seen], str]:
    """The id that a member was given in an earlier case."""
    return lambda seen: str(seen.answer(case).member_id)


MEMBER = member_of("join: the id of a new member")
SEATED = member_of("join: a static member")


def sync(group: str, member: str, generation: int, **rest: object) -> SyncGroupRequest:
    """A member asks for its assignment; the only member brings it."""
    given = [SyncGroupRequestAssignment(member_id=member, assignment=ASSIGNED)]
    names = {"protocol_type": "consumer", "protocol_name": "range"}
    return SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member, assignments=given, **{**names, **rest}
    )


def heartbeat(group: str, member: str, generation: int, instance: str | None = None) -> HeartbeatRequest:
    """A member is alive."""
    return HeartbeatRequest(group_id=group, member_id=member, generation_id=generation, group_instance_id=instance)


def leave(group: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
    """Members leave, from version 3."""
    return LeaveGroupRequest(
        group_id=group,
        members=[MemberIdentity(member_id=id_, group_instance_id=instance) for id_, instance in members],
    )


NEW_GROUPS = FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=1)

PREPARE = [
    Case("turn consumer groups on", UpdateFeaturesRequest(feature_updates=[NEW_GROUPS]), 1),
    Case("create the topic of the group cases", create(topic("grouped", 3), topic("ungrouped")), 7),
    Case("find the coordinator of the groups", FindCoordinatorRequest(coordinator_keys=["classic"]), 4),
]

JOIN = [
    *cases(*range(10), name="join: no group id", request=join("")),
    *cases(1, 5, 9, name="join: too short a session", request=join("classic", session_ms=1)),
    *cases(1, 9, name="join: too long a session", request=join("classic", session_ms=2**31 - 1)),
    *cases(0, 4, 9, name="join: an unknown member of an unknown group", request=join("nobody", "somebody")),
    *cases(4, 9, name="join: no protocols", request=join("classic", protocols=[])),
    *cases(4, 9, name="join: no protocol type", request=join("classic", protocol_type="")),
    Case("join: the id of a new member", join("classic", reason="to see"), 9),
    Case("join: the new member", lambda seen: join("classic", MEMBER(seen)), 9, masks={"members.*": "<member>"}),
    Case("join: again while the group waits for its leader", lambda seen: join("classic", MEMBER(seen)), 7),
    *cases(5, 9, name="join: an unknown member", request=join("classic", "somebody")),
    *cases(5, 9, name="join: another protocol type", request=join("classic", protocol_type="connect")),
    *cases(5, 9, name="join: another protocol", request=join("classic", protocols=["roundrobin"])),
    *cases(5, 9, name="join: an instance with an unknown member", request=join("classic", "x", group_instance_id="i")),
]

SYNC = [
    Case("sync: no group id", sync("", "x", 1), 5),
    *cases(0, 3, 5, name="sync: an unknown group", request=sync("nobody", "x", 1)),
    *cases(0, 5, name="sync: an unknown member", request=sync("classic", "x", 1)),
    Case("sync: another generation", lambda seen: sync("classic", MEMBER(seen), 7), 5),
    Case("sync: another protocol", lambda seen: sync("classic", MEMBER(seen), 1, protocol_name="sticky"), 5),
    Case("sync: another protocol type", lambda seen: sync("classic", MEMBER(seen), 1, protocol_type="connect"), 5),
    Case("sync: no protocol", lambda seen: sync("classic", MEMBER(seen), 1, protocol_name=None), 5),
    Case("sync: an instance that is not there", sync("classic", "x", 1, group_instance_id="i"), 5),
    Case("describe: a group that waits for its leader", DescribeGroupsRequest(groups=["classic"]), 6),
    *[
        Case(f"sync: the leader v{version}", lambda seen: sync("classic", MEMBER(seen), 1), version)
        for version in range(6)
    ],
    Case("join: again, as the leader of a stable group", lambda seen: join("classic", MEMBER(seen)), 9),
    Case("sync: the second generation", lambda seen: sync("classic", MEMBER(seen), 2), 5),
]

HEARTBEAT = [
    Case("heartbeat: no group id", heartbeat("", "x", 1), 4),
    *cases(0, 3, 4, name="heartbeat: an unknown group", request=heartbeat("nobody", "x", 1)),
    *cases(0, 4, name="heartbeat: an unknown member", request=heartbeat("classic", "x", 2)),
    Case("heartbeat: no member", heartbeat("classic", "", 2), 4),
    Case("heartbeat: another generation", lambda seen: heartbeat("classic", MEMBER(seen), 1), 4),
    Case("heartbeat: an instance that is not there", heartbeat("classic", "x", 2, "i"), 4),
    *[
        Case(f"heartbeat: the member v{version}", lambda seen: heartbeat("classic", MEMBER(seen), 2), version)
        for version in range(5)
    ],
]

STATIC = [
    Case("join: a static member", join("static", group_instance_id="seat"), 9),
    Case("sync: a static member", lambda seen: sync("static", SEATED(seen), 1, group_instance_id="seat"), 5),
    Case("join: a static member comes back", join("static", group_instance_id="seat"), 9),
    Case("heartbeat: its former self", lambda seen: heartbeat("static", SEATED(seen), 1, "seat"), 4),
    Case("join: its former self", lambda seen: join("static", SEATED(seen), group_instance_id="seat"), 9),
    Case(
        "leave: its former self",
        lambda seen: leave("static", (SEATED(seen), "seat")),
        5,
        masks={"members.*.member_id": "<member>"},
    ),
    Case("leave: a static member by its instance", leave("static", ("", "seat")), 5),
]

LOOK = [
    *cases(*range(7), name="describe: a group", request=DescribeGroupsRequest(groups=["classic"])),
    *cases(0, 5, 6, name="describe: an unknown group", request=DescribeGroupsRequest(groups=["nobody"])),
    *cases(0, 6, name="describe: a group without a name", request=DescribeGroupsRequest(groups=[""])),
    Case("describe: no group", DescribeGroupsRequest(groups=[]), 6),
    *cases(
        3,
        6,
        name="describe: what may be done to a group",
        request=DescribeGroupsRequest(groups=["classic", "nobody"], include_authorized_operations=True),
    ),
    *cases(*range(6), name="list: all groups", request=ListGroupsRequest()),
    *cases(4, 5, name="list: stable groups", request=ListGroupsRequest(states_filter=["stable"])),
    Case("list: groups in an unknown state", ListGroupsRequest(states_filter=["asleep"]), 4),
    Case("list: classic groups", ListGroupsRequest(types_filter=["Classic"]), 5),
    Case("list: consumer groups", ListGroupsRequest(types_filter=["consumer"]), 5),
    Case("list: groups of an unknown type", ListGroupsRequest(types_filter=["big"]), 5),
    Case("delete: a group with members", DeleteGroupsRequest(groups_names=["classic"]), 2),
]

LEAVE = [
    Case("leave: no group id", leave("", ("x", None)), 5),
    *cases(0, 2, name="leave: an unknown group", request=LeaveGroupRequest(group_id="nobody", member_id="x")),
    *cases(3, 5, name="leave: members of an unknown group", request=leave("nobody", ("x", None), ("y", "i"))),
    *cases(0, 2, name="leave: an unknown member", request=LeaveGroupRequest(group_id="classic", member_id="x")),
    *cases(3, 5, name="leave: unknown members", request=leave("classic", ("x", None), ("", "i"), ("y", "i"))),
    Case("leave: nobody", leave("classic"), 5),
    Case("leave: the member", lambda seen: leave("classic", (MEMBER(seen), None)), 5),
    Case("leave: the member again", lambda seen: leave("classic", (MEMBER(seen), None)), 3),
    Case("describe: an empty group", DescribeGroupsRequest(groups=["classic"]), 6),
]

DELETE = [
    *cases(0, 2, name="delete: an unknown group", request=DeleteGroupsRequest(groups_names=["nobody"])),
    Case("delete: no group", DeleteGroupsRequest(groups_names=[]), 2),
    Case("delete: groups, one of them twice", DeleteGroupsRequest(groups_names=["classic", "nobody", "classic"]), 2),
    Case("describe: a deleted group", DescribeGroupsRequest(groups=["classic"]), 6),
]
