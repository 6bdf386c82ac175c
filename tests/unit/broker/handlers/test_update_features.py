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
