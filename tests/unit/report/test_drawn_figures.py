"""Figures as they are drawn, of 6 classes with 30 images and long names, and of 50 unseen classes."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import vl_convert

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.names import readable
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import ESZSL
from sightunseen.report.figures import CONFIG, Figure, rows_of
from sightunseen.report.model_page import ModelReport, model_page
from sightunseen.report.space_figures import space_of

pytestmark = pytest.mark.slow

LONG = (
    "Lesser_Antillean_bullfinch_of_the_windward_islands",
    "Great_northern_tilefish_from_the_continental_shelf",
    "Chocolate-chip_oat_cookie_with_sea_salt",
    "Semi-skimmed_lactose-free_organic_milk",
    "Northern_rough-winged_swallow_in_winter_plumage",
    "owl",
)
SMALL = World(n_seen=4, n_unseen=2, n_attributes=8, n_features=16, images_per_class=5, private=0.3, noise=1.0)
LARGE = World(n_seen=60, n_unseen=50, n_attributes=20, n_features=32, images_per_class=6, private=0.9, noise=2.0)


def renamed(data: ZeroShotDataset, names: Any) -> ZeroShotDataset:
    new = dict(zip(data.classes.labels.tolist(), names, strict=True))
    table = ClassTable(list(names), data.classes.vectors, data.classes.attribute_names)
    return replace(data, labels=np.array([new[label] for label in data.labels.tolist()]), classes=table)


def figures_of(data: ZeroShotDataset, flat: Any) -> dict[str, Figure]:
    model, test = ESZSL().fit(data.train.X, data.train.y, data.classes), data.test_unseen
    spaces = [space_of("ESZSL", model, test.X, data.unseen, flat, truth=test.y)]
    return {figure.name: figure for figure in model_page(ModelReport("A report", model, data, spaces=spaces)).figures}


@pytest.fixture(scope="module")
def six() -> ZeroShotDataset:
    data = renamed(make_world(SMALL), LONG)
    assert len(data.labels) == 30
    return data


@pytest.fixture(scope="module")
def small(six: ZeroShotDataset, flat: Any) -> dict[str, Figure]:
    return figures_of(six, flat)


@pytest.fixture(scope="module")
def large(flat: Any) -> dict[str, Figure]:
    return figures_of(make_world(LARGE), flat)


def drawn(figure: Figure, width: int = 700) -> ElementTree.Element:
    """The first panel as SVG."""
    panel = figure.panels[0]
    spec = {**panel.spec(), "width": max(panel.least, width), "datasets": {"rows": rows_of(figure.columns)}, "config": CONFIG}
    return ElementTree.fromstring(vl_convert.vegalite_to_svg(spec))


def texts(root: ElementTree.Element, role: str) -> list[str]:
    """Texts of axis labels (role-axis-label) or of marks (role-mark)."""
    groups = [part for part in root.iter() if f"mark-text {role}" in part.get("class", "")]
    return ["".join(text.itertext()) for group in groups for text in group if "".join(text.itertext())]


@pytest.mark.parametrize("name", ["accuracy-by-class", "accuracy-by-seen-class", "confusion", "leaks", "hubness"])
def test_every_class_of_a_small_set_is_named(small: dict[str, Figure], six: ZeroShotDataset, name: str) -> None:
    shown = texts(drawn(small[name]), "role-axis-label")
    wanted = six.seen if name == "accuracy-by-seen-class" else six.unseen
    for label in map(readable, wanted.tolist()):
        found = [text for text in shown if text.rstrip("…").rstrip() and label.startswith(text.rstrip("…").rstrip())]
        assert found, (label, shown)
        assert max(map(len, found)) >= min(len(label), 20)


def test_a_small_confusion_matrix_has_the_numbers_of_images(small: dict[str, Figure], large: dict[str, Figure]) -> None:
    numbers = texts(drawn(small["confusion"]), "role-mark")
    assert sorted(numbers) == sorted(str(count) for count in small["confusion"].columns["images"])
    assert sum(map(int, numbers)) == 10
    assert texts(drawn(large["confusion"]), "role-mark") == []


@pytest.mark.parametrize("name", ["accuracy-by-class", "confusion", "leaks"])
def test_fifty_names_are_all_drawn_and_do_not_overlap(large: dict[str, Figure], name: str) -> None:
    figure = large[name]
    assert set(texts(drawn(figure), "role-axis-label")) >= {*figure.columns["class" if name != "confusion" else "true class"]}
    size = CONFIG["axis"]["labelFontSize"]
    assert size >= 11
    assert figure.panels[0].spec()["height"] >= 50 * size
    if name == "confusion":  # the names of the columns are vertical
        assert texts(drawn(figure), "role-axis-label").count(figure.columns["true class"][0]) == 2
        assert figure.panels[0].least >= 50 * size


def test_hubs_are_named_up_to_thirty_classes(small: dict[str, Figure], large: dict[str, Figure]) -> None:
    bars = drawn(small["hubness"])  # with the names of all classes, as tested above
    assert sorted(texts(bars, "role-mark")) == sorted(str(images) for images in small["hubness"].columns["images"])
    assert "rank of the class" in "".join(drawn(large["hubness"]).itertext())
    first = large["hubness"].columns["class"][0]
    assert f"Most often predicted: {first} (" in large["hubness"].caption


def test_points_of_spaces_are_named_up_to_thirty_classes(
    small: dict[str, Figure], large: dict[str, Figure], six: ZeroShotDataset
) -> None:
    for name, wanted in (("classes-in-space", LONG), ("images-in-space", six.unseen.tolist())):
        shown = [text.rstrip("…").rstrip() for text in texts(drawn(small[name]), "role-mark")]
        assert len(shown) == len(wanted)
        assert all(any(readable(label).startswith(text) for text in shown) for label in wanted), shown
        assert texts(drawn(large[name]), "role-mark") == []
    assert "All classes are named." in small["classes-in-space"].caption
    assert "named" not in large["classes-in-space"].caption


def test_unseen_classes_are_named_if_only_they_are_few(flat: Any) -> None:
    figure = figures_of(make_world(replace(SMALL, n_seen=40)), flat)["classes-in-space"]
    assert len(texts(drawn(figure), "role-mark")) == 2
    assert "Unseen classes are named." in figure.caption


def test_saved_figures_have_a_role_and_a_label(small: dict[str, Figure], tmp_path: Path) -> None:
    for figure in small.values():
        for path in figure.save(tmp_path):
            if path.suffix == ".svg":
                root = ElementTree.parse(path).getroot()
                assert root.get("role") == "img"
                assert root.get("aria-label", "").startswith(figure.title)
