"""`kavka cluster`: start a local one, and see what a cluster is made of."""

from __future__ import annotations

from typing import Any

from kavka.cli.cluster_up import up
from kavka.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, OutputOption, Timeout, group, run
from kavka.cli.output import Output, print_json, print_rows, write_line
from kavka.client import Admin, Quorum

app = group("Run a cluster on this machine, and look at clusters.")
app.command("up")(up)


@app.command("describe")
def describe_cluster(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    output: OutputOption = Output.TABLE,
    timeout: Timeout = 30.0,
) -> None:
    """Show the cluster's id, nodes, metadata quorum and features.

    Example: `kavka cluster describe --bootstrap broker1:9092`
    """

    async def work() -> dict[str, Any]:
        async with Admin(bootstrap, timeout_ms=int(timeout * 1000)) as admin:
            found = await admin.describe_cluster()
            quorum = await admin.describe_quorum()
            features = await admin.describe_features()
        return {
            "cluster_id": found.cluster_id,
            "nodes": [
                {"node": node.id, "address": f"{node.host}:{node.port}", "rack": node.rack} for node in found.nodes
            ],
            "quorum": {
                "leader": quorum.leader_id,
                "epoch": quorum.leader_epoch,
                "high_watermark": quorum.high_watermark,
                "voters": [replica.id for replica in quorum.voters],
                "observers": [replica.id for replica in quorum.observers],
            },
            "features": dict(sorted(features.finalized.items())),
        }

    described = run(work())
    if output is Output.JSON:
        print_json(described)
        return
    quorum = described["quorum"]
    voters = ",".join(map(str, quorum["voters"]))
    write_line(f"cluster {described['cluster_id']}")
    print_rows(Output.TABLE, ["node", "address", "rack"], described["nodes"])
    write_line(
        f"\nmetadata quorum: leader {quorum['leader']}, epoch {quorum['epoch']}, voters {voters}, "
        f"high watermark {quorum['high_watermark']}\n"
    )
    print_rows(
        Output.TABLE, ["feature", "level"], [{"feature": k, "level": v} for k, v in described["features"].items()]
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
