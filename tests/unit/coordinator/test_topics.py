"""Topics as consumer groups see them."""

from __future__ import annotations

from coordinator.shards import Topics as Cluster
from coordinator.shards import topic_id

from kavka.coordinator.topics import Topics
from kavka.metadata.records.nodes import RegisterBrokerRecord
from kavka.model.types import Uuid


def cluster(**topics):
    found = Cluster()
    for name, partitions in topics.items():
        found.create(name, partitions)
    return found, Topics(found.image)


def broker(rack):
    return RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=Uuid(b"i" * 16),
        broker_epoch=1,
        end_points=[],
        features=[],
        rack=rack,
        log_dirs=[],
    )


def test_the_hash_stands_for_names_ids_partitions_and_racks():
    found, topics = cluster(a=2, b=1)
    before = topics.hash_of(["a", "b"])
    assert before == topics.hash_of(["b", "a", "not there"])
    assert -(1 << 63) <= before < 1 << 63
    topics.move(*moved(found, found.grow("a", 3)))
    grown = topics.hash_of(["a", "b"])
    found.delete("b")
    topics.move(*moved(found, found.create("b", 1)))
    again = topics.hash_of(["a", "b"])
    assert len({before, grown, again, topics.hash_of(["a"])}) == 4
    found.change(broker("r1"))
    assert Topics(found.image).hash_of(["a", "b"]) != again


def moved(found, delta):
    return found.image, delta


def test_no_topic_has_the_hash_zero():
    _, topics = cluster()
    assert topics.hash_of([]) == topics.hash_of(["not there"]) == 0


def test_only_new_topics_move_the_mark_of_new_topics():
    found, topics = cluster(a=1)
    mark = topics.new_at
    assert topics.move(*moved(found, found.grow("a", 2))) == {"a"}
    assert topics.new_at == mark
    assert topics.move(*moved(found, found.create("b"))) == {"b"}
    assert topics.new_at == topics.version > mark
    assert topics.move(*moved(found, found.delete("b"))) == {"b"}


def test_what_is_gone_has_no_name():
    found, topics = cluster(a=1, b=1)
    topics.move(*moved(found, found.delete("b")))
    assert topics.named({topic_id("a"): 1, topic_id("b"): 2}) == {"a": 1}
    assert topics.ids_of(["a", "b"]) == {topic_id("a")}
    assert (topics.id_of("b"), topics.name_of(topic_id("b"))) == (None, None)
    assert topics.partition_counts([topic_id("a")]) == {topic_id("a"): 1}
