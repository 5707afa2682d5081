"""Backbones and text encoders that a model names: without consent, nothing that could be downloaded is opened."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, ModelError, SettingsError
from sightunseen.core.records import RunRecord
from sightunseen.core.trust import CONSENT
from sightunseen.data.source import DataSource
from sightunseen.methods import ESZSL, ZeroShotClassifier
from sightunseen.pipeline.data import known_backbone, open_for_model, open_for_photos


@pytest.fixture(autouse=True)
def _no_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONSENT, raising=False)


@pytest.fixture(scope="module")
def model(small_world: ZeroShotDataset) -> ZeroShotClassifier:
    return ESZSL().fit(small_world.train.X, small_world.train.y, small_world.classes)


def naming(model: ZeroShotClassifier, backbone: Any) -> ZeroShotClassifier:
    """Give the model a record with this description of a backbone."""
    model.record_ = RunRecord("train", "ESZSL", {}, 0, "honest", {"backbone": backbone, "fingerprints": {}})
    return model


@pytest.mark.parametrize("name", ["timm:attacker/model", "torchvision:resnet50", "open_clip:ViT-B-32/x", "onnx://server/x"])
def test_recorded_backbones_of_others_need_consent(model: ZeroShotClassifier, name: str) -> None:
    with pytest.raises(SettingsError, match=f"the model asks for the backbone '{name}'.*{CONSENT}=1"):
        open_for_photos(None, naming(model, {"name": name, "fingerprint": "0", "size": 24}))


def test_with_consent_a_recorded_backbone_is_opened(model: ZeroShotClassifier, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONSENT, "1")
    with pytest.raises(SettingsError, match="there is no backbone 'none'"):
        open_for_photos(None, naming(model, {"name": "none", "fingerprint": "0", "size": 24}))


def test_a_typed_backbone_needs_no_consent(model: ZeroShotClassifier) -> None:
    with pytest.raises(SettingsError, match=r"there is no file no\.onnx"):
        open_for_photos("onnx:no.onnx", naming(model, {"name": "timm:attacker/model", "fingerprint": "0", "size": 24}))


def test_other_weights_than_the_recorded_ones_are_refused(model: ZeroShotClassifier) -> None:
    with pytest.raises(DataError, match="other weights or preprocessing"):
        open_for_photos(None, naming(model, {"name": "efficientnet_lite0", "fingerprint": "0", "size": 1280}))


@pytest.mark.parametrize("odd", ["efficientnet_lite0", [], {}, {"name": "x"}, {"name": 1, "fingerprint": "0"}, 3])
def test_odd_descriptions_of_a_backbone_are_refused(model: ZeroShotClassifier, odd: Any) -> None:
    with pytest.raises(ModelError, match=r"describes its backbone by .* expected name and fingerprint"):
        known_backbone(naming(model, odd))


def test_recorded_text_encoders_of_others_need_consent(small_world: ZeroShotDataset, tmp_path: Path) -> None:
    """The classes of the data are described by texts, which would be encoded as the model names it."""
    data, use = small_world, "text:sentence-transformers:attacker/model"
    table = ClassTable(data.classes.labels, {use: data.classes.vectors})
    model = ESZSL().fit(data.train.X, data.train.y, table)
    test = data.test_unseen
    np.savez(tmp_path / "features.npz", X=test.X, y=test.y, split=["test_unseen"] * len(test.y))
    lines = [f"{label},a text" for label in data.classes.labels]
    (tmp_path / "classes.csv").write_text("\n".join(["label,description", *lines]), "utf-8")
    source = DataSource(str(tmp_path))
    with pytest.raises(SettingsError, match="the model asks for the text encoder 'sentence-transformers:attacker/model'"):
        open_for_model(source, model)
    with pytest.raises(SettingsError, match="the model asks for the text encoder"):
        open_for_model(replace(source, path=str(tmp_path / "features.npz"), classes=str(tmp_path / "classes.csv")), model)
