"""Streams groups on a shard whose log is a list, and threads of Kafka Streams as their coordinator meets them."""

from __future__ import annotations

from coordinator.shards import GROUP, Shard, client

from kavka.coordinator.streams.kind import StreamsKind
from kavka.coordinator.streams.machine import ASSIGNMENT
from kavka.model.errors import FencedMemberEpoch, GroupIdNotFound, KafkaError, UnknownMemberId
from kavka.protocol.schemas import streams_group_heartbeat as schema
from kavka.protocol.schemas.streams_group_heartbeat import StreamsGroupHeartbeatRequest

SESSION_MS = 45_000


def topic(name, partitions=0, replication=0, **configs):
    """An internal topic of a topology."""
    pairs = [schema.KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return schema.TopicInfo(name=name, partitions=partitions, replication_factor=replication, topic_configs=pairs)


def subtopology(id_="0", sources=("a",), *, changelogs=(), sinks=(), repartitions=(), together=(), regex=()):
    """A part of a topology; internal topics by name, or as `topic` makes them; `together` are pairs of places."""
    return schema.Subtopology(
        subtopology_id=id_,
        source_topics=list(sources),
        source_topic_regex=list(regex),
        state_changelog_topics=[topic(each) if isinstance(each, str) else each for each in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[topic(each) if isinstance(each, str) else each for each in repartitions],
        copartition_groups=[
            schema.CopartitionGroup(
                source_topics=list(first), source_topic_regex=[], repartition_source_topics=list(second)
            )
            for first, second in together
        ],
    )


def topology(*parts, epoch=0):
    return schema.Topology(epoch=epoch, subtopologies=list(parts) or [subtopology()])


COUNTING = topology(
    subtopology("0", ["a"], sinks=["by-word"]),
    subtopology("1", [], repartitions=["by-word"], changelogs=["counts"]),
)
"""A word count: it repartitions by word, and counts."""


def tasks(**by_subtopology):
    """Tasks as a member names them: `_0=[1, 2]`."""
    return [
        schema.TaskIds(subtopology_id=id_.removeprefix("_"), partitions=list(each))
        for id_, each in by_subtopology.items()
    ]


def told(named):
    """Tasks in a reply, by subtopology; None where it says nothing of them."""
    return None if named is None else {one.subtopology_id: one.partitions for one in named}


class StreamsShard(Shard):
    """A shard whose members of streams groups speak; they assign at once unless a test wants otherwise."""

    def __init__(self, topics=None, **settings):
        defaults = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}
        super().__init__(topics, **{**defaults, **settings})

    @property
    def kind(self):
        return self.machine.kind(StreamsKind)

    def streams(self, member="m1", epoch=0, *, group=GROUP, host="/h", app="app", owned=None, **values):
        """A heartbeat: its reply, with what is missing beside; raises KafkaError."""
        if epoch == 0:
            values = {"rebalance_timeout_ms": 60_000, "topology": topology(), "process_id": f"p-{member}", **values}
            owned = owned or ([], [])
        if owned is not None:
            active, standby = owned
            values |= {"active_tasks": active, "standby_tasks": standby, "warmup_tasks": []}
        request = StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            endpoint_information_epoch=values.pop("endpoint_epoch", -1),
            **values,
        )
        decided = self.kind.streams_group_heartbeat(request, client(0, app, host), self.now_ms)
        self.missing = list(decided.reply.missing)
        return self.take(decided).response

    def code(self, *arguments, **values):
        """The code of a heartbeat's error."""
        try:
            return self.streams(*arguments, **values).error_code
        except KafkaError as error:
            return error.code

    def make_missing(self):
        """What the broker does: create the internal topics that are missing."""
        for one in self.missing:
            self.create_topic(one.name, one.partitions)

    def status(self, reply):
        return [one.status_code for one in reply.status]

    def assign_a_bit(self):
        """One bit of an assignment that is on its way; whether there was one."""
        keys = [key for key in self.timers if key.kind == ASSIGNMENT]
        for key in keys:
            del self.timers[key]
            self.take(self.machine.on_timer(key, self.now_ms))
        return bool(keys)

    def describe_streams(self, *groups):
        return self.kind.describe(groups or [GROUP])


class Thread:
    """A thread of Kafka Streams: it owns tasks, gives them back, stalls, crashes and comes again."""

    def __init__(self, shard, name, process):
        self.shard = shard
        self.name = name
        self.process = process
        self.lives = 0
        self.alive = False
        self.heard_ms = 0
        self.crash()

    def crash(self):
        """Gone without a word; the session has to run out."""
        self.alive = False
        self.fall_back()

    def fall_back(self):
        """Give everything up, to join anew."""
        self.active, self.standby = {}, {}
        self.target: tuple = ({}, {})
        self.epoch = 0

    def start(self):
        self.crash()
        self.lives += 1
        self.member = f"{self.name}.{self.lives}"
        self.alive = True
        self.beat()

    def beat(self, *, lose=False):
        """A heartbeat that says what it owns; `lose` means that the answer does not arrive."""
        if not self.alive:
            return
        self.heard_ms = self.shard.now_ms
        owned = (tasks(**self.active), tasks(**self.standby))
        values = {"topology": COUNTING, "process_id": self.process} if self.epoch == 0 else {}
        try:
            reply = self.shard.streams(self.member, self.epoch, owned=owned, **values)
        except (FencedMemberEpoch, UnknownMemberId, GroupIdNotFound):
            self.fall_back()
            return
        self.shard.make_missing()
        if lose:
            return
        self.epoch = reply.member_epoch
        if reply.active_tasks is not None:
            self.target = (told(reply.active_tasks), told(reply.standby_tasks))

    def work(self):
        """Own what one shall own."""
        if self.alive:
            self.active, self.standby = ({id_: set(each) for id_, each in part.items()} for part in self.target)

    def leave(self):
        if self.alive and self.epoch > 0:
            self.active, self.standby = {}, {}
            self.shard.code(self.member, -1)
        self.crash()

    def go_on(self):
        self.work()
        self.beat()

    def owns(self, part):
        return {(id_, each) for id_, found in part.items() for each in found}


def check_owners(threads):
    """No active task has two owners, and no process has a task twice."""
    owners: dict = {}
    places: dict = {}
    for thread in threads:
        if not thread.alive:
            continue
        for task in thread.owns(thread.active):
            assert task not in owners, f"{owners[task]} and {thread.name} both own {task}"
            owners[task] = thread.name
        for task in (*thread.owns(thread.active), *thread.owns(thread.standby)):
            place = (thread.process, task)
            assert place not in places, f"{places[place]} and {thread.name} have {task} in one process"
            places[place] = thread.name


def stay_alive(shard, threads, ms):
    """Let time go by, with the heartbeats that keep everybody in the group."""
    while ms > 0:
        step = min(ms, 3_000)
        shard.advance(step)
        ms -= step
        for thread in threads:
            if thread.alive and shard.now_ms - thread.heard_ms > SESSION_MS // 3:
                thread.go_on()
                check_owners(threads)


def settle(shard, threads):
    """Everybody does what there is to do until the sessions of those who crashed are over, and a while longer."""
    for _ in range(40):
        for thread in threads:
            thread.go_on()
            check_owners(threads)
        shard.advance(5_000)
