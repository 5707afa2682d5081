"""Stopping the command ``serve``: requests in hand are answered, and the exit code is 0."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.slow


@contextmanager
def served(folder: Path, *options: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Start the command; yields the process and the port."""
    command = [sys.executable, "-m", "sightunseen", "serve", str(folder), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline().split(" at ")[1].split()[0].rpartition(":")[2])
            assert httpx.get(f"http://127.0.0.1:{port}/health/ready", timeout=30).status_code == 200
            yield process, port
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_under_load_loses_no_request(served_model: Any, tmp_path: Path, number: int) -> None:
    served_model.save(tmp_path / "model")
    statuses: list[Any] = []
    with served(tmp_path / "model") as (process, port):
        clients = [threading.Thread(target=ask, args=(port, statuses)) for _ in range(16)]
        for client in clients:
            client.start()
        while len(statuses) < 100:
            time.sleep(0.01)
        held = socket.create_connection(("127.0.0.1", port))  # an unfinished request does not delay the stop for long
        held.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        os.kill(process.pid, number)
        out, err = process.communicate(timeout=60)
        for client in clients:
            client.join(60)
        held.close()
    assert (process.returncode, out) == (0, "stopped\n")
    assert "Traceback" not in err
    assert set(statuses) == {200}


def ask(port: int, statuses: list[Any]) -> None:
    """Ask until the server no longer listens."""
    connection, body = HTTPConnection("127.0.0.1", port, timeout=60), json.dumps({"features": [[0.5] * 12] * 20})
    while True:
        try:
            connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            reply.read()
            statuses.append(reply.status)
        except ConnectionRefusedError:
            return
        except Exception as error:
            statuses.append(repr(error))
            return


def test_idle_server_stops_at_once_and_closes_idle_connections(served_model: Any, tmp_path: Path) -> None:
    served_model.save(tmp_path / "model")
    with served(tmp_path / "model") as (process, port):
        with socket.create_connection(("127.0.0.1", port), timeout=30) as idle:
            os.kill(process.pid, signal.SIGTERM)
            assert idle.recv(100) == b""
        assert process.communicate(timeout=30)[0] == "stopped\n"
    assert process.returncode == 0


def test_access_log_file_and_options(served_model: Any, tmp_path: Path) -> None:
    served_model.save(tmp_path / "model")
    log = tmp_path / "access.log"
    options = ["--access-log", str(log), "--no-metrics", "--token", "sesame", "--token-for", "everything", "--rate", "1000"]
    with served(tmp_path / "model", *options) as (process, port):
        assert httpx.get(f"http://127.0.0.1:{port}/classes").status_code == 401
        assert httpx.get(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": "Bearer sesame"}).status_code == 404
        os.kill(process.pid, signal.SIGTERM)
        process.communicate(timeout=30)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 401, 404]
    assert "sesame" not in log.read_text()
