"""The page on a model: few and very many classes, missing parts, names with special characters, no mistakes."""

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sightunseen.analysis.reruns import Rerun, Reruns
from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.core.names import readable_names
from sightunseen.core.records import RunRecord
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import CVC, ESZSL
from sightunseen.report.model_page import ModelReport, model_page
from sightunseen.report.page import DataTable, Gallery, Note, Page
from sightunseen.report.space_figures import space_of
from sightunseen.report.thumbnails import Photos
from sightunseen.selection.evaluation import evaluate
from sightunseen.selection.verdict import verdict

pytestmark = pytest.mark.slow

NONE = np.array([], dtype=np.intp)
MOST_BYTES = 15_000_000
EVERY_SECTION = ["trust", "seen-and-unseen", "classes", "confidence", "attributes", "images", "record"]


def page_of(data: ZeroShotDataset, model: Any = None, **others: Any) -> Page:
    fitted = (model or ESZSL()).fit(data.train.X, data.train.y, data.classes)
    return model_page(ModelReport("A report", fitted, data, **others))


def relabelled(data: ZeroShotDataset, labels: list[Any], **others: Any) -> ZeroShotDataset:
    """The same data with other labels for the classes, in the table's order."""
    new = dict(zip(data.classes.labels.tolist(), labels, strict=True))
    table = ClassTable(labels, data.classes.vectors, others.pop("attribute_names", data.classes.attribute_names))
    return replace(data, labels=np.array([new[label] for label in data.labels.tolist()]), classes=table, **others)


def blocks(page: Page, kind: type) -> list[Any]:
    return [block for section in page.sections for block in section.blocks if isinstance(block, kind)]


def names(page: Page) -> list[str]:
    return [section.name for section in page.sections]


def figure(page: Page, name: str) -> Any:
    return next(figure for figure in page.figures if figure.name == name)


def test_the_tiles_show_the_evaluation(report: ModelReport) -> None:
    page = model_page(report)
    found = evaluate(report.model, report.data).summary()
    assert {tile.label: tile.value for tile in page.tiles} == {name: f"{value:.1f}" for name, value in found.items()}
    assert "chance 25.0" in page.tiles[0].note
    intervals = report.evaluation.intervals
    assert {tile.label: tile.interval for tile in page.tiles if tile.interval} == {
        name: f"{intervals[name][0]:.1f} to {intervals[name][1]:.1f}" for name in ("T1", "U", "S", "H")
    }
    assert "12 seen classes with 192 training images; tested on 80 images of 4 unseen and 48 of seen" in page.subtitle
    assert names(page) == EVERY_SECTION


def test_the_page_shows_the_verdict_of_the_record(report: ModelReport) -> None:
    model, data = copy.copy(report.model), report.data
    results = report.evaluation.results()
    model.record_ = RunRecord("train", "ESZSL", {}, 0, "honest", {}, results=results, verdict=("Good.", "Careful: few images."))
    page = model_page(replace(report, model=model))
    assert page.verdict == ("Good.", "Careful: few images.")
    assert "<p>Good.</p><p>Careful: few images.</p>" in page.html()
    others = replace(data, test_unseen_rows=data.test_unseen_rows[::2])  # not the test images of the record
    page = model_page(replace(report, model=model, data=others))
    assert page.verdict == verdict(evaluate(model, others), {})
    assert "of 40 images of unseen classes right" in page.verdict[0]


def test_without_a_record_the_verdict_is_that_of_the_evaluation(report: ModelReport) -> None:
    assert model_page(report).verdict == verdict(report.evaluation, {})


def test_the_accuracy_of_each_seen_class(report: ModelReport) -> None:
    columns = figure(model_page(report), "accuracy-by-seen-class").columns
    correct = report.seen.predicted == report.seen.known_truth
    expected = {label: 100 * correct[report.seen.known_truth == label].mean() for label in report.data.seen.tolist()}
    assert dict(zip(columns["class"], columns["accuracy"], strict=True)) == pytest.approx(expected)
    assert columns["accuracy"] == sorted(columns["accuracy"], reverse=True)


def test_confident_mistakes_are_of_all_test_images(report: ModelReport) -> None:
    _, mistakes = blocks(model_page(report), Gallery)
    wrong = np.concatenate([answers.confidence[~answers.correct] for answers in (report.gzsl, report.seen)])
    assert mistakes.columns["confidence"] == pytest.approx(np.sort(wrong)[::-1][:14])


