"""Options: Spark's names in any case, and every mistake named."""

from __future__ import annotations

import pytest

from kavka.model.types import TopicPartition
from kavka.spark.offsets import EARLIEST, LATEST
from kavka.spark.options import OptionError, sink_options, source_options

WHERE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
TOPIC = {**WHERE, "subscribe": "a, b"}


def test_names_may_have_any_case_and_defaults_are_sparks() -> None:
    options = source_options({"KAFKA.BOOTSTRAP.SERVERS": "h:1", "Subscribe": "a, b"}, streaming=False)
    assert (options.bootstrap, options.subscribe) == ("h:1", ("a", "b"))
    assert (options.starting, options.ending) == (EARLIEST, LATEST)
    assert options.fail_on_data_loss
    assert not options.read_committed
    assert options.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert source_options(TOPIC, streaming=True).starting == LATEST


def test_offsets_and_assignments_are_json() -> None:
    given = {**WHERE, "assign": '{"a": [0, 2]}', "startingOffsets": '{"a": {"0": 5, "2": -1}}'}
    options = source_options(given, streaming=True)
    assert options.assign == (TopicPartition("a", 0), TopicPartition("a", 2))
    assert options.starting == {TopicPartition("a", 0): 5, TopicPartition("a", 2): LATEST}


def test_columns_are_taken_in_the_order_they_are_asked_for() -> None:
    assert source_options({**TOPIC, "columns": "Offset, value"}, streaming=False).columns == ("offset", "value")
    assert source_options({**TOPIC, "includeHeaders": "true"}, streaming=False).columns[-1] == "headers"


@pytest.mark.parametrize(("text", "ms"), [("15m", 900_000), ("30s", 30_000), ("7", 7), ("2 h", 7_200_000)])
def test_a_delay_has_a_unit(text: str, ms: int) -> None:
    assert source_options({**TOPIC, "maxTriggerDelay": text}, streaming=True).max_trigger_delay_ms == ms


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a"}, "say where the brokers are"),
        (WHERE, "no topic given"),
        ({**TOPIC, "assign": '{"a": [0]}'}, "both assign and subscribe"),
        ({**WHERE, "subscribePattern": "("}, "is not a pattern"),
        ({**WHERE, "assign": "a"}, "assign is a JSON object"),
        ({**WHERE, "assign": '{"a": ["x"]}'}, "assign is like"),
        ({**WHERE, "subscribe": ","}, "names no topic"),
        ({**TOPIC, "startingOffsets": '{"a": 5}'}, "startingOffsets is like"),
        ({**TOPIC, "startingOffsets": "first"}, "startingOffsets is a JSON object"),
        ({**TOPIC, "startingTimestamp": "now"}, "in milliseconds"),
        ({**TOPIC, "endingOffsets": "earliest"}, "cannot be earliest"),
        ({**TOPIC, "minPartitions": "0"}, "at least 1"),
        ({**TOPIC, "minPartitions": "many"}, "is a number"),
        ({**TOPIC, "failOnDataLoss": "no"}, "is true or false"),
        ({**TOPIC, "columns": "value,colour"}, "names 'colour'"),
        ({**TOPIC, "columns": "value,value"}, "twice"),
        ({**TOPIC, "columns": "value,error"}, "needs column value and value.format"),
        ({**TOPIC, "value.format": "xml"}, "value.format is one of"),
        ({**TOPIC, "maxTriggerDelay": "soon"}, "maxTriggerDelay is like"),
        ({**TOPIC, "kafka.isolation.level": "serializable"}, "kafka.isolation.level is one of"),
        ({**TOPIC, "filterPushdown": "true"}, "filterPushdown is gone: with it, Spark gives wrong rows"),
        ({**TOPIC, "subscribed": "a"}, "there is no option 'subscribed'"),
    ],
)
def test_a_mistake_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        source_options(options, streaming=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="a stream has no end"):
        source_options({**TOPIC, "endingOffsets": "latest"}, streaming=True)


def test_the_sink_takes_the_producers_compression() -> None:
    assert sink_options({**WHERE, "topic": "t", "kafka.compression.type": "zstd"}).compression == "zstd"
    with pytest.raises(OptionError, match="none, gzip"):
        sink_options({**WHERE, "kafka.compression.type": "rar"})
