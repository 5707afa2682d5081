"""Gallery of the highest-scoring images: marked correct or wrong if labels are known, as photos or by name."""

import csv
import io
from pathlib import Path

from PIL import Image

from sightunseen.analysis.best_images import BestImage
from sightunseen.report.figures import as_csv
from sightunseen.report.gallery import best_images_gallery
from sightunseen.report.thumbnails import Photos

NAMES = {"001.Tern": "Tern", "002.Jay": "Jay"}


def image(row: int, score: float, truth: str | None, label: str) -> BestImage:
    return BestImage(row, f"/data/{label}/photo {row}.jpg", score, truth, None if truth is None else truth == label)


FOUND = {
    "001.Tern": (image(4, 2.5, "001.Tern", "001.Tern"), image(2, 1.25, "002.Jay", "001.Tern")),
    "002.Jay": (image(2, 3.0, "002.Jay", "002.Jay"), image(9, 2.0, "002.Jay", "002.Jay")),
}


def test_wrong_images_are_marked_with_their_true_class() -> None:
    gallery = best_images_gallery(FOUND, NAMES)
    assert list(gallery.groups) == ["Tern · 1 of 2 correct", "Jay · 2 of 2 correct"]
    shown = [(photo.mark, photo.caption, photo.name) for photo in gallery.groups["Tern · 1 of 2 correct"]]
    assert shown == [("correct", "score 2.50", "photo 4.jpg"), ("wrong", "Jay", "photo 2.jpg")]
    assert {photo.mark for photo in gallery.groups["Jay · 2 of 2 correct"]} == {"correct"}
    assert "red frame" in gallery.caption


def test_unlabelled_images_are_not_marked() -> None:
    found = {"001.Tern": (image(4, 2.5, None, "001.Tern"), image(2, 1.25, None, "001.Tern"))}
    gallery = best_images_gallery(found, NAMES)
    assert list(gallery.groups) == ["Tern"]
    assert [photo.mark for photo in gallery.groups["Tern"]] == ["", ""]
    assert [photo.caption for photo in gallery.groups["Tern"]] == ["score 2.50", "score 1.25"]
    assert "red" not in gallery.caption
    assert [row["true class"] for row in csv.DictReader(io.StringIO(as_csv(gallery.columns)))] == ["", ""]


def test_the_csv_has_all_images() -> None:
    rows = list(csv.DictReader(io.StringIO(as_csv(best_images_gallery(FOUND, NAMES).columns))))
    assert [(row["class"], row["rank"], row["image"], float(row["score"]), row["true class"]) for row in rows] == [
        ("Tern", "1", "/data/001.Tern/photo 4.jpg", 2.5, "Tern"),
        ("Tern", "2", "/data/001.Tern/photo 2.jpg", 1.25, "Jay"),
        ("Jay", "1", "/data/002.Jay/photo 2.jpg", 3.0, "Jay"),
        ("Jay", "2", "/data/002.Jay/photo 9.jpg", 2.0, "Jay"),
    ]


def test_photos_are_shown_and_missing_ones_counted(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "photo 2.jpg")
    gallery = best_images_gallery(FOUND, NAMES, Photos(tmp_path))
    pictures = [bool(photo.picture) for group in gallery.groups.values() for photo in group]
    assert pictures == [False, True, True, False]
    assert "2 of 4 have no photo" in gallery.caption
    assert "no photo" not in best_images_gallery(FOUND, NAMES).caption
