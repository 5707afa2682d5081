"""A real Chromium, where there is one."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

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
