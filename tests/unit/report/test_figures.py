"""Figures: CSV, specifications that Vega-Lite compiles, and files that are reproducible byte for byte."""

import csv
import io
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pikepdf
import pytest
import vl_convert

from sightunseen.analysis.contributions import explained_mistakes
from sightunseen.analysis.hubness import Hubness
from sightunseen.analysis.reruns import Rerun, Reruns
from sightunseen.core.seen_unseen import SeenUnseenCurve
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import ESZSL
from sightunseen.report.attribute_figures import mistakes_figure
from sightunseen.report.class_figures import hubness_figure
from sightunseen.report.curve_figures import seen_unseen, self_training_figure, training_figure
from sightunseen.report.figures import CONFIG, ROWS, Figure, Panel, as_csv, columns_of, rows_of, slug
from sightunseen.report.model_page import ModelReport, model_page
from sightunseen.report.space_figures import classes_figure, images_figure, space_of
from sightunseen.report.unlabelled_page import unlabelled_page
from sightunseen.selection.evaluation import evaluate

pytestmark = pytest.mark.slow

AWKWARD = [
    "it's",
    'a "b"',
    "back\\slash",
    "two\nlines",
    "comma, semicolon;",
    "",
    "</script>",
    "ツ → 🦉",
    "\u2028",
    "\U000e0067",
]


# -- tables ----------------------------------------------------------------------------------------------------------------


def test_csv_can_be_read_back_with_any_text() -> None:
    columns = {
        "class, or 'label'": AWKWARD,
        "n": list(range(len(AWKWARD))),
        "x": [0.1 + 0.2, None, *[1.5] * (len(AWKWARD) - 2)],
    }
    head, *rows = csv.reader(io.StringIO(as_csv(columns), newline=""))
    assert head == list(columns)
    assert [row[0] for row in rows] == AWKWARD
    assert [row[1] for row in rows] == [str(n) for n in range(len(AWKWARD))]
    assert float(rows[0][2]) == 0.1 + 0.2
    assert rows[1][2] == ""


def test_rows_and_columns_are_transposed() -> None:
    heads, rows = ("class", "n"), [("tern", 1), ("jay", 2)]
    columns = columns_of(heads, rows)
    assert columns == {"class": ["tern", "jay"], "n": [1, 2]}
    assert rows_of(columns) == [{"class": "tern", "n": 1}, {"class": "jay", "n": 2}]
    assert columns_of(heads, []) == {"class": [], "n": []}
    assert rows_of({}) == []
    with pytest.raises(ValueError, match="shorter"):
        rows_of({"class": ["tern"], "n": []})


@pytest.mark.parametrize(
    ("text", "found"),
    [("CUB res50, inductive", "cub-res50-inductive"), ("V→A", "v-a"), ("../../etc/passwd", "etc-passwd"), ("ツ", ""), ("", "")],
)
def test_slug(text: str, found: str) -> None:
    assert slug(text) == found


# -- specs -----------------------------------------------------------------------------------------------------------------


def curve(*names: str) -> list[dict[str, Any]]:
    return [{"steps": 10 * k, **dict.fromkeys(names, 50.0 + k)} for k in range(1, 4)]


@pytest.fixture(scope="module")
def figures(report: ModelReport, flat: Any) -> list[Figure]:
    """All figures of the page on a model and of the page on unlabelled images."""
    model, data = report.model, report.data
    spaces = [space_of(name, model, data.test_unseen.X, data.unseen, flat, truth=data.test_unseen.y) for name in ("V→A", "DEM")]
    rounds = [{"round": k, "loss": 1.0 / k, "T1": 60.0, "pool": 10 * k, "pool_accuracy": 0.8} for k in (1, 2)]
    reruns = Reruns(Rerun(None, curve("loss", "T1", "U", "S", "H")), Rerun(model, rounds))  # type: ignore[arg-type]
    labelled = model_page(ModelReport("", model, data, reruns=reruns, spaces=spaces)).figures
    return [*labelled, *unlabelled_page("", model, data.test_unseen.X, None, None, flat).figures]


