"""Pages in Chromium, opened from a file without a network: drawing, tooltips, sorting, downloads, themes, phones, print."""

import csv
import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sightunseen.benchmark.entries import DataEntry
from sightunseen.benchmark.outcome import DONE, FAILED, Outcome
from sightunseen.benchmark.paper_ablation import ablation_plan
from sightunseen.cli import main
from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.names import readable
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import ESZSL, METHODS
from sightunseen.report.benchmark_page import benchmark_page
from sightunseen.report.figures import as_csv
from sightunseen.report.model_page import ModelReport, model_page
from sightunseen.report.page import DataTable, Page
from sightunseen.report.unlabelled_page import unlabelled_page

pytestmark = pytest.mark.browser

NUMBERS = ("T1", "U", "S", "H", "AUSUC", "U_plain", "S_plain", "H_plain")
AWKWARD = [
    "</script><img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    'a & b\'s \\ "c"',
    "'-alert(3)-'",
    "<!-- {{ 7 * 7 }} -->",
    "javascript:alert(4)",
]
CHARTS = "[...document.querySelectorAll('.chart')]"
ALL_RESULTS = '[aria-label="All results"]'
TABLE = f"document.querySelector('{ALL_RESULTS} table')"
ROWS = f"[...{TABLE}.tBodies[0].rows]"
# Marks of the data; those of legends, axes and backgrounds have other roles.
MARKS = ".role-mark path, .role-mark line, .role-mark text"


# -- the pages -------------------------------------------------------------------------------------------------------------


def outcome(method: str, seed: int, t1: float, state: str = DONE) -> Outcome:
    shown = {"data": "CUB", "published_name": "CUB", "backbone": "", "method": method, "label": method}
    shown |= {"setting": "inductive", "selection": "validation", "seed": seed}
    identity = {"data": {"semantics": "att"}, "method": {"name": method, "settings": {"seed": seed}}, "seed": seed}
    results = {name: 10.0 + k for k, name in enumerate(NUMBERS)} | {"T1": t1}
    return Outcome(
        state, identity, shown, "" if state == DONE else "no memory", {"results": results, "selection": {}}, 1.0 + seed
    )


OUTCOMES = [
    *(outcome("ESZSL", seed, t1) for seed, t1 in enumerate([9.9, 10.2, 10.5])),
    outcome("ALE", 0, 9.5),
    outcome("SAE", 0, 101.0 / 3),
    outcome("SJE", 0, 0.0, FAILED),
]


def ablation() -> Iterator[Outcome]:
    plan = ablation_plan(DataEntry("data/CUB"), 12, 2)
    for number, job in enumerate(plan.jobs()):
        made = outcome(job.method.name, job.seed, 20.0 + number)
        settings = {**METHODS[job.method.name](**job.method.settings).get_params(), "seed": job.seed}
        identity = {**made.identity, "method": {"name": job.method.name, "settings": settings}}
        record = {**made.record, "data": {"classes": {"seen": 12}}}
        yield replace(made, identity=identity, shown={**made.shown, "label": job.method.shown}, record=record)


def awkward(data: ZeroShotDataset) -> ZeroShotDataset:
    """The same data with special characters in the names of classes, attributes and images."""
    labels = [f"{AWKWARD[k % len(AWKWARD)]} {k}" for k in range(len(data.classes.labels))]
    new = dict(zip(data.classes.labels.tolist(), labels, strict=True))
    attributes = [f"{AWKWARD[k % len(AWKWARD)]} {k}" for k in range(data.classes.vectors.shape[1])]
    return replace(
        data,
        name=AWKWARD[1],
        labels=np.array([new[label] for label in data.labels.tolist()]),
        classes=ClassTable(labels, data.classes.vectors, attributes),
        image_names=np.array([f"{AWKWARD[k % len(AWKWARD)]} {k}.jpg" for k in range(len(data.labels))]),
    )


def report(data: ZeroShotDataset, title: str) -> ModelReport:
    return ModelReport(title, ESZSL().fit(data.train.X, data.train.y, data.classes), data)


@pytest.fixture(scope="module")
def made(small_world: ZeroShotDataset) -> dict[str, Page]:
    """Pages as objects."""
    many = make_world(World(n_seen=628, n_unseen=72, images_per_class=5, n_features=24))
    known = report(small_world, "Unlabelled")
    return {
        "benchmark": benchmark_page(OUTCOMES, "Benchmark"),
        "ablation": benchmark_page(ablation(), "Ablation"),
        "names": model_page(report(awkward(small_world), AWKWARD[0])),
        "many": model_page(report(many, "700 classes")),
        "unlabelled": unlabelled_page("Unlabelled", known.model, small_world.test_unseen.X, None),
    }


