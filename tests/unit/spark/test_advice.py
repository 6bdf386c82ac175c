"""What failures say to do."""

from __future__ import annotations

import pytest

from kavka.model.errors import CorruptMessage, InvalidTopicException, KafkaError, NetworkException
from kavka.spark.advice import advised
from kavka.spark.pipelines.progress import one_line


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NetworkException("cannot connect to a:1"), "cannot connect to a:1: when the brokers are back, start"),
        (CorruptMessage("t-0 at offset 5: the CRC does not match"), "match: `kavka pipeline verify` shows"),
        (InvalidTopicException("no"), "no"),
    ],
)
def test_what_users_meet_is_told_with_what_to_do(error: KafkaError, said: str) -> None:
    with pytest.raises(type(error)) as raised, advised(), advised():
        raise error
    assert said in str(raised.value)
    assert str(raised.value).count("start the query again") <= 1


def test_a_full_disk_is_one_line() -> None:
    text = "Job aborted\njava.io.IOException: No space left on device\n\tat java.base"
    assert one_line(RuntimeError(text)).startswith("No space left on device: free some space")
    ours = f"{text}\nkavka.spark.lake.table.LakeError: table t: no space is left for batch 3: free some"
    assert one_line(RuntimeError(ours)) == "table t: no space is left for batch 3: free some"
