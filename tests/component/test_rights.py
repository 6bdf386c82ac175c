"""Every API as a plain user with exactly the rights of the table, and with each of them missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import pytest

from crash.raw import Raw
from kavka.broker.context import BROKER, CONTROLLER
from kavka.broker.handlers import HANDLERS, HOT, modules
from kavka.model.types import Uuid
from kavka.protocol.registry import API
from kavka.security.sasl.plain import PlainClient
from kavka.testing import Cluster
from kavka.testing.local import read_layout
from rights import CONTROLLER_CASES, CONTROLLER_VARIANTS, NOBODY_IS_ASKED, Case, refusals
from rights_asked import ALL_CASES, Variant, controllers_variants, variants
from rights_told import Operations, readers
from rights_world import CONFIG, prepare


class World(NamedTuple):
    """Where brokers and controllers are asked, and the id of the topic."""

    bootstrap: str
    controller: str
    topic_id: Uuid


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with Cluster(quorum=True, config=CONFIG) as running:
        (node,) = read_layout(running.data_dir)
        assert node.controller is not None
        yield World(running.bootstrap, node.controller, prepare(running.bootstrap))


@pytest.mark.parametrize("variant", list(variants()), ids=str)
def test_exactly_what_is_missing_is_refused(world: World, variant: Variant) -> None:
    with closing(Raw(world.bootstrap)) as raw:
        assert raw.log_in("PLAIN", PlainClient(variant.user, variant.user)) == 0
        variant.check(raw.call(variant.case.request(world.topic_id), variant.case.version))


@pytest.mark.parametrize("variant", list(controllers_variants()), ids=str)
def test_controllers_refuse_exactly_what_is_missing(world: World, variant: Variant) -> None:
    with closing(Raw(world.controller)) as raw:
        assert raw.log_in("PLAIN", PlainClient(variant.user, variant.user)) == 0
        variant.check(raw.call(variant.case.request(world.topic_id), variant.case.version))


@pytest.mark.parametrize(("case", "missing", "user"), CONTROLLER_VARIANTS, ids=str)
def test_controllers_serve_those_who_may_act_for_the_cluster(
    world: World, case: Case, missing: bool, user: str
) -> None:
    with closing(Raw(world.controller)) as raw:
        assert raw.log_in("PLAIN", PlainClient(user, user)) == 0
        answer = raw.call(case.request(world.topic_id), case.version)
    assert refusals(answer) == ({case.code(0)} if missing else set()), answer


def test_every_api_that_controllers_alone_are_served_is_in_the_table() -> None:
    served = {API[key].stem for key in modules(CONTROLLER, (*HANDLERS, *HOT))}
    others = {API[key].stem for key in modules(BROKER, (*HANDLERS, *HOT))}
    assert {case.stem for case in CONTROLLER_CASES} == (served - others) | {"fetch", "incremental_alter_configs"}


def test_every_api_that_clients_are_served_is_in_the_table() -> None:
    served = {API[key].stem for key in modules(BROKER, (*HANDLERS, *HOT))}
    ours_alone = {
        "get_replica_log_info",
        "registry_call",
    }  # Kafka 4.3 does not serve it, so the table, which is asked of it too, has no row
    assert served - {case.stem for case in ALL_CASES} == NOBODY_IS_ASKED.keys() | ours_alone


@pytest.mark.parametrize(("case", "user"), list(readers()), ids=str)
def test_a_reader_is_told_what_it_may_do(world: World, case: Operations, user: str) -> None:
    with closing(Raw(world.bootstrap)) as raw:
        assert raw.log_in("PLAIN", PlainClient(user, user)) == 0
        assert case.told(raw.call(case.request(), case.version)) == case.bits
