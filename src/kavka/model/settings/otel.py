"""The settings of OpenTelemetry: where metrics and traces are sent, and how many."""

from __future__ import annotations

from typing import Any, Final

from kavka.model.settings.types import DOUBLE, LONG, STRING, Check, Setting, at_least, between, collect

KAVKA_OTEL_ENDPOINT = STRING.optional(
    "kavka.otel.endpoint",
    Check("http://HOST:PORT or https://HOST:PORT", lambda value: value.startswith(("http://", "https://"))),
    doc="Where an OpenTelemetry collector takes OTLP over HTTP, as http://127.0.0.1:4318; nothing is sent by default.",
    internal=True,
)
KAVKA_OTEL_METRICS_INTERVAL_MS = LONG(
    "kavka.otel.metrics.interval.ms",
    60_000,
    at_least(0),
    doc="How often all metrics are sent there; 0 for never.",
    internal=True,
)
KAVKA_OTEL_TRACES_SAMPLE = DOUBLE(
    "kavka.otel.traces.sample",
    0.0,
    between(0, 1),
    doc="The share of requests of which a span is sent there: 0.001 is one in a thousand.",
    internal=True,
)

SETTINGS: Final[dict[str, Setting[Any]]] = collect(globals())
