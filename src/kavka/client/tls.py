"""TLS on a connection that this side opened: OpenSSL works in memory, between the network and the receiver."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Final

from kavka.client.dial import Transport
from kavka.model.errors import NetworkException
from kavka.net.tls import reason_of

RAW_BYTES: Final = 64 * 1024


class SslHandshakeFailed(NetworkException, code=NetworkException.code):
    """The two sides do not believe each other, or speak no version of TLS in common."""


class TlsReceiver(asyncio.BufferedProtocol):
    """Takes what arrives, and gives it away decrypted; what is written is encrypted on its way."""

    def __init__(self, context: ssl.SSLContext, host: str, address: str, receiver: asyncio.BufferedProtocol) -> None:
        self._receiver = receiver
        self._address = address
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._raw = memoryview(bytearray(RAW_BYTES))
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended = False
        self._transport: Transport | None = None

    async def open(self, transport: Transport) -> None:
        """Shake hands over a connection; raises SslHandshakeFailed."""
        self._transport = transport
        self._shake_hands()
        await self._opened

    # -- what arrives -------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        return self._raw

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt what arrived."""
        self._incoming.write(self._raw[:nbytes])
        if self._transport is None:
            return  # the handshake begins with what we say
        if not self._opened.done():
            self._shake_hands()
        elif not self._ended:
            self._give_away()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return
        except (ssl.SSLError, ValueError) as error:
            with contextlib.suppress(OSError):
                self._send()  # the alert
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            self._fail(f"SSL handshake with {self._address} failed: {reason}")
            return
        self._send()
        self._opened.set_result(None)
        self._give_away()

    def _give_away(self) -> None:
        receiver, tls = self._receiver, self._tls
        try:
            while not self._ended:
                buffer = receiver.get_buffer(-1)
                count: int = tls.read(len(buffer), buffer)  # type: ignore[assignment,arg-type]  # how many, not which
                if not count:
                    break
                receiver.buffer_updated(count)
        except ssl.SSLWantReadError:
            if self._outgoing.pending and not self._ended:
                self._send()  # an answer to a key update
            return
        except ssl.SSLZeroReturnError:
            pass
        except ssl.SSLError as error:
            self._lost(NetworkException(reason_of(error)))
            return
        self._lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer or the network ended it."""
        self._lost(exc)

    def _lost(self, error: Exception | None) -> None:
        if self._ended:
            return
        self._ended = True
        if not self._opened.done():
            self._fail(f"{self._address} closed the connection during the SSL handshake")
        self._receiver.connection_lost(error)
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, message: str) -> None:
        if not self._opened.done():
            self._opened.set_exception(SslHandshakeFailed(message))

    # -- what is sent -------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt bytes and queue them for sending."""
        left = memoryview(data)
        while left:
            left = left[self._tls.write(left[:RAW_BYTES]) :]
            self._send()

    def abort(self) -> None:
        """Drop the connection at once; the peer is told, if the network takes it."""
        if self._ended:
            return
        self._ended = True
        if self._transport is not None:
            if self._opened.done():
                with contextlib.suppress(ssl.SSLError):  # it has not said the same yet
                    self._tls.unwrap()
                self._send()
            self._transport.abort()
        if not self._opened.done():
            self._opened.cancel()

    def _send(self) -> None:
        if self._transport is not None and self._outgoing.pending:
            self._transport.write(self._outgoing.read())