def test_the_pages_have_all_figures(figures: list[Figure]) -> None:
    assert [figure.name for figure in figures] == [
        *("seen-unseen-curve", "accuracy-by-class", "accuracy-by-seen-class", "confusion", "leaks", "reliability", "hubness"),
        *("mistakes", "training-curve", "self-training", "classes-in-space", "images-in-space"),
        *("confidence", "hubness", "images-in-space"),
    ]


def parts(spec: Any) -> Iterator[dict[str, Any]]:
    """All mappings inside a specification."""
    if isinstance(spec, dict):
        yield spec
    for inner in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        yield from parts(inner)


def test_vega_lite_compiles_every_chart(figures: list[Figure]) -> None:
    for figure in figures:
        for panel in figure.panels:
            spec = {**panel.spec(), "datasets": {"rows": rows_of(figure.columns)}, "config": CONFIG}
            compiled = vl_convert.vegalite_to_vega(spec)
            assert compiled["marks"], figure.name
            assert any(source.get("values") for source in compiled["data"]), figure.name


def test_charts_use_only_columns_of_the_figure(figures: list[Figure]) -> None:
    """Vega-Lite draws nothing and raises no error if a field does not exist."""
    for figure in figures:
        for panel in figure.panels:
            spec = panel.spec()
            sources = [part["data"] for part in parts(spec) if "data" in part]
            inline = [source["values"] for source in sources if "values" in source]
            assert all(source == {"name": "rows"} or source["values"] for source in sources), figure.name
            made = [part["as"] for part in parts(spec) if "as" in part]
            known = {*figure.columns, *(name for rows in inline for row in rows for name in row)}
            known |= {name for names in made for name in ([names] if isinstance(names, str) else names)}
            used = {part["field"] for part in parts(spec) if isinstance(part.get("field"), str)}
            assert used, figure.name
            assert used <= known, figure.name
            assert not {"config", "datasets"} & set(spec)


def test_reference_lines_are_drawn(report: ModelReport) -> None:
    """The diagonal of perfect calibration, the mean of the hubs, and the selected number of steps."""
    confidence = next(figure for figure in model_page(report).figures if figure.name == "reliability")
    hubs = next(figure for figure in model_page(report).figures if figure.name == "hubness")
    training = training_figure("t", "", "", curve("loss", "T1"), selected=20)
    wanted = {"confidence": 100, "accuracy": 100}, {"mean": len(report.data.test_unseen) / 4}, {"at": 20}
    for figure, point in zip((confidence, hubs, training), wanted, strict=True):
        inline = [row for part in parts(figure.panels[-1].spec()) for row in part.get("values", ()) if isinstance(row, dict)]
        assert point in inline


@pytest.fixture(scope="module")
def few_images() -> SeenUnseenCurve:
    """The curve of 14 test images of 6 classes: many of its points have the same U."""
    world = World(n_seen=4, n_unseen=2, n_attributes=8, n_features=16, images_per_class=5, private=0.3, noise=1.0)
    data = make_world(world)
    curve = evaluate(ESZSL().fit(data.train.X, data.train.y, data.classes), data).curve
    assert curve is not None
    assert len(np.unique(curve.unseen)) < len(curve.unseen)
    return curve


MARKS = ("mark-area", "mark-text role-axis-label", "background")  # classes of SVG elements


def drawn_spec(figure: Figure) -> dict[str, Any]:
    """The specification of the only panel with its rows, at a fixed width."""
    (panel,) = figure.panels
    return {**panel.spec(), "width": 400, "datasets": {"rows": rows_of(figure.columns)}, "config": CONFIG}


def test_the_seen_unseen_axes_are_percentages_and_the_area_is_not_stacked(few_images: SeenUnseenCurve) -> None:
    compiled = vl_convert.vegalite_to_vega(drawn_spec(seen_unseen(few_images, 0.1)))
    scales = {scale["name"]: scale["domain"] for scale in compiled["scales"]}
    assert (scales["x"], scales["y"]) == ([0, 100], [0, 100])
    transforms = [step["type"] for source in compiled["data"] for step in source.get("transform", ())]
    assert "stack" not in transforms
    (area,) = [mark for mark in compiled["marks"] if mark["type"] == "area"]
    assert area["encode"]["update"]["y"] == {"scale": "y", "field": "S"}


