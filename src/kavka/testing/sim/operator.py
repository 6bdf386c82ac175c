"""Those who use a simulated cluster: producers that count on acknowledgements, and an operator who changes things."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kavka.controller.brokers import BrokerRequest, Heartbeat
from kavka.controller.configs import Op
from kavka.controller.directories import InDirectory
from kavka.controller.features import FeatureUpdate
from kavka.controller.isr import InSync, IsrRequest
from kavka.controller.machine import Controller
from kavka.controller.reassignment import Reassign
from kavka.controller.topics import NewPartitions, NewTopic
from kavka.metadata.features import SUPPORTED
from kavka.metadata.image import ConfigResource, MetadataImage, ResourceType, TopicImage
from kavka.model.errors import KafkaError
from kavka.model.transition import Transition
from kavka.model.types import Endpoint, Uuid
from kavka.raft.messages import AddVoter, BeginEpoch, EndEpoch, Fetch, RemoveVoter, UpdateVoter, Vote
from kavka.raft.voters import ReplicaKey, Voter
from kavka.testing.sim.replica import Committed
from kavka.testing.sim.security import secured

if TYPE_CHECKING:
    from kavka.testing.sim.cluster import SimCluster

Decide = Callable[[Controller, int], Transition[Any]]

TOPICS: Final = ("orders", "users", "clicks", "sums", "a.b", "a_b")
NOWHERE: Final = Uuid(b"nowhere in sight")


class Operator:
    """Keeps a cluster busy."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._busy = True
        self._next = 0

    def start(self) -> None:
        """Create a first topic, then go on by chance."""
        self._ask(lambda machine, _: machine.create_topics([NewTopic("orders", 2, 3)]))
        self._world.after(300, self._produce)
        self._world.after(700, self._administer)

    def stop(self) -> None:
        """Ask for nothing more."""
        self._busy = False

    def _ask(self, decide: Decide) -> None:
        node = self._world.random.choice(list(self._cluster.nodes.values()))
        if node.alive:
            node.ask_controller(decide, lambda reply: None)

    # -- producing ----------------------------------------------------------------------------------------

    def _produce(self) -> None:
        if not self._busy:
            return
        world, cluster = self._world, self._cluster
        client = world.random.choice(list(cluster.nodes.values()))
        if client.alive:
            partitions = [
                (topic.id, index, one)
                for topic in client.image.topics.by_id.values()
                for index, one in topic.partitions.items()
                if one.leader >= 0 and len(one.replicas) > 1
            ]
            for _ in range(min(len(partitions), 3)):
                id_, index, one = world.random.choice(partitions)
                self._send(client, (id_, index), one.leader)
        world.after(world.between(5, 120), self._produce)

    def _send(self, client: Any, key: tuple[Uuid, int], leader: int) -> None:
        self._next += 1
        value = self._next
        checks, cluster = self._cluster.checks, self._cluster

        def answered(reply: Any) -> None:
            if isinstance(reply, Committed):  # the leader may have moved on, or away, since it said so
                checks.ack(key, value, reply.offset, reply.leader_epoch)

        cluster.network.call(client, leader, "produce", (key, value), answered)

    # -- administering ----------------------------------------------------------------------------------------

    def _administer(self) -> None:
        if not self._busy:
            return
        acts = (
            self._create,
            self._create,
            self._grow,
            self._delete,
            self._configure,
            self._configure,
            self._confirm_min_isr,
            self._move,
            self._move,
            self._elect,
            self._features,
            self._producer_ids,
            self._unregister,
            self._stranger,
            self._directories,
            self._odd_isr,
            self._odd_raft,
            self._odd_raft,
            self._upgrade_quorum,
            self._secure,
            self._secure,
        )
        image = self._world.random.choice(list(self._cluster.nodes.values())).image
        self._world.random.choice(acts)(image)
        self._world.after(self._world.between(100, 1_500), self._administer)

    def _secure(self, image: MetadataImage) -> None:
        for decide in secured(self._world, image):
            self._ask(decide)

    def _topic(self, image: MetadataImage) -> TopicImage | None:
        topics = list(image.topics.by_id.values())
        return self._world.random.choice(topics) if topics else None

    def _brokers(self, count: int) -> tuple[int, ...]:
        ids = list(self._cluster.nodes)
        self._world.random.shuffle(ids)
        return tuple(ids[:count])

    def _create(self, image: MetadataImage) -> None:
        choice = self._world.random.choice
        name = choice((*TOPICS, "bad/name", ""))
        odd = self._world.chance(0.2)
        assignments = [(0, self._brokers(2)), (choice((1, 1, 3)), self._brokers(choice((2, 2, 3))))]
        topics = [
            NewTopic(name, choice((1, 2, 3, -1)), choice((2, 3, 3))),
            NewTopic(name, assignments=assignments),
            NewTopic(name, 1, 3, configs={choice(("retention.ms", "nonsense")): choice(("1000", "x"))}),
            NewTopic(name, choice((0, 20_000)), 9),
        ]
        wanted = topics[3] if odd else choice(topics[:3])
        validate_only = self._world.chance(0.1)
        if len(image.topics.by_id) < 5:
            self._ask(lambda machine, _: machine.create_topics([wanted], validate_only=validate_only))

    def _grow(self, image: MetadataImage) -> None:
        topic = self._topic(image)
        if topic is not None:
            choice = self._world.random.choice
            count = len(topic.partitions) + choice((1, 1, 0, -1))
            given = [self._brokers(len(topic.partitions[0].replicas))] if self._world.chance(0.4) else None
            wanted = NewPartitions(choice((topic.name, topic.name, "nobody")), count, given)
            if count <= 5:
                self._ask(lambda machine, _: machine.create_partitions([wanted]))

    def _delete(self, image: MetadataImage) -> None:
        topic = self._topic(image)
        if topic is not None and topic.name != "orders":
            ids = [topic.id, NOWHERE]
            self._ask(lambda machine, _: machine.delete_topics(ids))

    def _configure(self, image: MetadataImage) -> None:
        choice = self._world.random.choice
        topic = self._topic(image)
        name = topic.name if topic is not None and self._world.chance(0.8) else "nobody"
        resource = choice(
            (
                ConfigResource(ResourceType.TOPIC, name),
                ConfigResource(ResourceType.TOPIC, name),
                ConfigResource(ResourceType.BROKER, choice(("", "0", "1", "x"))),
                ConfigResource(ResourceType.GROUP, "g"),
            )
        )
        key, text = choice(
            (
                ("retention.ms", "5000"),
                ("cleanup.policy", "compact"),
                ("max.message.bytes", "-7"),
                ("nonsense", "1"),
                ("log.cleaner.threads", "2"),
                ("consumer.session.timeout.ms", "50000"),
            )
        )
        if self._world.chance(0.3):
            self._ask(_unless_remembered(lambda machine, _: machine.alter_configs({resource: {key: text}})))
        else:
            op = choice(tuple(Op))
            changes = {resource: {key: (int(op), None if op is Op.DELETE else text)}}
            self._ask(lambda machine, _: machine.incremental_alter_configs(changes))

    def _confirm_min_isr(self, image: MetadataImage) -> None:
        """Set min.insync.replicas to what it is."""
        changes = {ConfigResource(ResourceType.TOPIC, "orders"): {"min.insync.replicas": (int(Op.SET), "2")}}
        self._ask(_unless_remembered(lambda machine, _: machine.incremental_alter_configs(changes)))

    def _move(self, image: MetadataImage) -> None:
        topic = self._topic(image)
        if topic is None:
            return
        choice = self._world.random.choice
        index = choice((*topic.partitions, 99))
        kinds = (self._brokers(len(topic.partitions[0].replicas)), self._brokers(3), None, (1, 1), (77,), ())
        replicas = self._world.random.choices(kinds, (8, 4, 2, 1, 1, 1))[0]
        wanted = [Reassign(topic.name, index, replicas)]
        self._ask(lambda machine, _: machine.alter_reassignments(wanted))
        self._ask(lambda machine, _: machine.list_reassignments(None))
        self._ask(lambda machine, _: machine.list_reassignments([(topic.name, [0, 99]), ("nobody", [0])]))

    def _elect(self, image: MetadataImage) -> None:
        topic = self._topic(image)
        chosen = None if topic is None or self._world.chance(0.5) else [(topic.name, [0, 9]), ("nobody", [0])]
        kind = 0 if self._world.chance(0.95) else 7
        self._ask(lambda machine, _: machine.elect_leaders(kind, chosen))

    def _features(self, image: MetadataImage) -> None:
        choice = self._world.random.choice
        name = choice(("metadata.version", "group.version", "nonsense", "kraft.version"))
        update = FeatureUpdate(choice((1, image.features.metadata_version, 99)), choice((1, 2, 3)))
        self._ask(lambda machine, _: machine.update_features({name: update}, validate_only=True))

    def _producer_ids(self, image: MetadataImage) -> None:
        for broker in image.cluster.brokers.values():
            id_, epoch = broker.id, broker.epoch - self._world.random.choice((0, 0, 1))
            self._ask(lambda machine, _, id_=id_, epoch=epoch: machine.allocate_producer_ids(id_, epoch))  # type: ignore[misc]

    def _unregister(self, image: MetadataImage) -> None:
        self._ask(lambda machine, _: machine.unregister_broker(77))

    def _stranger(self, image: MetadataImage) -> None:
        """A broker of another cluster, one with a directory that is not its own, one with the id of another."""
        choice = self._world.random.choice
        endpoint = Endpoint("PLAINTEXT", "stranger", 1, "PLAINTEXT")
        theirs = next(iter(image.cluster.brokers.values()), None)
        shared = theirs.directories if theirs is not None else ()
        request = BrokerRequest(
            choice((0, 77)),
            choice(("c" * 22, "elsewhere")),
            Uuid(self._world.random.randbytes(16)),
            (endpoint,),
            choice((SUPPORTED, {}, {"metadata.version": (1, 2)})),
            choice(((), (Uuid(bytes(16)),), (NOWHERE, NOWHERE), shared)),
        )

        def register(machine: Controller, now_ms: int) -> Transition[Any]:
            owner = machine.image.cluster.brokers.get(0)
            if request.broker_id == 0 and owner is not None and not machine.contacts.in_session(owner, now_ms):
                return Transition(None)  # it would get the id, and the node that had it would be out for good
            return machine.register_broker(request, now_ms)

        self._ask(register)
        self._ask(lambda machine, now_ms: machine.heartbeat(Heartbeat(77, 1, 1), now_ms))

    def _directories(self, image: MetadataImage) -> None:
        topic = self._topic(image)
        broker = next((one for one in image.cluster.brokers.values() if one.active), None)
        if topic is None or broker is None:
            return
        replicas = [
            InDirectory(broker.directories[0], topic.id, 0),
            InDirectory(NOWHERE, topic.id, 99),
            InDirectory(NOWHERE, NOWHERE, 0),
        ]
        self._ask(lambda machine, _: machine.assign_replicas_to_dirs(broker.id, broker.epoch, replicas))

    def _odd_raft(self, image: MetadataImage) -> None:
        """Requests of the quorum that no replica in its right mind sends, or that are not for the node they reach."""
        choice = self._world.random.choice
        nodes = list(self._cluster.nodes.values())
        sender, to = choice(nodes), choice(nodes)
        if not sender.alive or not to.alive:
            return
        epoch = to.quorum.core.epoch + choice((-1, 0, 0))
        key, wrong = sender.voter.key, ReplicaKey(to.id, NOWHERE)
        voter = Voter(choice((key, wrong, ReplicaKey(77, NOWHERE), ReplicaKey(-1))), sender.voter.endpoints)
        request = choice(
            (
                Vote(epoch, key, epoch + 1, 1),
                Vote(epoch, ReplicaKey(-3), 0, 0),
                Vote(epoch, key, 0, 0, pre_vote=True, voter=wrong),
                Vote(epoch, key, max(epoch - 1, 0), 0),
                BeginEpoch(epoch - 1, sender.id),
                BeginEpoch(epoch, -1),
                BeginEpoch(epoch, to.quorum.core.leader_id, (), wrong),
                EndEpoch(epoch - 1, sender.id),
                EndEpoch(epoch, -1),
                Fetch(epoch, key, -1, 0),
                Fetch(epoch, ReplicaKey(-1), 0, 0),
                Fetch(epoch, to.voter.key, to.disk.metadata.end_offset, 0),
                AddVoter(voter),
                AddVoter(voter._replace(endpoints=())),
                RemoveVoter(voter.key),
                UpdateVoter(epoch, voter),
                UpdateVoter(epoch, voter._replace(min_version=3)),
                UpdateVoter(epoch, sender.voter),
            )
        )
        sender.network.call(sender, to.id, "raft", request, lambda reply: None)
        to.quorum.core.progress(self._world.now_ms)

    def _upgrade_quorum(self, image: MetadataImage) -> None:
        """Put the voters into the log, if the configuration has named them until now."""
        node = self._cluster.active()
        if node is not None and not node.paused:
            core, now_ms = node.quorum.core, self._world.now_ms
            try:
                node.quorum.run(core.upgrade_kraft_version(self._world.random.choice((0, 1, 1)), now_ms))
            except KafkaError:
                return  # it cannot be now

    def _odd_isr(self, image: MetadataImage) -> None:
        """Changes of in-sync replicas that no leader would ask for."""
        topic = self._topic(image)
        broker = next(iter(image.cluster.brokers.values()), None)
        if topic is None or broker is None:
            return
        choice = self._world.random.choice
        one = topic.partitions[0]
        request = IsrRequest(
            choice((topic.id, NOWHERE)),
            choice((0, 99)),
            one.leader_epoch + choice((0, -1, 5)),
            one.partition_epoch + choice((-1, 5)),
            (InSync(broker.id, broker.epoch), InSync(77, -1)),
        )
        self._ask(lambda machine, _: machine.alter_partition(broker.id, broker.epoch, [request]))


def _unless_remembered(decide: Decide) -> Decide:
    """A change of min.insync.replicas makes the controller forget who else may lead: not while somebody may have to."""

    def decide_if(machine: Controller, now_ms: int) -> Transition[Any]:
        topics = machine.image.topics.by_id.values()
        if any(one.elr or one.last_known_elr for topic in topics for one in topic.partitions.values()):
            return Transition(None)
        return decide(machine, now_ms)

    return decide_if
