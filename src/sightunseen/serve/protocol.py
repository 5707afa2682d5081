"""Connections of the server: limits on their number, on slow or malformed headers, and on unread responses."""

import asyncio
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sightunseen.serve.exchange import Exchange, Observers, client_of
from sightunseen.serve.limits import Limits
from sightunseen.serve.middleware import CLOSED, error_response

SWEEP_SECONDS = 0.5
LINGER_SECONDS = 1.0  # an idle connection may still send a request when the server stops


class Connections:
    """Open connections by client; closes those that exceed the limits.

    Parameters
    ----------
    limits : Limits
        Limits on connections.
    observers : iterable of callable
        Called with an :class:`~sightunseen.serve.exchange.Exchange` for each request that is refused here.
    proxy : str, optional
        Address of a trusted proxy, whose number of connections is limited only in total.
    """

    def __init__(self, limits: Limits, observers: Observers = (), proxy: str | None = None) -> None:
        self.limits = limits
        self.observers = observers
        self.proxy = None if proxy is None else client_of((proxy, 0))
        self._open: dict[LimitedProtocol, None] = {}  # in order of arrival
        self._sweeping: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, new: "LimitedProtocol") -> None:
        """Register a connection, and close another one, or this one, if there are too many."""
        own = [one for one in self._open if one.peer == new.peer]
        self._open[new] = None
        if self._sweeping is None:
            self._sweeping = new.loop.call_later(SWEEP_SECONDS, self._sweep, new.loop)
        if len(self._open) > self.limits.connections:
            self._make_room(new, list(self._open))
        elif len(own) >= self.limits.client_connections and new.peer != self.proxy:
            self._make_room(new, own)

    def closed(self, connection: "LimitedProtocol") -> None:
        """Forget a connection."""
        self._open.pop(connection, None)

    def report(self, connection: "LimitedProtocol", status: int | None, cause: str) -> None:
        """Report a refused request or connection to the observers."""
        for observer in self.observers:
            observer(Exchange(connection.peer, status=status, cause=cause))

    def _make_room(self, new: "LimitedProtocol", others: list["LimitedProtocol"]) -> None:
        """Close the connection that has waited longest, first of those without any request, of the client that has most."""
        waiting = [one for one in others if one is not new and not one.busy]
        counts: dict[str, int] = {}
        for one in waiting:
            counts[one.peer] = counts.get(one.peer, 0) + 1
        closed = min(waiting, key=lambda one: (-counts[one.peer], one.answered, one.since), default=new)
        self.report(closed, None, "connections")
        self.closed(closed)
        closed.transport.abort()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for one in list(self._open):
            one.check_time(now)
        self._sweeping = loop.call_later(SWEEP_SECONDS, self._sweep, loop) if self._open else None


class LimitedProtocol(H11Protocol):
    """Connection of uvicorn with time limits, which h11 and uvicorn have only for idle connections.

    Parameters
    ----------
    *args, **kwargs
        Arguments of uvicorn's protocol.
    connections : Connections
        The open connections and their limits.
    """

    def __init__(self, *args: Any, connections: Connections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.registry = connections
        self.limits = connections.limits
        self.conn = _CountingConnection(self.limits)
        self.peer = "unknown"
        self.since = 0.0  # when the connection was opened, the request begun or the response completed
        self.begun = False  # whether a part of the next request was received
        self.answered = False
        self.stopping = False
        self.unread_since: float | None = None  # when the client stopped reading

    @property
    def busy(self) -> bool:
        """Whether a request is being received or processed."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection."""
        super().connection_made(transport)
        self.peer, self.since = client_of(self.client), self.loop.time()
        self.registry.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.registry.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        if not self.busy and not self.begun:
            self.since, self.begun = self.loop.time(), True
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self.since = self.loop.time()
        if self.stopping and self.busy:
            self.cycle.keep_alive = False

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.since, self.begun, self.answered = self.loop.time(), False, True
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse a malformed request."""
        self._refuse(400, "the request is not valid HTTP/1.1.", "malformed")

    def check_time(self, now: float) -> None:
        """Close the connection if the current phase takes too long."""
        limits, passed = self.limits, now - self.since
        if self.transport.is_closing():
            if passed > (LINGER_SECONDS if self.stopping else limits.write_seconds):
                self.transport.abort()
        elif self.unread_since is not None:
            if now - self.unread_since > limits.write_seconds:
                self.registry.report(self, None, "unread response")
                self.transport.abort()
        elif (self.begun or not self.answered) and not self.busy and passed > limits.head_seconds:
            self._refuse(408, f"the headers were not received within {limits.head_seconds:g} seconds.", "slow headers")

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self.unread_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client reads."""
        self.unread_since = None
        super().resume_writing()

    def shutdown(self) -> None:
        """Finish the request in hand, or one that arrives within a moment, and close the connection."""
        self.stopping = True
        if self.busy:
            super().shutdown()
        else:
            self.loop.call_later(LINGER_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        if not self.busy and not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, status: int, reason: str, cause: str) -> None:
        self.registry.report(self, status, cause)
        if self.cycle is not None:  # the application sees a disconnected client
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        _, headers, body = error_response(status, reason, CLOSED)
        with suppress(h11.LocalProtocolError):  # a response has begun
            for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.since = self.loop.time()
        self.transport.close()


class _CountingConnection(h11.Connection):
    """Parser of HTTP that refuses many headers, and bodies of many tiny chunks: each costs time, however small it is."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(h11.SERVER)
        self._limits = limits
        self._chunks = self._bytes = 0

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
            size = len(event.target) + sum(len(name) + len(value) for name, value in event.headers)
            if len(event.headers) > self._limits.headers or size > self._limits.head_bytes:
                raise h11.RemoteProtocolError("the headers are too large")
        elif isinstance(event, h11.Data):
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._chunks > self._limits.small_chunks and self._bytes < self._chunks * self._limits.chunk_bytes:
                raise h11.RemoteProtocolError("the chunks are too small")
        return event
