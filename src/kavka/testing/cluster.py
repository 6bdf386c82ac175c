"""Real `kavka serve` processes for tests, with the same faults as in production: kill, restart, stop, hold still."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from kavka.testing.process import NodeError as NodeError
from kavka.testing.process import NodeProcess

_ALONE = 1
"""The id that a node goes by which is a cluster of its own."""


class Cluster:
    """One node, or several that form a cluster, on free ports of the loopback interface.

    ```python
    with Cluster(config={"num.partitions": "3"}) as cluster:
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})

    with Cluster(nodes=3) as cluster:
        cluster.kill(2)
        cluster.start(2)
    ```

    `config` holds Kafka's `server.properties` keys. Without `data_dir` the data goes when the block ends.
    `quorum` makes a single node one that others can be added to. `program` is what is run in place of
    `python -m kavka`, with the same arguments. `users` are those of `kavka format --add-scram`.
    `disks` is how many log directories each node has.
    """

    def __init__(
        self,
        *,
        nodes: int = 1,
        quorum: bool = False,
        config: Mapping[str, str] | None = None,
        data_dir: str | Path | None = None,
        timeout: float = 30.0,
        env: Mapping[str, str] | None = None,
        program: Sequence[str] | None = None,
        users: Sequence[str] = (),
        disks: int = 1,
    ) -> None:
        self._alone = nodes == 1 and not quorum
        self._count = nodes
        self._config = dict(config or {})
        self._program = list(program or (sys.executable, "-m", "kavka"))
        self._timeout = timeout
        self._users = users
        self._disks = disks
        self._env = {**os.environ, **(env or {})}
        self._own_dir = data_dir is None
        self._dir = Path(data_dir) if data_dir is not None else None
        self._scratch: Path | None = None
        self._processes: dict[int, NodeProcess] = {}
        self._commands: dict[int, list[str]] = {}
        self._addresses: dict[int, str] = {}

    # -- what there is ------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[int]:
        """The ids of the nodes."""
        return sorted(self._processes)

    @property
    def bootstrap(self) -> str:
        """HOST:PORT of every node for clients; stays the same over `restart`."""
        if not self._addresses:
            raise NodeError("the cluster was never started")
        return ",".join(self._addresses[node] for node in sorted(self._addresses))

    @property
    def registry(self) -> str:
        """The URLs of the schema registry, of every node that serves it, as its clients take them."""
        served = [self._processes[node].ready.get("registry") for node in self.nodes]
        scheme = "https" if "SSL" in self._config.get("kavka.registry.security.protocol", "") else "http"
        urls = [f"{scheme}://{address}" for address in served if address]
        if not urls:
            raise NodeError("no node serves the schema registry: set kavka.registry.listener to HOST:PORT")
        return ",".join(urls)

    @property
    def console(self) -> str:
        """The URL of the console, of the first node that serves it."""
        for node in self.nodes:
            if address := self._processes[node].ready.get("console"):
                secured = self._config.get("kavka.console.security.protocol") == "SSL"
                return f"{'https' if secured else 'http'}://{address}"
        raise NodeError("no node serves the console: set kavka.console.listener to HOST:PORT")

    @property
    def cluster_id(self) -> str:
        """The id that the data directories were formatted with."""
        for process in self._processes.values():
            if process.ready:
                return str(process.ready["cluster_id"])
        raise NodeError("the cluster was never started")

    @property
    def data_dir(self) -> Path:
        """Where the node keeps its data; of several nodes, where all of them do."""
        if self._dir is None:
            raise NodeError("the cluster was never started")
        return self._dir

    def log_dirs(self, node: int | None = None) -> list[Path]:
        """The log directories of a node; the first has its metadata log."""
        from kavka.testing.local import LocalNode

        chosen = self._only() if node is None else node
        home = self.data_dir.parent if self._alone else self.data_dir / f"node-{chosen}"
        dirs = LocalNode(chosen, home, "", None, self._disks).log_dirs
        return [self.data_dir, *dirs[1:]] if self._alone else dirs

    @property
    def pid(self) -> int:
        """The process id of a node that is alone."""
        return self.node(self._only()).pid

    @property
    def running(self) -> bool:
        """Whether all processes are alive."""
        return bool(self._processes) and all(process.running for process in self._processes.values())

    @property
    def started_in_seconds(self) -> float:
        """How long the last start took, of the slowest node."""
        return max((process.started_in_seconds for process in self._processes.values()), default=0.0)

    @property
    def log(self) -> str:
        """Everything the nodes have printed, over all their starts."""
        if self._alone:
            return self._processes[_ALONE].log if self._processes else ""
        return "".join(f"== node {node}\n{self._processes[node].log}" for node in self.nodes)

    def node(self, node: int) -> NodeProcess:
        """The process of a node."""
        if node not in self._processes:
            raise NodeError(f"there is no node {node}" if self._processes else "the cluster was never started")
        return self._processes[node]

    # -- what is done to it -------------------------------------------------------------------------

    def start(self, node: int | None = None) -> Self:
        """Start a node, or all that do not run, and return when they serve requests."""
        if not self._processes:
            self._lay_out()
        chosen = [node_id for node_id in self._chosen(node) if not self._processes[node_id].running]
        for node_id in chosen:
            process = self._processes[node_id]
            process.spawn([*self._program, "serve", *self._commands[node_id], "--ready-file", str(process.ready_file)])
        try:
            for node_id in chosen:
                self._processes[node_id].await_ready()
        except BaseException:
            for node_id in chosen:
                self._processes[node_id].kill()
            raise
        return self

    def kill(self, node: int | None = None) -> None:
        """End a node, or all, with SIGKILL: nothing is flushed, nothing is said."""
        for node_id in self._chosen(node):
            self._processes[node_id].kill()

    def pause(self, node: int) -> None:
        """Hold a node still (SIGSTOP)."""
        self.node(node).pause()

    def resume(self, node: int) -> None:
        """Let a paused node go on (SIGCONT)."""
        self.node(node).resume()

    def stop(self, node: int | None = None, timeout: float = 30.0) -> int:
        """Ask a node, or all, to stop (SIGTERM), wait, and return the exit code, the first that is not 0."""
        chosen = self._chosen(node)
        for node_id in chosen:
            self._processes[node_id].ask_to_stop()
        codes = [self._processes[node_id].await_end(timeout) for node_id in chosen]
        return next((code for code in codes if code), 0)

    def restart(self, node: int | None = None) -> Self:
        """Stop a node, or all, if it runs, then start it on the same data and port."""
        self.stop(node)
        return self.start(node)

    def add(self, *, roles: str = "broker,controller", config: Mapping[str, str] | None = None) -> int:
        """Start one more node, a controller that joins the quorum by itself unless its roles say otherwise; its id."""
        from kavka.testing.local import add_node

        if self._alone:
            raise NodeError("a node that is alone takes no others: Cluster(quorum=True) is one that does")
        joining = {"controller.quorum.auto.join.enable": "true"} if "controller" in roles else {}
        node = add_node(self.data_dir, {**self._config, **joining, **(config or {})}, roles=roles)
        self._know(node.id, node.listen, node.arguments)
        self.start(node.id)
        return node.id

    def remove(self, node: int) -> None:
        """Forget a node that was stopped for good."""
        self.node(node).kill()
        del self._processes[node], self._commands[node], self._addresses[node]

    def close(self) -> None:
        """Stop the nodes and remove what they left behind, their own data directory included."""
        try:
            self.stop()
        finally:
            self.kill()
            if self._scratch is not None:
                shutil.rmtree(self._scratch, ignore_errors=True)
                self._scratch = None
                self._dir = None if self._own_dir else self._dir

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- how ----------------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self._scratch = Path(tempfile.mkdtemp(prefix="kavka-"))
        if self._dir is None:
            self._dir = self._scratch / "data"
        from kavka.testing.local import format_alone, free_ports, lay_out

        if self._alone:
            if self._users:
                format_alone(self._dir, self._users)
            self._processes[_ALONE] = NodeProcess(self._scratch, self._env, self._timeout)
            given = self._config.get("listeners", "").partition(",")[0].partition("://")[2]
            self._addresses[_ALONE] = given or f"127.0.0.1:{free_ports(1)[0]}"
            self._commands[_ALONE] = self._alone_command()
            return
        for node in lay_out(self._dir, self._count, self._config, users=self._users, disks=self._disks):
            self._know(node.id, node.listen, node.arguments)

    def _know(self, node: int, listen: str, command: list[str]) -> None:
        assert self._scratch is not None
        self._processes[node] = NodeProcess(self._scratch / f"node-{node}", self._env, self._timeout)
        self._commands[node] = command
        self._addresses[node] = listen

    def _alone_command(self) -> list[str]:
        command = ["--data-dir", ",".join(map(str, self.log_dirs())), "--console", "off"]
        if "listeners" not in self._config:
            command += ["--listen", self._addresses[_ALONE]]
        for key, value in self._config.items():
            command += ["--override", f"{key}={value}"]
        return command

    def _chosen(self, node: int | None) -> list[int]:
        if node is None:
            return self.nodes
        self.node(node)  # raises
        return [node]

    def _only(self) -> int:
        if len(self._processes) > 1:
            raise NodeError("there are several nodes: say which")
        return next(iter(self._processes), _ALONE)
