"""A group coordinator whose log is a list, with a clock and timers that run when told to."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

from kavka.coordinator.classic.embedded import (
    ConsumerProtocolSubscription,
    OwnedPartitions,
    read_assignment,
    write_assignment,
)
from kavka.coordinator.classic.kind import ClassicKind
from kavka.coordinator.consumer.kind import ConsumerKind
from kavka.coordinator.groups import GroupCoordinator
from kavka.coordinator.kinds import KINDS, codec_of
from kavka.coordinator.requests import Client
from kavka.metadata.delta import apply
from kavka.metadata.image import EMPTY
from kavka.metadata.records.settings import ConfigRecord
from kavka.metadata.records.topics import PartitionRecord, RemoveTopicRecord, TopicRecord
from kavka.model.errors import InvalidRegularExpression
from kavka.model.settings import broker_values
from kavka.model.transition import PARKED, Answer, CancelTimer, SetTimer
from kavka.model.types import Uuid
from kavka.protocol.compiler import encode
from kavka.protocol.schemas.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kavka.protocol.schemas.heartbeat import HeartbeatRequest
from kavka.protocol.schemas.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kavka.protocol.schemas.leave_group import LeaveGroupRequest, MemberIdentity
from kavka.protocol.schemas.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kavka.protocol.schemas.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kavka.protocol.schemas.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kavka.protocol.schemas.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "g"
START_MS = 1_700_000_000_000


def client(version, id_="app", host="/10.0.0.1"):
    return Client(id_, host, version)


def topic_id(name, again=0):
    """The id of a topic; one that is created again gets another."""
    return Uuid(f"{name}{'#' * again}".encode().ljust(16, b"."))


class Topics:
    """The cluster's metadata, as far as groups look at it."""

    def __init__(self):
        self.image = EMPTY
        self.created: Counter[Any] = Counter()

    def change(self, *records):
        self.image, delta = apply(self.image, records, self.image.offset + 1, 1)
        return delta

    def id_of(self, name):
        topic = self.image.topics.by_name.get(name)
        return topic_id(name) if topic is None else topic.id

    def create(self, name, partitions=1):
        id_ = topic_id(name, self.created[name])
        self.created[name] += 1
        return self.change(TopicRecord(name=name, topic_id=id_), *(_partition(id_, each) for each in range(partitions)))

    def grow(self, name, partitions):
        topic = self.image.topics.by_name[name]
        return self.change(*(_partition(topic.id, each) for each in range(len(topic.partitions), partitions)))

    def delete(self, name):
        return self.change(RemoveTopicRecord(topic_id=self.image.topics.by_name[name].id))

    def configure(self, group, **settings):
        records = (
            ConfigRecord(resource_type=32, resource_name=group, name=name.replace("_", "."), value=str(value))
            for name, value in settings.items()
        )
        return self.change(*records)


def _partition(id_, index):
    return PartitionRecord(
        topic_id=id_,
        partition_id=index,
        replicas=[1],
        isr=[1],
        removing_replicas=[],
        adding_replicas=[],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[Uuid(b"d" * 16)],
    )


