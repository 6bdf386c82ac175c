"""A plugin for the tests of confluent-kafka: they import trivup, which starts clusters, also if one is given."""

from __future__ import annotations

import sys
import types

import confluent_kafka

for _name in ("trivup", "trivup.clusters", "trivup.clusters.KafkaCluster"):
    sys.modules[_name] = types.ModuleType(_name)
sys.modules["trivup.clusters.KafkaCluster"].KafkaCluster = object  # type: ignore[attr-defined]
for _name in ("ShareConsumer", "DeserializingShareConsumer"):  # newer than the library that is tested, perhaps
    if not hasattr(confluent_kafka, _name):
        setattr(confluent_kafka, _name, object)
