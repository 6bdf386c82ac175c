"""Kavka as its own commands run it: `kavka serve`, or `kavka cluster up` for several nodes."""

from __future__ import annotations

import compileall
import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path

from bench.rival.family import Family
from bench.rival.figures import KAVKA
from bench.rival.target import SINGLE_NODE, START_TIMEOUT_S, Encrypted, Target, await_brokers
from bench.wire import BenchError
from kavka.testing.local import free_ports

PROGRAM = Path(sys.executable).with_name("kavka")


def versions() -> dict[str, str]:
    """What of it runs."""
    from kavka.kernels import COMPILED

    return {
        "Kavka": version("kavka"),
        "Python": sys.version.split()[0],
        "kernels": "compiled" if COMPILED else "plain",
    }


def prepare() -> None:
    """Have its modules compiled, as an installer does: sources that changed since would be compiled at every start."""
    import kavka

    compileall.compile_dir(Path(kavka.__file__).parent, quiet=1)


@contextlib.contextmanager
def running(
    folder: Path, cores: frozenset[int], nodes: int, config: Mapping[str, str], encrypted: Encrypted | None = None
) -> Iterator[Target]:
    """Fresh nodes; one formats itself as it starts, and may have a listener for TLS."""
    folder.mkdir(parents=True)
    family = Family(cores)
    try:
        began = time.perf_counter()
        alone = nodes == 1
        addresses = _alone(family, folder, config, encrypted) if alone else _cluster(family, folder, nodes, config)
        yield Target(KAVKA, ",".join(addresses), family, time.perf_counter() - began, encrypted)
    finally:
        family.end()


def _alone(family: Family, folder: Path, config: Mapping[str, str], encrypted: Encrypted | None) -> list[str]:
    address, log = f"127.0.0.1:{free_ports(1)[0]}", folder / "node.log"
    command = [str(PROGRAM), "serve", "--data-dir", str(folder / "data")]
    if encrypted is None:
        command += ["--listen", address]
    else:
        config = {**config, **encrypted.config, "listeners": f"PLAINTEXT://{address},SSL://{encrypted.bootstrap}"}
    family.start(command + _overrides({**SINGLE_NODE, **config}), log)
    await_brokers(family, [address], [log])
    return [address]


def _cluster(family: Family, folder: Path, nodes: int, config: Mapping[str, str]) -> list[str]:
    ready, log, data = folder / "ready.json", folder / "cluster.log", folder / "cluster"
    command = [str(PROGRAM), "cluster", "up", "--nodes", str(nodes), "--data-dir", str(data)]
    command += ["--listen", "127.0.0.1:0", "--ready-file", str(ready), *_overrides(config)]
    family.start(command, log)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready.exists():
        if family.ended() is not None or time.monotonic() > deadline:
            raise BenchError(f"the cluster does not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.01)
    addresses = str(json.loads(ready.read_text())["bootstrap"]).split(",")
    await_brokers(family, addresses, [log])
    return addresses


def _overrides(config: Mapping[str, str]) -> list[str]:
    return [part for key, value in config.items() for part in ("--override", f"{key}={value}")]
