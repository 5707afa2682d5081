"""A running server: concurrent clients, limits, unfinished requests, and the command ``serve``."""

import io
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from PIL import Image

from sightunseen.cli import main
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.methods import ESZSL, load_model
from sightunseen.serve.server import Server

pytestmark = pytest.mark.slow


class Corners:
    """Backbone whose features are the colours of the corners; records batch sizes and can be slow."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.sizes: list[int] = []
        self.seconds = seconds

    def __call__(self, images: list[Any]) -> Any:
        self.sizes.append(len(images))
        time.sleep(self.seconds)
        return [corners_of(image) for image in images]


def corners_of(image: Any) -> Any:
    return np.asarray(image, dtype=np.float32)[[0, 0, -1, -1], [0, -1, 0, -1]].ravel() / 255


def photo(seed: int) -> bytes:
    content = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)).save(content, "png")
    return content.getvalue()


def features(content: bytes) -> Any:
    return corners_of(Image.open(io.BytesIO(content)))


Serve = Callable[..., str]


def ask(address: str, seed: int) -> httpx.Response:
    return httpx.post(f"{address}/predict", files={"photo": (f"{seed}.png", photo(seed))}, data={"top": "10"}, timeout=30)


def test_concurrent_clients_share_batches_and_get_their_own_predictions(serve: Serve, served_model: ESZSL) -> None:
    corners = Corners(0.01)
    address = serve(corners)
    with ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(lambda seed: ask(address, seed), range(96)))
    for seed, reply in enumerate(replies):
        assert reply.status_code == 200
        answer = reply.json()["answers"][0]
        expected = dict(
            zip(
                served_model.classes_.tolist(), served_model.predict_proba(features(photo(seed))[None])[0].tolist(), strict=True
            )
        )
        assert answer["image"] == f"{seed}.png"
        assert {one["name"]: one["confidence"] for one in answer["classes"]} == expected
    assert sum(corners.sizes) == 96 + 1  # each photo once, and one to determine the number of features
    assert 1 < max(corners.sizes) <= 32
    assert len(corners.sizes) < 60


def test_concurrent_changes_are_complete(serve: Serve, served_model: ESZSL) -> None:
    address = serve(Corners())
    values = {f"attribute {k}": 1.0 for k in range(5)}
    counts: list[int] = []

    def change(k: int) -> int:
        if k % 2:
            reply = httpx.post(f"{address}/predict", json={"features": [[0.5] * 12], "top": 1000}, timeout=30)
            confidence = [one["confidence"] for one in reply.json()["answers"][0]["classes"]]
            counts.append(len(confidence))
            assert sum(confidence) == pytest.approx(1, abs=1e-5)
            return reply.status_code
        return httpx.post(f"{address}/classes", json={"name": f"new {k}", "attributes": values}, timeout=30).status_code

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(change, range(80))) == {200, 201}
    known = {one["name"] for one in httpx.get(f"{address}/classes").json()["classes"]}
    assert known == {*served_model.classes_.tolist(), *(f"new {k}" for k in range(0, 80, 2))}
    assert len(set(counts)) > 1
    with ThreadPoolExecutor(16) as pool:
        replies = pool.map(lambda k: httpx.delete(f"{address}/classes/new%20{k}", timeout=30).status_code, range(0, 80, 2))
        assert set(replies) == {200}
    assert len(httpx.get(f"{address}/classes").json()["classes"]) == 10


def test_class_name_with_special_characters(serve: Serve) -> None:
    address, name = serve(Corners()), "50%25 a/b?c#d&e=é 日本 ;+"
    assert httpx.post(f"{address}/classes", json={"name": name, "attributes": {"attribute 1": 1}}).status_code == 201
    assert httpx.delete(f"{address}/classes/{quote(name, safe='')}").json()["name"] == name


def test_full_queue_and_timeout_are_errors(serve: Serve) -> None:
    address = serve(Corners(0.4), waiting=2, batch=1)
    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda seed: ask(address, seed), range(6)))
    codes = sorted(reply.status_code for reply in replies)
    assert set(codes) == {200, 429}
    assert codes.count(200) >= 2
    refused = next(reply for reply in replies if reply.status_code == 429)
    assert refused.headers["retry-after"] == "1"
    assert "waiting" in refused.json()["error"]
    late = serve(Corners(0.6), seconds=0.2)
    assert ask(late, 0).status_code == 408
    crowded = serve(Corners(0.3), requests=1)
    with ThreadPoolExecutor(4) as pool:
        codes = [reply.status_code for reply in pool.map(lambda seed: ask(crowded, seed), range(4))]
    assert sorted(set(codes)) == [200, 429]


def raw(address: str, sent: bytes, wait: float = 5.0) -> bytes:
    """Send bytes and return the response until the connection is closed."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=wait) as connection:
        connection.sendall(sent)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def test_unfinished_and_endless_bodies_are_rejected(serve: Serve) -> None:
    address = serve(Corners(), body_seconds=0.5, body_bytes=10_000)
    head = b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    started = time.monotonic()
    announced = raw(address, head + b"Content-Length: 5368709120\r\n\r\n{")
    assert announced.startswith(b"HTTP/1.1 413")
    assert time.monotonic() - started < 0.5  # rejected without waiting for the body
    assert raw(address, head + b"Content-Length: 100\r\n\r\n{").startswith(b"HTTP/1.1 408")
    chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
    assert raw(address, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 4).startswith(b"HTTP/1.1 413")
    assert raw(address, head + b"Content-Length: -5\r\n\r\n").startswith(b"HTTP/1.1 4")
    assert httpx.get(f"{address}/health").status_code == 200


# -- the command -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(small_world: ZeroShotDataset, tmp_path: Path) -> Path:
    ESZSL().fit(small_world.train.X, small_world.train.y, small_world.classes).save(tmp_path / "model")
    return tmp_path / "model"


def test_command_serves_until_ctrl_c(folder: Path) -> None:
    command = [sys.executable, "-m", "sightunseen", "serve", str(folder), "--port", "0", "--save"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            address = line.split(" at ")[1].split()[0]
            assert address.startswith("http://127.0.0.1:")
            assert httpx.get(f"{address}/health", timeout=30).json()["backbone"] is None
            assert httpx.get(f"{address}/health", headers={"Host": "evil.example"}).status_code == 421
            attributes = httpx.get(f"{address}/classes").json()["attributes"]
            new = {"name": "okapi", "attributes": {one["name"]: one["mean"] for one in attributes}}
            assert httpx.post(f"{address}/classes", json=new).status_code == 201
        finally:
            os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "stopped\n")
    assert err == "note: the backbone of the model is unknown; the service accepts features, not photos\n"
    assert "okapi" in load_model(folder).classes_


def test_port_in_use_and_invalid_options_exit_with_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", str(folder), "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen on" in capsys.readouterr().err
    assert main(["serve", str(folder), "--port", "70000"]) == 2
    assert "--port must be" in capsys.readouterr().err
    assert main(["serve", str(folder), "--host", "256.1.1.1", "--port", "0"]) == 2
    assert main(["serve", str(folder), "--token", " "]) == 2
    assert main(["serve", str(folder / "nothing")]) == 2


def test_public_host_without_token_prints_a_note(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "run", lambda self, sockets: None)
    assert main(["serve", str(folder), "--host", "0.0.0.0", "--port", "0"]) == 0
    assert "give --token TOKEN" in capsys.readouterr().err
    assert main(["serve", str(folder), "--host", "0.0.0.0", "--port", "0", "--token", "sesame"]) == 0
    assert "--token" not in capsys.readouterr().err
