"""Hostile requests for ``soak.py``: each kind is a few bytes on a raw socket.

A server must answer each with 2xx to 4xx or close the connection, without any effect on other clients. Kinds in ``HELD`` are
sent and then left open, as a slow client would; the others are answered at once.
"""

import json
import os
import random
import struct
import zlib
from collections.abc import Callable

FEATURES = 16  # set by soak.py to the number of features of the model
PHOTO = b""  # set by soak.py to a valid photo

JSON = "Content-Type: application/json\r\n"


def request(start: str, headers: str = "", body: bytes = b"", host: str = "localhost") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{start} HTTP/1.1\r\nHost: {host}\r\n{headers}{length}\r\n".encode("latin-1") + body


def post(content: object, path: str = "/predict") -> bytes:
    return request(f"POST {path}", JSON, content if isinstance(content, bytes) else json.dumps(content).encode())


def rows(value: object, count: int = 1) -> bytes:
    return post({"features": [[value] * FEATURES] * count})


def form(content: bytes, disposition: str = 'name="photo"; filename="a.png"', media: str = "boundary=x") -> bytes:
    body = f"--x\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode("latin-1") + content + b"\r\n--x--\r\n"
    return request("POST /predict", f"Content-Type: multipart/form-data; {media}\r\n", body)


def new_class(**fields: object) -> bytes:
    return post({"name": "x", "attributes": {"attribute 0": 1.0}, **fields}, "/classes")


def chunked(body: bytes, path: str = "/predict") -> bytes:
    return request(f"POST {path}", JSON + "Transfer-Encoding: chunked\r\n") + body


