"""Write the Grafana dashboards in deploy/grafana: `python tools/gen_dashboards.py [--check]`.

A dashboard is a list of rows, a row a list of panels, a panel one or more expressions. `--check` changes nothing and
fails if a file is out of date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "deploy" / "grafana"
COLUMNS: Final = 24
HEIGHT: Final = 8
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
NODES: Final = 'job=~"$job",instance=~"$node"'
"""Which nodes a panel is about: those chosen above the dashboard."""


class Line(NamedTuple):
    """What is drawn, and how it is called: `{{label}}` stands for a label."""

    expression: str
    legend: str = "{{instance}}"


class Panel(NamedTuple):
    """One picture."""

    title: str
    lines: Sequence[Line]
    unit: str = "short"
    kind: str = "timeseries"
    about: str = ""
    red_above: float | None = None
    """Above this a number is shown in red."""


class Dashboard(NamedTuple):
    """One page."""

    uid: str
    title: str
    rows: Sequence[tuple[str, Sequence[Panel]]]


def of(name: str, *labels: str) -> str:
    """The samples of a metric on the chosen nodes."""
    return f"{name}{{{','.join([NODES, *labels])}}}"


def rate(name: str, *labels: str, by: str = "") -> str:
    """How fast a counter grows, by labels or in all."""
    grows = f"rate({of(name, *labels)}[$__rate_interval])"
    return f"sum by ({by}) ({grows})" if by else f"sum({grows})"


def total(name: str, *labels: str, by: str = "") -> str:
    """The sum of a number over the chosen nodes, by labels or in all."""
    return f"sum by ({by}) ({of(name, *labels)})" if by else f"sum({of(name, *labels)})"


def quantile(share: float, name: str, *labels: str, by: str) -> str:
    """What a share of the observations does not exceed."""
    buckets = f"sum by (le, {by}) (rate({of(f'{name}_bucket', *labels)}[$__rate_interval]))"
    return f"histogram_quantile({share}, {buckets})"


def stat(title: str, expression: str, *, red_above: float | None = None, unit: str = "short", about: str = "") -> Panel:
    """One number."""
    return Panel(title, [Line(expression, "")], unit, "stat", about, red_above)


def traffic(kind: str, label: str = "") -> list[Line]:
    """What comes in and goes out, of nodes or of topics."""
    by = label or "instance"
    return [
        Line(rate(f"kavka_{kind}_in_bytes_total", by=by), f"in {{{{{by}}}}}"),
        Line(rate(f"kavka_{kind}_out_bytes_total", by=by), f"out {{{{{by}}}}}"),
    ]


CLUSTER: Final = Dashboard(
    "kavka-cluster",
    "Kavka: cluster",
    [
        (
            "What needs attention",
            [
                stat("Offline partitions", total("kavka_offline_partitions"), red_above=0),
                stat("Under min ISR", total("kavka_under_min_isr_partitions"), red_above=0),
                stat("Under-replicated", total("kavka_under_replicated_partitions"), red_above=0),
                stat(
                    "Active controllers", total("kavka_active_controller"), red_above=1, about="Exactly one is right."
                ),
                stat("Failed disks", total("kavka_offline_log_dirs"), red_above=0),
                stat("Unclean elections", total("kavka_unclean_leader_elections_total"), red_above=0),
            ],
        ),
        (
            "Traffic",
            [
                Panel("Bytes", traffic("node"), "Bps"),
                Panel("Messages in", [Line(rate("kavka_node_in_messages_total", by="instance"))], "cps"),
                Panel(
                    "Replication",
                    [
                        Line(rate("kavka_node_replication_in_bytes_total", by="instance"), "in {{instance}}"),
                        Line(rate("kavka_node_replication_out_bytes_total", by="instance"), "out {{instance}}"),
                    ],
                    "Bps",
                ),
            ],
        ),
        (
            "Nodes",
            [
                Panel("Partitions led", [Line(of("kavka_partitions_led"))]),
                Panel("Logs on disk", [Line(of("kavka_log_bytes"))], "bytes"),
                Panel("Processor", [Line(rate("kavka_cpu_seconds_total", by="instance"))], "percentunit"),
                Panel("Memory", [Line(of("kavka_resident_bytes"))], "bytes"),
                Panel(
                    "How late the loop runs (99 %)",
                    [Line(quantile(0.99, "kavka_loop_late_seconds", by="instance"))],
                    "s",
                    about="Over 20 ms now and then is much.",
                ),
                Panel("Times the loop was held", [Line(rate("kavka_loop_stalls_total", by="instance"))], "cps"),
                Panel("Open files", [Line(of("kavka_open_files"))]),
            ],
        ),
        (
            "Replication and the quorum",
            [
                Panel(
                    "ISR changes",
                    [
                        Line(rate("kavka_isr_shrinks_total", by="instance"), "shrinks {{instance}}"),
                        Line(rate("kavka_isr_expands_total", by="instance"), "expands {{instance}}"),
                    ],
                    "cps",
                ),
                Panel("Elections", [Line(rate("kavka_leader_elections_total", by="instance"))], "cps"),
                Panel("Epoch of the quorum", [Line(of("kavka_quorum_epoch"))]),
                Panel("Metadata", [Line(of("kavka_metadata_offset"))]),
            ],
        ),
    ],
)

REQUESTS: Final = Dashboard(
    "kavka-requests",
    "Kavka: requests and clients",
    [
        (
            "Requests",
            [
                Panel("Requests", [Line(rate("kavka_requests_total", by="api"), "{{api}}")], "reqps"),
                *(
                    Panel(
                        f"{api}: how long it takes",
                        [
                            Line(quantile(share, "kavka_request_seconds", f'api="{api}"', by="instance"), legend)
                            for share, legend in ((0.5, "half {{instance}}"), (0.99, "99 % {{instance}}"))
                        ],
                        "s",
                        about=about,
                    )
                    for api, about in (
                        ("Produce", "With the wait for replicas."),
                        ("Fetch", "With the wait for records."),
                        ("OffsetCommit", ""),
                    )
                ),
                Panel(
                    "Refused produce and fetch",
                    [
                        Line(rate("kavka_node_failed_produce_requests_total", by="instance"), "produce {{instance}}"),
                        Line(rate("kavka_node_failed_fetch_requests_total", by="instance"), "fetch {{instance}}"),
                    ],
                    "reqps",
                ),
                Panel("Held the loop", [Line(rate("kavka_requests_held_loop_total", by="api"), "{{api}}")], "cps"),
            ],
        ),
        (
            "Clients",
            [
                Panel("Connections", [Line(total("kavka_connections", by="listener"), "{{listener}}")]),
                Panel(
                    "Software",
                    [Line(total("kavka_connected_software", by="name,version"), "{{name}} {{version}}")],
                ),
                Panel(
                    "Throttled", [Line(rate("kavka_throttled_seconds_total", by="quota"), "{{quota}}")], "percentunit"
                ),
                Panel(
                    "Log-ins",
                    [
                        Line(
                            rate("kavka_sasl_logins_total", by="listener,mechanism,outcome"),
                            "{{listener}} {{mechanism}} {{outcome}}",
                        )
                    ],
                    "cps",
                ),
                Panel("Memory of requests", [Line(of("kavka_request_memory_bytes"))], "bytes"),
                Panel("Fetch sessions", [Line(of("kavka_fetch_sessions"))]),
            ],
        ),
    ],
)

TOPICS: Final = Dashboard(
    "kavka-topics",
    "Kavka: topics and groups",
    [
        (
            "Topics",
            [
                Panel("Bytes", traffic("topic", "topic"), "Bps"),
                Panel("Messages in", [Line(rate("kavka_topic_in_messages_total", by="topic"), "{{topic}}")], "cps"),
                Panel("On disk", [Line(total("kavka_topic_log_bytes", by="topic"), "{{topic}}")], "bytes"),
            ],
        ),
        (
            "Groups",
            [
                Panel("Lag", [Line(total("kavka_group_lag_records", by="group"), "{{group}}")]),
                Panel(
                    "Lag by topic",
                    [Line(total("kavka_group_topic_lag_records", by="group,topic"), "{{group}} {{topic}}")],
                ),
                Panel("Groups", [Line(total("kavka_groups", by="type,state"), "{{type}} {{state}}")]),
            ],
        ),
        (
            "Share groups",
            [
                Panel("Lag", [Line(total("kavka_share_lag_records", by="group"), "{{group}}")]),
                Panel("In flight", [Line(total("kavka_share_in_flight_records", by="group"), "{{group}}")]),
                Panel(
                    "Records",
                    [
                        Line(rate(f"kavka_share_{word}_records_total"), word)
                        for word in ("acquired", "accepted", "redelivered", "released", "expired", "archived")
                    ],
                    "cps",
                ),
            ],
        ),
    ],
)

STORAGE: Final = Dashboard(
    "kavka-storage",
    "Kavka: tiers and audit",
    [
        (
            "Tiered storage",
            [
                Panel("Copied", [Line(rate("kavka_remote_copied_bytes_total", by="instance"))], "Bps"),
                Panel("Not copied yet", [Line(of("kavka_remote_copy_lag_bytes"))], "bytes"),
                Panel("Read", [Line(rate("kavka_remote_read_bytes_total", by="instance"))], "Bps"),
                Panel(
                    "Failures",
                    [
                        Line(rate(f"kavka_remote_{word}_errors_total", by="instance"), f"{word} {{{{instance}}}}")
                        for word in ("copy", "read", "delete")
                    ],
                    "cps",
                ),
            ],
        ),
        (
            "Audit",
            [
                Panel("Entries", [Line(rate("kavka_audit_entries_total", by="instance"))], "cps"),
                Panel("Waiting for the topic", [Line(of("kavka_audit_waiting_entries"))]),
                stat("Could not be written", total("kavka_audit_failures_total"), red_above=0),
            ],
        ),
    ],
)

DASHBOARDS: Final = (CLUSTER, REQUESTS, TOPICS, STORAGE)


def expressions() -> Iterator[str]:
    """All that the dashboards ask Prometheus for."""
    for dashboard in DASHBOARDS:
        for _, panels in dashboard.rows:
            for panel in panels:
                yield from (line.expression for line in panel.lines)


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    """A choice above the dashboard."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def panel_json(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    """A panel as Grafana stores it."""
    defaults: dict[str, Any] = {"unit": panel.unit}
    if panel.red_above is not None:
        steps = [{"color": "green", "value": None}, {"color": "red", "value": panel.red_above + 1}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    options: dict[str, Any] = {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}}
    if panel.kind == "stat":
        options = {"colorMode": "background", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [
            {"refId": chr(ord("A") + index), "expr": line.expression, "legendFormat": line.legend, "datasource": SOURCE}
            for index, line in enumerate(panel.lines)
        ],
    }


def panels_json(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    """The panels row by row, three in a line, numbers six."""
    top, number = 0, 1
    for title, panels in dashboard.rows:
        place = {"h": 1, "w": COLUMNS, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        top, number, left, tallest = top + 1, number + 1, 0, 0
        for panel in panels:
            width, height = (4, HEIGHT // 2) if panel.kind == "stat" else (8, HEIGHT)
            if left + width > COLUMNS:
                top, left, tallest = top + tallest, 0, 0
            yield panel_json(panel, number, {"h": height, "w": width, "x": left, "y": top})
            number, left, tallest = number + 1, left + width, max(tallest, height)
        top += tallest


def text_of(dashboard: Dashboard) -> str:
    """A dashboard as a file that Grafana imports."""
    chosen = 'label_values(kavka_time_seconds{job=~"$job"}, instance)'
    content = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["kavka"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                variable("job", "Job", "label_values(kavka_time_seconds, job)"),
                variable("node", "Node", chosen),
            ]
        },
        "panels": list(panels_json(dashboard)),
    }
    return json.dumps(content, indent=2) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write or check; the exit code."""
    stale = 0
    for dashboard in DASHBOARDS:
        path, text = FOLDER / f"{dashboard.uid}.json", text_of(dashboard)
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale += 1
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{'out of date' if '--check' in arguments else 'wrote'}: {path.relative_to(ROOT)}\n")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
