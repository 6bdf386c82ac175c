"""A cluster on one machine: a directory with one `server.properties` and one data directory per node, formatted."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kavka.model.types import EVERY_ADDRESS

MAX_CONTROLLERS: Final = 3
CONTROLLER = "CONTROLLER"
_PORTS: Final = range(20_000, 32_000)
"""Below those that the system hands out: a node that is down for a while finds its port still free."""
_BLOCK: Final = 50
"""So many ports at a time belong to one process, which gives out each of them once."""
_chance: Final = random.SystemRandom()  # whatever seed a test run gives its processes, they choose different ports


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One node as its files describe it."""

    id: int
    home: Path
    listen: str
    controller: str | None
    """Where its controller listens; None for one that is only a broker."""
    disks: int = 1
    """How many log directories it has."""

    @property
    def data_dir(self) -> Path:
        """Where it keeps its data; of several directories the first, with the metadata log."""
        return self.home / "data"

    @property
    def log_dirs(self) -> list[Path]:
        """All its log directories."""
        return [self.data_dir, *(self.home / f"data-{number}" for number in range(2, self.disks + 1))]

    @property
    def config(self) -> Path:
        """Its server.properties."""
        return self.home / "server.properties"

    @property
    def arguments(self) -> list[str]:
        """What `kavka serve` is told: where the data is now, because the whole cluster may have been moved."""
        return ["--config", str(self.config), "--data-dir", ",".join(map(str, self.log_dirs))]


def lay_out(
    root: Path,
    nodes: int,
    config: Mapping[str, str],
    *,
    host: str = "127.0.0.1",
    first_port: int = 0,
    users: Sequence[str] = (),
    disks: int = 1,
) -> list[LocalNode]:
    """The nodes of a cluster under a directory: those that are there, and new ones up to the number asked for.

    The first up to three of a new cluster are controllers too. With a first port the nodes listen on that and the
    following ones, and their controllers on those after them, and one that is added on the next that is free after
    those of the cluster; else on any that are free. The listener for clients is
    named after `security.inter.broker.protocol`; `users` are those of `kavka format --add-scram`; each node has as many
    log directories as `disks` says.
    """
    found = read_layout(root)
    if found:
        for _ in range(len(found) + 1, nodes + 1):
            port = _port_after(found) if first_port else 0
            found.append(add_node(root, config, roles="broker", host=host, port=port))
        return found
    from kavka.quorum.format import random_id

    controllers = min(nodes, MAX_CONTROLLERS)
    ports = list(range(first_port, first_port + nodes + controllers)) if first_port else free_ports(nodes + controllers)
    voters = [f"{controller_host(host)}:{port}" for port in ports[nodes:]]
    initial = ",".join(f"{id_}@{address}:{random_id()}" for id_, address in enumerate(voters, 1))
    cluster_id = str(random_id())
    planned = []
    for id_ in range(1, nodes + 1):
        controller = voters[id_ - 1] if id_ <= controllers else None
        node = LocalNode(id_, root / f"node-{id_}", f"{host}:{ports[id_ - 1]}", controller, disks)
        _write(node, voters, config)
        _format(node, cluster_id, initial if controller else "", users)
        planned.append(node)
    return planned


def add_node(
    root: Path,
    config: Mapping[str, str],
    *,
    roles: str = "broker,controller",
    host: str = "127.0.0.1",
    port: int = 0,
) -> LocalNode:
    """Lay out one more node of a cluster that is there; as a controller it joins the quorum by itself if told to."""
    known = read_layout(root)
    ports = [port] if port else free_ports(1)
    controller = f"{controller_host(host)}:{free_ports(1)[0]}" if "controller" in roles else None
    id_ = max(node.id for node in known) + 1
    node = LocalNode(id_, root / f"node-{id_}", f"{host}:{ports[0]}", controller, known[0].disks)
    voters = [peer.controller for peer in known if peer.controller is not None]
    _write(node, voters + ([controller] if controller else []), config)
    cluster_id = _properties(known[0].data_dir / "meta.properties")["cluster.id"]
    _format(node, cluster_id, "")
    return node


def _port_after(nodes: Sequence[LocalNode]) -> int:
    """The next port that nobody listens on after all that these nodes have, be they up or down."""
    addresses = [address for node in nodes for address in (node.listen, node.controller) if address is not None]
    port = max(int(address.rpartition(":")[2]) for address in addresses) + 1
    while (sock := _bound(port)) is None:
        port += 1
    sock.close()
    return port