def png(width: int, height: int, content: bytes = b"\0" * 1000) -> bytes:
    """A PNG that announces any size."""

    def part(kind: bytes, inner: bytes) -> bytes:
        return struct.pack(">I", len(inner)) + kind + inner + struct.pack(">I", zlib.crc32(kind + inner))

    header = part(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + part(b"IDAT", zlib.compress(content)) + part(b"IEND", b"")


KINDS: dict[str, Callable[[], bytes]] = {
    # request lines and headers
    "host [": lambda: request("GET /health", host="["),
    "host ]": lambda: request("GET /health", host="a]b"),
    "host of another site": lambda: request("GET /health", host="evil.example"),
    "host with a path": lambda: request("GET /health", host="localhost/../x"),
    "host of 10 kB": lambda: request("GET /health", host="a" * 10_000),
    "no host": lambda: b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": lambda: b"GET /health HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n",
    "origin [": lambda: request("POST /classes", "Origin: http://[\r\n" + JSON, b"{}"),
    "origin null": lambda: request("POST /classes", "Origin: null\r\n" + JSON, b"{}"),
    "origin of another site": lambda: request("DELETE /classes/x", "Origin: https://evil.example\r\n"),
    "HTTP/0.9": lambda: b"GET /\r\n\r\n",
    "HTTP/2 preface": lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9.9": lambda: b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "TLS hello": lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(100),
    "random bytes": lambda: os.urandom(500) + b"\r\n\r\n",
    "NUL bytes": lambda: b"\0" * 500 + b"\r\n\r\n",
    "TRACE": lambda: request("TRACE /health"),
    "CONNECT": lambda: b"CONNECT evil.example:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "OPTIONS *": lambda: request("OPTIONS *"),
    "unknown method": lambda: request("FROBNICATE /predict"),
    "method of 1 kB": lambda: request("G" * 1000 + " /"),
    "absolute target": lambda: request("GET http://evil.example/health"),
    "NUL in the path": lambda: request("GET /classes%00/health"),
    "everything encoded": lambda: request("GET /" + "".join(f"%{ord(one):02x}" for one in "health")),
    "path traversal": lambda: request("GET /..%2f..%2f..%2fetc/passwd"),
    "invalid UTF-8 in the path": lambda: request("DELETE /classes/%ff%fe%ed%a0%80"),
    "bad percent encoding": lambda: request("GET /classes/%zz%"),
    "query of 10 kB": lambda: request("GET /classes?" + "vectors=1&" * 1000),
    "bad query": lambda: request("GET /classes?vectors=%00"),
    "target of 100 kB": lambda: request("GET /" + "a" * 100_000),
    "1,000 headers": lambda: request("GET /health", "".join(f"X-{k}: {k}\r\n" for k in range(1000))),
    "10,000 headers": lambda: request("GET /health", "X: y\r\n" * 10_000),
    "header of 100 kB": lambda: request("GET /health", f"X: {'y' * 100_000}\r\n"),
    "header without colon": lambda: request("GET /health", "nonsense\r\n"),
    "folded header": lambda: request("GET /health", "X: a\r\n b\r\n"),
    "latin-1 header": lambda: request("GET /health", "X: \xff\xfe\r\nAuthorization: Bearer \xe9\r\n"),
    "bare line feeds": lambda: b"GET /health HTTP/1.1\nHost: localhost\n\n",
    "websocket upgrade": lambda: request("GET /", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"),
    "h2c upgrade": lambda: request("GET /", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"),
    "forwarded for": lambda: request("GET /health", "X-Forwarded-For: <script>, 1.2.3.4\r\nX-Forwarded-Proto: gopher\r\n"),
    "log injection": lambda: request("GET /x%0d%0a%7b%22status%22:200%7d", "User-Agent: \x1b[31m\r\n"),
    "100 pipelined requests": lambda: request("GET /health") * 100,
    "request smuggling": lambda: request(
        "POST /predict", "Transfer-Encoding: chunked\r\n" + JSON, b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    ),
    # bodies
    "length and chunks": lambda: request("POST /predict", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + b"0\r\n\r\n",
    "negative length": lambda: request("POST /predict", "Content-Length: -1\r\n"),
    "length of 5 GB": lambda: request("POST /predict", JSON + "Content-Length: 5368709120\r\n") + b"{",
    "length of 5,000 digits": lambda: request("POST /predict", f"Content-Length: {'9' * 5000}\r\n"),
    "two lengths": lambda: request("POST /predict", "Content-Length: 1\r\nContent-Length: 2\r\n") + b"ab",
    "unknown transfer encoding": lambda: request("POST /predict", "Transfer-Encoding: gzip\r\n") + b"abc",
    "bad chunk size": lambda: chunked(b"zz\r\nabc\r\n0\r\n\r\n"),
    "huge chunk size": lambda: chunked(b"ffffffffffffffffffffffff\r\nabc"),
    "chunks of one byte": lambda: chunked(b"1\r\n \r\n" * 20_000),
    "expect 100-continue": lambda: request("POST /predict", JSON + "Expect: 100-continue\r\nContent-Length: 2\r\n") + b"{}",
    "unknown expectation": lambda: request("POST /predict", JSON + "Expect: nothing\r\nContent-Length: 2\r\n") + b"{}",
    "gzip bomb as JSON": lambda: request("POST /predict", JSON + "Content-Encoding: gzip\r\n", zlib.compress(b" " * 10**6)),
    "body of GET": lambda: request("GET /health", "", b"x" * 10_000),
    # JSON
    "not JSON": lambda: post(b"{"),
    "nested 100,000 times": lambda: post(b"[" * 100_000),
    "2 MB of numbers": lambda: post(b'{"features": [[' + b"1," * 1_000_000 + b"1]]}"),
    "NaN": lambda: post(b'{"features": [[' + b",".join([b"NaN"] * FEATURES) + b"]]}"),
    "features of 1e308": lambda: rows(1e308),
    "features of 1e30": lambda: rows(1e30),
    "integer of 4,000 digits": lambda: post(b'{"features": [[' + b"9" * 4000 + b"]]}"),
    "features as text": lambda: rows("1"),
    "no rows": lambda: rows(1.0, 0),
    "257 rows": lambda: rows(1.0, 257),
    "top of 10**30": lambda: post({"features": [[0.0] * FEATURES], "top": 10**30}),
    "half a surrogate pair": lambda: post(b'{"features": [], "candidates": ["\\ud800"]}'),
    "100,000 candidates": lambda: post({"features": [[0.0] * FEATURES], "candidates": ["x"] * 100_000}),
    "nine temporary classes": lambda: post({"features": [[0.0] * FEATURES], "also": [{"name": str(k)} for k in range(9)]}),
    "temporary class of 1e308": lambda: post(
        {"features": [[0.0] * FEATURES], "also": [{"name": "x", "attributes": {"attribute 0": 1e308}}]}
    ),
    "class of 1e308": lambda: new_class(attributes={"attribute 0": 1e308}),
    "class named with control characters": lambda: new_class(name="a\r\n\x1b[31m"),
    "class named with 1 MB": lambda: new_class(name="x" * 10**6),
    "class with unknown attribute": lambda: new_class(attributes={"\ud83d": 1.0}),
    "removal of a seen class": lambda: request("DELETE /classes/class%200"),
    "removal of nothing": lambda: request("DELETE /classes/"),
    "examples of nothing": lambda: post({"name": "nothing", "features": [[0.0] * FEATURES]}, "/examples"),
    # forms and photos
    "form without boundary": lambda: form(PHOTO, media="charset=utf-8"),
    "form of another boundary": lambda: form(PHOTO, media="boundary=y"),
    "form in an odd encoding": lambda: form(PHOTO, 'name="photo"; filename="\\ud800"', "boundary=x; charset=unicode_escape"),
    "form in no encoding": lambda: form(PHOTO, media="boundary=x; charset=undefined"),
    "form field with half a pair": lambda: form(b'["\\ud800"]', 'name="candidates"'),
    "file name with folders": lambda: form(PHOTO, 'name="photo"; filename="../../../etc/passwd"'),
    "PNG of 50,000 x 50,000": lambda: form(png(50_000, 50_000)),
    "PNG of 1 x 60,000": lambda: form(png(1, 60_000)),
    "cut photo": lambda: form(PHOTO[: len(PHOTO) // 2]),
    "changed photo": lambda: form(bytes(byte ^ (random.random() < 0.01) for byte in PHOTO)),
    "SVG": lambda: form(b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>"),
    "empty photo": lambda: form(b""),
    "17 photos": lambda: form((PHOTO + b'\r\n--x\r\nContent-Disposition: form-data; name="photo"; filename="b"\r\n\r\n') * 17),
}

HELD: dict[str, Callable[[], bytes]] = {
    "nothing sent": lambda: b"",
    "half a request line": lambda: b"GET /hea",
    "half a header": lambda: b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "unfinished body": lambda: request("POST /predict", JSON + "Content-Length: 1000\r\n") + b"{",
    "unfinished large body": lambda: request("POST /predict", JSON + "Content-Length: 900000\r\n") + b" " * 300_000,
    "unfinished chunk": lambda: chunked(b"1000\r\nabc"),
    "unfinished form": lambda: form(PHOTO)[:-20],
    "unread responses": lambda: request("GET /classes?vectors=true") * 200,
}
