"""The controller's standing test: whatever was asked, its log alone gives the same state."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.controller.brokers import Heartbeat
from kavka.controller.directories import InDirectory
from kavka.controller.features import FeatureUpdate
from kavka.controller.index import PartitionIndex
from kavka.controller.isr import InSync, IsrRequest
from kavka.controller.quotas import Alteration
from kavka.controller.reassignment import Reassign
from kavka.controller.scram import Deletion, Upsertion
from kavka.controller.topics import NewPartitions, NewTopic
from kavka.metadata.delta import apply
from kavka.metadata.image import EMPTY, ConfigResource
from kavka.metadata.image.emit import records_of
from kavka.metadata.records import decode_record, encode_record
from kavka.metadata.versions import write_version
from kavka.model.errors import KafkaError
from kavka.model.types import Uuid
from kavka.security.acl import Acl, AclFilter
from kavka.security.token import token_hmac

NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "", "bad name", "c"])
IDS = st.integers(1, 4)
CONFIGS = st.dictionaries(
    st.sampled_from(["retention.ms", "min.insync.replicas", "unclean.leader.election.enable", "no.such"]),
    st.sampled_from(["1", "true", "x", None]),
    max_size=2,
)
TOPICS = st.builds(
    NewTopic,
    NAMES,
    st.integers(-2, 3),
    st.integers(-2, 4),
    st.lists(st.tuples(st.integers(0, 2), st.lists(IDS, max_size=3)), max_size=2),
    CONFIGS,
)
GOOD_TOPICS = st.builds(NewTopic, NAMES, st.integers(1, 3), st.integers(1, 4))
RESOURCES = st.builds(ConfigResource, st.sampled_from([2, 4, 8, 16, 32, 7]), st.sampled_from(["a", "1", "", "g"]))
KEYS = st.sampled_from(["retention.ms", "cleanup.policy", "min.insync.replicas", "log.cleaner.threads", "interval.ms"])
OPS = st.tuples(st.sampled_from([0, 1, 2, 3, 9]), st.sampled_from(["1", "500", "compact", "", None]))

USERS = st.sampled_from(["", "User:alice", "User:bob", "Group:g"])
MECHANISMS = st.sampled_from([0, 1, 2])
ACLS = st.builds(
    Acl,
    st.sampled_from([0, 1, 2, 3, 4]),
    st.sampled_from(["", "a", "*", "kafka-cluster"]),
    st.sampled_from([1, 3, 4]),
    st.sampled_from([0, 1, 2, 3, 8]),
    USERS,
    st.sampled_from(["*", "127.0.0.1"]),
    st.sampled_from([0, 2, 3]),
)
FILTERS = st.builds(
    AclFilter,
    st.sampled_from([0, 1, 2]),
    st.sampled_from([None, "a", "*"]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 3]),
    st.sampled_from([None, "User:alice"]),
    st.sampled_from([None, "*"]),
    st.sampled_from([1, 3]),
)
UPSERTIONS = st.builds(Upsertion, USERS, MECHANISMS, st.sampled_from([100, 4096, 99_999]), st.just(b"s"), st.just(b"p"))
QUOTAS = st.builds(
    Alteration,
    st.lists(
        st.tuples(st.sampled_from(["user", "client-id", "ip", "x"]), st.sampled_from([None, "", "a", "::1"])),
        max_size=2,
    ).map(tuple),
    st.lists(
        st.tuples(
            st.sampled_from(["producer_byte_rate", "request_percentage", "connection_creation_rate", "x"]),
            st.sampled_from([None, -1.0, 0.5, 1000.0, 1e30]),
        ),
        max_size=2,
    ),
)

CALLS = st.one_of(
    st.tuples(st.just("create"), st.lists(TOPICS, max_size=3, unique_by=lambda topic: topic.name), st.booleans()),
    st.tuples(st.just("delete"), st.lists(NAMES, max_size=2)),
    st.tuples(st.just("partitions"), st.builds(NewPartitions, NAMES, st.integers(-1, 6)), st.booleans()),
    st.tuples(st.just("configs"), RESOURCES, st.dictionaries(KEYS, OPS, max_size=2), st.booleans()),
    st.tuples(st.just("replace"), RESOURCES, st.dictionaries(KEYS, st.sampled_from(["1", None]), max_size=2)),
    st.tuples(st.just("broker"), IDS, st.booleans(), st.booleans()),
    st.tuples(st.just("create"), st.lists(GOOD_TOPICS, max_size=2, unique_by=lambda topic: topic.name), st.just(False)),
    st.tuples(st.just("beat"), IDS, st.booleans(), st.booleans()),
    st.tuples(st.just("time"), st.integers(0, 12_000)),
    st.tuples(
        st.just("feature"), st.sampled_from(["group.version", "eligible.leader.replicas.version"]), st.integers(0, 2)
    ),
    st.tuples(st.just("ids"), IDS),
    st.tuples(
        st.just("isr"), NAMES, st.integers(0, 2), st.lists(IDS, max_size=4), st.integers(-1, 1), st.sampled_from([0, 1])
    ),
    st.tuples(st.just("catch up"), NAMES, st.integers(0, 2)),
    st.tuples(st.just("elect"), st.sampled_from([0, 1, 2]), st.one_of(st.none(), st.lists(NAMES, max_size=2))),
    st.tuples(
        st.just("move"), NAMES, st.integers(0, 2), st.one_of(st.none(), st.lists(IDS, max_size=4)), st.booleans()
    ),
    st.tuples(st.just("directory"), IDS, NAMES, st.integers(0, 2), st.integers(0, 2)),
    st.tuples(st.just("lost directory"), IDS, st.integers(0, 1)),
    st.tuples(st.just("unregister"), IDS),
    st.tuples(st.just("disconnect"), IDS),
    st.tuples(st.just("acls"), st.lists(ACLS, max_size=3)),
    st.tuples(st.just("no acls"), st.lists(FILTERS, max_size=2)),
    st.tuples(st.just("scram"), st.lists(st.builds(Deletion, USERS, MECHANISMS), max_size=2), st.lists(UPSERTIONS)),
    st.tuples(st.just("quotas"), st.lists(QUOTAS, max_size=2), st.booleans()),
    st.tuples(st.just("token"), USERS, st.lists(USERS, max_size=1), st.sampled_from([-1, 5000])),
    st.tuples(st.just("renew"), USERS, st.integers(0, 2), st.sampled_from([-1, 0, 5000]), st.booleans()),
    st.tuples(st.just("tick")),
    st.tuples(st.just("lead"), st.integers(1, 4)),
)


def call(ledger, request):
    image = ledger.image
    match request:
        case ("create", topics, validate_only):
            ledger.create_topics(topics, validate_only=validate_only)
        case ("delete", names):
            ledger.delete_topics([image.topics.by_name[name].id for name in names if name in image.topics.by_name])
        case ("partitions", wanted, validate_only):
            ledger.create_partitions([wanted], validate_only=validate_only)
        case ("configs", resource, keys, validate_only):
            ledger.incremental_alter_configs({resource: keys}, validate_only=validate_only)
        case ("replace", resource, values):
            ledger.alter_configs({resource: values})
        case ("broker", id_, unfence, clean):
            known = image.cluster.brokers.get(id_)
            ledger.broker(id_, unfence=unfence, dirs=2, previous_epoch=known.epoch if known and clean else -1)
        case ("beat", id_, want_fence, want_shut_down) if id_ in image.cluster.brokers:
            epoch = image.cluster.brokers[id_].epoch
            ledger.heartbeat(
                Heartbeat(id_, epoch, image.offset, want_fence=want_fence, want_shut_down=want_shut_down), ledger.now_ms
            )
        case ("time", ms):
            ledger.now_ms += ms
        case ("feature", name, level):
            ledger.update_features({name: FeatureUpdate(level, 1 if level else 2)})
        case ("ids", id_) if id_ in image.cluster.brokers:
            ledger.allocate_producer_ids(id_, image.cluster.brokers[id_].epoch)
        case _ if not call_about_security(ledger, request):
            call_about_partitions(ledger, request)


def call_about_security(ledger, request):
    match request:
        case ("acls", rules):
            ledger.create_acls(rules)
        case ("no acls", filters):
            ledger.delete_acls(filters)
        case ("scram", deletions, upsertions):
            ledger.alter_scram_credentials(deletions, upsertions)
        case ("quotas", wanted, validate_only):
            ledger.alter_client_quotas(wanted, validate_only=validate_only)
        case ("token", user, renewers, lifetime):
            ledger.create_token(user, user, renewers, lifetime, ledger.now_ms)
        case ("renew", user, which, period, end):
            ids = [*ledger.image.security.tokens, "none", "none", "none"]
            hmac = token_hmac("secret", ids[which])
            (ledger.expire_token if end else ledger.renew_token)(user, hmac, period, ledger.now_ms)
        case _:
            return False
    return True


def call_about_partitions(ledger, request):
    image = ledger.image
    match request:
        case ("isr", name, index, isr, off, recovery) if leader_of(image, name, index) in image.cluster.brokers:
            now = image.topics.by_name[name].partitions[index]
            alter = IsrRequest(
                image.topics.by_name[name].id,
                index,
                now.leader_epoch,
                now.partition_epoch + (off if off < 0 else 0),
                tuple(InSync(id_) for id_ in isr),
                recovery,
            )
            ledger.alter_partition(now.leader, ledger.epoch(now.leader), [alter, alter])
        case ("catch up", name, index) if leader_of(image, name, index) in image.cluster.brokers:
            now = image.topics.by_name[name].partitions[index]
            ledger.in_sync(name, *(id_ for id_ in now.replicas if image.cluster.is_active(id_)), index=index)
        case ("elect", type_, names):
            ledger.elect_leaders(type_, None if names is None else [(name, [0, 1, 0]) for name in names])
        case ("move", name, index, replicas, allowed):
            wanted = Reassign(name, index, None if replicas is None else tuple(replicas))
            ledger.alter_reassignments([wanted, wanted], allow_replication_change=allowed)
            ledger.list_reassignments(None)
        case ("directory", id_, name, index, which) if id_ in image.cluster.brokers and name in image.topics.by_name:
            directory = Uuid(bytes([200 + which, id_]) * 8)
            replica = InDirectory(directory, image.topics.by_name[name].id, index)
            ledger.assign_replicas_to_dirs(id_, ledger.epoch(id_), [replica])
        case ("lost directory", id_, which) if id_ in image.cluster.brokers:
            ledger.beat(id_, offline=(Uuid(bytes([200 + which, id_]) * 8),))
        case ("unregister", id_):
            ledger.unregister_broker(id_)
        case ("disconnect", id_) if id_ in image.cluster.brokers:
            ledger.broker_disconnected(id_, ledger.epoch(id_), ledger.now_ms)
        case ("tick",):
            ledger.tick(ledger.now_ms)
        case ("lead", former):
            ledger.activate([], ledger.now_ms, former)


def leader_of(image, name, index):
    topic = image.topics.by_name.get(name)
    return topic.partitions[index].leader if topic and index in topic.partitions else None


def check_invariants(before, image):
    check_epochs(before, image)
    for topic in image.topics.by_id.values():
        assert image.topics.by_name[topic.name] is topic
        assert sorted(topic.partitions) == list(range(len(topic.partitions)))
        for partition in topic.partitions.values():
            assert len(set(partition.replicas)) == len(partition.replicas) == len(partition.directories)
            assert set(partition.isr) <= set(partition.replicas)
            assert set(partition.elr) <= set(partition.replicas)
            assert not set(partition.isr) & set(partition.elr)
            assert set(partition.adding) | set(partition.removing) <= set(partition.replicas)
            assert not set(partition.adding) & set(partition.removing)
            assert partition.leader == -1 or partition.leader in partition.isr
            if partition.leader != -1:
                assert not image.cluster.brokers[partition.leader].fenced
            for id_ in partition.isr if image.features.elr_enabled else ():
                # without ELR, those that were in sync last are remembered in the ISR
                assert not image.cluster.brokers[id_].fenced


def check_epochs(before, after):
    assert after.offset >= before.offset
    for id_, broker in after.cluster.brokers.items():
        if id_ in before.cluster.brokers:
            assert broker.epoch >= before.cluster.brokers[id_].epoch
    for id_, topic in after.topics.by_id.items():
        if id_ not in before.topics.by_id:
            continue
        for index, was in before.topics.by_id[id_].partitions.items():
            partition = topic.partitions[index]
            assert partition == was or partition.partition_epoch > was.partition_epoch
            assert partition.leader_epoch > was.leader_epoch if partition.leader != was.leader else True
            assert partition.leader_epoch >= was.leader_epoch


def check_index(ledger):
    fresh = vars(PartitionIndex().at(ledger.image.topics))
    kept = vars(ledger.machine._index.at(ledger.image.topics))
    for name, found in fresh.items():
        assert plain(kept[name]) == plain(found), name


def plain(value):
    return {key: element for key, element in value.items() if element} if isinstance(value, dict) else value


@settings(deadline=None, max_examples=150)
@given(st.lists(CALLS, max_size=25))
def test_any_sequence_of_calls_is_rebuilt_from_the_log_and_from_a_snapshot(ledgers, calls):
    ledger = ledgers(delegation_token_secret_key="secret")
    for id_ in (1, 2, 3):
        ledger.broker(id_, dirs=2)
    ledger.topic("a", partitions=3, replication=3)
    for request in calls:
        before = ledger.image
        try:
            call(ledger, request)
        except KafkaError:
            assert ledger.image is before
        check_invariants(before, ledger.image)
    check_index(ledger)
    level = 30
    read = [decode_record(encode_record(record, write_version(record, level))) for record in ledger.log]
    successor = ledger.fresh()
    for offset, record in enumerate(read):
        successor.replay([record], offset, 1)
    assert successor.image == ledger.image
    kept = [decode_record(encode_record(record, write_version(record, level))) for record in records_of(ledger.image)]
    assert apply(EMPTY, kept, ledger.image.offset, 1)[0] == ledger.image
