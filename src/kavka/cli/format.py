"""`kavka format`: make data directories a node's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kavka.cli.options import OutputOption
from kavka.cli.output import CommandError, Output, print_json, write_line

if TYPE_CHECKING:  # the broker's modules are many, and other commands need none of them
    from kavka.broker.config import NodeConfig
    from kavka.quorum.format import NodeDirs


def format_dirs(
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", metavar="DIR", show_default="kavka-data", help="What to format.")
    ] = None,
    cluster_id: Annotated[
        str | None,
        typer.Option("--cluster-id", metavar="ID", show_default="a new one", help="22 characters of base64url."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A server.properties file, as Kafka's.")
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--override", metavar="KEY=VALUE", help="A key that wins over the file; may be repeated."),
    ] = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", help="A new cluster, of which this node is the first controller.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            metavar="ID@HOST:PORT:DIR-ID,...",
            help="The first controllers of a new cluster; each with the id of its metadata directory.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", help="A controller that is to join a quorum that is there.")
    ] = False,
    release_version: Annotated[
        str | None,
        typer.Option("--release-version", metavar="RELEASE", show_default="this one", help="Whose feature levels."),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", metavar="NAME=LEVEL", help="A feature level of its own; may be repeated."),
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            metavar="MECHANISM=[name=NAME,password=PASSWORD]",
            help="A user of SCRAM-SHA-256 or SCRAM-SHA-512 that the cluster has from its beginning; may be repeated.",
        ),
    ] = None,
    ignore_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="Pass over directories that are this node's already.")
    ] = False,
    random_id: Annotated[
        bool, typer.Option("--random-id", help="Only print a new id, for a cluster or a directory, and format nothing.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Format the data directories of a node.

    A node that is a cluster of its own needs none of this: `kavka serve` formats empty directories by itself. The nodes
    of a cluster share a cluster id. Brokers need no more; controllers are told how their quorum begins, unless
    `controller.quorum.voters` names it for good.

    Examples:

    - `kavka format --data-dir /var/lib/kavka --override node.id=1`
    - `kavka format --random-id`
    - `kavka format --config server.properties --cluster-id ID --initial-controllers 1@a:9093:DIR-ID,2@b:9093:DIR-ID`
    - `kavka format --config server.properties --cluster-id ID --no-initial-controllers`
    - `kavka format --add-scram 'SCRAM-SHA-256=[name=admin,password=secret]'`
    """
    if random_id:
        from kavka.quorum.format import random_id as new_id

        print_json({"id": str(new_id())}) if output is Output.JSON else write_line(str(new_id()))
        return
    from kavka.broker.config import ConfigError, load_config

    quorum = QuorumOptions(
        standalone,
        initial_controllers,
        no_initial_controllers,
        release_version,
        tuple(feature or ()),
        tuple(add_scram or ()),
    )

    try:
        node = load_config(
            str(config) if config else None,
            environment=os.environ,
            overrides=override or [],
            data_dir=str(data_dir) if data_dir else None,
        )
    except ConfigError as error:
        raise CommandError(str(error)) from None
    formatted = _format(node, cluster_id, quorum, ignore_formatted)
    directories = {path: str(directory_id) for path, directory_id in formatted.directory_ids.items()}
    if output is Output.JSON:
        print_json({"cluster_id": formatted.cluster_id, "node_id": formatted.node_id, "directories": directories})
        return
    for path in directories:
        write_line(f"{path} formatted for node {formatted.node_id} of cluster {formatted.cluster_id}")


class QuorumOptions(NamedTuple):
    """How the quorum of a node's cluster begins, as the command line has it."""

    standalone: bool
    initial_controllers: str | None
    no_initial_controllers: bool
    release: str | None
    features: tuple[str, ...]
    users: tuple[str, ...] = ()


def _format(node: NodeConfig, cluster_id: str | None, quorum: QuorumOptions, ignore_formatted: bool) -> NodeDirs:
    from kavka.broker.listeners import controller_names
    from kavka.model.clock import SystemClock
    from kavka.model.settings import CONTROLLER_QUORUM_VOTERS
    from kavka.quorum import format as formatting
    from kavka.storage.disk import RealDisk

    _check(node, cluster_id, quorum)
    listener = next(iter(controller_names(node.values)), formatting.CONTROLLER_ENDPOINT.listener)
    alone = node.standalone or quorum.standalone
    own = node.advertised_controllers[0] if node.advertised_controllers else formatting.CONTROLLER_ENDPOINT
    dynamic = not node.values[CONTROLLER_QUORUM_VOTERS]
    try:
        initial = quorum.initial_controllers
        voters = formatting.parse_initial_controllers(initial, listener) if initial else ()
        if voters and "controller" in node.roles and node.node_id not in {voter.key.id for voter in voters}:
            raise formatting.FormatError(f"--initial-controllers: node {node.node_id} is not among them")
        return formatting.format_dirs(
            RealDisk(),
            node.data_dirs,
            node.metadata_dir,
            cluster_id=cluster_id or str(formatting.random_id()),
            node_id=node.node_id,
            now_ms=SystemClock().now_ms(),
            controller=own if alone else None,
            initial_controllers=voters if "controller" in node.roles else (),
            levels=formatting.feature_levels(
                quorum.release, formatting.parse_features(quorum.features), dynamic=dynamic
            ),
            ignore_formatted=ignore_formatted,
            records=formatting.parse_scram_users(quorum.users),
        )
    except formatting.FormatError as error:
        raise CommandError(str(error)) from None


def _check(node: NodeConfig, cluster_id: str | None, quorum: QuorumOptions) -> None:
    """Kafka's rules for what is said of the quorum."""
    from kavka.model.settings import CONTROLLER_QUORUM_VOTERS

    given = {
        "--standalone": quorum.standalone,
        "--initial-controllers": quorum.initial_controllers is not None,
        "--no-initial-controllers": quorum.no_initial_controllers,
    }
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        raise CommandError(f"{chosen[0]} and {chosen[1]} exclude each other", 2)
    if node.standalone:
        if quorum.initial_controllers or quorum.no_initial_controllers:
            raise CommandError(f"{chosen[0]}: without controller.quorum.* the node is a cluster of its own")
        return
    if cluster_id is None and not quorum.standalone:
        raise CommandError(
            "--cluster-id: all nodes of a cluster are formatted with the same; `kavka format --random-id` makes one"
        )
    static = bool(node.values[CONTROLLER_QUORUM_VOTERS])
    if static and chosen:
        raise CommandError(f"{chosen[0]}: controller.quorum.voters names the controllers already")
    if not static and not chosen and "controller" in node.roles:
        raise CommandError(
            f"a controller needs one of {', '.join(given)}, as long as there is no controller.quorum.voters"
        )
    if quorum.standalone and "controller" not in node.roles:
        raise CommandError("--standalone: this node is no controller")
