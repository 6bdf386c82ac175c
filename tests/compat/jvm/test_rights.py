"""The table of rights is Kafka's own: the same cases that Kavka is asked, asked of a real Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from jvm.java_tools import Java
from jvm.nodes import APACHE, Node, running

from crash.raw import Raw
from kavka.security.sasl.plain import PlainClient
from rights import Operations, Variant, readers, variants
from rights_world import JAAS, SECURED, prepare

OVERRIDES = {
    **SECURED,
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "listener.name.controller.plain.sasl.jaas.config": JAAS,
}


@pytest.fixture(scope="module")
def secured(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running(APACHE, java, tmp_path_factory.mktemp("rights"), OVERRIDES) as node:
        prepare(node.bootstrap)
        yield node


@pytest.mark.parametrize("variant", list(variants()), ids=str)
def test_kafka_refuses_exactly_what_is_missing(secured: Node, variant: Variant) -> None:
    with closing(Raw(secured.bootstrap)) as raw:
        assert raw.log_in("PLAIN", PlainClient(variant.user, variant.user)) == 0
        variant.check(raw.call(variant.case.request(), variant.case.version))


@pytest.mark.parametrize(("case", "user"), list(readers()), ids=str)
def test_a_reader_is_told_what_it_may_do(secured: Node, case: Operations, user: str) -> None:
    with closing(Raw(secured.bootstrap)) as raw:
        assert raw.log_in("PLAIN", PlainClient(user, user)) == 0
        assert case.told(raw.call(case.request(), case.version)) == case.bits