def controller_host(host: str) -> str:
    """Where the controllers of nodes listen: only these nodes, all on this machine, have to reach them."""
    return "127.0.0.1" if host.strip("[]") in EVERY_ADDRESS else host


def read_layout(root: Path) -> list[LocalNode]:
    """The nodes that are laid out under a directory."""
    found = []
    for path in root.glob("node-*/server.properties"):
        properties = _properties(path)
        listeners = dict(listener.split("://", 1) for listener in properties["listeners"].split(","))
        node_id = int(properties["node.id"])
        controller = listeners.pop(CONTROLLER, None)
        disks = len(properties["log.dirs"].split(","))
        found.append(LocalNode(node_id, path.parent, next(iter(listeners.values())), controller, disks))
    return sorted(found, key=lambda node: node.id)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody listens on, and that no process that runs was given before.

    One that nobody listens on may be that of a node that is down: that is why a port is given out once.
    """
    return [_leases().next() for _ in range(count)]


class _Leases:
    """Blocks of ports that only this process gives out."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self._blocks = [range(first, first + _BLOCK) for first in range(_PORTS.start, _PORTS.stop, _BLOCK)]
        _chance.shuffle(self._blocks)
        self._own: list[range] = []
        self._left: list[int] = []

    def next(self) -> int:
        """One more port."""
        while True:
            if not self._left:
                block = self._lease()
                self._left = _chance.sample(block[1:], len(block) - 1)
            port = self._left.pop()
            if (sock := _bound(port)) is not None:
                sock.close()
                return port

    def _lease(self) -> range:
        block = next((block for block in self._blocks if block not in self._own and _take(block)), None)
        if block is None:
            if not self._own:
                raise OSError(f"processes that test with nodes have all ports from {_PORTS.start} to {_PORTS.stop}")
            block = self._own.pop(0)  # whoever had its ports is long gone
        self._own.append(block)
        return block


_leased: list[_Leases] = []


def _leases() -> _Leases:
    if not _leased or _leased[0].process != os.getpid():  # a forked child gives out ports of its own
        _leased[:] = [_Leases()]
    return _leased[0]


def _take(block: range) -> bool:
    """Hold the first port of a block until this process ends; False if another process does."""
    sock = _bound(block.start)
    if sock is not None:
        sock.detach()  # the system closes it, whatever becomes of the process
    return sock is not None


def _bound(port: int) -> socket.socket | None:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
        sock.listen(1)  # with only bound ones that may be bound again the system sees no conflict
    except OSError:
        sock.close()
        return None
    return sock


def _write(node: LocalNode, voters: list[str], config: Mapping[str, str]) -> None:
    node.home.mkdir(parents=True, exist_ok=True)
    listeners = f"{config.get('security.inter.broker.protocol', 'PLAINTEXT')}://{node.listen}"
    own = {
        "process.roles": "broker,controller" if node.controller else "broker",
        "node.id": str(node.id),
        "listeners": f"{listeners},{CONTROLLER}://{node.controller}" if node.controller else listeners,
        "controller.listener.names": CONTROLLER,
        "controller.quorum.bootstrap.servers": ",".join(voters),
        "log.dirs": ",".join(path.name for path in node.log_dirs),  # in this node's directory
    }
    lines = [f"{key}={value}\n" for key, value in {**own, **config}.items()]
    node.config.write_text("".join(lines), encoding="utf-8")


def _format(node: LocalNode, cluster_id: str, initial: str, users: Sequence[str] = ()) -> None:
    from kavka.model.clock import SystemClock
    from kavka.quorum.format import format_dirs, parse_initial_controllers, parse_scram_users
    from kavka.storage.disk import RealDisk

    format_dirs(
        RealDisk(),
        [str(path) for path in node.log_dirs],
        str(node.data_dir),
        cluster_id=cluster_id,
        node_id=node.id,
        now_ms=SystemClock().now_ms(),
        controller=None,
        initial_controllers=parse_initial_controllers(initial, CONTROLLER) if initial else (),
        records=parse_scram_users(users),
    )


def format_alone(data_dir: Path, users: Sequence[str]) -> None:
    """Format the directory of a node that is alone, with users, unless that was done before."""
    from kavka.model.clock import SystemClock
    from kavka.quorum.format import format_dirs, parse_scram_users, random_id
    from kavka.storage.disk import RealDisk

    if not (data_dir / "meta.properties").exists():
        format_dirs(
            RealDisk(),
            [str(data_dir)],
            str(data_dir),
            cluster_id=str(random_id()),
            node_id=1,
            now_ms=SystemClock().now_ms(),
            records=parse_scram_users(users),
        )


def _properties(path: Path) -> dict[str, str]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
