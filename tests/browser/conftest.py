"""A real Chromium, where there is one, and the page of a service in it."""

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sightunseen.serve.app import create_app
from sightunseen.serve.server import Server

from .served import Open, Opened

OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Started for each file: what playwright leaves running ends with it."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'sightunseen[dev]'")
    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    path = next((one for one in found if one), None)
    if path is None:
        pytest.skip("there is no Chromium: install chromium or google-chrome")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*OPTIONS, "--no-first-run"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Serve a model on a free port and open its page."""
    ends: list[Callable[[], Any]] = []

    def open_page(made: Callable[[], tuple[Any, Any]], width: int = 1280, theme: str = "light", **arguments: Any) -> Opened:
        listening = socket.create_server(("127.0.0.1", 0))
        server = Server(create_app(*made(), **arguments))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
        ends.extend([context.close, lambda: setattr(server, "should_exit", True), thread.join])
        context.set_default_timeout(5000)
        opened = Opened(context.new_page())
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        known = (address, "data:", "blob:")
        opened.page.on("console", lambda message: opened.messages.append(message.text))
        opened.page.on("pageerror", lambda error: opened.messages.append(str(error)))
        opened.page.on("dialog", lambda dialog: (opened.messages.append(dialog.message), dialog.dismiss()))
        opened.page.on("request", lambda sent: None if sent.url.startswith(known) else opened.strangers.append(sent.url))
        opened.page.goto(address)
        opened.page.wait_for_selector("body[data-ready=yes]", state="attached")
        return opened

    yield open_page
    for end in ends:
        end()
