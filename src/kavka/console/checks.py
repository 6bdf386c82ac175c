"""What `kavka doctor` and the console make of what was seen of a cluster: each finding with what to do.

Nothing here asks anybody anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import Final, NamedTuple

from kavka.client.admin_cluster import LogDir, Quorum
from kavka.client.admin_topics import TopicDescription
from kavka.client.view import Node

LOW_SHARE: Final = 0.10
FULL_SHARE: Final = 0.05
FILES_SHARE: Final = 0.8
SKEW_SECONDS: Final = 5.0
LAG_SECONDS: Final = 10.0
NAMED: Final = 5
"""So many partitions are named in a finding; of the others there is only the number."""
LOOPBACK: Final = ("127.", "localhost", "::1")


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Finding(NamedTuple):
    """One thing that was looked at, and what to do about it."""

    level: Level
    area: str
    what: str
    do: str | None = None


@dataclass(frozen=True)
class Reached:
    """What came of connecting to the address that a node tells clients."""

    node: Node
    error: str | None = None
    cluster_id: str | None = None


@dataclass(frozen=True)
class Health:
    """What the metrics page of a node says."""

    address: str
    error: str | None = None
    unready: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    ahead_seconds: float | None = None
    """How far its clock is ahead of ours."""


@dataclass(frozen=True)
class Seen:
    """Everything that was asked for."""

    bootstrap: str
    cluster_id: str
    reached: Sequence[Reached]
    fenced: frozenset[int]
    quorum: Quorum | None
    quorum_error: str | None
    topics: Mapping[str, TopicDescription]
    min_isr: Mapping[str, int]
    dirs: Mapping[int, Sequence[LogDir]]
    now_ms: int
    pages: Sequence[Health] = ()


def findings(seen: Seen) -> list[Finding]:
    """All findings, area by area."""
    checks = (addresses(seen), quorum(seen), partitions(seen), disks(seen), clocks(seen), pages(seen))
    return [finding for check in checks for finding in check]


def addresses(seen: Seen) -> Iterator[Finding]:
    """Whether clients can reach the nodes where they are told to."""
    good = 0
    asked_from_afar = not seen.bootstrap.startswith(LOOPBACK)
    for reached in seen.reached:
        node = reached.node
        where = f"node {node.id} at {node.host}:{node.port}"
        if node.id in seen.fenced:
            yield Finding(
                Level.PROBLEM, "nodes", f"{where} is fenced", "start it, or see its log for why it is not heard"
            )
        elif reached.error is not None:
            yield Finding(
                Level.PROBLEM,
                "nodes",
                f"{where} cannot be reached: {reached.error}",
                "start it if it is down, or set advertised.listeners (kavka serve --advertise) to what clients reach",
            )
        elif reached.cluster_id != seen.cluster_id:
            yield Finding(
                Level.PROBLEM,
                "nodes",
                f"what answers for {where} belongs to cluster {reached.cluster_id}",
                "two nodes advertise one address, or a name leads to the wrong machine",
            )
        elif asked_from_afar and node.host.startswith(LOOPBACK):
            yield Finding(
                Level.WARNING,
                "nodes",
                f"{where} advertises an address that only its own machine can use",
                "set advertised.listeners (kavka serve --advertise) to a name that others know",
            )
        else:
            good += 1
    if good == len(seen.reached):
        yield Finding(Level.OK, "nodes", f"{good} in service, each reachable at its advertised address")


def quorum(seen: Seen) -> Iterator[Finding]:
    """Whether the metadata quorum works, and how many voters it can lose."""
    if seen.quorum is None:
        do = "start controllers until a majority of the voters is up; kavka cluster describe shows who is away"
        yield Finding(Level.PROBLEM, "quorum", seen.quorum_error or "no leader", do)
        return
    voters, late = seen.quorum.voters, []
    leader = next((voter for voter in voters if voter.id == seen.quorum.leader_id), None)
    newest = max(voter.last_caught_up_timestamp for voter in voters)
    for voter in voters:
        if voter is not leader and newest - voter.last_caught_up_timestamp > LAG_SECONDS * 1000:
            late.append(voter.id)
            behind = (newest - voter.last_caught_up_timestamp) / 1000
            what = f"voter {voter.id} was last caught up {behind:.0f} s ago"
            if voter.last_caught_up_timestamp < 0:
                what = f"voter {voter.id} has never been caught up"
            yield Finding(Level.WARNING, "quorum", what, "start it, or see its log")
    spare = len(voters) - len(late) - (len(voters) // 2 + 1)
    if len(seen.reached) > 1 and spare < 1:
        do = "start the voters that are down" if late else "add voters: kavka cluster add-voter"
        yield Finding(Level.WARNING, "quorum", "the loss of one more voter stops the cluster", do)
    elif not late:
        can = f", can lose {spare}" if len(voters) > 1 else ""
        yield Finding(
            Level.OK,
            "quorum",
            f"leader {seen.quorum.leader_id}, {len(voters)} voter{'s' * (len(voters) > 1)} caught up{can}",
        )


def partitions(seen: Seen) -> Iterator[Finding]:
    """Partitions that nobody leads, that take no writes, or that lack a replica."""
    offline, unheard, refusing, lacking, single, count = [], [], [], [], 0, 0
    away = {reached.node.id for reached in seen.reached if reached.error is not None}
    for topic in sorted(seen.topics.values(), key=attrgetter("name")):
        for partition in topic.partitions:
            count += 1
            name, isr, replicas = f"{topic.name}-{partition.index}", len(partition.isr), len(partition.replicas)
            single += replicas == 1 and len(seen.reached) > 1 and not topic.internal
            if partition.leader < 0:
                offline.append(name)
            elif partition.leader in away:
                unheard.append(name)
            elif isr < min(seen.min_isr.get(topic.name, 1), replicas):
                refusing.append(name)
            elif isr < replicas:
                lacking.append(name)
    if offline:
        do = "start the brokers that have them; kavka topics describe shows which"
        yield Finding(Level.PROBLEM, "partitions", f"{_named(offline)} without a leader", do)
    if unheard:
        what = f"{_named(unheard)} led by a node that cannot be reached"
        yield Finding(Level.PROBLEM, "partitions", what, "see what is found of nodes and the quorum")
    if refusing:
        do = "start the brokers that are missing: until then acks=all is refused"
        yield Finding(Level.PROBLEM, "partitions", f"{_named(refusing)} with an ISR below min.insync.replicas", do)
    if lacking:
        do = "start or unburden the brokers that lag; kavka topics describe --under-replicated"
        yield Finding(Level.WARNING, "partitions", f"{_named(lacking)} under-replicated", do)
    if single:
        do = "kavka topics reassign TOPIC --to NODE,NODE,NODE --replication-factor 3 --execute gives them more"
        yield Finding(Level.WARNING, "partitions", f"{single} with one replica only: a lost disk loses them", do)
    if not (offline or unheard or refusing or lacking):
        yield Finding(Level.OK, "partitions", f"{count}, all with a leader and every replica in sync")


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{len(names)} ({', '.join(names[:NAMED])}{more})"


def disks(seen: Seen) -> Iterator[Finding]:
    """Directories that have failed or are nearly full."""
    good, least = 0, 1.0
    for node, dirs in seen.dirs.items():
        for each in dirs:
            where = f"{each.path} of node {node}"
            share = each.usable_bytes / each.total_bytes if each.total_bytes > 0 else 1.0
            if each.error is not None:
                do = "replace the disk and restart the node: its replicas are fetched from the others"
                yield Finding(Level.PROBLEM, "disks", f"{where} has failed: {each.error}", do)
            elif share < LOW_SHARE:
                level = Level.PROBLEM if share < FULL_SHARE else Level.WARNING
                do = "lower retention.ms or retention.bytes, tier topics, or add a disk (log.dirs)"
                yield Finding(level, "disks", f"{where} has {share:.0%} left", do)
            else:
                good += 1
                least = min(least, share)
    if good == sum(map(len, seen.dirs.values())) and good:
        yield Finding(Level.OK, "disks", f"{good} log director{'ies' if good != 1 else 'y'}, at least {least:.0%} free")


def clocks(seen: Seen) -> Iterator[Finding]:
    """Whether nodes and this machine agree on the time."""
    told: dict[str, float] = {page.address: page.ahead_seconds for page in seen.pages if page.ahead_seconds is not None}
    if seen.quorum is not None:
        for voter in seen.quorum.voters:
            if voter.id == seen.quorum.leader_id and voter.last_caught_up_timestamp > 0:
                told[f"node {voter.id}"] = (voter.last_caught_up_timestamp - seen.now_ms) / 1000
    wrong = {who: ahead for who, ahead in told.items() if abs(ahead) > SKEW_SECONDS}
    for who, ahead in wrong.items():
        what = f"the clock of {who} is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
        do = "let all machines run an NTP client: retention, timeouts and lookups by time go by the clock"
        yield Finding(Level.WARNING, "clock", what, do)
    if told and not wrong:
        worst = max(abs(ahead) for ahead in told.values())
        yield Finding(Level.OK, "clock", f"within {worst:.1f} s of this machine's")


def pages(seen: Seen) -> Iterator[Finding]:
    """What the nodes' own pages of metrics say: readiness, descriptors, the loop."""
    if not seen.pages:
        return
    bad = False
    for page in seen.pages:
        if page.error is not None:
            yield Finding(Level.PROBLEM, "metrics", f"{page.address}: {page.error}", "see kavka.metrics.listener")
            bad = True
            continue
        if page.unready is not None:
            yield Finding(Level.PROBLEM, "metrics", f"{page.address} is not ready: {page.unready}", "see its log")
            bad = True
        used, limit = page.numbers.get("kavka_open_files", 0.0), page.numbers.get("kavka_max_open_files", 0.0)
        if limit and used > FILES_SHARE * limit:
            do = "raise the limit (ulimit -n, LimitNOFILE= of systemd)"
            yield Finding(Level.WARNING, "descriptors", f"{page.address} has {used:.0f} of {limit:.0f} files open", do)
            bad = True
        if page.numbers.get("kavka_unclean_leader_elections_total"):
            what = f"{page.address} has elected leaders that were not in sync: records may be lost"
            yield Finding(Level.WARNING, "partitions", what, "see unclean.leader.election.enable")
            bad = True
    if not bad:
        most = max(page.numbers.get("kavka_open_files", 0.0) for page in seen.pages)
        yield Finding(Level.OK, "descriptors", f"at most {most:.0f} files open, all nodes ready")
