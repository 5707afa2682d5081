"""Galleries: images predicted as each class, marked correct or wrong, and confident mistakes, as photos or by name."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from sightunseen.analysis.answers import Answers
from sightunseen.report.figures import as_csv
from sightunseen.report.gallery import best_images_gallery, mistakes_gallery
from sightunseen.report.page import Gallery, Note
from sightunseen.report.thumbnails import Photos

NAMES = {"001.Tern": "Tern", "002.Jay": "Jay", "003.Owl": "Owl"}
TERN, JAY = "Tern · 2 images, 1 correct", "Jay · 1 image, 1 correct"
# Photo 0 and 1 are predicted as Tern, photo 2 as Jay, and none as Owl.
ANSWERS = Answers(
    np.array(["001.Tern", "002.Jay", "003.Owl"]),
    np.array([[1.25, 0.0, 0.0], [2.5, 0.0, 0.0], [0.0, 3.0, 0.0]], dtype=np.float32),
    np.array([f"/data/photo {row}.jpg" for row in range(3)]),
    np.array(["002.Jay", "001.Tern", "002.Jay"]),
)


def percent(row: int) -> str:
    return f"{100 * ANSWERS.confidence[row]:.0f}%"


def test_wrong_images_are_marked_with_their_true_class() -> None:
    gallery = best_images_gallery(ANSWERS, NAMES)
    assert list(gallery.groups) == [TERN, JAY]
    shown = [(photo.mark, photo.caption, photo.name) for photo in gallery.groups[TERN]]
    assert shown == [("correct", percent(1), "photo 1.jpg"), ("wrong", "is Jay", "photo 0.jpg")]
    assert [photo.mark for photo in gallery.groups[JAY]] == ["correct"]
    assert "red frame" in gallery.caption
    assert "Not predicted for any image: Owl." in gallery.caption


def test_unlabelled_images_are_not_marked() -> None:
    gallery = best_images_gallery(replace(ANSWERS, truth=None), NAMES)
    assert list(gallery.groups) == ["Tern · 2 images", "Jay · 1 image"]
    assert [(photo.mark, photo.caption) for photo in gallery.groups["Tern · 2 images"]] == [("", percent(1)), ("", percent(0))]
    assert "red frame" not in gallery.caption
    assert [row["true class"] for row in csv.DictReader(io.StringIO(as_csv(gallery.columns)))] == ["", "", ""]


def test_the_heading_tells_how_many_images_are_shown() -> None:
    many = Answers(
        np.array(["001.Tern", "002.Jay"]),
        np.tile(np.array([[1.0, 0.0]], dtype=np.float32), (20, 1)),
        np.arange(20).astype(str),
        np.array(["001.Tern"] * 3 + ["002.Jay"] * 17),
    )
    assert list(best_images_gallery(many, NAMES).groups) == ["Tern · 20 images, 3 of the 7 shown correct"]
    assert list(best_images_gallery(replace(many, truth=None), NAMES).groups) == ["Tern · 20 images, 7 shown"]


def test_the_csv_has_all_images() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(best_images_gallery(ANSWERS, NAMES).columns))))
    assert [(row["class"], row["rank"], row["image"], float(row["score"]), row["true class"]) for row in rows] == [
        ("Tern", "1", "/data/photo 1.jpg", 2.5, "Tern"),
        ("Tern", "2", "/data/photo 0.jpg", 1.25, "Jay"),
        ("Jay", "1", "/data/photo 2.jpg", 3.0, "Jay"),
    ]


def test_photos_are_shown_and_missing_ones_counted(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "photo 1.jpg")
    gallery = best_images_gallery(ANSWERS, NAMES, Photos(tmp_path))
    pictures = [bool(photo.picture) for group in gallery.groups.values() for photo in group]
    assert pictures == [True, False, False]
    assert "2 of 3 have no photo" in gallery.caption
    assert "no photo" not in best_images_gallery(ANSWERS, NAMES).caption


def test_mistakes_have_their_true_and_predicted_class() -> None:
    gallery = mistakes_gallery(ANSWERS, NAMES)
    assert isinstance(gallery, Gallery)
    ((photo,),) = gallery.groups.values()
    assert (photo.name, photo.mark) == ("photo 0.jpg", "wrong")
    assert photo.caption == f"predicted: Tern ({percent(0)})\ntrue: Jay"
    assert {name: list(values) for name, values in gallery.columns.items()} == {
        "image": ["/data/photo 0.jpg"],
        "true class": ["Jay"],
        "predicted class": ["Tern"],
        "confidence": [float(ANSWERS.confidence[0])],
    }


def test_no_mistake_is_a_note() -> None:
    block = mistakes_gallery(replace(ANSWERS, truth=ANSWERS.predicted), NAMES)
    assert isinstance(block, Note)
    assert block.text == "Most confident mistakes: none."
