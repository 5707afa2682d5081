"""A server on a network: hostile requests on raw sockets, slow clients, limits per client, proxies and TLS."""

import importlib.util
import logging
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from sightunseen.cli import main

pytestmark = pytest.mark.slow

Serve = Callable[..., str]
FILE = Path(__file__).parents[3] / "benchmarks" / "hostile_requests.py"
SPECIFICATION = importlib.util.spec_from_file_location("hostile_requests", FILE)
assert SPECIFICATION is not None
assert SPECIFICATION.loader is not None
hostile = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(hostile)
hostile.FEATURES = 12

HEAD = b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
QUESTION = {"features": [[0.5] * 12]}
OK = b"HTTP/1.1 200"


@contextmanager
def connected(address: str, sent: bytes = b"", seconds: float = 10.0) -> Iterator[socket.socket]:
    host, port = address.rpartition("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        connection.sendall(sent)
        yield connection


def received(connection: socket.socket) -> bytes:
    """What the server sends until it closes the connection."""
    answer = b""
    try:
        while part := connection.recv(65536):
            answer += part
    except ConnectionError:  # closed while data was on its way
        pass
    return answer


def is_answered(address: str) -> bool:
    return httpx.post(f"{address}/predict", json=QUESTION, timeout=10).status_code == 200


# -- malformed and hostile requests ------------------------------------------------------------------------------------------


def test_hostile_requests_are_refused_without_a_word_in_the_log(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    assert len(hostile.KINDS) >= 60
    address = serve(lambda images: [[0.0] * 12] * len(images), app={"hosts": ("localhost", "127.0.0.1")})
    with caplog.at_level(logging.WARNING):
        for name, kind in hostile.KINDS.items():
            with connected(address, kind()) as connection:
                connection.shutdown(socket.SHUT_WR)
                found = re.findall(rb"HTTP/1\.1 (\d)\d\d", received(connection))
            assert not {b"5"} & set(found), name
    assert is_answered(address)
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("host [", 400),
        ("host of another site", 421),
        ("origin [", 403),
        ("HTTP/0.9", 400),
        ("HTTP/9.9", 400),
        ("length and chunks", 400),
        ("two lengths", 400),
        ("bad chunk size", 400),
        ("chunks of one byte", 400),
        ("10,000 headers", 400),
        ("TRACE", 405),
        ("CONNECT", 404),
        ("websocket upgrade", 200),
        ("features of 1e30", 422),
        ("class of 1e308", 422),
        ("temporary class of 1e308", 422),
        ("form in no encoding", 415),
        ("form in an odd encoding", 415),
        ("form field with half a pair", 422),
    ],
)
def test_status_of_hostile_requests(serve: Serve, name: str, status: int) -> None:
    address = serve(lambda images: [[0.0] * 12] * len(images), app={"hosts": ("localhost",)})
    with connected(address, hostile.KINDS[name]()) as connection:
        assert connection.recv(100).startswith(f"HTTP/1.1 {status} ".encode())


# -- slow clients ------------------------------------------------------------------------------------------------------------


def test_unfinished_bodies_do_not_take_the_places_of_others(serve: Serve) -> None:
    address = serve(requests=2, client_bodies=20)
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(address, HEAD + b"Content-Length: 1000\r\n\r\n{")) for _ in range(40)]
        assert is_answered(address)
        evicted = [received(one) for one in slow[:20]]  # those that were begun first had to make room
        assert all(answer.startswith(b"HTTP/1.1 408") for answer in evicted)
        slow[-1].sendall(b" " * 998 + b"}")
        assert slow[-1].recv(100).startswith(b"HTTP/1.1 422")


def test_body_without_progress_and_slow_body_are_rejected(serve: Serve) -> None:
    address = serve(pause_seconds=0.3, body_seconds=1.0)
    with connected(address, HEAD + b"Content-Length: 1000\r\n\r\n{") as connection:
        assert received(connection).startswith(b"HTTP/1.1 408")
    with connected(address, HEAD + b"Content-Length: 1000\r\n\r\n{") as connection:
        threading.Thread(target=drip, args=(connection,), daemon=True).start()
        assert received(connection).startswith(b"HTTP/1.1 408")


def drip(connection: socket.socket) -> None:
    try:
        for _ in range(100):
            connection.sendall(b" ")
            time.sleep(0.05)
    except OSError:
        pass


