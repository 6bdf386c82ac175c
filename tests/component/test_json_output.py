"""What commands print with `--output json`: the page that scripts rely on says the same as the commands.

`KAVKA_CAPTURES=write` writes the table of docs/json.md anew.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from pathlib import Path

import pytest

from json_names import PAGE, row
from kavka.cli.commands import run
from kavka.cli.menu import MENU, load
from kavka.client import ConfigResource, ResourceType, TopicPartition, blocking
from kavka.testing.cluster import Cluster

COMMANDS = """
kavka version
kavka format --data-dir new-data
kavka topics create orders --partitions 2
kavka topics alter orders --partitions 3
kavka topics list
kavka produce noise --count 100 --size 10
kavka produce orders --file lines.txt
kavka topics describe orders
kavka topics describe orders --offsets
kavka topics delete-records orders:0 --before 0
kavka topics elect
kavka topics reassign orders --to 1
kavka consume orders --max 1
kavka consume orders --group billing --from start --max 2
kavka groups list
kavka groups describe billing
kavka groups describe billing --members
kavka groups reset-offsets billing --to start
kavka groups delete billing
kavka configs alter topic orders --set retention.ms=3600000
kavka configs describe topic orders
kavka quotas alter --client-id loader --set producer_byte_rate=1048576
kavka quotas describe
kavka users set alice --password-file lines.txt
kavka users list
kavka users remove alice
kavka transactions list
kavka transactions describe payments
kavka transactions find-hanging
kavka share describe pickers
kavka share reset-offsets pickers --topic jobs --to start
kavka share delete pickers
kavka acls add --allow User:alice --operation read --topic secrets
kavka acls list
kavka acls remove --topic secrets --execute
kavka audit
kavka disks describe
kavka disks describe --replicas
kavka disks move noise:0 --node 1 --to DISK
kavka tiers status
kavka tiers list tiered
kavka tiers verify --url STORE
kavka tiers repair --url STORE
kavka tls demo-ca certificates
kavka tls reload
kavka cluster rebalance
kavka cluster describe
kavka cluster quorum
kavka doctor
kavka top --count 1 --interval 0.5
kavka bench --seconds 0.5
kavka log dump new-data/meta.properties
kavka profile set staging --bootstrap 127.0.0.1:9092
kavka profile use staging
kavka profile list
kavka profile delete staging
kavka topics delete orders
"""
TESTS = Path(__file__).parents[1]
LATEST_TIERED = -5
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "kavka.audit.enable": "true",
    "kavka.audit.topic.enable": "true",
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
}
WITHOUT_JSON = {
    "cluster up",  # writes a ready file, as `serve` does
    "completion",  # prints a script for a shell
    *("pipeline init", "pipeline run", "pipeline restart", "pipeline mirror"),  # say in lines what they do
}


def prepare(cluster: Cluster) -> None:
    """What there is to show: a transaction, a share group, a tiered segment."""
    with blocking.Client(cluster.bootstrap) as client:
        for name, configs in (("jobs", {}), ("tiered", {"remote.storage.enable": "true", "segment.bytes": "1048576"})):
            client.admin.create_topic(name, configs=configs)
        with client.producer(transactional_id="payments") as producer, producer.transaction():
            producer.send("jobs", b"one").result()
        with client.producer(batch_bytes=600_000) as producer:
            for _ in range(3):
                producer.send("tiered", b"x" * 600_000).result()
        group = ConfigResource(ResourceType.GROUP, "pickers")
        client.admin.alter_configs(group, set={"share.auto.offset.reset": "earliest"})
        with client.share_consumer("pickers", "jobs") as consumer:
            assert consumer.read()
        ends = time.monotonic() + 60
        tiered = TopicPartition("tiered", 0)
        while client.admin.list_offsets({tiered: LATEST_TIERED})[tiered].offset < 0:
            assert time.monotonic() < ends
            time.sleep(0.1)


def other_disk(bootstrap: str, topic: str) -> str:
    """A directory of the node without a topic's partition."""
    with blocking.Client(bootstrap) as client:
        dirs = client.admin.describe_log_dirs(nodes=[1])[1]
    return next(each.path for each in dirs if TopicPartition(topic, 0) not in each.replicas)


def test_the_page_has_the_names_that_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    Path("lines.txt").write_text("secret\n" * 9)
    rows = []
    store = (tmp_path / "store").as_uri()
    (tmp_path / "store").mkdir()
    with Cluster(disks=2, config={**CONFIG, "kavka.remote.storage.url": store}) as cluster:
        prepare(cluster)
        for command in COMMANDS.strip().splitlines():
            places = {"STORE": store, "DISK": other_disk(cluster.bootstrap, "noise") if "DISK" in command else ""}
            monkeypatch.setenv("KAVKA_BOOTSTRAP", cluster.bootstrap)
            code = run([*(places.get(word, word) for word in shlex.split(command)[1:]), "--output", "json"])
            shown = capsys.readouterr()
            assert code == 0, f"{command}: {shown.err}"
            rows.append(row(command, shown.out))
    table = "\n".join(rows)
    page = PAGE.read_text()
    if os.environ.get("KAVKA_CAPTURES") == "write":
        page = re.sub(r"(\|---\|---\|\n)(\|.*\n)*", lambda found: f"{found[1]}{table}\n", page, count=1)
        PAGE.write_text(page)
    assert [each for each in rows if each not in page] == []


def test_every_command_can_print_json() -> None:
    def walk(prefix: str, command: object) -> list[tuple[str, object]]:
        if not hasattr(command, "commands"):
            return [(prefix, command)]
        return [leaf for name, each in command.commands.items() for leaf in walk(f"{prefix} {name}".strip(), each)]

    leaves = [leaf for name in MENU for leaf in walk(name, load(name))]
    silent = {name for name, leaf in leaves if not any("--output" in each.opts for each in leaf.params)}  # type: ignore[attr-defined]
    assert silent == WITHOUT_JSON
    shown = re.findall(r"^\| `kavka ([^`]*)`", PAGE.read_text(), re.MULTILINE)
    missing = {name for name, _ in leaves if not any(f"{command} ".startswith(f"{name} ") for command in shown)}
    assert missing == WITHOUT_JSON


def test_every_row_of_the_page_is_tested() -> None:
    texts = [file.read_text() for file in sorted(TESTS.rglob("test_*.py"))]
    elsewhere = [name for text in texts for name in re.findall(r'documented\(\s*"(kavka [^"]+)"', text)]
    shown = re.findall(r"^\| `(kavka [^`]*)`", PAGE.read_text(), re.MULTILINE)
    assert sorted(shown) == sorted([*COMMANDS.strip().splitlines(), *elsewhere])