class Shard:
    """A machine and a list for its log."""

    def __init__(self, topics=None, *, kinds=KINDS, **settings):
        self.kinds = kinds
        self.codec = codec_of(kinds)
        self.settings = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.topics = Topics()
        for name, partitions in (topics or {}).items():
            self.topics.create(name, partitions)
        self.numbers = itertools.count(1)
        self.tokens = itertools.count(1)
        self.log = []
        self.now_ms = START_MS
        self.matched = []
        self.broken = set()
        self.start()

    def start(self):
        """A fresh machine that loads the log: what a failover does."""
        self.timers = {}
        self.answers = {}
        self.parked = set()
        self.machine = self.loaded()
        self.take(self.machine.on_loaded(self.now_ms))

    def loaded(self):
        """Another machine with this log in it."""
        machine = GroupCoordinator(
            broker_values(self.settings), self.topics.image, new_id=self.new_id, match=self.match, kinds=self.kinds
        )
        for offset, (key, value, producer_id) in enumerate(self.log):
            if key is None:
                machine.replay_end_transaction(producer_id, committed=value)
            else:
                machine.replay(self.codec.decode(key, value), offset, producer_id)
        return machine

    def new_id(self):
        return Uuid(next(self.numbers).to_bytes(16, "big"))

    def match(self, pattern, _):
        """Patterns of Python stand in for those of RE2."""
        self.matched.append(pattern)
        if pattern in self.broken:
            raise InvalidRegularExpression(pattern)
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise InvalidRegularExpression(str(error)) from None
        return frozenset(name for name in self.topics.image.topics.by_name if compiled.fullmatch(name))

    # -- what a runtime does ----------------------------------------------------------------------

    def take(self, transition):
        """Write and replay the records, run the effects; the reply, or the token of who waits."""
        for record in transition.records:
            self.append(record)
        for effect in transition.effects:
            match effect:
                case SetTimer(key, at_ms):
                    self.timers[key] = at_ms
                case CancelTimer(key):
                    self.timers.pop(key, None)
                case Answer(token, reply):
                    assert token in self.parked, "an answer to nobody"
                    self.parked.remove(token)
                    self.answers[token] = reply
        return transition.reply

    def append(self, record, producer_id=-1):
        self.log.append((*self.codec.encode(record), producer_id))
        self.machine.replay(record, len(self.log) - 1, producer_id)

    def end_transaction(self, producer_id, *, committed):
        self.log.append((None, committed, producer_id))
        self.machine.replay_end_transaction(producer_id, committed=committed)

    def ask(self, decide):
        """Make a request that may have to wait: its reply, or its token."""
        token = next(self.tokens)
        transition = decide(token)
        if transition.reply is PARKED:
            self.parked.add(token)  # the effects of the decision may answer it already
        reply = self.take(transition)
        return token if reply is PARKED else reply

    def answer(self, asked):
        """The reply to a request: what `ask` returned, or what was answered since."""
        return self.answers.pop(asked) if isinstance(asked, int) else asked

    def advance(self, ms):
        """Let time go by, with the timers that go off on the way."""
        until = self.now_ms + ms
        while self.timers:
            key, at_ms = min(self.timers.items(), key=lambda item: (item[1], item[0]))
            if at_ms > until:
                break
            self.now_ms = max(self.now_ms, at_ms)
            del self.timers[key]
            self.take(self.machine.on_timer(key, self.now_ms))
        self.now_ms = until

    def records_since(self, start):
        """Names of the records' keys, `-` before those that were forgotten."""
        found = []
        for key, value, _ in self.log[start:]:
            name = type(self.codec.decode(key, value).key).__name__.removesuffix("Key")
            found.append(name if value is not None else f"-{name}")
        return found

    @property
    def state(self):
        return self.machine.state

    # -- metadata ---------------------------------------------------------------------------------

    def create_topic(self, name, partitions=1):
        self.take(self.machine.on_metadata(*self._moved(self.topics.create(name, partitions))))

    def grow_topic(self, name, partitions):
        self.take(self.machine.on_metadata(*self._moved(self.topics.grow(name, partitions))))

    def delete_topic(self, name):
        self.take(self.machine.on_metadata(*self._moved(self.topics.delete(name))))

    def configure(self, group=GROUP, **settings):
        self.take(self.machine.on_metadata(*self._moved(self.topics.configure(group, **settings))))

    def _moved(self, delta):
        return self.topics.image, delta

    # -- consumer groups --------------------------------------------------------------------------

    def beat(self, member="m1", epoch=0, *, group=GROUP, version=1, app="app", host="/10.0.0.1", **values):
        """A ConsumerGroupHeartbeat; one that joins says all that it must."""
        if epoch == 0:
            values = {"rebalance_timeout_ms": 300_000, "owned": {}, **values}
            if "regex" not in values:
                values.setdefault("topics", ["a"])
        owned = values.pop("owned", None)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=values.pop("topics", None),
            subscribed_topic_regex=values.pop("regex", None),
            server_assignor=values.pop("assignor", None),
            topic_partitions=None if owned is None else self.owned(owned),
            **values,
        )
        kind = self.machine.kind(ConsumerKind)
        return self.take(kind.consumer_group_heartbeat(request, client(version, app, host), self.now_ms))

    def owned(self, owned):
        return [
            TopicPartitions(topic_id=self.topics.id_of(name), partitions=list(found)) for name, found in owned.items()
        ]

    def group(self, id_=GROUP):
        return self.state.groups[id_]

    def member(self, id_="m1", group=GROUP):
        return self.state.groups[group].members[id_]

    # -- the classic protocol ---------------------------------------------------------------------

    def join(self, member="", *, group=GROUP, version=9, app="app", **values):
        """A JoinGroup: its reply, or its token."""
        names = values.pop("protocols", {"range": subscription(["a"])})
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=values.pop("session_timeout_ms", 10_000),
            rebalance_timeout_ms=values.pop("rebalance_timeout_ms", 60_000),
            member_id=member,
            group_instance_id=values.pop("instance", None),
            protocol_type=values.pop("protocol_type", "consumer"),
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in names.items()],
            **values,
        )
        return self.ask(lambda token: self.machine.join_group(request, client(version, app), token, self.now_ms))

    def join_known(self, member=None, **values):
        """A JoinGroup of a dynamic member that first asks for an id, as clients do."""
        if member is None:
            refused = self.join(**values)
            assert refused.error_code == 79
            member = refused.member_id
        return member, self.join(member, **values)

    def sync(self, member, generation, assignments=None, *, group=GROUP, instance=None, **values):
        """A SyncGroup: its reply, or its token."""
        request = SyncGroupRequest(
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            assignments=[
                SyncGroupRequestAssignment(member_id=id_, assignment=found)
                for id_, found in (assignments or {}).items()
            ],
            **values,
        )
        return self.ask(lambda token: self.machine.sync_group(request, token, self.now_ms))

    def classic_beat(self, member, generation, *, group=GROUP, instance=None):
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
        )
        return self.take(self.machine.heartbeat(request, self.now_ms)).error_code

    def leave(self, *members, group=GROUP, version=5):
        """A LeaveGroup of members, each an id or an id and an instance id."""
        identities = [each if isinstance(each, tuple) else (each, None) for each in members]
        request = LeaveGroupRequest(
            group_id=group, members=[MemberIdentity(member_id=id_, group_instance_id=seat) for id_, seat in identities]
        )
        if version < 3:
            request = LeaveGroupRequest(group_id=group, member_id=members[0])
        reply = self.take(self.machine.leave_group(request, client(version), self.now_ms))
        return [each.error_code for each in reply.members] if version >= 3 else reply.error_code

    def stable(self, count=2, **values):
        """A classic group of so many members, its leader first, with an assignment; ids and generation."""
        ids, tokens = [], []
        for _ in range(count):
            id_, token = self.join_known(**values)
            ids.append(id_)
            tokens.append(token)
        self.advance(6_000)  # the delay of the first rebalance, which grows once when others come
        replies = [self.answer(token) for token in tokens]
        generation = replies[0].generation_id
        leader = next(reply.member_id for reply in replies if reply.leader == reply.member_id)
        ids.sort(key=lambda id_: id_ != leader)
        given = {id_: assignment(a=[number]) for number, id_ in enumerate(ids)}
        group = values.get("group", GROUP)
        syncs = [self.sync(id_, generation, given if id_ == leader else None, group=group) for id_ in ids[::-1]]
        assert [self.answer(each).error_code for each in syncs] == [0] * count
        return ids, generation

    # -- offsets ----------------------------------------------------------------------------------

    def commit(self, offset=1, *, topic="a", partition=0, group=GROUP, member="", epoch=-1, version=9, **values):
        """An OffsetCommit of one partition: its error code."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            group_instance_id=values.pop("instance", None),
            retention_time_ms=values.pop("retention_time_ms", -1),
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=values.pop("topic_id", Uuid.ZERO),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=values.pop("leader_epoch", -1),
                            committed_metadata=values.pop("metadata", None),
                        )
                    ],
                )
            ],
        )
        reply = self.take(self.machine.commit_offsets(request, client(version), self.now_ms))
        return reply.topics[0].partitions[0].error_code

    def fetch(self, topic="a", partition=0, *, group=GROUP, stable=False, id_=Uuid.ZERO, **values):
        """How far a group has read a partition: offset, leader epoch, metadata, error code."""
        topics = [OffsetFetchRequestTopics(name=topic, topic_id=id_, partition_indexes=[partition])]
        request = OffsetFetchRequestGroup(group_id=group, topics=topics, **values)
        found = self.machine.fetch_offsets(request, stable=stable).topics[0].partitions[0]
        return found.committed_offset, found.committed_leader_epoch, found.metadata, found.error_code

    def fetch_all(self, group=GROUP, *, stable=False):
        """All that a group has read, by topic and partition."""
        found = self.machine.fetch_offsets(OffsetFetchRequestGroup(group_id=group, topics=None), stable=stable)
        return {
            (topic.name, each.partition_index): (each.committed_offset, each.error_code)
            for topic in found.topics
            for each in topic.partitions
        }

    def delete_offset(self, topic="a", partition=0, *, group=GROUP):
        """An OffsetDelete of one partition: its error code."""
        topics = [
            OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)])
        ]
        reply = self.take(self.machine.delete_offsets(OffsetDeleteRequest(group_id=group, topics=topics)))
        return reply.topics[0].partitions[0].error_code

    def delete_groups(self, *groups):
        return [each.error_code for each in self.take(self.machine.delete_groups(groups))]

    def describe_classic(self, groups, version=6):
        return self.machine.kind(ClassicKind).describe(groups, version)

    def describe_consumer(self, groups):
        return self.machine.kind(ConsumerKind).describe(groups)

    def listed(self, states=(), types=()):
        found = self.machine.list_groups(self.machine.state.groups, states, types)
        return {each.group_id: (each.group_state, each.group_type, each.protocol_type) for each in found}


def assigned(reply):
    """The assignment in a heartbeat's reply by topic name, or None when it says nothing of one."""
    if reply.assignment is None:
        return None
    return {bytes(one.topic_id).rstrip(b"#.").decode(): one.partitions for one in reply.assignment.topic_partitions}


def subscription(topics, owned=None, *, version=3, rack=None, generation=-1):
    """What a consumer says when it joins by the classic protocol."""
    partitions = [OwnedPartitions(topic=name, partitions=list(found)) for name, found in (owned or {}).items()]
    message = ConsumerProtocolSubscription(
        topics=list(topics), owned_partitions=partitions, generation_id=generation, rack_id=rack
    )
    return version.to_bytes(2) + encode(message, version)


def assignment(**topics):
    """What the leader of consumers assigns."""
    return write_assignment(topics, 1)


def unassigned(data):
    """What an assignment says, by topic."""
    return {one.topic: list(one.partitions) for one in read_assignment(data).assigned_partitions}
