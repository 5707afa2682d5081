"""What stands before the API: limits on size, time and number of requests, who may ask, and headers for every answer."""

import asyncio
import json
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sightunseen.serve.limits import Limits, Refused

HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
CLOSED = {"Connection": "close"}  # what is left of the body is not read, so nothing can follow it on this connection


class Guard:
    """Lets requests through that keep to the limits; refuses the others before and while they are read.

    ``hosts`` are the names the server may be asked by; None stands for any. A page of another origin may change nothing.
    """

    def __init__(self, app: ASGIApp, limits: Limits, hosts: Collection[str] | None = None) -> None:
        self.app = app
        self.limits = limits
        self.hosts = hosts
        self.requests = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answering = _Answering(send)
        counted = scope["method"] not in ("GET", "HEAD")
        self.requests += counted
        try:
            self._check(scope)
            async with asyncio.timeout(self.limits.seconds):
                await self.app(scope, self._counted(receive), answering)
        except Refused as refusal:
            await answering.refuse(refusal)
        except TimeoutError:
            reason = f"the request took longer than {self.limits.seconds:g} seconds. Send less at once, or try again later."
            await answering.refuse(Refused(408, reason))
        finally:
            self.requests -= counted

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.hosts is not None and urlsplit(f"//{host}").hostname not in self.hosts:
            raise Refused(421, f"this server is asked as {', '.join(self.hosts)}; got '{host[:200]}'.")
        if scope["method"] in ("GET", "HEAD"):
            return
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise Refused(403, "pages of other origins may not ask this server.")
        if self.requests > self.limits.requests:
            raise Refused(429, f"{self.requests - 1} requests are under way. Try again in a moment.", {"Retry-After": "1"})
        announced = headers.get("content-length", "0")
        if not announced.isdecimal() or int(announced) > self.limits.body_bytes:
            raise self._too_large()

    def _counted(self, receive: Receive) -> Receive:
        """The request's body, refused as soon as it grows too large: its length may not have been announced."""
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.limits.body_bytes:
                raise self._too_large()
            return message

        return counted

    def _too_large(self) -> Refused:
        reason = f"the request is too large; at most {self.limits.body_bytes:,} bytes are read."
        return Refused(413, reason, CLOSED)


class _Answering:
    """Sends an answer with the headers that all of them have, and knows whether one has begun."""

    def __init__(self, send: Send) -> None:
        self.send = send
        self.begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await self.send(message)

    async def refuse(self, refusal: Refused) -> None:
        if self.begun:
            return
        body = json.dumps({"error": refusal.reason}).encode()
        given = {"Content-Type": "application/json", "Content-Length": str(len(body)), **CLOSED, **refusal.headers}
        headers = [(name.lower().encode(), value.encode()) for name, value in given.items()]
        await self({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})