def test_a_single_unseen_class() -> None:
    page = page_of(make_world(World(n_seen=6, n_unseen=1, n_attributes=8, n_features=16, images_per_class=10)))
    assert page.tiles[0].value == "100.0"  # there is no other candidate
    assert figure(page, "confusion").columns["share"] == [100.0]
    assert "Most frequent confusions: none." in [note.text for note in blocks(page, Note)]
    assert "mistakes" not in [figure.name for figure in page.figures]
    assert page.html()


@pytest.mark.parametrize(("n_seen", "n_unseen"), [(628, 72), (40, 660)])
def test_seven_hundred_classes(n_seen: int, n_unseen: int) -> None:
    data = make_world(World(n_seen=n_seen, n_unseen=n_unseen, images_per_class=5, n_features=24))
    page = page_of(data)
    assert len(page.html().encode()) < MOST_BYTES
    assert len(set(figure(page, "accuracy-by-class").columns["class"])) == n_unseen  # all are in the CSV
    assert len(set(figure(page, "leaks").columns["class"])) == n_unseen
    for name in ("accuracy-by-class", "leaks"):
        assert f"of {n_unseen}" in figure(page, name).caption  # the caption tells that only a part is drawn
        assert figure(page, name).panels[0].spec()["height"] < 2000
    assert "classes with most mistakes" in figure(page, "confusion").caption
    assert len(set(figure(page, "confusion").columns["true class"])) <= 60
    gallery, mistakes = blocks(page, Gallery)
    hubs = figure(page, "hubness").columns
    assert set(gallery.columns["class"]) == {n for n, images in zip(hubs["class"], hubs["images"], strict=True) if images}
    assert len(gallery.groups) == len(set(gallery.columns["class"]))
    assert len(mistakes.columns["image"]) == 14


