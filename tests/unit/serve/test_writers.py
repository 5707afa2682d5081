"""Several processes change one model folder: nothing that was acknowledged is lost."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sightunseen.core.locks import locked
from sightunseen.methods import load_model
from sightunseen.serve import service
from sightunseen.serve.app import create_app

ATTRIBUTES = {f"attribute {k}": float(k) for k in range(5)}


def named(name: str) -> dict[str, Any]:
    return {"name": name, "attributes": ATTRIBUTES}


@pytest.fixture
def folder(served_model: Any, tmp_path: Path) -> Path:
    served_model.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
def test_sixteen_writers_lose_nothing(folder: Path) -> None:
    values = [part for name, value in ATTRIBUTES.items() for part in ("--attribute", f"{name}={value}")]

    def by_command(k: int) -> str:
        command = [sys.executable, "-m", "sightunseen", "classes", "add", str(folder), "--name", f"command {k}", *values]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        return f"command {k}" if done.returncode == 0 else done.stderr

    with (
        TestClient(create_app(load_model(folder), folder=folder)) as one,
        TestClient(create_app(load_model(folder), folder=folder)) as other,
        ThreadPoolExecutor(16) as pool,
    ):

        def by_server(k: int) -> str:
            reply = (one if k % 2 else other).post("/classes", json=named(f"server {k}"))
            return f"server {k}" if reply.status_code == 201 else reply.text

        commands = [pool.submit(by_command, k) for k in range(8)]
        servers = [pool.submit(by_server, k) for k in range(24)]
        acknowledged = {one.result() for one in [*commands, *servers]}
    assert acknowledged == {*(f"command {k}" for k in range(8)), *(f"server {k}" for k in range(24))}
    assert {label for label in load_model(folder).classes_ if not label.startswith("class ")} == acknowledged


def test_change_is_applied_to_the_model_of_another_writer(folder: Path) -> None:
    with (
        TestClient(create_app(load_model(folder), folder=folder)) as one,
        TestClient(create_app(load_model(folder), folder=folder)) as other,
    ):
        assert one.post("/classes", json=named("a")).status_code == 201
        assert other.post("/classes", json=named("a")).status_code == 409
        assert other.post("/classes", json=named("b")).status_code == 201
        assert other.delete("/classes/a").status_code == 200
        assert one.post("/classes", json=named("c")).status_code == 201
        listed = {each["name"]: each["added"] for each in one.get("/classes").json()["classes"] if len(each["name"]) == 1}
    assert listed == {"b": False, "c": True}


def test_locked_or_missing_folder_is_an_error_and_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LOCK_SECONDS", 0.1)
    with TestClient(create_app(load_model(folder), folder=folder), raise_server_exceptions=False) as client:
        with locked(folder):
            reply = client.post("/classes", json=named("a"))
            assert client.post("/predict", json={"features": [[0.0] * 12]}).status_code == 200
        assert (reply.status_code, reply.headers["retry-after"]) == (409, "1")
        folder.rename(folder.with_name("elsewhere"))
        reply = client.post("/classes", json=named("a"))
        assert reply.status_code == 503
        assert str(folder) not in reply.text
        assert len(client.get("/classes").json()["classes"]) == 10
