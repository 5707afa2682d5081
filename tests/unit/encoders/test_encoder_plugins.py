"""Backbones and text encoders of other packages, by import path and by entry point."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sightunseen.core import plugins
from sightunseen.core.errors import SettingsError
from sightunseen.features.backbones import open_backbone
from sightunseen.semantics.describe import ClassDescriptions, describe_classes
from sightunseen.semantics.text import open_encoder, open_recorded_encoder

MODULE = """
import numpy as np
from sightunseen.features.backbones import CallableBackbone

def mean_colour():
    return CallableBackbone(lambda images: [np.asarray(image).mean(axis=(0, 1)) for image in images], "mean colour")

class Lengths:
    name, fingerprint, size = "lengths", "1", 2
    def __call__(self, texts):
        vectors = np.array([[len(text), 1.0] for text in texts], dtype=np.float32).reshape(-1, 2)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

def nothing():
    return None

def broken():
    raise RuntimeError("no weights")
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that is not part of the package."""
    (tmp_path / "own_encoders.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_encoders", raising=False)
    return "own_encoders"


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    points = {
        plugins.BACKBONES: {"mean-colour": EntryPoint("mean-colour", f"{module}:mean_colour", plugins.BACKBONES)},
        plugins.TEXT_ENCODERS: {"lengths": EntryPoint("lengths", f"{module}:Lengths", plugins.TEXT_ENCODERS)},
    }
    for where in (
        "sightunseen.core.plugins",
        "sightunseen.features.backbones",
        "sightunseen.semantics.text",
        "sightunseen.core.trust",
    ):
        monkeypatch.setattr(f"{where}.plugins", lambda group: points.get(group, {}))


def check_backbone(name: str) -> None:
    backbone = open_backbone(name)
    assert (backbone.name, backbone.size) == (name, 3)  # the name opens it again
    np.testing.assert_array_equal(backbone([backbone.prepare(Image.new("RGB", (2, 2), "red"))]), [[255, 0, 0]])


def check_encoder(name: str) -> None:
    encoder = open_encoder(name)
    assert (encoder.name, encoder.size) == (name, 2)
    table = describe_classes(ClassDescriptions(("owl", "horse")), f"names:{name}")
    assert table.use == f"names:{name}"
    np.testing.assert_allclose(table.vectors_of(["owl"]), [np.array([3, 1]) / np.sqrt(10)], rtol=1e-6)


def test_import_paths_open_backbones_and_encoders(module: str) -> None:
    check_backbone(f"{module}:mean_colour")
    check_encoder(f"{module}:Lengths")


@pytest.mark.usefixtures("_installed")
def test_entry_points_open_backbones_and_encoders() -> None:
    check_backbone("mean-colour")
    check_encoder("lengths")
    assert open_recorded_encoder("lengths").size == 2


def test_a_recorded_import_path_is_not_imported_without_consent(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=f"--allow-plugin {module}:Lengths"):
        open_recorded_encoder(f"{module}:Lengths")
    assert module not in sys.modules
    monkeypatch.setenv(plugins.CONSENT, f"{module}:Lengths")
    assert open_recorded_encoder(f"{module}:Lengths").size == 2


def test_factories_that_make_something_else_are_named(module: str) -> None:
    with pytest.raises(SettingsError, match=f"'{module}:nothing' made None; a factory of backbones returns"):
        open_backbone(f"{module}:nothing")
    with pytest.raises(SettingsError, match=f"'{module}:nothing' made None; a factory of text encoders returns"):
        open_encoder(f"{module}:nothing")


def test_an_error_of_a_factory_is_attributed_to_the_plug_in(module: str) -> None:
    with pytest.raises(RuntimeError, match="no weights") as caught:
        open_backbone(f"{module}:broken")
    assert f"{module}:broken" in (plugins.plugin_of(caught.value) or ())


@pytest.mark.parametrize("name", ["no_such_module:factory", "own_encoders:no_such_factory"])
def test_a_plug_in_that_cannot_be_imported_is_named(name: str) -> None:
    for open_one in (open_backbone, open_encoder):
        with pytest.raises(SettingsError, match=f"'{name}' cannot be imported"):
            open_one(name)
