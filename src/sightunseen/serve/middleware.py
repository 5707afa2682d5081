"""Middleware: limits on requests, checks of host and origin, and security headers."""

import asyncio
import json
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sightunseen.serve.limits import Limits, RequestError

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
CLOSED = {"Connection": "close"}  # the rest of the body is not read, so the connection cannot be reused


class LimitsMiddleware:
    """ASGI middleware that rejects requests beyond the limits, and cross-origin requests that could change the model.

    Parameters
    ----------
    app : ASGI application
        Application to wrap.
    limits : Limits
        Limits on size, time and number of requests.
    hosts : collection of str, optional
        Accepted host names. Default: any.
    """

    def __init__(self, app: ASGIApp, limits: Limits, hosts: Collection[str] | None = None) -> None:
        self.app = app
        self.limits = limits
        self.hosts = hosts
        self.requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Process one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        response = _Response(send)
        counted = scope["method"] not in ("GET", "HEAD")
        self.requests += counted
        try:
            self._check(scope)
            async with asyncio.timeout(self.limits.seconds):
                await self.app(scope, self._counted(receive), response)
        except RequestError as error:
            await response.reject(error)
        except TimeoutError:
            reason = f"the request took longer than {self.limits.seconds:g} seconds. Send fewer images, or try again later."
            await response.reject(RequestError(408, reason))
        finally:
            self.requests -= counted

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.hosts is not None and urlsplit(f"//{host}").hostname not in self.hosts:
            raise RequestError(421, f"the host must be {', '.join(self.hosts)}; got '{host[:200]}'.")
        if scope["method"] in ("GET", "HEAD"):
            return
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise RequestError(403, "cross-origin requests are not allowed.")
        if self.requests > self.limits.requests:
            raise RequestError(429, f"{self.requests - 1} requests are being processed. Try again later.", {"Retry-After": "1"})
        announced = headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced) > self.limits.body_bytes:
            raise self._too_large()

    def _counted(self, receive: Receive) -> Receive:
        """Count the bytes of the body while it is read, because its length may not be announced."""
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.limits.body_bytes:
                raise self._too_large()
            return message

        return counted

    def _too_large(self) -> RequestError:
        reason = f"the request is too large; at most {self.limits.body_bytes:,} bytes are allowed. Send fewer images."
        return RequestError(413, reason, CLOSED)


class _Response:
    """Adds the common headers to a response, and records whether it has started."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.started = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self.send(message)

    async def reject(self, error: RequestError) -> None:
        if self.started:
            return
        body = json.dumps({"error": error.reason}).encode()
        given = {"Content-Type": "application/json", "Content-Length": str(len(body)), **CLOSED, **error.headers}
        headers = [(name.lower().encode(), value.encode()) for name, value in given.items()]
        await self({"type": "http.response.start", "status": error.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