@pytest.fixture(scope="module")
def folder(made: dict[str, Page], small_world: ZeroShotDataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All pages as files, and the page on a model written by the command line."""
    folder = tmp_path_factory.mktemp("pages")
    for name, page in made.items():
        page.save(folder / f"{name}.html")
    split = np.empty(len(small_world.labels), dtype="U12")
    for part in ("train", "test_seen", "test_unseen"):
        split[getattr(small_world, f"{part}_rows")] = part
    table = small_world.classes
    np.savez(
        folder / "data.npz",
        X=small_world.features,
        y=small_world.labels,
        split=split,
        class_labels=table.labels,
        class_vectors=table.vectors,
        attribute_names=table.attribute_names,
    )
    data, model = str(folder / "data.npz"), str(folder / "model")
    assert main(["train", data, "--out", model, "--method", "CVC", "--set", "hidden=16", "--set", "n_steps=200"]) == 0
    assert main(["report", model, data, "--out", str(folder / "model.html")]) == 0
    return folder


EVERY = ("model", "benchmark", "ablation", "names", "many", "unlabelled")


# -- the browser -----------------------------------------------------------------------------------------------------------


@dataclass
class Opened:
    """A page in the browser, its console messages and its requests."""

    page: Any
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def open_page(browser: Any, folder: Path) -> Iterator[Open]:
    """Open a page by name, once per set of options."""
    opened: dict[tuple[Any, ...], Opened] = {}

    def open_page(name: str, width: int = 1280, theme: str = "light", fresh: bool = False) -> Opened:
        key = (name, width, theme)
        if key not in opened or fresh:
            opened[key] = _opened(browser, folder / f"{name}.html", width, theme)
        return opened[key]

    yield open_page
    for one in opened.values():
        one.page.context.close()


def _opened(browser: Any, path: Path, width: int, theme: str) -> Opened:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, offline=True)
    opened = Opened(context.new_page())

    def answer(route: Any) -> None:
        if route.request.url.startswith(("data:", "blob:", path.as_uri())):
            route.continue_()
        else:
            opened.requests.append(route.request.url)
            route.abort()

    def dismiss(dialog: Any) -> None:
        opened.messages.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    context.route("**/*", answer)
    opened.page.on("console", lambda message: opened.messages.append(f"{message.type}: {message.text}"))
    opened.page.on("pageerror", lambda error: opened.messages.append(f"pageerror: {error}"))
    opened.page.on("dialog", dismiss)
    opened.page.goto(path.as_uri())
    opened.page.wait_for_selector("body[data-ready=yes]", state="attached", timeout=30_000)
    return opened


# -- drawing ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_all_charts_are_drawn_without_messages_or_requests(open_page: Open, name: str) -> None:
    opened = open_page(name)
    assert opened.messages == []
    assert opened.requests == []
    charts = opened.page.evaluate(f"""{CHARTS}.map((chart) => {{
        const canvas = chart.querySelector("canvas"), marks = chart.querySelectorAll("{MARKS}").length;
        const pixels = canvas && canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        const painted = canvas && pixels.filter((value, k) => k % 4 === 3 && value > 0).length;
        return {{name: chart.dataset.figure, drawn: chart.dataset.drawn, marks: canvas ? painted : marks}};
    }})""")
    assert charts
    assert [chart for chart in charts if chart["drawn"] != "yes" or not chart["marks"]] == []


def test_the_page_on_a_model_has_all_figures(open_page: Open) -> None:
    found = open_page("model").page.evaluate(f"{CHARTS}.map((chart) => chart.dataset.figure)")
    assert set(found) >= {
        *("seen-unseen-curve", "accuracy-by-class", "confusion", "leaks", "reliability", "hubness", "mistakes"),
        *("validation-curve", "training-curve", "self-training", "classes-in-space", "images-in-space"),
    }
    assert found.count("images-in-space") == 4
    assert open_page("model").page.locator("#images-in-space canvas").count() == 4


def test_reference_lines_are_drawn(open_page: Open) -> None:
    page = open_page("model").page
    assert page.locator("#hubness .role-mark.mark-rule line").count() == 1
    assert page.locator("#reliability .role-mark.mark-line path[stroke-dasharray]").count() == 1


# -- tooltips --------------------------------------------------------------------------------------------------------------


def tooltip(page: Any) -> str:
    page.wait_for_selector("#vg-tooltip-element.visible", timeout=5_000)
    return str(page.locator("#vg-tooltip-element").inner_text())


def test_the_tooltip_of_a_class_has_its_name(open_page: Open, small_world: ZeroShotDataset) -> None:
    page = open_page("model").page
    page.locator("#accuracy-by-class .role-mark.mark-symbol path").first.hover()
    assert any(label in tooltip(page) for label in small_world.unseen.tolist())
    page.mouse.move(0, 0)


def test_the_tooltip_of_an_image_has_its_true_class(open_page: Open, small_world: ZeroShotDataset) -> None:
    page = open_page("model").page
    canvas = page.locator("#images-in-space canvas").first
    canvas.scroll_into_view_if_needed()
    # A painted pixel with painted neighbours.
    position = canvas.evaluate("""(canvas) => {
        const {width, height} = canvas, near = [-2, -1, 0, 1, 2], box = canvas.getBoundingClientRect();
        const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
        const painted = (x, y) => pixels[4 * (y * width + x) + 3] > 100;
        for (let y = 2; y < height - 2; y++) for (let x = 2; x < width - 2; x++)
            if (near.every((dy) => near.every((dx) => painted(x + dx, y + dy))))
                return [box.left + x * box.width / width, box.top + y * box.height / height];
    }""")
    page.mouse.move(*position)
    words = tooltip(page)
    assert "true class" in words
    assert any(label in words for label in small_world.unseen.tolist())
    page.mouse.move(0, 0)


def test_a_tooltip_escapes_names(open_page: Open) -> None:
    opened = open_page("names")
    page = opened.page
    for index in range(page.locator("#accuracy-by-class .role-mark.mark-symbol path").count()):
        page.locator("#accuracy-by-class .role-mark.mark-symbol path").nth(index).hover(force=True)
        words = tooltip(page)
        assert any(readable(name) in words for name in AWKWARD), words
    assert page.locator("#vg-tooltip-element img, #vg-tooltip-element script").count() == 0
    page.mouse.move(0, 0)
    assert opened.messages == []


def test_names_are_escaped(open_page: Open) -> None:
    opened = open_page("names")
    assert opened.page.title() == AWKWARD[0]
    words = opened.page.locator("body").inner_text()
    assert AWKWARD[1] in words
    assert opened.page.locator("img").count() == 0
    headings = opened.page.locator("#best-images h4").all_inner_texts()
    shown = [readable(name) for name in AWKWARD]
    assert all(any(name in heading for name in shown) for heading in headings)
    drawn = "".join(opened.page.locator("#confusion svg text").all_text_contents())
    assert "<" in drawn
    assert "&lt;" not in drawn


# -- tables ----------------------------------------------------------------------------------------------------------------


def column(page: Any, head: str) -> list[str]:
    index = heads(page).index(head)
    return [row[index] for row in page.evaluate(f"{ROWS}.map((row) => [...row.cells].map((cell) => cell.textContent.trim()))")]


def heads(page: Any) -> list[str]:
    return list(page.evaluate(f"[...{TABLE}.tHead.rows[0].cells].map((cell) => cell.textContent.trim())"))


def test_a_column_header_sorts_numerically(open_page: Open) -> None:
    page = open_page("benchmark", fresh=True).page
    number, name = (page.locator(f"{ALL_RESULTS} th").nth(heads(page).index(head)) for head in ("T1", "method"))
    found = {}
    for _ in range(2):
        number.locator("button").click()
        found[number.get_attribute("aria-sort")] = column(page, "T1")
    assert found == {"ascending": ["9.5", "10.2 ± 0.3", "33.7", "-"], "descending": ["33.7", "10.2 ± 0.3", "9.5", "-"]}
    name.locator("button").click()
    assert name.get_attribute("aria-sort") == "ascending"
    assert number.get_attribute("aria-sort") is None
    assert column(page, "method") == ["ALE", "ESZSL", "SAE", "SJE"]


def test_a_column_header_works_with_the_keyboard(open_page: Open) -> None:
    page = open_page("benchmark", fresh=True).page
    focused = f"document.activeElement.closest('{ALL_RESULTS} th')?.textContent.trim() ?? ''"
    for _ in range(120):
        page.keyboard.press("Tab")
        if page.evaluate(focused) == "method":
            break
    assert page.evaluate(focused) == "method"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    page.keyboard.press("Enter")
    assert column(page, "method") == ["ALE", "ESZSL", "SAE", "SJE"]
    page.keyboard.press("Space")
    assert column(page, "method") == ["SJE", "SAE", "ESZSL", "ALE"]


# -- downloads -------------------------------------------------------------------------------------------------------------


def saved(page: Any, selector: str) -> tuple[str, bytes]:
    with page.expect_download() as waiting:
        page.locator(selector).first.evaluate("(button) => button.click()")
    page.wait_for_timeout(110)  # Chromium refuses more than ten files a second
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def same(cell: str, expected: str) -> bool:
    try:
        return float(cell) == pytest.approx(float(expected), rel=5e-5)
    except ValueError:
        return cell == expected


@pytest.mark.parametrize("name", ["benchmark", "names"])
def test_csv_downloads(open_page: Open, made: dict[str, Page], name: str) -> None:
    page, content = open_page(name).page, made[name]
    blocks = [block for section in content.sections for block in section.blocks if hasattr(block, "columns")]
    assert len(blocks) >= 4
    for block in blocks:
        file, found = saved(page, f"[data-save=csv][data-of={block.name}]")
        assert file == f"{block.name}.csv"
        cells, expected = rows(found.decode("utf-8")), rows(as_csv(block.columns))
        assert [len(row) for row in cells] == [len(row) for row in expected]
        differing = [
            pair
            for row, wanted in zip(cells, expected, strict=True)
            for pair in zip(row, wanted, strict=True)
            if not same(*pair)
        ]
        assert differing == [], block.name
        if isinstance(block, DataTable):
            assert found.decode("utf-8") == as_csv(block.columns)


@pytest.mark.parametrize("figure", ["confusion", "images-in-space"])
def test_svg_and_png_downloads(open_page: Open, figure: str) -> None:
    page = open_page("model").page
    name, svg = saved(page, f"#{figure} [data-save=svg]")
    assert re.fullmatch(rf"{figure}(-1)?\.svg", name)
    root = ElementTree.fromstring(svg.decode("utf-8"))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 5
    name, png = saved(page, f"#{figure} [data-save=png]")
    assert name.endswith(".png")
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.format == "PNG"
        assert picture.convert("RGBA").getpixel((0, 0)) == (255, 255, 255, 255)  # white in any theme
        assert len(picture.convert("RGB").getcolors(1_000_000) or ()) > 5


# -- themes ----------------------------------------------------------------------------------------------------------------


def brightness(page: Any, what: str, selector: str) -> float:
    """Brightness from 0 (black) to 1 (white)."""
    colour = page.evaluate(f"getComputedStyle(document.querySelector({selector!r})).{what}")
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return (red + green + blue) / 3 / 255


TEXT = "#confusion svg .role-axis-label text"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_follows_the_system_and_the_button_switches_it(open_page: Open, theme: str) -> None:
    page = open_page("names", theme=theme, fresh=True).page
    seen = []
    for _ in range(2):
        seen.append((brightness(page, "backgroundColor", "body") > 0.5, brightness(page, "fill", TEXT) < 0.5))
        page.click("#theme")
    light = theme == "light"
    assert seen == [(light, light), (not light, not light)]


@pytest.mark.parametrize("name", EVERY)
def test_no_horizontal_scrolling_on_a_phone(open_page: Open, name: str) -> None:
    opened = open_page(name, width=375)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 375
    wide = opened.page.evaluate(f"{CHARTS}.filter((chart) => chart.getBoundingClientRect().right > 376).length")
    assert wide == 0
    assert opened.messages == []


def test_controls_are_hidden_in_print(open_page: Open) -> None:
    page = open_page("model", theme="dark").page
    hidden = "nav, .downloads, #theme"
    count = f"[...document.querySelectorAll('{hidden}')].filter((one) => one.offsetParent !== null).length"
    assert page.evaluate(count) > 0
    page.emulate_media(media="print")
    assert page.evaluate(count) == 0
    pdf = page.pdf()
    page.emulate_media(media="screen")
    assert pdf.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) > 2
    assert brightness(page, "backgroundColor", "body") < 0.5  # the theme is restored