def test_the_area_under_the_seen_unseen_curve_is_ausuc(few_images: SeenUnseenCurve) -> None:
    # S falls at U = 0, 0.5 and 0.8: three vertical segments.
    steps = SeenUnseenCurve(
        np.array([-np.inf, *range(8)]),
        np.array([0, 0, 0, 0.5, 0.5, 0.5, 0.8, 0.8, 0.8]),
        np.array([0.9, 0.8, 0.6, 0.6, 0.4, 0.2, 0.2, 0.1, 0]),
    )
    for curve in (few_images, steps):
        root = ElementTree.fromstring(vl_convert.vegalite_to_svg(drawn_spec(seen_unseen(curve, 0.1))))
        marks = {name: [part for part in root.iter() if part.get("class", "").startswith(name)] for name in MARKS}
        axes = [[float("".join(text.itertext())) for text in axis] for axis in marks["mark-text role-axis-label"]]
        assert [(min(axis), max(axis)) for axis in axes] == [(0, 100), (0, 100)]
        width, height = (float(size) for size in re.findall(r"[hv]([\d.]+)", marks["background"][0].get("d", ""))[:2])
        ((path,),) = marks["mark-area"]  # one area
        x, y = corners(path.get("d", ""))
        assert (x.min(), x.max()) == pytest.approx((0, width * curve.unseen[-1]))
        assert (y.min(), y.max()) == pytest.approx((height * (1 - curve.seen[0]), height))
        enclosed = abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2
        assert enclosed / (width * height) == pytest.approx(curve.area)


def corners(path: str) -> tuple[Any, Any]:
    """The corners x (n,), y (n,) of an SVG path of straight lines with absolute coordinates."""
    assert set(re.findall(r"[A-Za-z]", path)) == {"M", "L", "Z"}
    points = np.array([float(number) for number in re.findall(r"-?[\d.]+", path)]).reshape(-1, 2)
    return points[:, 0], points[:, 1]


def test_panels_of_names_with_special_characters_have_all_bars(report: ModelReport) -> None:
    found = explained_mistakes(report.model, report.zsl, report.data.test_unseen.X)
    names = dict(zip(report.data.unseen.tolist(), ['"><script>\\', "it's\n'\"\"", "\U000e0067\\", "`${x}`"], strict=True))
    figure = mistakes_figure(found, names)
    assert len(figure.panels) == len(found)
    for panel, mistake in zip(figure.panels, found, strict=True):
        spec = {**panel.spec(), "width": 200, "datasets": {"rows": rows_of(figure.columns)}}
        drawn = ElementTree.fromstring(vl_convert.vegalite_to_svg(spec))
        bars = [path for path in drawn.iter() if path.get("aria-roledescription") == "bar"]
        assert len(bars) == len(mistake.contributions.names) + 2  # all other attributes, and the sum
        rows = [row for row in rows_of(figure.columns) if row["panel"] == panel.title]
        parts, total = [row["contribution"] for row in rows[:-1]], rows[-1]["contribution"]
        assert sum(parts) == pytest.approx(total)
        assert total > 0  # otherwise it were not a mistake


def test_missing_measurements_are_not_drawn(report: ModelReport) -> None:
    """Without test images only the loss is drawn; without true labels no share of correct pseudo-labels."""
    assert [panel.title for panel in training_figure("t", "", "", curve("loss")).panels] == ["loss"]
    assert [panel.title for panel in training_figure("t", "", "", curve("loss", "H")).panels] == ["loss", "accuracy"]
    unknown = self_training_figure([{"round": 1, "loss": 1.0, "pool": 5}, {"round": 2, "loss": 0.5, "pool": 8}])
    assert [panel.title for panel in unknown.panels] == ["loss", "pseudo-labelled images"]
    assert "correct" not in unknown.caption
    known = self_training_figure([{"round": k, "loss": 1.0, "pool": 5 * k, "pool_accuracy": 0.5 + k / 10} for k in (1, 2)])
    assert known.columns["pool_accuracy"] == pytest.approx([60.0, 70.0])
    assert "5 images, 60.0% correct, in the first round; 10 images, 70.0% correct, in the last" in known.caption


