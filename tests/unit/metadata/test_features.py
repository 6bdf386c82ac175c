"""The feature levels of Kafka 4.3.1, as its own format tool writes them."""

from __future__ import annotations

from kavka.metadata.features import SUPPORTED, advertised, default_levels, records_changed_between, unmet_need


def test_a_fresh_cluster_starts_with_the_levels_of_kafka_4_3():
    assert default_levels() == {
        "metadata.version": 30,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }


def test_an_older_release_starts_with_fewer_features():
    assert default_levels(21) == {"metadata.version": 21}
    assert default_levels(25) == {"metadata.version": 25, "group.version": 1, "transaction.version": 2}


def test_what_is_supported_is_what_a_kafka_node_registers():
    assert SUPPORTED == {
        "metadata.version": (7, 30),
        "kraft.version": (0, 1),
        "transaction.version": (0, 2),
        "group.version": (0, 1),
        "eligible.leader.replicas.version": (0, 1),
        "share.version": (0, 1),
        "streams.version": (0, 1),
    }


def test_elr_needs_the_metadata_version_that_has_its_records():
    assert unmet_need("eligible.leader.replicas.version", 1, {"metadata.version": 22})
    assert unmet_need("eligible.leader.replicas.version", 1, {"metadata.version": 23}) is None


def test_going_back_loses_records_only_where_a_level_changed_them():
    assert records_changed_between(29, 30)
    assert not records_changed_between(24, 29)
    assert records_changed_between(22, 23)
    assert not records_changed_between(30, 30)


def test_clients_are_told_only_of_features_that_the_node_has():
    names = {**default_levels(), "kraft.version": 1}
    assert advertised(names, ()) == ["metadata.version", "kraft.version"]
    assert advertised(names, {"group.version"}) == ["metadata.version", "group.version", "kraft.version"]
    assert advertised({}, {"group.version"}) == []
