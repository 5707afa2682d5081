"""``classes add`` with examples of a class: photos or features."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sightunseen.analysis.reruns import rerun
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.features.backbones import open_backbone
from sightunseen.features.extract import extract
from sightunseen.methods import Foresight, load_model

Run = Callable[[str], tuple[int, str, str]]

COLOURS = {
    "red": (220, 30, 30),
    "green": (30, 180, 40),
    "blue": (40, 60, 220),
    "white": (240, 240, 240),
    "cyan": (30, 210, 210),
}
UNSEEN = "cyan"


def succeed(run: Run, line: str) -> str:
    code, out, err = run(line)
    assert code == 0, err
    return out


def error_of(run: Run, line: str) -> str:
    """Error message of a command; the model must be unchanged."""
    before = {path: path.read_bytes() for path in Path().rglob("*/weights.safetensors")}
    code, out, err = run(line)
    assert (code, out) == (2, ""), out
    assert {path: path.read_bytes() for path in Path().rglob("*/weights.safetensors")} == before
    return err.splitlines()[-1]


# -- photos ------------------------------------------------------------------------------------------------------------


def draw(folder: Path, colour: tuple[int, int, int], count: int) -> None:
    rng = np.random.default_rng(sum(colour))
    folder.mkdir(parents=True)
    for number in range(count):
        pixels = np.clip(np.array(colour) + rng.normal(0, 12, (48, 48, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """Read-only folder with photos of plain colours and a model of them; ``purple`` is not a class of the model."""
    folder = tmp_path_factory.mktemp("colours")
    for name, colour in COLOURS.items():
        draw(folder / "photos" / ("unseen" if name == UNSEEN else "seen") / name, colour, 5)
    draw(folder / "purple", (150, 40, 170), 3)
    rows = [[name, *(str(part / 255) for part in colour)] for name, colour in COLOURS.items()]
    (folder / "photos" / "classes.csv").write_text("\n".join(map(",".join, [["class", "red", "green", "blue"], *rows])))
    succeed(run, f"train {folder / 'photos'} --backbone efficientnet_lite0 --select none --out {folder / 'model'}")
    return folder


@pytest.fixture
def here(colours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(colours, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def features_of(folder: str) -> np.ndarray:
    paths = sorted(Path(folder).glob("*.png"))
    return np.concatenate([batch.features for batch in extract(paths, open_backbone("efficientnet_lite0"))])


def test_class_is_added_with_its_photos(run: Run, here: Path) -> None:
    line = "classes add model --name purple --attribute red=0.6 --attribute green=0.2 --attribute blue=0.7 --photos purple"
    out = succeed(run, line)
    assert "added 3 examples of purple; model has 6 classes, 2 of them unseen\nexamples per class: purple 3\n" in out
    model = load_model("model")
    assert (model.predict(features_of("purple"), "unseen") == "purple").all()
    listed = [line.split() for line in succeed(run, "classes list model").splitlines()]
    assert ["class", "seen", "examples"] in listed
    assert ["purple", "no", "3"] in listed
    assert ["cyan", "no", "0"] in listed


def test_photos_of_a_known_class_accumulate(run: Run, here: Path) -> None:
    expected = load_model("model")
    one, two, *others = sorted(Path("photos/unseen/cyan").glob("*.png"))
    succeed(run, f"classes add model --name cyan --photos {one} {two}")
    for path in others:
        path.rename(here / path.name)
    Path("3.png").unlink()
    (here / "more").mkdir()
    (here / "2.png").rename("more/2.png")
    Path("more/broken.jpg").write_bytes(b"no photo")
    code, out, err = run("classes add model --name cyan --photos more 4.png --out model2")
    assert code == 0
    assert "more/broken.jpg" in err
    assert "added 2 examples of cyan; model2 has 5 classes, 1 of them unseen\nexamples per class: cyan 4\n" in out
    rows = np.concatenate([features_of("photos/unseen/cyan"), features_of("more"), features_of(".")])
    scores = expected.add_examples(rows, ["cyan"] * 4).decision_function(rows)
    np.testing.assert_allclose(load_model("model2").decision_function(rows), scores, atol=1e-3 * np.ptp(scores))
    assert load_model("model").example_counts == {"cyan": 2}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--name cyan --photos nowhere", "there is no file or folder nowhere"),
        ("--name cyan --photos empty", "empty holds no photos"),
        ("--name cyan --photos broken", "none of the 1 photos could be read"),
        ("--name cyan --photos photos/seen", "photos/seen has photos of 4 classes ('blue', 'green')"),
        ("--name purple --photos purple", "'purple' is not a class of model. To add it, describe it by --description or"),
        ("--photos purple", "Give its name as --name CLASS"),
        ("--name cyan --attribute red=1 --attribute green=1 --attribute blue=1 --photos purple", "cyan"),
        ("--name cyan --photos purple --features x.npz", "not allowed with argument"),
    ],
)
def test_invalid_photos_are_an_error_and_change_nothing(run: Run, here: Path, line: str, message: str) -> None:
    Path("empty").mkdir()
    Path("broken").mkdir()
    Path("broken/1.jpg").write_bytes(b"no photo")
    assert message in error_of(run, f"classes add model {line}")


# -- features ----------------------------------------------------------------------------------------------------------


def test_features_are_examples(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    label = str(small_world.unseen[0])
    X = small_world.test_unseen.X[small_world.test_unseen.y == label][:4]
    np.save("shots.npy", X)
    expected = load_model("model").add_examples(X, [label] * 4)
    out = succeed(run, f"classes add model --name '{label}' --features shots.npy")
    assert f"added 4 examples of {label}; model has 16 classes, 4 of them unseen\nexamples per class: {label} 4\n" in out
    found = load_model("model")
    np.testing.assert_array_equal(
        found.decision_function(small_world.test_seen.X), expected.decision_function(small_world.test_seen.X)
    )
    assert found.record_ == expected.record_


def test_examples_of_test_classes_are_a_warning(run: Run, desk: Path, small_world: ZeroShotDataset) -> None:
    label = str(np.sort(small_world.unseen)[0])
    np.save("shots.npy", small_world.test_unseen.X[small_world.test_unseen.y == label][:4])
    code, _, err = run("evaluate model data")
    assert (code, "examples-of-test-classes" in err) == (0, False)
    succeed(run, f"classes add model --name '{label}' --features shots.npy")
    code, _, err = run("evaluate model data")
    assert code == 0
    assert f"WARN examples-of-test-classes: the model has labelled examples of unseen test classes: {label} 4." in err
    model = load_model("model")
    assert rerun(model, small_world).agreement is None


def test_list_has_no_column_without_examples(run: Run, desk: Path) -> None:
    assert "examples" not in succeed(run, "classes list model")


def test_classes_that_are_numbers(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).random((6, 4)).astype(np.float32)
    Foresight().fit(X, [1, 1, 2, 2, 3, 3], {k: [k, k * k, 1.0] for k in range(1, 5)}).save("model")
    np.save("shots.npy", X[:2])
    succeed(run, "classes add model --name 4 --features shots.npy")
    assert load_model("model").example_counts == {4: 2}


@pytest.mark.parametrize(
    ("model", "line", "message"),
    [
        ("model", "--photos data", "trained on features of an unknown backbone. Give --features FILE"),
        ("model", "--features narrow.npy", "narrow.npy has 3 features per image; the model expects 24"),
        ("model", "--features nan.npy", "NaN"),
        ("model", "--features nowhere.npy", "nowhere.npy"),
        ("cvc", "--features shots.npy", "CVC cannot use examples of a class without retraining; Foresight can"),
    ],
)
def test_invalid_features_are_an_error_and_change_nothing(
    run: Run, desk: Path, small_world: ZeroShotDataset, model: str, line: str, message: str
) -> None:
    X = small_world.test_unseen.X[:2]
    np.save("shots.npy", X)
    np.save("narrow.npy", X[:, :3])
    np.save("nan.npy", np.full_like(X, np.nan))
    assert message in error_of(run, f"classes add {model} --name '{small_world.unseen[0]}' {line}")
