"""A collector of OpenTelemetry that nobody here wrote, and what it received."""

from __future__ import annotations

import logging
from typing import Any

from oteltest.sink import HttpSink
from oteltest.sink.handler import AccumulatingHandler
from oteltest.telemetry import Telemetry

from kavka.testing.local import free_ports


class Collector:
    """What was received."""

    def __init__(self) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self._handler = AccumulatingHandler()
        self._sink = HttpSink(self._handler, logging.getLogger("sink"), port)
        self._sink.start()

    def close(self) -> None:
        self._sink.stop()

    @property
    def telemetry(self) -> Telemetry:
        return self._handler.telemetry

    def spans(self, service: str) -> list[Any]:
        return [
            span
            for request in list(self.telemetry.trace_requests)
            for resource in request.pbreq.resource_spans
            if of(resource.resource.attributes, "service.name") == service
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> dict[str, Any]:
        """The metrics that came last, by name."""
        requests = list(self.telemetry.metric_requests)
        if not requests:
            return {}
        (resource,) = requests[-1].pbreq.resource_metrics
        assert of(resource.resource.attributes, "service.name") == "kavka"
        assert of(resource.resource.attributes, "service.instance.id") == "1"
        return {metric.name: metric for scope in resource.scope_metrics for metric in scope.metrics}


def of(attributes: Any, name: str) -> str | None:
    return next((each.value.string_value for each in attributes if each.key == name), None)
