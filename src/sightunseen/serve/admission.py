"""Admission of requests: which ones are received and processed when there are too many."""

import asyncio
from collections import Counter, OrderedDict
from dataclasses import dataclass

from sightunseen.serve.limits import Limits, RequestError, busy


@dataclass(eq=False)
class OpenRequest:
    """A request that is being received or processed.

    Parameters
    ----------
    client : str
        The client.
    deadline : asyncio.Timeout
        Time limit of the current phase.
    size : int
        Bytes of the body in memory.
    received : bool
        Whether the body is complete.
    """

    client: str
    deadline: asyncio.Timeout
    size: int = 0
    received: bool = False


class Admission:
    """Open requests. Only complete requests count as being processed, so slow senders do not keep others out.

    If a client sends too many bodies at once, or if bodies take too much memory, the time of a body that is still being
    received is ended early: of the client itself, or of the client that holds most. For the thread of the event loop only.

    Parameters
    ----------
    limits : Limits
        Limits on open requests and their memory.

    Attributes
    ----------
    stopping : bool
        Whether the server is stopping.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.stopping = False
        self._open: dict[OpenRequest, None] = {}  # in order of arrival
        self._rates: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client: requests left, time; last used last

    @property
    def buffered(self) -> int:
        """Bytes of all bodies in memory."""
        return sum(one.size for one in self._open)

    @property
    def processed(self) -> int:
        """Number of requests that are being processed."""
        return sum(one.received for one in self._open)

    def check_rate(self, client: str) -> None:
        """Count a request of a client; raises ``RequestError`` (429) if the client sends too many a second."""
        rate, now = self.limits.rate, asyncio.get_running_loop().time()
        if rate <= 0:
            return
        left, since = self._rates.pop(client, (2 * rate, now))
        left = min(left + (now - since) * rate, max(2 * rate, 1.0))
        self._rates[client] = (left - 1 if left >= 1 else left, now)
        if len(self._rates) > self.limits.clients:
            self._rates.popitem(last=False)
        if left < 1:
            raise busy(f"more than {rate:g} requests per second.", "rate")

    def begin(self, client: str, deadline: asyncio.Timeout) -> OpenRequest:
        """Register a request whose body is going to be received."""
        own = [one for one in self._open if one.client == client and not one.received]
        if len(own) >= self.limits.client_bodies:
            self._evict(own[0])
        request = OpenRequest(client, deadline)
        self._open[request] = None
        return request

    def grow(self, request: OpenRequest, size: int) -> None:
        """Count received bytes; raises ``RequestError`` (429) if this client holds most of the memory for bodies."""
        request.size += size
        if self.buffered <= self.limits.buffered_bytes:
            return
        held: Counter[str] = Counter()
        for one in self._open:
            held[one.client] += one.size
        most = held.most_common(1)[0][0]
        unfinished = [one for one in self._open if one.client == most and not one.received and one.size]
        if most == request.client or not unfinished:
            raise busy("the memory for request bodies is used up.", "memory")
        self._evict(max(unfinished, key=lambda one: one.size))

    def complete(self, request: OpenRequest, deadline: asyncio.Timeout, limited: bool = True) -> None:
        """Move a received request on to processing; raises ``RequestError`` (429) if too many are being processed."""
        if limited:
            self._check_processed(request.client)
        request.received, request.deadline = True, deadline

    def end(self, request: OpenRequest) -> None:
        """Forget a request."""
        self._open.pop(request, None)

    def stop(self) -> None:
        """Shorten the time of all open requests, so that the server can stop."""
        self.stopping = True
        now = asyncio.get_running_loop().time()
        for one in self._open:
            latest = now + self.limits.stop_seconds / (1 if one.received else 5)  # a sender cannot hold up the stop
            until = one.deadline.when()
            if not one.deadline.expired() and (until is None or until > latest):
                one.deadline.reschedule(latest)

    def _check_processed(self, client: str) -> None:
        if self.processed >= self.limits.requests:
            raise busy(f"{self.processed} requests are being processed.", "requests")
        own = sum(one.received for one in self._open if one.client == client)
        if own >= self.limits.client_requests:
            raise busy(f"{own} requests of this client are being processed.", "requests")

    def _evict(self, request: OpenRequest) -> None:
        self._open.pop(request)
        if not request.deadline.expired():
            request.deadline.reschedule(0.0)


def too_slow(limits: Limits, received: bool) -> RequestError:
    """Build the error of a request whose time is over.

    Parameters
    ----------
    limits : Limits
        The limits.
    received : bool
        Whether its body had been received completely.

    Returns
    -------
    RequestError
        Error of status 408.
    """
    if received:
        reason = f"the request took longer than {limits.seconds:g} seconds. Send fewer images, or try again later."
        return RequestError(408, reason, cause="processing time")
    reason = f"the body was not received in time: {limits.body_seconds:g} seconds, less if many are waiting. Send it faster."
    return RequestError(408, reason, cause="slow body")
