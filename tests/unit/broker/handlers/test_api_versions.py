"""ApiVersions: what is served, what the cluster has agreed on, and who may not be told."""

from __future__ import annotations

import asyncio

import pytest

from kavka.broker.context import Context
from kavka.broker.handlers import HANDLERS, HOT
from kavka.broker.handlers.api_versions import api_versions
from kavka.net.session import Session
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schemas.api_versions import ApiVersionsRequest


@pytest.fixture
def tell(ask, loop):
    def call(name="librdkafka", software="2.16.0", version=4):
        request = ApiVersionsRequest(client_software_name=name, client_software_version=software)
        return ask(api_versions, request if version >= 3 else ApiVersionsRequest(), version, loop, loop.settings)

    return call


@pytest.mark.parametrize("version", range(5))
def test_each_api_is_there_with_the_versions_it_has(tell, version):
    found = {row.api_key: (row.min_version, row.max_version) for row in tell(version=version).api_keys}
    stems = {*HANDLERS, *HOT} - {"get_telemetry_subscriptions", "push_telemetry"}  # nobody would see the metrics
    served = [api for api in API.values() if api.stem in stems and "broker" in api.listeners]
    expected = {api.key: (api.min_version, api.latest_stable_version) for api in served}
    expected[ApiKey.PRODUCE] = (0, expected[ApiKey.PRODUCE][1])  # KAFKA-18659
    assert found == expected


@pytest.mark.parametrize("setting", ["transaction_two_phase_commit_enable", "unstable_api_versions_enable"])
def test_a_version_that_is_not_stable_is_offered_only_where_it_was_asked_for(ask, loops, setting):
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    for loop, latest in ((loops(), 5), (loops(**{setting: "true"}), 6)):
        rows = ask(api_versions, request, 4, loop, loop.settings).api_keys
        assert next(row.max_version for row in rows if row.api_key == ApiKey.INIT_PRODUCER_ID) == latest


@pytest.mark.parametrize(
    ("settings", "seen"),
    [
        ({}, False),
        ({"kavka_metrics_listener": "127.0.0.1:0"}, True),
        ({"kavka_console_listener": "127.0.0.1:0"}, True),
        ({"kavka_otel_endpoint": "http://127.0.0.1:4318"}, True),
        ({"kavka_otel_endpoint": "http://127.0.0.1:4318", "kavka_otel_metrics_interval_ms": "0"}, False),
    ],
)
def test_clients_are_asked_for_their_metrics_only_where_somebody_sees_them(ask, loops, settings, seen):
    request, loop = ApiVersionsRequest(client_software_name="x", client_software_version="1"), loops(**settings)
    keys = {row.api_key for row in ask(api_versions, request, 4, loop, loop.settings).api_keys}
    telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    assert keys & telemetry == (telemetry if seen else set())


@pytest.mark.parametrize(("version", "from_0"), [(3, False), (4, True)])
def test_a_feature_that_begins_at_0_is_only_for_clients_that_can_read_it(tell, version, from_0):
    ranges = {row.name: (row.min_version, row.max_version) for row in tell(version=version).supported_features}
    assert (0 in {low for low, _ in ranges.values()}) == from_0
    assert "metadata.version" in ranges


def test_the_levels_that_the_cluster_runs_at_are_told(tell, loop):
    answer = tell()
    levels = {row.name: row.max_version_level for row in answer.finalized_features}
    assert levels["metadata.version"] == loop.image.features.metadata_version
    assert levels["kraft.version"] == 1
    assert answer.finalized_features_epoch == loop.image.offset


@pytest.mark.parametrize(
    ("feature", "api"), [("share.version", ApiKey.SHARE_FETCH), ("streams.version", ApiKey.STREAMS_GROUP_HEARTBEAT)]
)
def test_no_feature_is_claimed_without_its_apis(tell, feature, api):
    answer = tell(version=4)
    served = any(row.api_key == api for row in answer.api_keys)
    for rows in (answer.supported_features, answer.finalized_features):
        assert any(row.name == feature for row in rows) == served
        assert any(row.name == "eligible.leader.replicas.version" for row in rows)


@pytest.mark.parametrize("bad", ["", " ", "-x", "x-", "a b", "ä", "x\n", "x" * 10 + "!"])
def test_a_client_whose_name_breaks_the_pattern_is_told_nothing(tell, bad):
    for request in ({"name": bad}, {"software": bad}):
        answer = tell(**request)
        assert (answer.error_code, answer.api_keys) == (42, [])


@pytest.mark.parametrize("good", ["x", "apache-kafka-java", "1.2.3", "a.b-c"])
def test_a_client_whose_name_fits_the_pattern_is_served(tell, good):
    assert tell(name=good, software=good).error_code == 0


@pytest.mark.parametrize(
    ("version", "name", "remembered"),
    [(2, "", ("", "")), (3, "librdkafka", ("librdkafka", "2.1")), (3, "a b", ("", ""))],
)
def test_what_a_client_calls_itself_is_known_from_then_on(loop, version, name, remembered):
    session = Session(1, "PLAINTEXT", "127.0.0.1", 50_000)
    request = ApiVersionsRequest(client_software_name=name, client_software_version="2.1" if name else "")
    asyncio.run(api_versions(request, Context(18, version, "test", session, 0), loop, loop.settings))
    assert (session.client_software_name, session.client_software_version) == remembered


def test_of_what_a_stranger_calls_itself_only_the_beginning_is_kept(loop):
    session, name = Session(1, "PLAINTEXT", "127.0.0.1", 50_000), "x" * 32_000
    request = ApiVersionsRequest(client_software_name=name, client_software_version=name)
    answer = asyncio.run(api_versions(request, Context(18, 3, "test", session, 0), loop, loop.settings))
    assert answer.error_code == 0
    assert session.client_software_name == session.client_software_version == "x" * 512