@pytest.mark.parametrize("sent", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: a\r\nX: "])
def test_unfinished_headers_are_closed(serve: Serve, sent: bytes) -> None:
    address = serve(head_seconds=0.3)
    with connected(address, sent) as connection:
        assert received(connection).startswith(b"HTTP/1.1 408")
    request = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    with connected(address, request) as connection:  # after a request as well
        assert connection.recv(100).startswith(OK)
        connection.sendall(b"GET /hea")
        assert b"HTTP/1.1 408" in received(connection)


def test_connections_of_a_client_are_limited_to_the_latest(serve: Serve) -> None:
    address = serve(client_connections=10)
    with ExitStack() as stack:
        opened = [stack.enter_context(connected(address, b"GET /")) for _ in range(30)]
        assert is_answered(address)
        assert [received(one) for one in opened[:20]] == [b""] * 20
        opened[-1].sendall(b"health HTTP/1.1\r\nHost: a\r\n\r\n")
        assert opened[-1].recv(100).startswith(OK)


def test_memory_of_bodies_is_limited(serve: Serve) -> None:
    address = serve(buffered_bytes=300_000)
    with ExitStack() as stack:
        large = HEAD + b"Content-Length: 200000\r\n\r\n" + b" " * 190_000
        first = stack.enter_context(connected(address, large))
        time.sleep(0.3)
        second = stack.enter_context(connected(address, large))
        assert received(second).startswith(b"HTTP/1.1 429")
        assert is_answered(address)
        first.sendall(b" " * 10_000)
        assert first.recv(100).startswith(b"HTTP/1.1 400")


def test_unread_response_is_aborted(serve: Serve) -> None:
    address = serve(write_seconds=0.5, keep_alive_seconds=1.0)
    with connected(address) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"GET /classes?vectors=true HTTP/1.1\r\nHost: a\r\n\r\n" * 3000)
        until = time.monotonic() + 120
        while "sightunseen_connections 1.0" not in httpx.get(f"{address}/metrics").text:
            assert time.monotonic() < until
            time.sleep(0.2)


# -- rates, proxies, tokens --------------------------------------------------------------------------------------------------


def test_rate_of_a_client_is_limited(serve: Serve) -> None:
    address = serve(rate=5)
    with connected(address, b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" * 1000) as connection:
        answer = received(connection)
    assert answer.count(OK) >= 10  # twice the rate at once
    assert answer.count(b"HTTP/1.1 429") == 1  # and the connection is closed
    assert b"retry-after: 1" in answer
    time.sleep(1.0)
    assert httpx.get(f"{address}/health").status_code == 200


def test_forwarded_client_counts_only_behind_a_trusted_proxy(serve: Serve) -> None:
    behind, direct = serve(rate=1, server={"proxy": "127.0.0.1"}), serve(rate=1)
    forwarded = [{"X-Forwarded-For": f"evil, 10.0.0.{k}"} for k in range(20)]
    assert {httpx.get(f"{behind}/health", headers=headers).status_code for headers in forwarded} == {200}
    assert 429 in {httpx.get(f"{direct}/health", headers=headers).status_code for headers in forwarded}


def test_token_for_everything(serve: Serve) -> None:
    address = serve(app={"token": "sesame", "token_for": "everything"})
    for path in ("/health", "/classes", "/metrics", "/openapi.json", "/nothing"):
        assert httpx.get(f"{address}{path}").status_code == 401
    assert httpx.post(f"{address}/predict", json=QUESTION).status_code == 401
    for path in ("/", "/page.js", "/health/live", "/health/ready"):
        assert httpx.get(f"{address}{path}").status_code == 200
    right = {"Authorization": "Bearer sesame"}
    assert httpx.post(f"{address}/predict", json=QUESTION, headers=right).status_code == 200
    described = httpx.get(f"{address}/openapi.json", headers=right).json()
    assert described["paths"]["/predict"]["post"]["security"] == [{"HTTPBearer": []}]


def test_body_is_not_received_without_the_token(serve: Serve) -> None:
    address = serve(app={"token": "sesame"})
    head = b"POST /classes HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
    with connected(address, head) as connection:
        assert received(connection).startswith(b"HTTP/1.1 401")


# -- TLS ---------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "cert.pem", folder / "key.pem"


def test_https(serve: Serve, certificate: tuple[Path, Path], caplog: pytest.LogCaptureFixture) -> None:
    import ssl

    address = serve(server={"tls": certificate})
    trusted = ssl.create_default_context(cafile=str(certificate[0]))
    assert httpx.post(f"{address}/predict", json=QUESTION, verify=trusted).status_code == 200
    with connected(address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") as connection:  # plain HTTP
        assert OK not in received(connection)
    assert caplog.text == ""


@pytest.mark.parametrize("files", ["swapped", "missing", "one"])
def test_invalid_certificate_exits_with_2(
    served_model: Any, certificate: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], files: str
) -> None:
    served_model.save(tmp_path / "model")
    cert, key = certificate if files == "one" else certificate[::-1]
    given = ["--tls-cert", str(tmp_path / "none" if files == "missing" else cert)]
    given += [] if files == "one" else ["--tls-key", str(key)]
    assert main(["serve", str(tmp_path / "model"), "--port", "0", *given]) == 2
    expected = {"swapped": "PEM files", "missing": "there is no file", "one": "--tls-key"}[files]
    assert expected in capsys.readouterr().err


def test_a_server_that_does_not_start_leaves_no_access_log(
    served_model: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served_model.save(tmp_path / "model")
    given = ["serve", str(tmp_path / "model"), "--access-log", str(tmp_path / "log"), "--port"]
    assert main([*given, "-1"]) == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main([*given, str(taken.getsockname()[1])]) == 2
    assert "cannot listen" in capsys.readouterr().err
    assert not (tmp_path / "log").exists()
