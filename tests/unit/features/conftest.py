"""Fixtures of the feature tests: a cheap backbone, photos and an empty cache."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sightunseen.features.backbones import Backbone, fingerprint_of


class MeanColour(Backbone):
    """Three features: the mean red, green and blue of a photo. Counts the photos that it has processed."""

    name = "mean colour"
    size = 3

    def __init__(self, version: str = "1") -> None:
        self.fingerprint = fingerprint_of("mean colour", version)
        self.seen = 0

    def prepare(self, image: Image.Image) -> Any:
        return np.asarray(image, dtype=np.float32).transpose(2, 0, 1)

    def __call__(self, batch: Any) -> Any:
        self.seen += len(batch)
        return np.array([photo.mean(axis=(1, 2)) for photo in batch], dtype=np.float32)


@pytest.fixture
def backbone() -> MeanColour:
    return MeanColour()


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty feature cache for each test."""
    folder = tmp_path_factory.mktemp("features-cache")
    monkeypatch.setenv("SIGHTUNSEEN_CACHE", str(folder))
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Callable[[int], list[Path]]:
    """Creates n photos; the k-th has the colour (k, 2k, 3k)."""

    def make(n: int) -> list[Path]:
        folder = tmp_path / "photos"
        folder.mkdir(exist_ok=True)
        paths = [folder / f"{k:03}.png" for k in range(n)]
        for k, path in enumerate(paths):
            Image.new("RGB", (4, 4), (k, 2 * k, 3 * k)).save(path)
        return paths

    return make
