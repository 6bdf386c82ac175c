"""Feature updates: only what everybody supports, and the way the request says."""

from __future__ import annotations

import pytest

from kavka.controller.features import FeatureUpdate, UpgradeType
from kavka.metadata.features import SUPPORTED
from kavka.model.errors import InvalidUpdateVersion

SAFE, UNSAFE = UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


@pytest.mark.parametrize(
    ("name", "update"),
    [
        ("group.version", FeatureUpdate(2)),
        ("group.version", FeatureUpdate(-1)),
        ("group.version", FeatureUpdate(0)),
        ("group.version", FeatureUpdate(0, 9)),
        ("no.such.feature", FeatureUpdate(1)),
        ("no.such.feature", FeatureUpdate(0)),
        ("metadata.version", FeatureUpdate(31)),
        ("metadata.version", FeatureUpdate(29)),
        ("metadata.version", FeatureUpdate(29, SAFE)),
        ("metadata.version", FeatureUpdate(29, UNSAFE)),
        ("metadata.version", FeatureUpdate(6, SAFE)),
        ("kraft.version", FeatureUpdate(0, SAFE)),
        ("kraft.version", FeatureUpdate(2)),
        ("transaction.version", FeatureUpdate(3)),
    ],
)
def test_what_cannot_be_is_refused_with_code_95(node, name, update):
    before = node.image
    with pytest.raises(InvalidUpdateVersion) as caught:
        node.update_features({name: update})
    assert caught.value.code == 95
    assert name in caught.value.message
    assert node.image is before


def test_a_feature_is_switched_off_and_on_again(node):
    node.update_features({"group.version": FeatureUpdate(0, SAFE)})
    assert "group.version" not in node.image.features.levels
    node.update_features({"group.version": FeatureUpdate(1)})
    assert node.image.features.levels["group.version"] == 1


def test_one_refusal_refuses_all(node):
    with pytest.raises(InvalidUpdateVersion):
        node.update_features({"group.version": FeatureUpdate(0, SAFE), "share.version": FeatureUpdate(7)})
    assert node.image.features.levels["group.version"] == 1


def test_validating_only_writes_nothing(node):
    before = node.image
    node.update_features({"group.version": FeatureUpdate(0, SAFE)}, validate_only=True)
    assert node.image is before


def test_the_level_it_has_already_is_no_error(node):
    node.update_features({"kraft.version": FeatureUpdate(1), "metadata.version": FeatureUpdate(30)})
    assert node.image.features.metadata_version == 30


def test_metadata_version_rises_and_falls_where_records_did_not_change(ledgers):
    old = ledgers(metadata_version=24)
    old.update_features({"metadata.version": FeatureUpdate(29)})
    assert old.image.features.metadata_version == 29
    old.update_features({"metadata.version": FeatureUpdate(25, SAFE)})
    assert old.image.features.metadata_version == 25


def test_every_broker_must_support_the_level(ledgers):
    old = ledgers(metadata_version=24)
    old.broker(features={**SUPPORTED, "metadata.version": (7, 28)})
    with pytest.raises(InvalidUpdateVersion, match="broker 1"):
        old.update_features({"metadata.version": FeatureUpdate(29)})


def test_elr_needs_its_metadata_version_and_one_min_isr_for_all(ledgers):
    old = ledgers(metadata_version=22)
    with pytest.raises(InvalidUpdateVersion):
        old.update_features({"eligible.leader.replicas.version": FeatureUpdate(1)})
    old.update_features({"eligible.leader.replicas.version": FeatureUpdate(1), "metadata.version": FeatureUpdate(23)})
    assert old.image.features.elr_enabled
    assert old.image.configs.of_all_brokers == {"min.insync.replicas": "1"}
