"""Middleware: checks of requests, reception of bodies within limits, security headers, and observation."""

import asyncio
import hmac
import json
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sightunseen.core.documents import quoted
from sightunseen.core.errors import SightUnseenError, StorageError
from sightunseen.serve.admission import Admission, OpenRequest, too_slow
from sightunseen.serve.exchange import METHODS, Exchange, Observers, client_of
from sightunseen.serve.limits import RequestError

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
READING = ("GET", "HEAD")
CLOSED = {"Connection": "close"}
# Starlette's TrustedHostMiddleware answers in plain text and redirects to www; see docs/decisions/0018-libraries.md.
HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?")


@dataclass(frozen=True)
class Access:
    """Who may send which requests.

    Parameters
    ----------
    hosts : collection of str, optional
        Accepted host names of requests. Default: any.
    token : str, optional
        Bearer token. Default: none is needed.
    everything : bool, default=False
        Whether all requests need the token, not only changes of the model.
    open_paths : collection of str
        Paths that never need the token: the page and the probes of liveness and readiness.
    """

    hosts: Collection[str] | None = None
    token: str | None = None
    everything: bool = False
    open_paths: Collection[str] = ()

    def check(self, scope: Scope, headers: Headers) -> None:
        """Check host, origin and token; raises ``RequestError`` (400, 401, 403, 421)."""
        host = headers.get("host", "")
        found = HOST.fullmatch(host)
        if found is None and (host or self.hosts is not None):
            raise RequestError(400, "the header Host is not a host name or address.", cause="host")
        if self.hosts is not None and found is not None and found["name"].strip("[]").lower() not in self.hosts:
            raise RequestError(421, f"the host must be {', '.join(self.hosts)}; got '{host[:100]}'.", cause="host")
        reading = scope["method"] in READING
        origin = headers.get("origin")
        if not reading and origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise RequestError(403, "cross-origin requests are not allowed.", cause="origin")
        path = scope["path"]
        if self.token is None or path in self.open_paths or not (self.everything or (not reading and path != "/predict")):
            return
        if not hmac.compare_digest(headers.get("authorization", "").encode(), f"Bearer {self.token}".encode()):
            what = "this request" if self.everything else "changing the model"
            reason = f"{what} needs the token. Send the header Authorization: Bearer TOKEN."
            raise RequestError(401, reason, {"WWW-Authenticate": "Bearer"}, cause="token")


