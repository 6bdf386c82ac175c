"""Consumers as their coordinator meets them: they own partitions, give them back, stall, crash and come again.

What a player owns is what it reads. Two that own one partition at once are the thing that must never be.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from coordinator.shards import assigned, subscription, unassigned

from kavka.coordinator.classic.embedded import read_subscription, write_assignment
from kavka.model.errors import FencedInstanceId, GroupIdNotFound, KafkaError, UnknownMemberId

SESSION_MS = 45_000


class Player:
    """Somebody in the group, or out of it."""

    def __init__(self, shard, name, topics, instance=None):
        self.shard = shard
        self.name = name
        self.topics = list(topics)
        self.instance = instance
        self.owned = {}
        self.lives = 0
        self.alive = False
        self.heard_ms = 0

    @property
    def partitions(self):
        return {(topic, each) for topic, found in self.owned.items() for each in found}

    def crash(self):
        """Gone without a word; the session has to run out."""
        self.owned = {}
        self.alive = False

    def new_id(self):
        self.lives += 1
        return f"{self.name}.{self.lives}"


class Modern(Player):
    """A consumer of the consumer protocol."""

    def start(self):
        self.member = self.new_id()
        self.epoch = 0
        self.target = {}
        self.alive = True
        self.beat()

    def beat(self, *, full=False):
        """A heartbeat; it says what it owns when that changed."""
        if not self.alive:
            return
        self.heard_ms = self.shard.now_ms
        values = {"instance_id": self.instance}
        if self.epoch == 0 or full:
            values |= {"topics": self.topics, "rebalance_timeout_ms": 300_000}
        owned = {topic: sorted(found) for topic, found in self.owned.items() if found}
        try:
            reply = self.shard.beat(self.member, self.epoch, owned=owned, **values)
        except KafkaError as error:
            self.fenced(error)
            return
        self.epoch = reply.member_epoch
        told = assigned(reply)
        if told is not None:
            self.target = {topic: set(found) for topic, found in told.items()}

    def fenced(self, error):
        self.owned, self.target = {}, {}
        if error.code in (110, 25, 82, 69):  # all of them say: join anew
            self.epoch = 0
        elif error.code == 111:  # somebody sits on our seat: try later
            self.alive = False
        else:
            raise error

    def work(self):
        """Own what one shall own."""
        if self.alive:
            self.owned = {topic: set(found) for topic, found in self.target.items()}

    def subscribe(self, topics):
        self.topics = list(topics)
        if self.alive and self.epoch > 0:
            self.beat(full=True)

    def leave(self):
        if self.alive and self.epoch > 0:
            self.owned = {}
            with suppress(UnknownMemberId, GroupIdNotFound, FencedInstanceId):  # it was taken out before
                self.shard.beat(self.member, -1 if self.instance is None else -2, instance_id=self.instance)
        self.crash()

    def go_on(self):
        self.work()
        self.beat()


class Classic(Player):
    """A consumer of the classic protocol: eager ones give everything back before they join."""

    eager = True
    protocol = "range"

    def start(self):
        self.member = ""
        self.generation = -1
        self.waits_for = None
        self.phase = "out"
        self.alive = True
        self.go_on()

    def crash(self):
        super().crash()
        if getattr(self, "waits_for", None) is not None:
            self.waits_for = None

    def subscribe(self, topics):
        self.topics = list(topics)

    def leave(self):
        if self.alive and self.member and self.instance is None:
            self.owned = {}
            self.shard.leave(self.member)
        self.crash()

    def work(self):
        """Classic consumers own what they are told at once."""

    @property
    def is_outdated(self):
        """Whether the group must assign anew: other topics for this one, or topics that changed under its leader."""
        return self.topics != self.said or (self.leads and self.seen != self.counts())

    def counts(self):
        by_name = self.shard.topics.image.topics.by_name
        return {name: len(by_name[name].partitions) for name in by_name}

    def beat(self):
        if self.alive and self.phase == "in" and self.is_outdated:
            self.rejoin()
        elif self.alive and self.phase == "in":
            self.heard_ms = self.shard.now_ms
            try:
                code = self.shard.classic_beat(self.member, self.generation, instance=self.instance)
            except KafkaError as error:
                code = error.code
            if code:
                self.refused(code)
        elif self.alive:
            self.go_on()

    def refused(self, code):
        if code == 27:
            self.rejoin()
            return
        assert code in (22, 25, 82, 69), code
        self.owned = {}
        self.generation = -1
        if code != 22:
            self.member = ""
        self.phase = "out"

    def rejoin(self):
        if self.eager:
            self.owned = {}
        self.phase = "out"

    def go_on(self):
        """The next step: join, sync, or a heartbeat."""
        if not self.alive:
            return
        self.heard_ms = self.shard.now_ms
        if self.waits_for is not None:
            if self.waits_for not in self.shard.answers:
                return
            reply, self.waits_for = self.shard.answer(self.waits_for), None
            (self.joined if self.phase == "joining" else self.synced)(reply)
        elif self.phase == "out":
            self.join()
        elif self.phase == "joined":
            self.sync()
        else:
            self.beat()

    def join(self):
        if self.eager:
            self.owned = {}
        self.said, self.leads = list(self.topics), False
        said = subscription(self.topics, {topic: sorted(found) for topic, found in self.owned.items()})
        self.phase = "joining"
        asked = self.shard.join(
            self.member, instance=self.instance, protocols={self.protocol: said}, session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
        )  # fmt: skip
        self.wait(asked, self.joined)

    def wait(self, asked, then):
        if isinstance(asked, int):
            self.waits_for = asked
        else:
            then(asked)

    def joined(self, reply):
        self.phase = "out"
        if reply.error_code == 79:
            self.member = reply.member_id
        elif reply.error_code:
            self.refused(reply.error_code)
        else:
            self.member, self.generation, self.phase = reply.member_id, reply.generation_id, "joined"
            self.leads = reply.leader == reply.member_id
            self.skips = reply.skip_assignment  # and so does not know which topics the assignment was made for
            self.others, self.seen = reply.members, None

    def sync(self):
        given = self.assign() if self.leads and not self.skips else None
        self.phase = "syncing"
        try:
            asked = self.shard.sync(self.member, self.generation, given, instance=self.instance)
        except KafkaError as error:
            self.refused(error.code)
            return
        self.wait(asked, self.synced)

    def synced(self, reply):
        if reply.error_code:
            self.refused(reply.error_code)
            return
        self.phase = "in"
        target = (
            {topic: set(found) for topic, found in unassigned(reply.assignment).items()} if reply.assignment else {}
        )
        given_back = self.partitions - {(topic, each) for topic, found in target.items() for each in found}
        self.owned = target
        if given_back and not self.eager:
            self.rejoin()  # so that others can have it (KIP-429)

    def assign(self):
        """As the leader: the partitions of each topic, in turn, for those who want it."""
        self.seen = self.counts()
        said = {each.member_id: read_subscription(each.metadata) for each in self.others}
        owners = {
            (one.topic, each): id_ for id_, found in said.items() for one in found.owned_partitions
            for each in one.partitions
        }  # fmt: skip
        given: Any = {id_: {} for id_ in said}
        for topic in sorted({topic for found in said.values() for topic in found.topics}):
            image = self.shard.topics.image.topics.by_name.get(topic)
            ids = sorted(id_ for id_, found in said.items() if topic in found.topics)
            for partition in range(len(image.partitions) if image else 0):
                id_ = ids[partition % len(ids)]
                if self.eager or owners.get((topic, partition), id_) == id_:
                    given[id_].setdefault(topic, []).append(partition)
        return {id_: write_assignment(found, 1) for id_, found in given.items()}


class Cooperative(Classic):
    """A classic consumer that keeps what it may keep while the group rebalances (KIP-429)."""

    eager = False
    protocol = "cooperative-sticky"


def check_owners(players):
    """No partition may have two owners."""
    owners: dict[Any, Any] = {}
    for player in players:
        for partition in player.partitions if player.alive else ():
            assert partition not in owners, f"{owners[partition]} and {player.name} both own {partition}"
            owners[partition] = player.name


def stay_alive(shard, players, ms):
    """Let time go by, with the heartbeats that keep everybody in the group."""
    while ms > 0:
        step = min(ms, 3_000)
        shard.advance(step)
        ms -= step
        for player in players:
            if player.alive and shard.now_ms - player.heard_ms > SESSION_MS // 3:
                player.go_on()
                check_owners(players)


def settle(shard, players):
    """Everybody does what there is to do until all is well and stays so; not longer than every timeout together.

    Not before the sessions of those who crashed have run out, either.
    """
    calm = 0
    start_ms = shard.now_ms
    while shard.now_ms < start_ms + (2 * SESSION_MS if calm > 4 else 900_000):
        for player in players:
            player.go_on()
            check_owners(players)
        shard.advance(5_000)
        check_owners(players)
        owned = set().union(*(player.partitions for player in players if player.alive))
        calm = calm + 1 if owned == all_partitions(shard, players) else 0


def all_partitions(shard, players):
    """The partitions that somebody who is there wants."""
    wanted = {topic for player in players if player.alive for topic in player.topics}
    by_name = shard.topics.image.topics.by_name
    return {(topic, each) for topic in wanted if topic in by_name for each in by_name[topic].partitions}
