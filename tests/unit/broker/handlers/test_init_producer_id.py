"""Init producer id: every outcome is one error code."""

from __future__ import annotations

import pytest

from kavka.broker.handlers.init_producer_id import init_producer_id
from kavka.protocol.schemas.init_producer_id import InitProducerIdRequest
from kavka.quorum.producer_ids import ProducerIds


def request(transactional_id=None, **more):
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000, **more)


@pytest.mark.parametrize("version", range(6))
def test_each_idempotent_producer_gets_an_id_of_its_own(ask, loop, version):
    ids = ProducerIds(loop)
    answers = [ask(init_producer_id, request(), version, ids, None) for _ in range(3)]
    assert [(answer.error_code, answer.producer_id, answer.producer_epoch) for answer in answers] == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 0),
    ]


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (request(""), 42),
        (request(producer_id=5), 42),
        (request(producer_epoch=5), 42),
        (request(producer_id=5, producer_epoch=5), 0),
    ],
)
def test_every_outcome_is_one_error_code(ask, loop, asked, code):
    answer = ask(init_producer_id, asked, 5, ProducerIds(loop), None)
    assert answer.error_code == code
    if code:
        assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
