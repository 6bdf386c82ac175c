"""The names of share partitions."""

from __future__ import annotations

import pytest

from kavka.model.share import SharePartitionKey
from kavka.model.types import Uuid

TOPIC = Uuid(bytes(range(16)))


@pytest.mark.parametrize("key", [SharePartitionKey("g", TOPIC, 0), SharePartitionKey("a:b:c", TOPIC, 17)])
def test_a_name_is_read_from_its_end(key):
    assert SharePartitionKey.parse(str(key)) == key
    assert str(key).endswith(f":{TOPIC}:{key.partition}")


@pytest.mark.parametrize(
    "text", ["", "g", f"g:{TOPIC}", f":{TOPIC}:1", f" :{TOPIC}:1", "g:nothing:1", f"g:{TOPIC}:x", f"g:{TOPIC}:1_0"]
)
def test_what_is_no_name_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        SharePartitionKey.parse(text)
