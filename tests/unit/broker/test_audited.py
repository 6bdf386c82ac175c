"""What the audit log says of administrative requests, item by item, for every outcome."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kavka.broker.audited import ADMINISTRATIVE, Outcome, outcomes
from kavka.model.types import Uuid
from kavka.protocol.registry import API, ApiKey
from kavka.protocol.schema import build_default, declared
from kavka.protocol.schemas.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from kavka.protocol.schemas.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kavka.protocol.schemas.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kavka.protocol.schemas.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from kavka.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kavka.protocol.schemas.renew_delegation_token import RenewDelegationTokenRequest

SECRET = "s3cret-value"


def told(request: Any, response: Any) -> list[Outcome]:
    return list(outcomes(ADMINISTRATIVE[declared(type(request)).key], request, response))


def topic(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=3, replication_factor=1, assignments=[], configs=[])


def test_items_are_matched_with_their_answers_by_name() -> None:
    answer = CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name="b", error_code=29, error_message=None),
            CreatableTopicResult(name="a", error_code=0, error_message=None),
        ],
    )
    found = told(CreateTopicsRequest(topics=[topic("a"), topic("b")]), answer)
    assert [(each.item.name, each.code, each.allowed) for each in found] == [("a", 0, True), ("b", 29, False)]
    assert found[0].item.detail == "num_partitions 3"


def test_an_error_of_the_whole_request_is_that_of_each_item() -> None:
    found = told(CreateTopicsRequest(topics=[topic("a"), topic("b")]), 41)
    assert [(each.item.name, each.code) for each in found] == [("a", 41), ("b", 41)]


def test_a_topic_that_is_deleted_by_its_id_is_told_by_it() -> None:
    id_ = Uuid(bytes(range(16)))
    request = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=id_)], timeout_ms=1)
    answer = DeleteTopicsResponse(responses=[DeletableTopicResult(name="orders", topic_id=id_, error_code=29)])
    (found,) = told(request, answer)
    assert (found.item.name, found.item.detail, found.code) == (str(id_), "by id", 29)


def test_acls_are_told_in_words_and_matched_by_their_place() -> None:
    acl = AclCreation(
        resource_type=2, resource_name="orders", principal="User:bob", host="*", operation=3, permission_type=3
    )
    answer = CreateAclsResponse(results=[AclCreationResult(error_code=31, error_message=None)])
    (found,) = told(CreateAclsRequest(creations=[acl]), answer)
    assert found.item.detail == "ALLOW User:bob READ TOPIC:LITERAL:orders from *"
    assert not found.allowed


def test_values_of_settings_are_not_told() -> None:
    config = AlterableConfig(name="ssl.keystore.password", config_operation=0, value=SECRET)
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])], validate_only=False
    )
    answer = IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(error_code=42, error_message=SECRET, resource_type=4, resource_name="1")
        ],
    )
    (found,) = told(request, answer)
    assert (found.item.kind.name, found.item.detail, found.code) == ("CLUSTER", "BROKER 1: ssl.keystore.password", 42)
    assert SECRET not in json.dumps(found)


def test_tokens_are_not_told() -> None:
    (found,) = told(RenewDelegationTokenRequest(hmac=SECRET.encode(), renew_period_ms=1), 0)
    assert SECRET not in repr(found)


def test_quotas_are_told_by_their_entity() -> None:
    row = RequestEntryData(
        entity=[EntityData(entity_type="user", entity_name=None)],
        ops=[OpData(key="producer_byte_rate", value=1.0, remove=False)],
    )
    (found,) = told(AlterClientQuotasRequest(entries=[row], validate_only=False), 0)
    assert found.item.detail == "user <default>: producer_byte_rate"


@pytest.mark.parametrize("key", ADMINISTRATIVE, ids=lambda key: API[key].name)
def test_every_row_of_the_table_reads_an_empty_request_and_answer(key: int) -> None:
    request, response = build_default(API[key].request()), build_default(API[key].response())
    assert all(each.code == 0 for each in outcomes(ADMINISTRATIVE[key], request, response))


def test_everything_that_alters_or_deletes_is_administrative() -> None:
    words = ("Alter", "Delete", "Create", "Update", "Unregister", "Add", "Remove", "Renew", "Expire")
    internal = {
        ApiKey.ALTER_PARTITION,
        ApiKey.DELETE_SHARE_GROUP_STATE,
        ApiKey.UPDATE_RAFT_VOTER,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
    }
    altering = {key for key, api in API.items() if api.name.startswith(words)} - internal
    assert altering <= set(ADMINISTRATIVE)
