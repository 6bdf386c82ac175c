"""Applying records to an image: what each does, and that steps add up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kavka.metadata.delta import apply, between
from kavka.metadata.faults import MetadataError
from kavka.metadata.image import EMPTY, ConfigResource, ResourceType
from kavka.metadata.image.emit import records_of
from kavka.metadata.records import RECORDS, decode_record, encode_record, record_class
from kavka.metadata.records.nodes import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from kavka.metadata.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from kavka.metadata.records.settings import (
    ClientQuotaRecord,
    ConfigRecord,
    EntityData,
    FeatureLevelRecord,
    ProducerIdsRecord,
    ZkMigrationStateRecord,
)
from kavka.metadata.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kavka.metadata.records.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from kavka.metadata.versions import write_version
from kavka.model.types import Endpoint, Uuid

A, B = (Uuid(bytes([number]) * 16) for number in (1, 2))
DIR = Uuid(b"d" * 16)
LEVELS = [
    FeatureLevelRecord(name="metadata.version", feature_level=30),
    FeatureLevelRecord(name="group.version", feature_level=1),
]


def partition(topic, index=0, **changes):
    values = {
        "partition_id": index,
        "topic_id": topic,
        "replicas": [1],
        "isr": [1],
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [DIR],
    }
    return PartitionRecord(**{**values, **changes})


def broker(id_=1, epoch=5, **changes):
    values = {
        "broker_id": id_,
        "incarnation_id": A,
        "broker_epoch": epoch,
        "end_points": [BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        "features": [BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=30)],
        "rack": None,
        "log_dirs": [DIR],
    }
    return RegisterBrokerRecord(**{**values, **changes})


def after(*records, image=EMPTY):
    return apply(image, records, image.offset + len(records), 1)[0]


def config(name, value, topic="a"):
    return ConfigRecord(resource_type=2, resource_name=topic, name=name, value=value)


def test_a_topic_is_found_by_name_and_by_id_with_its_partitions():
    image = after(TopicRecord(name="a", topic_id=A), partition(A, 0), partition(A, 1))
    assert image.topics.by_name["a"] is image.topics.by_id[A]
    assert sorted(image.topics.by_id[A].partitions) == [0, 1]
    assert image.topics.partition(A, 1).directories == (DIR,)
    assert image.topics.partition(B, 0) is None
    assert image.offset == 2


def test_a_removed_topic_takes_its_configs_along():
    image = after(TopicRecord(name="a.b", topic_id=A), partition(A), config("retention.ms", "1", "a.b"))
    assert image.configs.of_topic("a.b") == {"retention.ms": "1"}
    assert image.topics.by_collision_key["a_b"] == ("a.b",)
    gone, delta = apply(image, [RemoveTopicRecord(topic_id=A)], 4, 1)
    assert not gone.topics.by_name
    assert not gone.topics.by_id
    assert not gone.topics.by_collision_key
    assert not gone.configs.resources
    assert list(delta.deleted_topics) == [A]
    assert delta.configs == {ConfigResource(ResourceType.TOPIC, "a.b")}


def test_a_topic_deleted_and_created_again_in_one_batch_is_another_topic():
    image = after(TopicRecord(name="a", topic_id=A), partition(A), config("retention.ms", "1"))
    image, delta = apply(image, [RemoveTopicRecord(topic_id=A), TopicRecord(name="a", topic_id=B), partition(B)], 9, 1)
    assert image.topics.by_name["a"].id == B
    assert list(delta.created_topics) == [B]
    assert list(delta.deleted_topics) == [A]
    assert image.configs.of_topic("a") == {}


def test_a_change_of_leader_bumps_both_epochs_and_another_change_only_one():
    image = after(TopicRecord(name="a", topic_id=A), partition(A, replicas=[1, 2], isr=[1, 2], directories=[DIR, DIR]))
    image, delta = apply(image, [PartitionChangeRecord(partition_id=0, topic_id=A, isr=[1])], 3, 1)
    assert (
        image.topics.partition(A, 0)._asdict().items() >= {"isr": (1,), "leader_epoch": 0, "partition_epoch": 1}.items()
    )
    assert delta.changed_partitions == {A: {0}}
    assert not delta.created_topics
    image = after(
        PartitionChangeRecord(partition_id=0, topic_id=A, leader=2, isr=[2], leader_recovery_state=1), image=image
    )
    now = image.topics.partition(A, 0)
    assert (now.leader, now.leader_epoch, now.partition_epoch, now.leader_recovery_state) == (2, 1, 2, 1)


@pytest.mark.parametrize("name", ["a", ""])
def test_clearing_the_elr_empties_it_for_one_topic_or_for_all(name):
    image = after(
        TopicRecord(name="a", topic_id=A), partition(A, isr=[], eligible_leader_replicas=[1], last_known_elr=[1])
    )
    cleared, delta = apply(image, [ClearElrRecord(topic_name=name)], 3, 1)
    now = cleared.topics.partition(A, 0)
    assert (now.elr, now.last_known_elr, now.partition_epoch) == ((), (), 1)
    assert delta.changed_partitions == {A: {0}}


def test_a_config_is_set_and_removed():
    image = after(config("x", "1"), config("y", "2"), config("x", None))
    assert image.configs.of_topic("a") == {"y": "2"}
    assert not after(config("y", None), image=image).configs.resources


def test_a_broker_comes_is_unfenced_shuts_down_and_goes():
    image = after(broker())
    known = image.cluster.brokers[1]
    assert (known.fenced, known.active, known.endpoints) == (
        True,
        False,
        (Endpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),),
    )
    image = after(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1), image=image)
    assert image.cluster.is_active(1)
    change = BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=5, in_controlled_shutdown=1, cordoned_log_dirs=[DIR]
    )
    image, delta = apply(image, [change], 9, 1)
    assert not image.cluster.is_active(1)
    assert not image.cluster.brokers[1].takes_replicas
    assert delta.brokers == {1}
    image = after(FenceBrokerRecord(id=1, epoch=5), image=image)
    assert image.cluster.brokers[1].fenced
    image = after(UnfenceBrokerRecord(id=1, epoch=5), image=image)
    assert not image.cluster.brokers[1].fenced
    assert not after(UnregisterBrokerRecord(broker_id=1, broker_epoch=5), image=image).cluster.brokers


def test_a_controller_registers():
    image = after(
        RegisterControllerRecord(
            controller_id=3, incarnation_id=A, zk_migration_ready=False, end_points=[], features=[]
        )
    )
    assert image.cluster.controllers[3].incarnation_id == A


def test_features_rise_and_fall():
    image = after(*LEVELS)
    assert image.features.metadata_version == 30
    assert not image.features.elr_enabled
    image, delta = apply(image, [FeatureLevelRecord(name="group.version", feature_level=0)], 9, 1)
    assert image.features.levels == {"metadata.version": 30}
    assert delta.features == {"group.version"}
    assert after(FeatureLevelRecord(name="kraft.version", feature_level=1)).features.levels == {}


@pytest.mark.parametrize(
    "records",
    [
        [PartitionRecord(topic_id=A, replicas=[], isr=[], removing_replicas=[], adding_replicas=[])],
        [PartitionChangeRecord(topic_id=A, partition_id=0)],
        [RemoveTopicRecord(topic_id=A)],
        [TopicRecord(name="a", topic_id=A), TopicRecord(name="a", topic_id=B)],
        [TopicRecord(name="a", topic_id=A), PartitionChangeRecord(topic_id=A, partition_id=0)],
        [TopicRecord(name="a", topic_id=A), RemoveTopicRecord(topic_id=A), partition(A)],
        [UnregisterBrokerRecord(broker_id=1, broker_epoch=5)],
        [broker(), BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=4, fenced=1)],
        [broker(), BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=9)],
        [ProducerIdsRecord(broker_id=1, next_producer_id=0)],
        [FeatureLevelRecord(name="metadata.version", feature_level=31)],
        [FeatureLevelRecord(name="nobody.knows", feature_level=1)],
        [ClearElrRecord(topic_name="a")],
        [EndTransactionRecord()],
        [AbortTransactionRecord()],
        [BeginTransactionRecord(), BeginTransactionRecord()],
    ],
    ids=lambda records: type(records[-1]).__name__,
)
def test_a_record_that_cannot_be_true_is_an_error(records):
    with pytest.raises(MetadataError):
        after(*records)


ACL = AccessControlEntryRecord(
    id=A,
    resource_type=2,
    resource_name="a",
    pattern_type=3,
    principal="User:x",
    host="*",
    operation=2,
    permission_type=3,
)
SCRAM = UserScramCredentialRecord(name="x", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096)
TOKEN = DelegationTokenRecord(
    owner="User:x",
    requester="User:x",
    renewers=[],
    issue_timestamp=1,
    max_timestamp=2,
    expiration_timestamp=3,
    token_id="t",
)
QUOTA = ClientQuotaRecord(
    entity=[EntityData(entity_type="user", entity_name=None)], key="producer_byte_rate", value=1.5, remove=False
)


@pytest.mark.parametrize(
    ("kind", "record", "removal"),
    [
        ("acls", ACL, RemoveAccessControlEntryRecord(id=A)),
        ("scram", SCRAM, RemoveUserScramCredentialRecord(name="x", mechanism=1)),
        ("tokens", TOKEN, RemoveDelegationTokenRecord(token_id="t")),
        ("quotas", QUOTA, ClientQuotaRecord(entity=QUOTA.entity, key=QUOTA.key, value=0.0, remove=True)),
    ],
)
def test_records_of_later_concerns_are_kept_until_they_are_removed(kind, record, removal):
    image, delta = apply(EMPTY, [record], 0, 1)
    assert list(getattr(image.security, kind).values()) == [record]
    assert delta.security == {kind}
    assert not getattr(after(removal, image=image).security, kind)


def test_an_open_transaction_is_seen_by_nobody_and_an_aborted_one_never_was():
    start = after(*LEVELS)
    opened = after(BeginTransactionRecord(name="t"), TopicRecord(name="a", topic_id=A), image=start)
    assert opened.in_transaction
    more = after(partition(A), image=opened)
    ended = after(EndTransactionRecord(), image=more)
    assert not ended.in_transaction
    assert list(ended.topics.by_name) == ["a"]
    aborted = after(AbortTransactionRecord(reason="x"), image=more)
    assert replace(aborted, offset=0) == replace(start, offset=0)


def test_a_transaction_within_one_batch_names_what_it_changed():
    image, delta = apply(EMPTY, [BeginTransactionRecord(), *LEVELS, broker(), EndTransactionRecord()], 4, 1)
    assert not image.in_transaction
    assert delta.features == {"metadata.version", "group.version"}
    assert delta.brokers == {1}


def test_records_that_say_nothing_change_nothing():
    image, delta = apply(EMPTY, [NoOpRecord(), ZkMigrationStateRecord(zk_migration_state=0)], 1, 1)
    assert delta.empty
    assert replace(image, offset=-1, epoch=0) == EMPTY


def test_every_kind_of_record_is_known_here():
    handled = {BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord, NoOpRecord, ZkMigrationStateRecord}
    from kavka.metadata.delta import _REPLAYS

    assert {record_class(key) for key in RECORDS} == handled | set(_REPLAYS)


# -- steps add up --------------------------------------------------------------------------------

IDS = st.sampled_from([Uuid(bytes([number]) * 16) for number in range(1, 7)])
NAMES = st.sampled_from(["a", "b", "c.d", "c_d", "e"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("topic"), NAMES, IDS, st.integers(1, 3)),
        st.tuples(st.just("delete"), IDS),
        st.tuples(st.just("lead"), IDS, st.integers(0, 2), st.integers(-1, 2)),
        st.tuples(st.just("config"), NAMES, st.sampled_from(["x", "y"]), st.sampled_from(["1", None])),
        st.tuples(st.just("broker"), st.integers(1, 2), st.integers(0, 50)),
        st.tuples(
            st.just("ids"),
        ),
        st.tuples(st.just("level"), st.integers(0, 1)),
        st.tuples(st.just("acl"), IDS, st.booleans()),
    ),
    max_size=25,
)


def written(image, step):
    """The records of a step that makes sense on an image; none if it makes none."""
    match step:
        case ("topic", name, id_, count) if name not in image.topics.by_name and id_ not in image.topics.by_id:
            return [TopicRecord(name=name, topic_id=id_), *(partition(id_, index) for index in range(count))]
        case ("delete", id_) if id_ in image.topics.by_id:
            return [RemoveTopicRecord(topic_id=id_)]
        case ("lead", id_, index, leader) if image.topics.partition(id_, index):
            return [PartitionChangeRecord(partition_id=index, topic_id=id_, leader=leader)]
        case ("config", name, key, value):
            return [config(key, value, name)]
        case ("broker", id_, epoch):
            return [broker(id_, epoch)]
        case ("ids",):
            return [ProducerIdsRecord(broker_id=1, next_producer_id=image.next_producer_id + 1000)]
        case ("level", level):
            return [FeatureLevelRecord(name="share.version", feature_level=level)]
        case ("acl", id_, keep):
            return [replace_id(ACL, id_) if keep else RemoveAccessControlEntryRecord(id=id_)]
    return []


def replace_id(acl, id_):
    return AccessControlEntryRecord(**{name: getattr(acl, name) for name in type(acl).__annotations__} | {"id": id_})


@settings(deadline=None)
@given(STEPS)
def test_step_by_step_all_at_once_and_from_bytes_give_the_same_image(steps):
    image, log = EMPTY, list(LEVELS)
    image = after(*LEVELS)
    used = set()
    for step in steps:
        if step[0] == "topic" and step[2] in used:
            continue  # no id is given to a second topic
        records = written(image, step)
        used |= {record.topic_id for record in records if isinstance(record, TopicRecord)}
        log += records
        before = image
        image, delta = apply(before, records, len(log) - 1, 1)
        exact = between(before, image)
        assert exact.created_topics == delta.created_topics
        assert exact.deleted_topics == delta.deleted_topics
        assert exact.changed_partitions.keys() <= delta.changed_partitions.keys()
        assert exact.configs <= delta.configs
        assert exact.brokers <= delta.brokers
        assert exact.features <= delta.features
    assert apply(EMPTY, log, len(log) - 1, 1)[0] == image
    read = [decode_record(encode_record(record, write_version(record, 30))) for record in log]
    assert apply(EMPTY, read, len(log) - 1, 1)[0] == image
    snapshot = [decode_record(encode_record(record, write_version(record, 30))) for record in records_of(image)]
    assert apply(EMPTY, snapshot, image.offset, image.epoch)[0] == image
