"""The port that carries the bytes of one connection: a plain socket, TLS on a socket, or a pipe in memory.

Who owns a transport puts pieces into `out` and asks it to `flush`, and receives when told that there is something. How
a piece leaves (sendfile, or read and encrypted) and what must happen before the first byte (a handshake) is the
transport's business alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, Protocol

from kavka.model.types import FileSlice, Piece

END: Final = -1
"""What `receive_into` answers when the peer has said all."""


class Owner(Protocol):
    """What a transport calls; never from inside a call of its owner, except for `close`."""

    def on_readable(self) -> None:
        """There may be something to receive. What the transport itself has buffered is announced again until it is
        taken; what is still in the socket too."""

    def on_writable(self) -> None:
        """Whatever held up the sending is over: flush again."""

    def on_hang_up(self) -> None:
        """The peer is gone: nothing that is sent arrives. What it sent before can still be received."""

    def close(self) -> None:
        """Nothing can be received or sent any more."""


class Transport(Protocol):
    """One end of a connection."""

    @property
    def out(self) -> deque[Piece]:
        """What is to be sent, in order; the files behind its slices are pinned, and unpinned once they are sent.

        The last piece may be a bytearray that still grows until it is flushed, so a transport takes what it sends out.
        """

    @property
    def busy(self) -> bool:
        """Whether a flush waits for the network or the disk; `on_writable` tells when it does not any more."""

    @property
    def received_bytes(self) -> int:
        """All that came over the network."""

    @property
    def sent_bytes(self) -> int:
        """All that the network has taken."""

    @property
    def left(self) -> bool:
        """Whether the peer will send nothing more, whether that was received already or not."""

    def open(self, owner: Owner) -> None:
        """Belong to an owner, and begin to read: its first `on_readable` comes when there is plain text."""

    def receive_into(self, view: memoryview) -> int:
        """How many bytes were received; 0 if there are none now, END if there will be none. Raises OSError."""

    def flush(self) -> None:
        """Send what can be sent now, unless busy; closes the owner if nothing can be sent any more."""

    def read_on(self) -> None:
        """Tell the owner of what comes."""

    def read_off(self) -> None:
        """Leave what comes where it is."""

    def close(self) -> None:
        """Drop the connection and what is not sent."""


def pin(pieces: Iterable[Piece]) -> None:
    """Keep the files behind the pieces open until they are sent; all of them or none."""
    pinned: list[Piece] = []
    try:
        for piece in pieces:
            if type(piece) is FileSlice:
                piece.file.pin()
                pinned.append(piece)
    except OSError:
        unpin(pinned)
        raise


def unpin(pieces: Iterable[Piece]) -> None:
    """Let go of the files behind pieces that will not be sent any more."""
    for piece in pieces:
        if type(piece) is FileSlice:
            piece.file.unpin()
