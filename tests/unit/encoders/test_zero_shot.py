"""Photos, a dual encoder and zero-shot CLIP beside a trained model, through the command line."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sightunseen.cli import main
from sightunseen.features.backbones import open_backbone
from sightunseen.features.photo_datasets import load_photos
from sightunseen.methods import CLIP, Foresight, load_model
from sightunseen.selection.evaluation import evaluate

Make = Callable[[str], Path]
COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200), "cyan": (20, 200, 200), "dark": (20, 20, 20)}


@pytest.fixture
def folder(tmp_path: Path, photo: Callable[[int], Image.Image]) -> Path:
    """Noisy photos of five colours, of which the last two are unseen; every class has attributes and a description."""
    for number, (name, colour) in enumerate(COLOURS.items()):
        place = tmp_path / "photos" / ("unseen" if number > 2 else "seen") / name
        place.mkdir(parents=True)
        for k in range(6):
            pixels = np.asarray(photo(10 * number + k)) // 5 + np.array(colour) * 4 // 5
            Image.fromarray(pixels.astype(np.uint8)).save(place / f"{k}.png")
    rows = [f"{name},{red},{green},{blue},a {name} ball" for name, (red, green, blue) in COLOURS.items()]
    (tmp_path / "photos" / "classes.csv").write_text("class,r,g,b,description\n" + "\n".join(rows) + "\n")
    return tmp_path


def test_classes_of_a_dual_encoder_are_encoded_by_its_text_side(checkpoint: Make, folder: Path) -> None:
    backbone = open_backbone(f"hf:{checkpoint('clip')}", "cpu")
    data = load_photos(folder / "photos", backbone)
    assert set(data.classes.semantics) == {"attributes", *(f"{kind}:{backbone.name}" for kind in ("text", "both", "names"))}
    other = load_photos(folder / "photos", backbone, semantics=f"text:st:{checkpoint('sentences')}")
    assert f"names:{backbone.name}" not in other.classes.semantics


def test_zero_shot_clip_is_recorded_beside_the_model(
    checkpoint: Make, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"hf:{checkpoint('clip')}"
    arguments = ["train", str(folder / "photos"), "--backbone", name, "--select", "none"]
    assert main([*arguments, "--out", str(folder / "model")]) == 0
    printed = capsys.readouterr().out
    model = load_model(folder / "model")
    assert isinstance(model, Foresight)
    assert model.record_ is not None
    data = load_photos(folder / "photos", open_backbone(name, "cpu"))
    clip = CLIP().fit(data.train.X, data.train.y, data.classes.using(f"names:{name}"))
    expected = evaluate(clip, data).results()
    assert model.record_.compared["zero_shot"] == expected
    assert f"zero-shot CLIP on the same features, without training: T1 {expected['T1']:.1f}, H {expected['H']:.1f}" in printed
    assert main([*arguments, "--method", "CLIP", "--out", str(folder / "clip")]) == 0
    itself = load_model(folder / "clip")
    assert itself.record_ is not None
    assert itself.table_.use == f"names:{name}"
    assert itself.record_.results["T1"] == expected["T1"]
    assert "zero_shot" not in itself.record_.compared


def test_a_model_of_a_local_folder_predicts_without_consent(checkpoint: Make, folder: Path) -> None:
    arguments = ["--backbone", f"hf:{checkpoint('clip')}", "--method", "CLIP", "--select", "none"]
    assert main(["train", str(folder / "photos"), *arguments, "--out", str(folder / "clip")]) == 0
    out = folder / "answers.csv"
    assert main(["predict", str(folder / "clip"), str(folder / "photos" / "unseen"), "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) > 12
    assert main(["classes", "add", str(folder / "clip"), "--name", "red square"]) == 0
    assert "red square" in load_model(folder / "clip").classes_.tolist()


def test_feature_files_name_the_text_side(checkpoint: Make, folder: Path) -> None:
    name = f"hf:{checkpoint('siglip')}"
    features, classes = str(folder / "features.parquet"), str(folder / "photos" / "classes.csv")
    assert main(["embed", str(folder / "photos"), "--backbone", name, "--out", features]) == 0
    arguments = ["train", features, "--classes", classes, "--select", "none"]
    assert main([*arguments, "--method", "CLIP", "--out", str(folder / "clip")]) == 0
    assert load_model(folder / "clip").table_.use == f"names:{name}"
    assert main([*arguments, "--out", str(folder / "model")]) == 0
    record = load_model(folder / "model").record_
    assert record is not None
    assert "T1" in record.compared["zero_shot"]


def test_clip_is_refused_for_other_features(checkpoint: Make, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--backbone", f"hf:{checkpoint('vit')}", "--semantics", "attributes", "--method", "CLIP"]
    assert main(["train", str(folder / "photos"), *arguments, "--out", str(folder / "clip")]) == 2
    assert "CLIP needs features and class vectors of one dual encoder" in capsys.readouterr().err
    assert not (folder / "clip").exists()
