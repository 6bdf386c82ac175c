"""Share groups on a shard whose log is a list, with a share coordinator that acts when it is told to."""

from __future__ import annotations

from coordinator.shards import GROUP, Shard, client

from kavka.coordinator.share.kind import ShareKind
from kavka.model.errors import KafkaError
from kavka.model.transition import Publish
from kavka.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest


class ShareShard(Shard):
    """A shard that knows share groups."""

    def __init__(self, topics=None, **settings):
        self.published = []
        super().__init__(topics, **settings)

    def take(self, transition):
        self.published += [each.news for each in transition.effects if isinstance(each, Publish)]
        return super().take(transition)

    @property
    def kind(self):
        return self.machine.kind(ShareKind)

    def share(self, member="m", epoch=0, topics=None, group=GROUP, rack=None, host="/h"):
        """Ask for a heartbeat: the reply, or the code of what was refused."""
        request = ShareGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, rack_id=rack, subscribed_topic_names=topics
        )
        return self.tried(lambda: self.kind.share_group_heartbeat(request, client(1, host=host), self.now_ms))

    def tried(self, decide):
        try:
            return self.take(decide())
        except KafkaError as error:
            return error.code

    def initialize(self, *, well=True):
        """Let the share coordinator do what was published."""
        while self.published:
            wanted = self.published.pop(0)
            tell = self.kind.initialized if well else self.kind.not_initialized
            self.take(tell(wanted.group_id, wanted.partitions, self.now_ms))

    def joined(self, member="m", topics=("a",), group=GROUP):
        """A member that has what it shall have."""
        self.share(member, 0, list(topics), group)
        self.initialize()
        for _ in range(3):
            self.advance(1000)
            epoch = self.group(group).members[member].epoch
            reply = self.share(member, epoch, None, group)
        return reply

    def group(self, group=GROUP):
        return self.state.groups[group]

    def assigned(self, member="m", group=GROUP):
        found = self.group(group).members[member].assigned
        return {self.topics.image.topics.by_id[id_].name: sorted(each) for id_, each in found.items()}