def test_figures_show_the_numbers_of_the_analysis(report: ModelReport) -> None:
    figures = {figure.name: figure for figure in model_page(report).figures}
    correct = report.zsl.predicted == report.zsl.known_truth
    accuracy = figures["accuracy-by-class"].columns
    for label, candidates, percent in zip(*accuracy.values(), strict=True):
        if candidates == "among unseen classes":
            assert percent == pytest.approx(100 * correct[report.zsl.known_truth == label].mean())
    confusion = figures["confusion"].columns
    assert sum(confusion["images"]) == len(correct)
    diagonal = zip(confusion["true class"], confusion["predicted class"], confusion["images"], strict=True)
    assert sum(images for truth, predicted, images in diagonal if truth == predicted) == correct.sum()
    leaks = figures["leaks"].columns
    shares: dict[str, float] = {}
    for label, share in zip(leaks["class"], leaks["share"], strict=True):
        shares[label] = shares.get(label, 0.0) + share
    assert shares == pytest.approx(dict.fromkeys(report.data.unseen.tolist(), 100.0))
    hubs = figures["hubness"].columns
    assert sum(hubs["images"]) == len(correct)
    assert list(hubs["images"]) == sorted(hubs["images"], reverse=True)


def test_spaces_contain_every_class_and_image_once(report: ModelReport, flat: Any) -> None:
    model, data = report.model, report.data
    space = space_of("ESZSL", model, data.test_unseen.X, data.unseen, flat, truth=data.test_unseen.y)
    classes = classes_figure([space], data.seen, report.names).columns
    assert sorted(classes["class"]) == sorted(data.classes.labels.tolist())
    assert {name for name, kind in zip(classes["class"], classes["kind"], strict=True) if kind == "unseen"} == set(
        data.unseen.tolist()
    )
    images, vectors = model.compared(data.test_unseen.X, model.classes_)
    assert [classes["x"], classes["y"]] == [vectors[:, 0].tolist(), vectors[:, 1].tolist()]
    found = images_figure([space], report.names).columns
    shown = [k for k, point in enumerate(found["point"]) if point == "image"]
    assert [found["class"][k] for k in shown] == data.test_unseen.y.tolist()
    assert [found["x"][k] for k in shown] == pytest.approx(images[:, 0].tolist())
    stars = {found["class"][k]: found["x"][k] for k, point in enumerate(found["point"]) if point == "class"}
    assert stars == {label: vectors[model.classes_ == label, 0].item() for label in data.unseen.tolist()}


