"""A running server on a free port."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from sightunseen.core.class_table import ClassTable
from sightunseen.features.backbones import CallableBackbone
from sightunseen.methods import ESZSL
from sightunseen.serve.app import create_app
from sightunseen.serve.limits import Limits
from sightunseen.serve.server import Server


@pytest.fixture(scope="session")
def served_model() -> ESZSL:
    """Ten classes with 5 attributes and 12 features; two of them are unseen."""
    rng = np.random.default_rng(1)
    labels = [f"class {k}" for k in range(10)]
    table = ClassTable(labels, rng.normal(size=(10, 5)), [f"attribute {k}" for k in range(5)])
    return ESZSL().fit(rng.normal(size=(80, 12)).astype(np.float32), np.repeat(labels[:8], 10), table)


@pytest.fixture
def serve(served_model: ESZSL) -> Iterator[Callable[..., str]]:
    """Start a server; returns its address. Keyword arguments are limits, or arguments of ``create_app`` and ``Server``."""
    started: list[tuple[Server, threading.Thread]] = []

    def serve(
        function: Any = None, app: dict[str, Any] | None = None, server: dict[str, Any] | None = None, **limits: Any
    ) -> str:
        backbone = None if function is None else CallableBackbone(function, "function")
        made = create_app(served_model, backbone, limits=Limits(**limits), **(app or {}))
        running = Server(made, **(server or {}))
        listening = socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        started.append((running, thread))
        while not running.started:
            time.sleep(0.01)
        return f"{'https' if server and server.get('tls') else 'http'}://127.0.0.1:{listening.getsockname()[1]}"

    yield serve
    for running, thread in started:
        running.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