def test_the_size_of_a_page_with_seven_hundred_classes_is_limited(flat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_world(World(n_seen=40, n_unseen=660, images_per_class=7, n_features=24))
    model = ESZSL().fit(data.train.X, data.train.y, data.classes)
    test = data.test_unseen
    spaces = [space_of(name, model, test.X, data.unseen, flat, truth=test.y) for name in ("V→A", "DEM", "CVC", "more")]
    monkeypatch.setattr(Photos, "__init__", lambda self: None)
    photo = "data:image/jpeg;base64," + "A" * 8000  # as large as a detailed one
    monkeypatch.setattr(Photos, "picture", lambda self, name: photo)
    page = model_page(ModelReport("A report", model, data, spaces=spaces, photos=Photos()))  # type: ignore[call-arg]
    gallery, _ = blocks(page, Gallery)
    assert len(gallery.groups) > 300
    assert all(group and all(photo.picture for photo in group) for group in gallery.groups.values())
    assert len(gallery.columns["image"]) > sum(map(len, gallery.groups.values()))  # more are in the CSV
    assert len(page.html().encode()) < MOST_BYTES


def test_without_test_images_of_seen_classes(small_world: ZeroShotDataset) -> None:
    page = page_of(replace(small_world, test_seen_rows=NONE))
    assert [tile.label for tile in page.tiles] == ["T1", "U"]
    assert "seen-and-unseen" not in names(page)
    assert set(figure(page, "reliability").columns["candidates"]) == {"unseen classes"}
    assert page.html()


def test_without_test_images_of_unseen_classes(small_world: ZeroShotDataset) -> None:
    page = page_of(replace(small_world, test_unseen_rows=NONE))
    assert [tile.label for tile in page.tiles] == ["S"]
    assert [figure.name for figure in page.figures] == ["accuracy-by-seen-class"]
    assert names(page) == ["trust", "classes", "images", "record"]
    assert page.html()


def test_data_without_test_images_are_rejected(small_world: ZeroShotDataset) -> None:
    with pytest.raises(DataError, match="no test images"):
        page_of(replace(small_world, test_unseen_rows=NONE, test_seen_rows=NONE))


def test_integer_labels(small_world: ZeroShotDataset) -> None:
    page = page_of(relabelled(small_world, list(range(100, 116))))
    shown = set(figure(page, "accuracy-by-class").columns["class"])
    assert len(shown) == 4
    assert shown <= {str(number) for number in range(100, 116)}
    assert page_of(small_world).tiles == page.tiles
    assert page.html()


def test_without_attribute_names(small_world: ZeroShotDataset) -> None:
    table = ClassTable(small_world.classes.labels, small_world.classes.vectors)
    page = page_of(replace(small_world, classes=table))
    (section,) = [section for section in page.sections if section.name == "attributes"]
    assert [type(block) for block in section.blocks] == [Note]
    assert "no attribute names" in section.blocks[0].text


def test_a_class_without_images(small_world: ZeroShotDataset) -> None:
    table = ClassTable(
        [*small_world.classes.labels.tolist(), "nowhere seen"],
        np.vstack([small_world.classes.vectors, np.ones(10)]),
        small_world.classes.attribute_names,
    )
    page = page_of(replace(small_world, classes=table))
    assert "nowhere seen" not in figure(page, "accuracy-by-class").columns["class"]
    assert page.html()


def test_a_model_without_mistakes() -> None:
    """The features are the class vectors."""
    vectors = np.vstack([np.eye(6), np.eye(6)[:3] + np.eye(6)[3:]])
    labels = [f"class {k}" for k in range(9)]
    y = np.repeat(labels, 4)
    split = ["train" if k % 4 < 2 else "test_seen" for k in range(24)] + ["test_unseen"] * 12
    table = ClassTable(labels, vectors, [f"attribute {k}" for k in range(6)])
    data = ZeroShotDataset.from_arrays(np.repeat(vectors, 4, axis=0), y, table, split)
    page = page_of(data, ESZSL(feature_penalty=1e-3, semantic_penalty=1e-3))
    assert page.tiles[0].value == "100.0"
    remarks = [note.text for note in blocks(page, Note)]
    assert "Most frequent confusions: none." in remarks
    assert not {"most-confused", "mistakes"} & {block.name for block in [*blocks(page, DataTable), *page.figures]}
    (gallery,) = blocks(page, Gallery)  # none of mistakes
    assert len(gallery.groups) == 3
    assert "Most confident mistakes: none." in remarks
    assert page.html()


AWKWARD = [
    "</script><img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    'a & b\'s \\ "c"',
    "<!-- --> {{ 7 * 7 }}",
]


def test_names_with_special_characters_are_escaped(small_world: ZeroShotDataset) -> None:
    labels = [f"{AWKWARD[k % 4]} {k}" for k in range(16)]
    images = np.array([f"{AWKWARD[k % 4]}/{AWKWARD[k % 3]} {k}.jpg" for k in range(len(small_world.labels))])
    data = relabelled(small_world, labels, attribute_names=[f"{AWKWARD[k % 4]} {k}" for k in range(10)], image_names=images)
    page = page_of(data)
    assert set(figure(page, "accuracy-by-class").columns["class"]) <= set(readable_names(labels).values())
    assert [tile.value for tile in page_of(small_world).tiles] == [tile.value for tile in page.tiles]
    html = page.html()
    assert "<img" not in html.partition("<script")[0]
    assert "<script>alert(2)" not in html
    assert html.count("<script") == html.count("</script>")
    assert "&lt;script&gt;alert(2)&lt;/script&gt;" in html


def test_a_model_without_a_record_has_a_warning(report: ModelReport) -> None:
    notes = [block for block in model_page(report).sections[0].blocks if isinstance(block, Note)]
    assert [(note.level, "no run record" in note.text) for note in notes] == [("WARN", True)]


def test_hubs_before_and_after_adaptation(small_world: ZeroShotDataset) -> None:
    train, test = small_world.train, small_world.test_unseen
    model, other = (CVC(hidden=16, n_steps=20, seed=seed).fit(train.X, train.y, small_world.classes) for seed in (0, 1))
    rounds = Rerun(other, [{"round": 1, "loss": 1.0, "pool": 1}])
    asked = {(model,): Reruns(), (model, other): Reruns(adaptation=rounds), (other, model): Reruns(before=other)}
    for models, reruns in asked.items():
        columns = figure(page_of_fitted(model, small_world, reruns), "hubness").columns
        by_model: dict[str, dict[str, int]] = {}
        for name_of_model, name, images in zip(columns["model"], columns["class"], columns["images"], strict=True):
            by_model.setdefault(name_of_model, {})[name] = images
        answers = [one.predict(test.X, small_world.unseen).tolist() for one in models]
        expected = [{label: found.count(label) for label in small_world.unseen.tolist()} for found in answers]
        assert list(by_model.values()) == expected


def page_of_fitted(model: Any, data: ZeroShotDataset, reruns: Reruns) -> Page:
    return model_page(ModelReport("A report", model, data, reruns=reruns))
