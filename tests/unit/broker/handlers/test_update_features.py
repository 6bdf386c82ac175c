"""Update features: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.update_features import update_features
from kavka.model.errors import InvalidUpdateVersion
from kavka.protocol.schemas.update_features import FeatureUpdateKey, UpdateFeaturesRequest


@pytest.fixture
def tell(ask, loop):
    def call(name, level, kind=1, version=2, **more):
        how = {"upgrade_type": kind} if version else {}
        request = UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature=name, max_version_level=level, **how)], **more
        )
        return ask(update_features, request, version, loop)

    return call


@pytest.mark.parametrize("version", range(3))
def test_a_success_has_rows_up_to_version_1(tell, loop, version):
    answer = tell("group.version", 1, version=version)
    assert answer.error_code == 0
    assert [row.feature for row in answer.results] == (["group.version"] if version < 2 else [])


def test_a_level_is_lowered_only_when_that_is_meant(tell, loop):
    with pytest.raises(InvalidUpdateVersion):
        tell("group.version", 0)
    with pytest.raises(InvalidUpdateVersion):
        tell("group.version", 0, version=0)
    tell("group.version", 0, 2)
    assert "group.version" not in loop.image.features.levels


def test_validating_only_changes_nothing(tell, loop):
    tell("group.version", 0, 2, validate_only=True)
    assert loop.image.features.levels["group.version"] == 1


def test_the_quorum_is_upgraded_when_nothing_else_is_refused(tell, loop):
    loop.machine.kraft_version = 0
    tell("kraft.version", 1, validate_only=True)
    assert loop.machine.kraft_version == 0
    before = loop.image.offset
    tell("kraft.version", 1)
    assert loop.machine.kraft_version == 1
    assert loop.image.offset == before + 1  # a record that whoever asked waits for
    for level, kind in ((0, 1), (0, 2), (2, 1)):
        with pytest.raises(InvalidUpdateVersion):
            tell("kraft.version", level, kind)
