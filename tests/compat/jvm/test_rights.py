"""The table of rights is Kafka's own: the same cases that Kavka is asked, asked of a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest
from jvm.java_tools import Java
from jvm.nodes import APACHE, Node, running

from crash.raw import Raw
from kavka.model.types import Uuid
from kavka.security.sasl.plain import PlainClient
from rights import CONTROLLER_VARIANTS, Case, refusals
from rights_asked import Variant, controllers_variants, variants
from rights_told import Operations, readers
from rights_world import LISTENERS, prepare

OVERRIDES = {**LISTENERS, "inter.broker.listener.name": "PLAINTEXT"}


class World(NamedTuple):
    """A real Kafka, and the id of the topic there."""

    node: Node
    topic_id: Uuid


@pytest.fixture(scope="module")
def secured(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running(APACHE, java, tmp_path_factory.mktemp("rights"), OVERRIDES) as node:
        yield World(node, prepare(node.bootstrap))


@pytest.mark.parametrize("variant", list(variants()), ids=str)
def test_kafka_refuses_exactly_what_is_missing(secured: World, variant: Variant) -> None:
    with closing(Raw(secured.node.bootstrap)) as raw:
        assert raw.log_in("PLAIN", PlainClient(variant.user, variant.user)) == 0
        variant.check(raw.call(variant.case.request(secured.topic_id), variant.case.version))


@pytest.mark.parametrize("variant", list(controllers_variants()), ids=str)
def test_kafkas_controllers_refuse_exactly_what_is_missing(secured: World, variant: Variant) -> None:
    assert secured.node.controller is not None
    with closing(Raw(secured.node.controller)) as raw:
        assert raw.log_in("PLAIN", PlainClient(variant.user, variant.user)) == 0
        variant.check(raw.call(variant.case.request(secured.topic_id), variant.case.version))


@pytest.mark.parametrize(("case", "missing", "user"), CONTROLLER_VARIANTS, ids=str)
def test_kafkas_controllers_serve_those_who_may_act_for_the_cluster(
    secured: World, case: Case, missing: bool, user: str
) -> None:
    assert secured.node.controller is not None
    with closing(Raw(secured.node.controller)) as raw:
        assert raw.log_in("PLAIN", PlainClient(user, user)) == 0
        answer = raw.call(case.request(secured.topic_id), case.version)
    assert refusals(answer) == ({case.code(0)} if missing else set()), answer


@pytest.mark.parametrize(("case", "user"), list(readers()), ids=str)
def test_a_reader_is_told_what_it_may_do(secured: World, case: Operations, user: str) -> None:
    with closing(Raw(secured.node.bootstrap)) as raw:
        assert raw.log_in("PLAIN", PlainClient(user, user)) == 0
        assert case.told(raw.call(case.request(), case.version)) == case.bits
