"""The page on unlabelled images: predictions, and no accuracy."""

from typing import Any

import numpy as np
import pytest

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods import ESZSL
from sightunseen.report.page import DataTable, Gallery, Note
from sightunseen.report.unlabelled_page import unlabelled_page


def blocks(page: Any, kind: type) -> list[Any]:
    return [block for section in page.sections for block in section.blocks if isinstance(block, kind)]


def test_predictions_are_counted_per_class(eszsl: ESZSL, small_world: ZeroShotDataset, flat: Any) -> None:
    X = small_world.test_unseen.X
    page = unlabelled_page("New photos", eszsl, X, None, embed=flat)
    table = next(table for table in blocks(page, DataTable) if {"class", "images", "kind"} <= set(table.columns))
    predicted = eszsl.predict(X).tolist()
    assert dict(zip(table.columns["class"], table.columns["images"], strict=True)) == {
        label: predicted.count(label) for label in eszsl.classes_.tolist()
    }
    assert list(table.columns["images"]) == sorted(table.columns["images"], reverse=True)
    kinds = dict(zip(table.columns["class"], table.columns["kind"], strict=True))
    assert {label for label, kind in kinds.items() if kind == "unseen"} == set(small_world.unseen.tolist())
    tiles = {tile.label: tile.value for tile in page.tiles}
    share = 100 * np.isin(predicted, small_world.unseen).mean()
    assert tiles["images"] == str(len(X))
    assert tiles["unseen classes"] == f"{share:.1f}%"
    assert [section.name for section in page.sections] == ["answers", "trust", "spaces", "images", "record"]


def test_very_many_images_are_sampled_evenly(eszsl: ESZSL, small_world: ZeroShotDataset, monkeypatch: Any) -> None:
    monkeypatch.setattr("sightunseen.report.unlabelled_page.MOST_IMAGES", 5)
    X = small_world.test_unseen.X
    page = unlabelled_page("New photos", eszsl, X, None)
    assert "80 images without labels, 5 of which" in page.subtitle
    (gallery,) = blocks(page, Gallery)
    shown = {photo.name for group in gallery.groups.values() for photo in group}
    assert shown == {str(round(k * (len(X) - 1) / 4)) for k in range(5)}


def test_nothing_is_marked_as_correct_or_wrong(eszsl: ESZSL, small_world: ZeroShotDataset, flat: Any) -> None:
    page = unlabelled_page("New photos", eszsl, small_world.test_unseen.X, None, embed=flat)
    (gallery,) = blocks(page, Gallery)
    assert {photo.mark for group in gallery.groups.values() for photo in group} == {""}
    assert any("have no labels" in note.text for note in blocks(page, Note))
    assert not {"accuracy-by-class", "confusion", "reliability"} & {figure.name for figure in page.figures}
    (figure,) = [figure for figure in page.figures if figure.name == "images-in-space"]
    assert "predicted class" in figure.caption
    assert "true class" not in figure.caption
    images = [k for k, point in enumerate(figure.columns["point"]) if point == "image"]
    assert [figure.columns["class"][k] for k in images] == [figure.columns["predicted class"][k] for k in images]


def test_without_an_embedding_there_is_no_section_of_spaces(eszsl: ESZSL, small_world: ZeroShotDataset) -> None:
    page = unlabelled_page("New photos", eszsl, small_world.test_unseen.X, None)
    assert "spaces" not in [section.name for section in page.sections]
    assert page.html()


def test_a_method_without_a_joint_space_has_a_note(
    eszsl: ESZSL, small_world: ZeroShotDataset, flat: Any, monkeypatch: Any
) -> None:
    def reject(*_: Any) -> None:
        raise SettingsError("ESZSL has no joint embedding space.")

    monkeypatch.setattr(ESZSL, "compared", reject)
    page = unlabelled_page("New photos", eszsl, small_world.test_unseen.X, None, embed=flat)
    assert "ESZSL has no joint embedding space." in [note.text for note in blocks(page, Note)]


@pytest.mark.parametrize("count", [1, 2])
def test_one_and_two_images(eszsl: ESZSL, small_world: ZeroShotDataset, flat: Any, count: int) -> None:
    page = unlabelled_page(
        "One photo", eszsl, small_world.test_unseen.X[:count], np.array(["a.jpg", "b.jpg"][:count]), embed=flat
    )
    (gallery,) = blocks(page, Gallery)
    assert {photo.name for group in gallery.groups.values() for photo in group} == set(["a.jpg", "b.jpg"][:count])
    assert page.html()


def test_a_model_without_unseen_classes_uses_its_seen_classes(small_world: ZeroShotDataset) -> None:
    known = small_world.classes.only(small_world.seen)
    model = ESZSL().fit(small_world.train.X, small_world.train.y, ClassTable(known.labels, known.vectors))
    page = unlabelled_page("Seen alone", model, small_world.test_seen.X, None)
    assert {tile.label: tile.value for tile in page.tiles}["unseen classes"] == "0.0%"
    (gallery,) = blocks(page, Gallery)
    assert len(gallery.groups) == len(small_world.seen)
