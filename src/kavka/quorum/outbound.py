"""What a replica sends: the raft core's requests, and its questions for the windows of a snapshot.

Imported by the first node that has peers to talk to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kavka.client.connector import Connector
from kavka.client.line import TOLD
from kavka.model.errors import InconsistentClusterId, KafkaError, UnsupportedVersion
from kavka.quorum.downloading import Download
from kavka.quorum.metadata_log import MetadataLog
from kavka.quorum.peers import Peers
from kavka.quorum.sending import QuorumRequests, refused_pre_vote
from kavka.quorum.settings import MetadataReplica, QuorumSettings
from kavka.quorum.snapshots import Snapshot, SnapshotId
from kavka.quorum.strangers import Refusals
from kavka.raft.effects import FetchSnapshotFrom, Send
from kavka.raft.messages import ReplyMessage, SnapshotReply, Vote

logger = logging.getLogger(__name__)


class Outbound:
    """The way from one replica to the others."""

    def __init__(
        self, replica: MetadataReplica, settings: QuorumSettings, metadata_log: MetadataLog, connector: Connector
    ) -> None:
        timeout_ms = settings.raft.request_timeout_ms
        name = f"raft-client-{replica.node_id}"
        self._key = replica.voter.key
        self._log = metadata_log
        self._max_bytes = settings.fetch_snapshot_max_bytes
        self._peers = Peers(connector, name, settings.listener, timeout_ms)
        self._requests = QuorumRequests(replica.cluster_id, settings.listener, settings.fetch_max_bytes, timeout_ms)
        self._said: dict[int, type[KafkaError]] = {}
        self._refusals = Refusals(replica.cluster_id)

    async def send(self, effect: Send) -> ReplyMessage | None:
        """The answer to a request; None if there is none."""
        to, loop = effect.to, asyncio.get_running_loop()
        if pause := self._refusals.pause(to, loop.time()):
            await asyncio.sleep(pause)
        try:
            request, kind = self._requests.write(to, effect.request)
            response, version = await self._peers.call(effect.endpoints, request, kind)
        except UnsupportedVersion as error:
            logger.info("%s", error)
            return refused_pre_vote() if isinstance(effect.request, Vote) and effect.request.pre_vote else None
        except TOLD:
            return None
        except KafkaError as error:
            if self._said.get(to) is not type(error):  # once, however long it lasts
                self._said[to] = type(error)
                logger.warning("request to node %d failed: %s", to, error)
            return None
        self._said.pop(to, None)
        code = getattr(response, "error_code", 0)
        if code == InconsistentClusterId.code:
            self._refusals.refused(to, loop.time())
            return None
        self._refusals.accepted(to)
        reply = self._requests.read(response, version)
        if reply is None:
            logger.warning("node %d answered %s with error %d", to, type(request).__name__, code)
        return reply

    async def fetch_snapshot(
        self, effect: FetchSnapshotFrom, heard: Callable[[SnapshotReply], bool]
    ) -> Snapshot | None:
        """Fetch a snapshot and install it; None if `heard`, called with every answer, refuses to go on.

        Raises KafkaError or OSError when it cannot be had.
        """
        request = Download(
            self._log, SnapshotId(*effect.snapshot), effect, self._peers, self._requests, self._key, self._max_bytes
        )
        try:
            async for head in request.windows():
                if not heard(head):
                    return None
            return await asyncio.get_running_loop().run_in_executor(None, request.finish)
        finally:
            request.discard()

    def close(self) -> None:
        """Close all connections."""
        self._peers.close()
