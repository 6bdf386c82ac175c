"""`kavka cluster`: start a local one, and see what a cluster is made of."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kavka.cli.cluster_up import up
from kavka.cli.members import add_voter, remove_voter, unregister
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, run
from kavka.cli.output import Output, print_json, print_rows, write_line
from kavka.cli.scaling import add, decommission, rebalance, remove
from kavka.client import Admin, Quorum
from kavka.model.errors import KafkaError

QUORUM_SECONDS: Final = 5.0
"""How long the quorum may take to answer before the rest is shown without it."""

app = group("Run a cluster on this machine, and look at clusters.")
app.command("up")(up)
app.command("add-voter")(add_voter)
app.command("remove-voter")(remove_voter)
app.command("unregister")(unregister)
app.command("rebalance")(rebalance)
app.command("add")(add)
app.command("decommission")(decommission)
app.command("remove")(remove)


@app.command("describe")
def describe_cluster(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Show the cluster's id, nodes, metadata quorum and features.

    A node that is out of service is fenced. Without a quorum the rest is shown as it was known last.

    Example: `kavka cluster describe --bootstrap broker1:9092`
    """

    async def work() -> dict[str, Any]:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            found = await admin.describe_cluster(include_fenced=True)
            features = await admin.describe_features()
            quorum = await _quorum_or_reason(admin, min(timeout, QUORUM_SECONDS))
        return {
            "cluster_id": found.cluster_id,
            "nodes": [
                {
                    "node": node.id,
                    "address": f"{node.host}:{node.port}",
                    "rack": node.rack,
                    "state": "fenced" if node.id in found.fenced else "unfenced",
                }
                for node in found.nodes
            ],
            **quorum,
            "features": dict(sorted(features.finalized.items())),
        }

    described = run(work())
    if output is Output.JSON:
        print_json(described)
        return
    write_line(f"cluster {described['cluster_id']}")
    print_rows(Output.TABLE, ["node", "address", "rack", "state"], described["nodes"])
    write_line(f"\nmetadata quorum: {_in_words(described['quorum'], described['quorum_error'])}\n")
    print_rows(
        Output.TABLE, ["feature", "level"], [{"feature": k, "level": v} for k, v in described["features"].items()]
    )


async def _quorum_or_reason(admin: Admin, seconds: float) -> dict[str, Any]:
    """What the quorum's leader says of it, or why nobody says anything."""
    try:
        async with asyncio.timeout(seconds):
            quorum = await admin.describe_quorum()
    except TimeoutError:
        return {"quorum": None, "quorum_error": f"no leader has answered within {seconds:g} s"}
    except KafkaError as error:
        return {"quorum": None, "quorum_error": str(error)}
    described = {
        "leader": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [replica.id for replica in quorum.voters],
        "observers": [replica.id for replica in quorum.observers],
    }
    return {"quorum": described, "quorum_error": None}


def _in_words(quorum: dict[str, Any] | None, error: str | None) -> str:
    if quorum is None:
        return f"not available ({error}); the above and below is what was known last"
    voters = ",".join(map(str, quorum["voters"]))
    return (
        f"leader {quorum['leader']}, epoch {quorum['epoch']}, voters {voters}, "
        f"high watermark {quorum['high_watermark']}"
    )


@app.command("quorum")
def describe_quorum(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Show who leads the metadata quorum, and how far its voters and observers are.

    Example: `kavka cluster quorum`
    """

    async def work() -> Quorum:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            return await admin.describe_quorum()

    quorum = run(work())
    rows = []
    for status, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
        for replica in replicas:
            behind = max(0, quorum.high_watermark - replica.log_end_offset) if replica.log_end_offset >= 0 else None
            rows.append(
                {
                    "node": replica.id,
                    "status": "leader" if replica.id == quorum.leader_id else status,
                    "log_end_offset": replica.log_end_offset,
                    "lag": behind,
                    "last_caught_up_ms": replica.last_caught_up_timestamp,
                    "directory_id": str(replica.directory_id),
                    "endpoints": list(quorum.endpoints.get(replica.id, ())),
                }
            )
    if output is Output.JSON:
        described = {"leader": quorum.leader_id, "epoch": quorum.leader_epoch, "high_watermark": quorum.high_watermark}
        print_json({**described, "replicas": rows})
        return
    write_line(f"leader {quorum.leader_id}, epoch {quorum.leader_epoch}, high watermark {quorum.high_watermark}\n")
    print_rows(output, ["node", "status", "log_end_offset", "lag", "endpoints"], rows)
