"""Metrics, access log, liveness and readiness."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families

from sightunseen.core.errors import SettingsError
from sightunseen.features.backbones import CallableBackbone
from sightunseen.serve.access_log import AccessLog
from sightunseen.serve.app import create_app
from sightunseen.serve.exchange import Exchange, client_of
from sightunseen.serve.limits import Limits

QUESTION = {"features": [[0.5] * 12] * 3}
Start = Callable[..., TestClient]


def corners(images: list[Any]) -> Any:
    return [np.asarray(image, dtype=np.float32)[[0, 0, -1, -1], [0, -1, 0, -1]].ravel() for image in images]


@pytest.fixture
def start(served_model: Any) -> Iterator[Start]:
    """Start an application; returns a client."""
    opened: list[TestClient] = []

    def start(**arguments: Any) -> TestClient:
        app = create_app(served_model, CallableBackbone(corners, "corners"), **arguments)
        opened.append(TestClient(app, raise_server_exceptions=False).__enter__())
        return opened[-1]

    yield start
    for one in opened:
        one.__exit__(None, None, None)


def photo() -> bytes:
    content = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(content, "png")
    return content.getvalue()


def metrics_of(client: TestClient) -> dict[Any, float]:
    """Values of all samples, by name and labels."""
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(reply.text)
    return {(one.name, *sorted(one.labels.values())): one.value for family in families for one in family.samples}


def test_metrics_count_requests_images_changes_and_refusals(start: Start) -> None:
    client = start(limits=Limits(body_bytes=10_000))
    client.post("/predict", json=QUESTION)
    client.post("/predict", files=[("photo", ("a.png", photo()))] * 2)
    client.post("/predict", json={"features": []})
    client.post("/predict", content=b" " * 20_000, headers={"Content-Type": "application/json"})
    client.post("/classes", json={"name": "new", "attributes": {"attribute 0": 1}})
    client.delete("/classes/new")
    client.get("/nothing/at/all")
    client.request("INVENTED", "/classes")
    found = metrics_of(client)
    assert found["sightunseen_requests_total", "/predict", "200", "POST"] == 2
    assert found["sightunseen_requests_total", "/predict", "422", "POST"] == 1
    assert found["sightunseen_requests_total", "/classes/{name:path}", "200", "DELETE"] == 1
    assert found["sightunseen_requests_total", "404", "GET", "none"] == 1
    assert found["sightunseen_refused_total", "size"] == 1
    assert found["sightunseen_refused_total", "content"] == 2
    assert found["sightunseen_images_total",] == 5
    assert found["sightunseen_batch_photos_sum",] == 2
    assert found["sightunseen_model_changes_total", "add class"] == 1
    assert found["sightunseen_model_changes_total", "remove class"] == 1
    assert found["sightunseen_request_seconds_count", "/predict"] == 3
    assert found["sightunseen_classes",] == 10
    assert found["sightunseen_photos_waiting",] == 0
    assert found["sightunseen_buffered_bytes",] == 0
    assert found["process_resident_memory_bytes",] > 1e6
    assert not any("INVENTED" in part or "nothing" in part for key in found for part in key)


def test_metrics_of_two_applications_are_separate_and_can_be_turned_off(start: Start) -> None:
    one, other = start(), start()
    one.post("/predict", json=QUESTION)
    assert ("sightunseen_images_total",) in metrics_of(one)
    assert metrics_of(other)["sightunseen_images_total",] == 0
    assert start(metrics=False).get("/metrics").status_code == 404


def test_access_log_has_one_line_per_request_and_nothing_private(start: Start, tmp_path: Path) -> None:
    log = AccessLog(tmp_path / "log")
    client = start(access_log=log, token="sesame")
    injected = 'a\r\n{"status": 1}\u2028\x1b[31m'
    client.post("/predict", files=[("photo", (f"secret{injected}.png", photo()))], headers={"Authorization": "Bearer hidden"})
    client.get("/classes", params={"vectors": injected})
    client.get(f"/{'x' * 100}%0d%0a%7b%7d", headers={"User-Agent": injected.encode().replace(b"\r\n", b"")})
    client.delete("/classes/private")
    log.close()
    text = (tmp_path / "log").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["method"], line["route"], line["status"], line["images"]) for line in lines] == [
        ("POST", "/predict", 200, 1),
        ("GET", "/classes", 422, 0),
        ("GET", None, 404, 0),
        ("DELETE", None, 401, 0),
    ]
    assert [line.get("refused") for line in lines] == [None, "content", "route", "token"]
    assert set(lines[0]) == {"time", "client", "method", "route", "status", "milliseconds", "bytes_in", "bytes_out", "images"}
    assert lines[0]["bytes_in"] > len(photo())
    assert lines[0]["bytes_out"] > 100
    assert text.isascii()
    for private in ("secret", "sesame", "hidden", "vectors", "xxx", "private"):
        assert private not in text


def test_access_log_follows_rotation_and_survives_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = AccessLog(tmp_path / "log")
    log(Exchange("127.0.0.1"))
    (tmp_path / "log").rename(tmp_path / "log.1")
    log(Exchange("127.0.0.1"))
    log.close()
    assert [len((tmp_path / name).read_text().splitlines()) for name in ("log", "log.1")] == [1, 1]
    if Path("/dev/full").exists():
        full = AccessLog(Path("/dev/full"))
        for _ in range(3):
            full(Exchange("127.0.0.1"))
        assert full.lost == 3
        with suppress(OSError):
            full.close()
        assert capsys.readouterr().err.count("warning: the access log cannot be written") == 1
    AccessLog()(Exchange("127.0.0.1", status=200))
    assert json.loads(capsys.readouterr().err)["status"] == 200
    with pytest.raises(SettingsError, match="cannot write the access log"):
        AccessLog(tmp_path / "no folder" / "log").create()


def test_address_of_a_client() -> None:
    assert client_of(("::ffff:10.0.0.1", 1)) == "10.0.0.1"
    assert client_of(("2001:db8:1:2:3:4:5:6", 1)) == client_of(("2001:db8:1:2::9", 1)) == "2001:db8:1:2::/64"
    assert client_of(None) == client_of(("a" * 1000, 0)) == "unknown"


def test_readiness(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    client = start()
    assert client.get("/health/live").json() == client.get("/health/ready").json() == {"status": "ok"}
    client.app.state.admission.stopping = True  # type: ignore[attr-defined]
    reply = client.get("/health/ready")
    assert (reply.status_code, reply.headers["connection"]) == (503, "close")
    assert client.get("/health/live").status_code == 200
    assert caplog.text == ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_dead_backbone_thread_is_not_ready(served_model: Any) -> None:
    class Lethal:
        """Backbone that ends its thread."""

        size, name = 12, "lethal"

        def prepare(self, image: Any) -> Any:
            return image

        def __call__(self, images: list[Any]) -> Any:
            raise SystemExit

    with TestClient(create_app(served_model, Lethal(), limits=Limits(seconds=0.5)), raise_server_exceptions=False) as client:  # type: ignore[arg-type]
        assert client.get("/health/ready").status_code == 200
        assert client.post("/predict", files={"photo": photo()}).status_code == 408
        assert client.post("/predict", files={"photo": photo()}).status_code == 503
        assert "died" in client.get("/health/ready").json()["error"]
        assert client.get("/health/ready").status_code == 503


def test_internal_error_is_logged_and_counted(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    client = start()
    client.app.state.admission.complete = None  # type: ignore[attr-defined]
    with caplog.at_level(logging.ERROR):
        reply = client.get("/health")
    assert reply.status_code == 500
    assert "Traceback" in caplog.text
    assert "NoneType" not in reply.text
