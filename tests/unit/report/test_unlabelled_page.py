"""The page of images without labels: what the model says, and nothing about right or wrong."""

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


def test_answers_are_counted_for_every_class(eszsl: ESZSL, small_world: ZeroShotDataset, flat: Any) -> None:
    X = small_world.test_unseen.X
    page = unlabelled_page("New photos", eszsl, X, None, draw=flat)
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
    assert tiles["to unseen classes"] == f"{share:.1f}%"
    assert [section.name for section in page.sections] == ["answers", "trust", "spaces", "images", "record"]


def test_of_very_many_images_some_are_taken_evenly(eszsl: ESZSL, small_world: ZeroShotDataset, monkeypatch: Any) -> None:
    monkeypatch.setattr("sightunseen.report.unlabelled_page.MOST_IMAGES", 5)
    X = small_world.test_unseen.X
    page = unlabelled_page("New photos", eszsl, X, None)
    assert "80 images without labels, 5 of which" in page.subtitle
    (gallery,) = blocks(page, Gallery)
    shown = {photo.name for group in gallery.groups.values() for photo in group}
    assert shown == {str(round(k * (len(X) - 1) / 4)) for k in range(5)}


def test_nothing_is_called_right_or_wrong(eszsl: ESZSL, small_world: ZeroShotDataset, flat: Any) -> None:
    page = unlabelled_page("New photos", eszsl, small_world.test_unseen.X, None, draw=flat)
    (gallery,) = blocks(page, Gallery)
    assert {photo.mark for group in gallery.groups.values() for photo in group} == {""}
    assert any("Nobody has said" in note.text for note in blocks(page, Note))
    assert not {"accuracy-by-class", "confusion", "reliability"} & {figure.name for figure in page.figures}
    (picture,) = [figure for figure in page.figures if figure.name == "images-in-space"]
    assert "answer" in picture.see
    assert "true class" not in picture.see
    images = [k for k, point in enumerate(picture.columns["point"]) if point == "image"]
    assert [picture.columns["class"][k] for k in images] == [picture.columns["answer"][k] for k in images]


def test_without_a_picture_there_is_no_section_of_spaces(eszsl: ESZSL, small_world: ZeroShotDataset) -> None:
    page = unlabelled_page("New photos", eszsl, small_world.test_unseen.X, None)
    assert "spaces" not in [section.name for section in page.sections]
    assert page.html()


def test_a_method_without_a_space_says_so(eszsl: ESZSL, small_world: ZeroShotDataset, flat: Any, monkeypatch: Any) -> None:
    def refuse(*_: Any) -> None:
        raise SettingsError("ESZSL compares images and classes in no space.")

    monkeypatch.setattr(ESZSL, "compared", refuse)
    page = unlabelled_page("New photos", eszsl, small_world.test_unseen.X, None, draw=flat)
    assert "ESZSL compares images and classes in no space." in [note.text for note in blocks(page, Note)]


@pytest.mark.parametrize("count", [1, 2])
def test_very_few_images_are_enough(eszsl: ESZSL, small_world: ZeroShotDataset, flat: Any, count: int) -> None:
    page = unlabelled_page(
        "One photo", eszsl, small_world.test_unseen.X[:count], np.array(["a.jpg", "b.jpg"][:count]), draw=flat
    )
    (gallery,) = blocks(page, Gallery)
    assert {photo.name for group in gallery.groups.values() for photo in group} == set(["a.jpg", "b.jpg"][:count])
    assert page.html()


def test_a_model_without_unseen_classes_is_asked_among_its_own(small_world: ZeroShotDataset) -> None:
    known = small_world.classes.only(small_world.seen)
    model = ESZSL().fit(small_world.train.X, small_world.train.y, ClassTable(known.labels, known.vectors))
    page = unlabelled_page("Seen alone", model, small_world.test_seen.X, None)
    assert {tile.label: tile.value for tile in page.tiles}["to unseen classes"] == "0.0%"
    (gallery,) = blocks(page, Gallery)
    assert len(gallery.groups) == len(small_world.seen)
