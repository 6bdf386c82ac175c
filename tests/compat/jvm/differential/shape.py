"""Makes answers comparable: a tree of plain values in which what must differ between two nodes is masked.

Masked: ids, times, host names, ports, throttle times, the words of error messages (but not whether there is one), and
the order of rows. Everything else counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from typing import Any

from jvm.differential.batches import headers_of
from jvm.differential.talk import Outcome

from kavka.model.types import Uuid
from kavka.protocol.schema import Message, fields_of
from kavka.wire.compression import decompress

Tree = dict[str, Any]

# Fields by which a row of a list is known, the most telling first.
IDENTITIES = (
    "api_key",
    "resource_name",
    "name",
    "topic",
    "topic_name",
    "feature",
    "topic_id",
    "key",
    "node_id",
    "broker_id",
    "replica_id",
    "partition_index",
    "partition",
    "index",
    "batch_index",
    "producer_id",
    "group_id",
    "client_id",
    "entity_type",
    "entity",
)
# Fields whose values are masked. What may mean "not set" (null, "", -1) is compared, and so is 0 where it means that.
MASKED = {
    "throttle_time_ms": "<throttle>",
    "cluster_id": "<cluster>",
    "host": "<host>",
    "port": "<port>",
    "error_message": "<words>",
    "acknowledge_error_message": "<words>",
    "batch_index_error_message": "<words>",
    "finalized_features_epoch": "<offset>",
    "log_dir": "<folder>",
    "total_bytes": "<bytes>",
    "usable_bytes": "<bytes>",
    "last_fetch_timestamp": "<time>",
    "last_caught_up_timestamp": "<time>",
    "log_append_time_ms": "<time>",
    "session_id": "<session>",
    "documentation": "<words>",
    "member_id": "<member>",
    "leader": "<member>",
}
ZERO_IS_UNSET = {"session_id", "port"}
# Settings that name folders, ports and ids of this very node.
OWN_SETTINGS = {
    "advertised.listeners",
    "controller.quorum.bootstrap.servers",
    "controller.quorum.voters",
    "controller.listener.names",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "process.roles",
}
LOG_APPEND_TIME = 0b1000
CODEC = 0b111


def shape(outcome: Outcome, topic_name: Callable[[Uuid], str], masks: Mapping[str, str]) -> Tree:
    """The comparable tree of an outcome."""
    if outcome.closed:
        return {"closed": True}
    if outcome.silent:
        return {"silent": True}
    if outcome.hung:
        return {"hung": True}
    if outcome.message is None:
        return {"answered": True}
    tree = _struct(outcome.message, topic_name)
    for pattern, word in masks.items():
        _mask(tree, pattern, word, "")
    return tree


def _struct(value: Message, topic_name: Callable[[Uuid], str]) -> Tree:
    tree: Tree = {}
    for declared in fields_of(type(value)):
        tree[declared.name] = _field(declared.name, getattr(value, declared.name), topic_name)
    if tree.get("name") in OWN_SETTINGS and "value" in tree:
        tree |= dict.fromkeys(("value", "synonyms", "config_source"), "<own>")
    return tree


def _field(name: str, value: Any, topic_name: Callable[[Uuid], str]) -> Any:
    if name in MASKED:
        is_unset = value is None or value in ("", -1) or (value == 0 and name in ZERO_IS_UNSET)
        return value if is_unset else MASKED[name]
    if isinstance(value, Uuid):
        return "<zero>" if value == Uuid.ZERO else topic_name(value) if name == "topic_id" else "<id>"
    if name == "records" and value is not None:
        return [_batch(head) for head in headers_of(bytes(value))]
    if isinstance(value, Message):
        return _struct(value, topic_name)
    if isinstance(value, list) and value and isinstance(value[0], Message):
        return _rows([_struct(row, topic_name) for row in value])
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value


def _rows(rows: list[Tree]) -> Tree:
    """Rows by what they are called, so that their order does not matter and a difference says where it is."""
    named: Tree = {}
    for row in rows:
        telling = [field for field in IDENTITIES if row.get(field) not in (None, "", "<zero>")]
        label = str(row[telling[0]]) if telling else "row"
        while label in named:
            label += "'"
        named[label] = row
    return dict(sorted(named.items()))


def _batch(head: dict[str, Any]) -> dict[str, Any]:
    """A fetched batch; what depends on the clock or on a compressor's taste is masked."""
    if head.get("cut"):
        return {"cut": True}
    attributes = head["attributes"]
    body: bytes = head.pop("body")
    if attributes & CODEC:
        body = decompress(attributes & CODEC, body)
        head["crc"] = head["length"] = "<compressed>"
    if attributes & LOG_APPEND_TIME:
        head["crc"], head["max_timestamp"] = "<time>", "<time>"
    return {**head, "body": body.hex()}


def _mask(node: Any, pattern: str, word: str, path: str) -> None:
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        here = f"{path}.{key}" if path else key
        if fnmatch(here, pattern):
            node[key] = word
        else:
            _mask(value, pattern, word, here)


def differences(kafkas: Any, ours: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """Path to Kafka's value and ours, for each place where the trees differ."""
    if isinstance(kafkas, dict) and isinstance(ours, dict):
        found: dict[str, tuple[Any, Any]] = {}
        for key in [*kafkas, *(key for key in ours if key not in kafkas)]:
            here = f"{path}.{key}" if path else str(key)
            if key not in ours:
                found[here] = (_short(kafkas[key]), "absent")
            elif key not in kafkas:
                found[here] = ("absent", _short(ours[key]))
            else:
                found |= differences(kafkas[key], ours[key], here)
        return found
    if isinstance(kafkas, list) and isinstance(ours, list) and len(kafkas) == len(ours):
        found = {}
        for number, (one, other) in enumerate(zip(kafkas, ours, strict=True)):
            found |= differences(one, other, f"{path}.{number}")
        return found
    return {} if kafkas == ours and type(kafkas) is type(ours) else {path: (_short(kafkas), _short(ours))}


def _short(value: Any) -> Any:
    text = json.dumps(value, default=str)
    return value if len(text) < 300 else text[:300] + "..."
