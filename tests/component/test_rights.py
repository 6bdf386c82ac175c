"""Every API as a plain user with exactly the rights of the table, and with each of them missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from crash.raw import Raw
from kavka.broker.context import BROKER
from kavka.broker.handlers import HANDLERS, HOT, modules
from kavka.protocol.registry import API
from kavka.security.sasl.plain import PlainClient
from kavka.testing import Cluster
from rights import CASES, NOBODY_IS_ASKED, Operations, Variant, readers, variants
from rights_world import CONFIG, prepare


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config=CONFIG) as running:
        prepare(running.bootstrap)
        yield running


@pytest.mark.parametrize("variant", list(variants()), ids=str)
def test_exactly_what_is_missing_is_refused(cluster: Cluster, variant: Variant) -> None:
    with closing(Raw(cluster.bootstrap)) as raw:
        assert raw.log_in("PLAIN", PlainClient(variant.user, variant.user)) == 0
        variant.check(raw.call(variant.case.request(), variant.case.version))


def test_every_api_that_clients_are_served_is_in_the_table() -> None:
    served = {API[key].stem for key in modules(BROKER, (*HANDLERS, *HOT))}
    ours_alone = {
        "get_replica_log_info",
        "registry_call",
    }  # Kafka 4.3 does not serve it, so the table, which is asked of it too, has no row
    assert served - {case.stem for case in CASES} == NOBODY_IS_ASKED.keys() | ours_alone


@pytest.mark.parametrize(("case", "user"), list(readers()), ids=str)
def test_a_reader_is_told_what_it_may_do(cluster: Cluster, case: Operations, user: str) -> None:
    with closing(Raw(cluster.bootstrap)) as raw:
        assert raw.log_in("PLAIN", PlainClient(user, user)) == 0
        assert case.told(raw.call(case.request(), case.version)) == case.bits
