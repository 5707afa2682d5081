"""Fuzzing of the HTTP parser: malformed bytes sent to a server process."""

import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from .fuzz_values import damaged

STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")


class Server:
    """A server process of a model folder; ``with Server(folder) as server``."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.folder, self.log = folder, work / "server.log"

    def __enter__(self) -> "Server":
        command = [sys.executable, "-m", "sightunseen", "serve", str(self.folder), "--port", "0"]
        self.errors = open(self.log, "wb")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        line = self.process.stdout.readline() if self.process.stdout else ""
        self.port = int(re.search(r":(\d+) ", line)[1])  # type: ignore[index]
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.code = self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.code = self.process.wait()
        self.errors.close()

    def send(self, content: bytes, seconds: float = 3.0) -> bytes:
        """Send bytes, end the sending side, and return the answer."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as connection:
            try:
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
                answer = b""
                while part := connection.recv(65536):
                    answer += part
                return answer
            except OSError:  # too slow, or closed by the server before all was sent
                return b""

    def healthy(self) -> bool:
        """Whether an honest request is answered."""
        answer = self.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 10)
        return answer.startswith(b"HTTP/1.1 200")


HEADERS = (
    *(
        b"Host: [",
        b"Host: ",
        b"Host: a b",
        b"Host: localhost:99999",
        b"Host: \xff",
        b"Host: [::1",
        b"Host: localhost",
        b"Host: @",
    ),
    *(b"Origin: http://[", b"Origin: null", b"Origin: \x00", b"Origin: http://localhost:x", b"Content-Length: -1"),
    *(
        b"Content-Length: 99999999999999999999",
        b"Content-Length: 5",
        b"Content-Length: 1e3",
        b"Content-Length: 3\r\nContent-Length: 9",
    ),
    *(
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: \x0bchunked",
        b"Expect: 100-continue",
    ),
    *(b"Content-Type: application/json", b"Content-Type: multipart/form-data", b"Content-Type: multipart/form-data; boundary="),
    *(
        b"Content-Type: multipart/form-data; boundary=x",
        b"Content-Type: application/json; charset=utf-99",
        b"Content-Encoding: gzip",
    ),
    *(
        b"Authorization: Bearer \xff",
        b"Authorization: Bearer",
        b"Authorization: " + b"x" * 9000,
        b"Connection: upgrade\r\nUpgrade: websocket",
    ),
    *(
        b"X: " + b"y" * 70000,
        b": empty",
        b"No colon",
        b" folded: 1",
        b"X-Forwarded-For: \xff\xfe",
        b"Cookie: " + b"a=b; " * 2000,
        b"Range: bytes=0-",
    ),
)
LINES = (
    *(
        b"GET / HTTP/1.1",
        b"GET /health HTTP/1.1",
        b"GET /classes?vectors=x HTTP/1.1",
        b"POST /predict HTTP/1.1",
        b"POST /classes HTTP/1.1",
    ),
    *(
        b"POST /examples HTTP/1.1",
        b"DELETE /classes/%00 HTTP/1.1",
        b"DELETE /classes/%ff%fe HTTP/1.1",
        b"DELETE /classes/ HTTP/1.1",
    ),
    *(
        b"GET /%zz HTTP/1.1",
        b"GET /\xff HTTP/1.1",
        b"GET http://[ HTTP/1.1",
        b"GET //[::1 HTTP/1.1",
        b"GET * HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
    ),
    *(
        b"GET /../../etc/passwd HTTP/1.1",
        b"CONNECT a:1 HTTP/1.1",
        b"TRACE / HTTP/1.1",
        b"get / http/1.1",
        b"GET /health HTTP/9.9",
    ),
    *(
        b"GET /health HTTP/1.0",
        b"GET",
        b"",
        b"\x16\x03\x01\x02\x00\x01",
        b"PRI * HTTP/2.0",
        b"GET /?" + b"a" * 70000 + b" HTTP/1.1",
        b"X" * 9000,
    ),
    *(b"GET /?vectors=%ff&a[]=1 HTTP/1.1", b"HEAD /health HTTP/1.1", b"PUT /classes HTTP/1.1", b"GET /metrics HTTP/1.1"),
)
BODIES = (
    *(
        b"",
        b"{",
        b"[" * 5000,
        b"{}",
        b"null",
        b'{"features": [[1]]}',
        b'{"features": [[1e999]]}',
        b'{"features": 1}',
        b"\xff\xfe\x00",
    ),
    *(
        b'{"name": "\\ud800", "attributes": {"r": 1}}',
        b'{"name": "x", "attributes": {"r": 1e308, "g": 0, "b": 0}}',
        b'{"top": 1e400}',
    ),
    *(
        b'--x\r\nContent-Disposition: form-data; name="photo"; filename="a"\r\n\r\nnot a photo\r\n--x--\r\n',
        b"--x",
        b"--x\r\n\r\n",
    ),
    *(
        b"5\r\nhello\r\n0\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"-1\r\n",
        b"5;" + b"a" * 5000 + b"\r\nhello\r\n",
        b"0\r\nX: y\r\n\r\n",
        b"zz\r\n",
    ),
)


def raw_request(r: random.Random) -> bytes:
    """A request with malformed parts."""
    headers = r.sample(HEADERS, r.randint(0, 4))
    if r.random() < 0.6:
        headers.append(b"Host: localhost")
    body = r.choice(BODIES)
    if r.random() < 0.5:
        headers.append(b"Content-Length: %d" % (len(body) + r.choice((0, 0, 0, -1, 5))))
    content = b"\r\n".join([r.choice(LINES), *headers]) + r.choice((b"\r\n\r\n",) * 5 + (b"\n\n", b"\r\n", b"")) + body
    return damaged(r, content) if r.random() < 0.3 else content


def raw_failures(server: Server, request: bytes) -> list[str]:
    """What a malformed request breaks: a status of 5xx, or the server itself."""
    answer = server.send(request)
    statuses = [int(status) for status in STATUS.findall(answer)]
    found = [f"status {status}: {answer[:200]!r}" for status in statuses if status >= 500]
    if b"Traceback" in answer:
        found.append(f"traceback in the answer: {answer[:200]!r}")
    return found


def fuzz_sockets(folder: Path, work: Path, seconds: float, seed: int) -> tuple[Counter[str], Counter[str]]:
    """Send malformed requests for a time; returns the answers by status and the failures by text."""
    r, answers, failures = random.Random(seed), Counter[str](), Counter[str]()
    until = time.monotonic() + seconds
    with Server(folder, work) as server:
        number = 0
        while time.monotonic() < until:
            request = raw_request(r)
            found = raw_failures(server, request)
            answers["5xx" if found else "answered"] += 1
            for text in found:
                failures[text] += 1
            number += 1
            if number % 50 == 0 and not server.healthy():
                failures["no answer to an honest request"] += 1
                break
    if server.code != 0:
        failures[f"exit code {server.code} after SIGTERM"] += 1
    if (log := server.log.read_bytes()).count(b"Traceback"):
        failures[f"traceback in the log: {log[log.rindex(b'Traceback') :][:1500].decode(errors='replace')}"] += 1
    return answers, failures
