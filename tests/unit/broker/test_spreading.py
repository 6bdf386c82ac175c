"""The answer to CreateTopics waits for the brokers in service, and for nobody else."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kavka.broker.spreading import Spreading
from kavka.metadata.image import EMPTY
from kavka.model.errors import NetworkException
from kavka.model.types import Uuid
from kavka.protocol.registry import ApiKey
from kavka.protocol.schemas.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kavka.protocol.schemas.metadata import MetadataResponse, MetadataResponseTopic

OLD, NEW = Uuid(b"old".ljust(16)), Uuid(b"new".ljust(16))


class Others:
    """The brokers of a cluster: what each knows of the topic, and who is in service."""

    def __init__(self, **knows):
        self.knows = {int(name[1:]): known for name, known in knows.items()}
        self.fenced = set()
        self.asked = []

    def image(self):
        known = self.knows[1]
        topics = replace(EMPTY.topics, by_name={} if known is None else {"orders": SimpleNamespace(id=known)})
        cluster = SimpleNamespace(brokers=self.knows, is_active=lambda id_: id_ not in self.fenced)
        return SimpleNamespace(topics=topics, cluster=cluster)

    async def ask(self, broker, request):
        assert not request.allow_auto_topic_creation
        self.asked.append(broker)
        known = self.knows[broker]
        if known is NetworkException:
            raise NetworkException("gone")
        row = MetadataResponseTopic(
            error_code=3 if known is None else 0, name="orders", topic_id=known or Uuid.ZERO, partitions=[]
        )
        return MetadataResponse(brokers=[], controller_id=1, topics=[row])


def creating(others, *, code=0, timeout_ms=60_000, validate_only=False, id_=NEW):
    """A request to create a topic, on its way."""

    async def create_topics(request, ctx):
        row = CreatableTopicResult(name="orders", topic_id=id_, error_code=code, error_message=None)
        return CreateTopicsResponse(topics=[row])

    handler = Spreading(1, others.image, others.ask).wrap(ApiKey.CREATE_TOPICS, create_topics)
    request = CreateTopicsRequest(topics=[], timeout_ms=timeout_ms, validate_only=validate_only)
    return asyncio.create_task(handler(request, None))


async def asked(others, broker):
    while broker not in others.asked:
        await asyncio.sleep(0.001)


def run(work):
    asyncio.run(asyncio.wait_for(work(), 30))


@pytest.mark.parametrize("before", [None, OLD, NetworkException])
def test_an_answer_waits_until_every_broker_in_service_knows_the_topic(before):
    async def work():
        others = Others(b1=NEW, b2=NEW, b3=before)
        answer = creating(others)
        await asked(others, 3)
        assert not answer.done()
        others.knows[3] = NEW
        assert (await answer).topics[0].name == "orders"
        assert 2 in others.asked

    run(work)


@pytest.mark.parametrize(("before", "id_"), [(None, NEW), (OLD, NEW), (None, Uuid.ZERO)])
def test_this_node_has_to_know_it_too(before, id_):
    async def work():
        others = Others(b1=before, b2=NEW)
        answer = creating(others, id_=id_)
        await asyncio.sleep(0.02)
        assert not answer.done()
        assert not others.asked
        others.knows[1] = NEW
        await answer

    run(work)


def test_a_broker_that_goes_out_of_service_is_not_waited_for():
    async def work():
        others = Others(b1=NEW, b2=NetworkException)
        answer = creating(others)
        await asked(others, 2)
        others.fenced.add(2)
        await answer

    run(work)


def test_a_request_waits_no_longer_than_it_may_take():
    async def work():
        assert (await creating(Others(b1=NEW, b2=None), timeout_ms=20)).topics[0].error_code == 0

    run(work)


@pytest.mark.parametrize("how", [{"code": 36}, {"validate_only": True}])
def test_nobody_is_asked_about_what_was_not_created(how):
    async def work():
        others = Others(b1=None, b2=None)
        await creating(others, **how)
        assert not others.asked

    run(work)


def test_other_apis_are_left_alone():
    handler = object()
    assert Spreading(1, lambda: EMPTY, None).wrap(ApiKey.METADATA, handler) is handler