class RequestMiddleware:
    """ASGI middleware that receives a request completely, within the limits, before the application processes it.

    Parameters
    ----------
    app : ASGI application
        Application to wrap.
    access : Access
        Who may send which requests.
    admission : Admission
        Open requests and limits.
    observers : iterable of callable
        Called with each finished :class:`~sightunseen.serve.exchange.Exchange`.
    """

    def __init__(self, app: ASGIApp, access: Access, admission: Admission, observers: Observers = ()) -> None:
        self.app = app
        self.access = access
        self.admission = admission
        self.limits = admission.limits
        self.observers = observers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in METHODS else "other"
        exchange, started = Exchange(client_of(scope.get("client")), method), perf_counter()
        response = _Response(send, exchange, self.admission)
        try:
            await self._process(scope, receive, response)
        except Exception as error:
            await response.reject(_request_error(error))
        finally:
            exchange.seconds = perf_counter() - started
            exchange.route = getattr(scope.get("route"), "path", None)
            exchange.images = scope.get("state", {}).get("images", 0)
            if (exchange.status or 0) >= 400 and exchange.cause is None:
                exchange.cause = "content" if exchange.route else "route"
            for observer in self.observers:
                observer(exchange)

    async def _process(self, scope: Scope, receive: Receive, response: "_Response") -> None:
        exchange = response.exchange
        self.admission.check_rate(exchange.client)
        headers = Headers(scope=scope)
        self.access.check(scope, headers)
        self._check_framing(scope, headers)
        request: OpenRequest | None = None
        try:
            async with asyncio.timeout(self.limits.body_seconds) as deadline:
                request = self.admission.begin(exchange.client, deadline)
                body = await self._body(receive, request)
            if body is None:
                exchange.cause = "disconnected"
                return
            exchange.bytes_in = len(body)
            response.received = True
            async with asyncio.timeout(self.limits.seconds) as deadline:
                self.admission.complete(request, deadline, limited=scope["method"] not in READING)
                response.deadline = deadline
                await self.app(scope, _replayed(body, receive), response)
        except TimeoutError as error:
            raise too_slow(self.limits, request is not None and request.received) from error
        finally:
            if request is not None:
                self.admission.end(request)

    def _check_framing(self, scope: Scope, headers: Headers) -> None:
        if scope.get("http_version", "1.1") not in ("1.0", "1.1"):
            raise RequestError(400, "the version of HTTP must be 1.0 or 1.1.", cause="malformed")
        announced = headers.get("content-length")
        if announced is not None and "transfer-encoding" in headers:
            raise RequestError(400, "Content-Length and Transfer-Encoding exclude each other.", cause="malformed")
        if announced is not None and not (announced.isdecimal() and len(announced) <= 20):
            raise RequestError(400, "Content-Length must be a number of bytes.", cause="malformed")
        if int(announced or 0) > self.limits.body_bytes:
            raise self._too_large()

    async def _body(self, receive: Receive, request: OpenRequest) -> bytes | None:
        """Receive the body; None if the client disconnects."""
        parts: list[bytes] = []
        while True:
            async with asyncio.timeout(self.limits.pause_seconds):
                message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            parts.append(part)
            self.admission.grow(request, len(part))
            if request.size > self.limits.body_bytes:
                raise self._too_large()
            if not message.get("more_body", False):
                return b"".join(parts)

    def _too_large(self) -> RequestError:
        reason = f"the request is too large; at most {self.limits.body_bytes:,} bytes are allowed. Send fewer images."
        return RequestError(413, reason, cause="size")


def _request_error(error: Exception) -> RequestError:
    """The response to an error; details of internal errors are only in the log of the server."""
    if isinstance(error, RequestError):
        return error
    log = logging.getLogger("uvicorn.error")
    if isinstance(error, StorageError):
        log.error("%s", quoted(error, 500))
        return RequestError(503, "the model folder cannot be read or written. See the log of the server.", cause="storage")
    if isinstance(error, SightUnseenError):
        return RequestError(422, str(error)[:500])
    log.error("internal error", exc_info=error)
    reason = "internal error of the server, not of the request. See the log of the server."
    return RequestError(500, reason, cause="internal error")


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a received body as one message, then what the server reports (a disconnect)."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed


class _Response:
    """Adds the common headers to a response, and records its status and size."""

    def __init__(self, send: Send, exchange: Exchange, admission: Admission) -> None:
        self.send = send
        self.exchange = exchange
        self.admission = admission
        self.deadline: asyncio.Timeout | None = None
        self.received = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.exchange.status = message["status"]
            if self.deadline is not None and not self.deadline.expired():
                self.deadline.reschedule(None)  # the server limits how long a client may take to read the response
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            if self.admission.stopping:
                headers["Connection"] = "close"
        else:
            self.exchange.bytes_out += len(message.get("body", b""))
        await self.send(message)

    async def reject(self, error: RequestError) -> None:
        self.exchange.cause, self.deadline = error.cause, None  # the time limit has ended
        if self.exchange.status is not None:
            return
        # If the body was not read completely, the connection cannot be reused.
        status, headers, body = error_response(error.status, error.reason, ({} if self.received else CLOSED) | error.headers)
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


def error_response(status: int, reason: str, headers: dict[str, str]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Build an error response ``{"error": reason}``.

    Parameters
    ----------
    status : int
        HTTP status code.
    reason : str
        The error message.
    headers : dict of str to str
        Additional headers.

    Returns
    -------
    tuple of (int, list of (bytes, bytes), bytes)
        Status, headers and body.
    """
    body = json.dumps({"error": reason}).encode()
    given: dict[str, Any] = {"Content-Type": "application/json", "Content-Length": len(body), **headers}
    return status, [(name.lower().encode(), str(value).encode()) for name, value in given.items()], body