def test_very_many_images_are_sampled_evenly(report: ModelReport, flat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sightunseen.report.space_figures.MOST_IMAGES", 5)
    X, y = report.data.test_unseen.X, report.data.test_unseen.y
    space = space_of("ESZSL", report.model, X, report.data.unseen, flat, names=range(len(X)), truth=y)
    assert space.answers.names.tolist() == [str(round(k * (len(X) - 1) / 4)) for k in range(5)]
    assert space.answers.truth.tolist() == [y[int(name)] for name in space.answers.names]


def test_captions_contain_the_numbers(report: ModelReport) -> None:
    found = {figure.name: figure for figure in model_page(report).figures}
    error = 100 * report.zsl.reliability().error
    assert f"unseen classes {error:.1f}; all classes " in found["reliability"].caption
    labels, names = np.array(["a", "b", "c"]), {"a": "A", "b": "B", "c": "C"}
    hubs = {"inductive": Hubness(labels, np.array([3, 1, 0]), 0.38), "adapted": Hubness(labels, np.array([1, 1, 1]), None)}
    assert "0.38 (inductive), not defined (adapted)" in hubness_figure(hubs, 4, names).caption


# -- files -----------------------------------------------------------------------------------------------------------------

MAKE = """
import sys
from pathlib import Path
import altair as alt
from sightunseen.report.figures import ROWS, Figure, Panel
base = alt.Chart(ROWS).encode(x="x:Q", y="y:Q", opacity="x:Q").properties(width="container", height=90, title="Bold & 'quoted'")
points, words = base.mark_circle().encode(color="class:N"), base.mark_text(fontStyle="italic").encode(text="class:N")
columns = {"x": list(range(12)), "y": [k * k % 7 for k in range(12)], "class": [f"<class> {k % 3} →" for k in range(12)]}
figure = Figure("made-up", "Made up", "", columns, [Panel(points + words, "Points: both"), Panel(points, "ツ")])
print(*(path.name for path in figure.save(Path(sys.argv[1]))))
"""
NAMES = ["made-up-1-points-both.svg", "made-up-1-points-both.pdf", "made-up-2.svg", "made-up-2.pdf"]


def made(folder: Path, hash_seed: int) -> dict[str, bytes]:
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    ended = subprocess.run(
        [sys.executable, "-c", MAKE, str(folder)], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.split() == NAMES
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES)
    return {name: (folder / name).read_bytes() for name in NAMES}


def test_files_are_equal_in_every_process(tmp_path: Path) -> None:
    first = made(tmp_path / "0", 0)
    # The hash order of the converter changes from run to run: without a fixed order some files would differ.
    for seed in (1, 2):
        assert made(tmp_path / str(seed), seed) == first


def test_svg_is_well_formed_and_contains_the_texts(tmp_path: Path) -> None:
    figure = Figure(
        "f", "", "", {"class": ["<a> & b"], "x": [1.0]}, [Panel(alt.Chart(ROWS).mark_bar().encode(x="x:Q", y="class:N"))]
    )
    svg, pdf = figure.save(tmp_path / "new" / "folder", size=300)
    assert (svg.name, pdf.name) == ("f.svg", "f.pdf")
    root = ElementTree.parse(svg).getroot()
    assert "<a> & b" in ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
    check_pdf(pdf.read_bytes())


def test_files_are_equal_within_a_process(figures: list[Figure], tmp_path: Path) -> None:
    """The converter numbers clip paths across figures."""
    clipped = next(figure for figure in figures if figure.name == "classes-in-space")
    first, again = clipped.save(tmp_path / "first"), clipped.save(tmp_path / "again")
    assert "clipPath" in first[0].read_text("utf-8")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    root = ElementTree.parse(first[0]).getroot()
    named = {part.get("id") for part in root.iter() if part.get("id")}
    used = {name for part in root.iter() for name in re.findall(r"url\(#(\w+)\)", str(part.attrib))}
    assert used
    assert used <= named


def test_the_width_of_a_container_is_set(tmp_path: Path) -> None:
    chart = alt.Chart(ROWS).mark_bar().encode(x="x:Q").properties(width="container", height=40)
    svg, _ = Figure("f", "", "", {"x": [1.0]}, [Panel(chart)]).save(tmp_path, size=300)
    assert float(ElementTree.parse(svg).getroot().get("width", "0")) == pytest.approx(300, abs=1)


def test_pdfs_are_valid(figures: list[Figure], tmp_path: Path) -> None:
    by_name = {figure.name: figure for figure in figures}
    for name in ("reliability", "images-in-space"):
        for path in by_name[name].save(tmp_path):
            if path.suffix == ".pdf":
                check_pdf(path.read_bytes())


def check_pdf(pdf: bytes) -> None:
    """Check the syntax with QPDF, and that there is one page with content."""
    with pikepdf.open(io.BytesIO(pdf)) as document:
        assert document.check_pdf_syntax() == []
        (page,) = document.pages
        assert len(pikepdf.parse_content_stream(page)) > 5
