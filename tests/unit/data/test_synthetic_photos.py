"""Synthetic photos: folders match the class table, and photos show the attributes of their class."""

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sightunseen.core.errors import SettingsError, StorageError
from sightunseen.data.painting import SHAPES, Thing, paint
from sightunseen.data.photo_lists import list_photos
from sightunseen.data.synthetic_photos import choose_things, draw_world, was_drawn_here
from sightunseen.data.table_files import load_classes


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def painted(seed: int = 0, **changed: str) -> np.ndarray:
    """Pixels (h, w, 3) of a photo, by default one large plain red circle on white."""
    plain = {"shape": "circle", "colour": "red", "pattern": "plain", "number": "one", "size": "large", "background": "white"}
    return np.asarray(paint(Thing(**{**plain, **changed}), np.random.default_rng(seed), 96)).astype(float)


def red(pixels: np.ndarray) -> int:
    return int(((pixels[..., 0] > 100) & (pixels[..., 0] > 2 * pixels[..., 1]) & (pixels[..., 0] > 2 * pixels[..., 2])).sum())


def test_photos_are_reproducible_and_depend_on_the_seed(tmp_path: Path) -> None:
    for name, seed in (("one", 5), ("same", 5), ("other", 6)):
        draw_world(tmp_path / name, n_classes=24, photos_per_class=1, size=32, seed=seed)
    one = contents(tmp_path / "one")
    assert len(one) == 24 + 2  # one photo per class, the table and the note
    assert contents(tmp_path / "same") == one
    assert contents(tmp_path / "other") != one


def test_more_photos_or_classes_do_not_change_the_first_ones(tmp_path: Path) -> None:
    draw_world(tmp_path / "few", n_classes=24, photos_per_class=1, size=32)
    draw_world(tmp_path / "more", n_classes=24, photos_per_class=2, size=32)
    assert contents(tmp_path / "few").items() <= contents(tmp_path / "more").items()
    assert choose_things(72)[:24] == choose_things(24)


def test_folders_match_the_class_table(tmp_path: Path) -> None:
    world = draw_world(tmp_path / "world", n_classes=24, photos_per_class=5, size=32)
    photos = list_photos(tmp_path / "world")
    assert photos.labels is not None
    assert photos.splits is not None
    assert Counter(photos.labels) == {thing.name: 5 for thing in (*world.seen, *world.unseen)}
    assert Counter(photos.splits) == {"train": 20 * 4, "test_seen": 20, "test_unseen": 4 * 5}
    table = load_classes(tmp_path / "world" / "classes.csv", "attributes")
    np.testing.assert_array_equal(table.vectors, world.table.vectors)
    assert table.attribute_names == world.table.attribute_names
    with open(tmp_path / "world" / "classes.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            values = {name.partition(": ")[2] for name in row if row[name] == "1"}
            words = row["description"].split()
            assert set(row["class"].split("-")) <= values
            assert all(any(word.startswith(value) for word in words) for value in values), row


@pytest.mark.parametrize("n_classes", [24, 72, 168])
@pytest.mark.parametrize("seed", [0, 1])
def test_attribute_values_are_balanced_and_unseen_combinations_are_new(n_classes: int, seed: int) -> None:
    things = choose_things(n_classes, seed)
    seen, unseen = things[: n_classes - n_classes // 6], things[n_classes - n_classes // 6 :]
    times = Counter(value for thing in seen for value in thing.attributes)
    assert len(times) == 7 + 6 + 4 + 3 + 2 + 4
    assert min(times.values()) >= 2
    assert {value for thing in unseen for value in thing.attributes} <= set(times)
    assert not {(thing.shape, thing.colour, thing.pattern) for thing in seen} & {
        (thing.shape, thing.colour, thing.pattern) for thing in unseen
    }
    assert len({thing.name for thing in things}) == n_classes


def test_default_has_72_classes_of_which_12_are_unseen(tmp_path: Path) -> None:
    world = draw_world(tmp_path / "world", photos_per_class=1, size=16)
    assert (len(world.seen), len(world.unseen)) == (60, 12)


@pytest.mark.parametrize("shape", SHAPES)
def test_photos_have_the_colour_of_their_class(shape: str) -> None:
    assert red(painted(shape=shape)) > 200
    assert red(painted(shape=shape, colour="blue")) < 20


def test_photos_have_the_size_number_and_pattern_of_their_class() -> None:
    def mean(**changed: str) -> float:
        return float(np.mean([red(painted(seed, **changed)) for seed in range(20)]))

    one = mean()
    assert 0.7 < one / (np.pi * (0.19 * 96) ** 2) < 1.1  # the area of the circle, less its outline
    assert mean(size="small") < one / 2
    assert 1.7 < mean(number="two") / one < 2.3
    assert 2.6 < mean(number="three") / one < 3.4
    for pattern in ("striped", "dotted", "checked"):
        assert mean(pattern=pattern) < 0.8 * one
    assert mean(shape="ring") < 0.8 * one  # it has a hole


def test_backgrounds_and_photos_differ() -> None:
    light = {name: painted(background=name).mean() for name in ("white", "black", "brick", "wooden")}
    assert light["black"] < light["brick"] < light["white"]
    wood = painted(background="wooden").mean(axis=(0, 1))
    assert wood[0] > wood[1] > wood[2]  # brown
    assert not np.array_equal(painted(0), painted(1))


def test_photos_have_the_requested_size(tmp_path: Path) -> None:
    draw_world(tmp_path / "world", n_classes=24, photos_per_class=1, size=40)
    with Image.open(next((tmp_path / "world" / "seen").rglob("*.jpg"))) as photo:
        assert (photo.size, photo.mode) == ((40, 40), "RGB")


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("mine")
    with pytest.raises(StorageError, match="exists"):
        draw_world(tmp_path, n_classes=24)
    assert not was_drawn_here(tmp_path)
    assert contents(tmp_path) == {"README.txt": b"mine"}


@pytest.mark.parametrize("n_classes", [23, 169])
def test_too_few_or_too_many_classes_raise(n_classes: int) -> None:
    with pytest.raises(SettingsError, match="24 to 168"):
        choose_things(n_classes)
