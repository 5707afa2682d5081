"""The report of 6 classes with 30 photos and long names, for readers with any eyes, screen or theme."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.analysis.tsne import tsne_embedding
from sightunseen.core.class_table import ClassTable
from sightunseen.data.doctor import FAIL, WARN, Finding, examine
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.data.synthetic_photos import choose_things, draw_photos
from sightunseen.methods import Foresight
from sightunseen.pipeline import TrainingSpecification, train
from sightunseen.report.model_page import ModelReport, model_page
from sightunseen.report.space_figures import space_of
from sightunseen.report.thumbnails import Photos

pytestmark = pytest.mark.browser

LONG = (
    "Lesser_Antillean_bullfinch_of_the_windward_islands",
    "Great_northern_tilefish_from_the_continental_shelf",
    "Chocolate-chip_oat_cookie_with_sea_salt",
    "Semi-skimmed_lactose-free_organic_milk",
    "Northern_rough-winged_swallow_in_winter_plumage",
    "owl",
)
SIX = World(n_seen=4, n_unseen=2, n_attributes=8, n_features=16, images_per_class=5, private=0.5, noise=1.5)
SCREENS = [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")]
Open = Callable[[int, str], Any]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report, with findings of all levels, photos, the search table and the joint embedding space."""
    folder = tmp_path_factory.mktemp("six")
    for number, thing in enumerate(choose_things(24)[: len(LONG)]):
        draw_photos(folder / "photos" / str(number), thing, range(5), size=32)
    data = make_world(SIX)
    new = dict(zip(data.classes.labels.tolist(), LONG, strict=True))
    labels = np.array([new[label] for label in data.labels.tolist()])
    images = sorted(photo.relative_to(folder).as_posix() for photo in (folder / "photos").rglob("*.jpg"))
    table = ClassTable(LONG, data.classes.vectors, data.classes.attribute_names)
    data = replace(data, labels=labels, classes=table, image_names=np.array(images))
    findings = [
        *examine(data),
        Finding("one", WARN, "a warning.", "", "Look."),
        Finding("two", FAIL, "a failure.", "", "Look."),
    ]
    model = train(TrainingSpecification(method=Foresight), data, folder / "run", examine(data))
    test = data.test_unseen
    spaces = [space_of("Foresight", model, test.X, data.unseen, tsne_embedding, truth=test.y)]
    report = ModelReport("Six classes", model, data, findings, spaces=spaces, photos=Photos(folder / "photos"))
    model_page(report).save(folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def opened(browser: Any, path: Path) -> Iterator[Open]:
    """Open the report at a width and in a theme, once for each."""
    pages: dict[tuple[int, str], Any] = {}

    def opened(width: int, theme: str) -> Any:
        if (width, theme) not in pages:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, offline=True)
            pages[width, theme] = context.new_page()
            pages[width, theme].goto(path.as_uri())
            pages[width, theme].wait_for_selector("body[data-ready=yes]", state="attached", timeout=30_000)
        return pages[width, theme]

    yield opened
    for page in pages.values():
        page.context.close()


@pytest.mark.parametrize(("width", "theme"), SCREENS)
def test_axe_finds_no_serious_violation(opened: Open, width: int, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page = opened(width, theme)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    found = axe.Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []


@pytest.mark.parametrize(("width", "theme"), SCREENS)
def test_every_drawing_has_a_role_and_a_label(opened: Open, width: int, theme: str) -> None:
    drawings = opened(width, theme).evaluate(
        "[...document.querySelectorAll('.chart svg.marks, .chart canvas.marks')].map((one) => [one.getAttribute('role'), "
        "one.getAttribute('aria-label'), one.closest('figure').querySelector('h3').textContent])"
    )
    assert len(drawings) >= 9
    for role, label, title in drawings:
        assert role == "img"
        assert label.startswith(title)


# Contrast of the text of an element with its background, as defined by WCAG 2.
CONTRAST = """(element, background) => {
    const light = (colour) => {
        const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255);
        const [r, g, b] = parts.map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const probe = Object.assign(document.createElement("i"), {style: `color: var(${background})`});
    document.body.append(probe);
    const both = [getComputedStyle(element).color, getComputedStyle(probe).color].map(light).sort((a, b) => b - a);
    probe.remove();
    return (both[0] + 0.05) / (both[1] + 0.05);
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("level", ["PASS", "WARN", "FAIL"])
def test_levels_have_a_contrast_of_at_least_4_5(opened: Open, theme: str, level: str) -> None:
    cell = opened(1440, theme).locator(f"#findings td.level.{level}").first
    for background in ("--paper", "--card"):  # of the table, and of the row under the pointer
        assert cell.evaluate(CONTRAST, background) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_selected_hyperparameters_are_highlighted(opened: Open, theme: str) -> None:
    page = opened(1440, theme)
    rows = page.locator("#tried tbody tr")
    colours = [row.evaluate("(row) => getComputedStyle(row).backgroundColor") for row in rows.all()[:3]]
    assert colours[0] not in colours[1:]
    assert page.locator("#tried tr[aria-current=true]").count() == 1
    assert page.locator("#tried tr[aria-current=true] td").nth(1).inner_text() == "yes"


@pytest.mark.parametrize(("width", "theme"), SCREENS)
def test_the_verdict_and_the_intervals_are_at_the_top(opened: Open, width: int, theme: str) -> None:
    page = opened(width, theme)
    assert "of 10 images of unseen classes right" in page.locator(".verdict p").first.inner_text()
    tiles = {tile.locator("dt").inner_text(): tile.inner_text() for tile in page.locator(".tile").all()}
    assert ["95% interval" in tiles[name] for name in ("T1", "U", "S", "H", "AUSUC")] == [True] * 4 + [False]


# Pixels of texts on a canvas: opaque, and nearly white or nearly black.
TEXTS = """(canvas) => {
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, counts = {light: 0, dark: 0};
    for (let k = 0; k < pixels.length; k += 4) if (pixels[k + 3] > 230) {
        const [low, high] = [Math.min(...pixels.slice(k, k + 3)), Math.max(...pixels.slice(k, k + 3))];
        if (low > 215) counts.light++;
        if (high < 45) counts.dark++;
    }
    return counts;
}"""


def test_names_on_a_canvas_follow_the_theme(opened: Open) -> None:
    page = opened(1440, "dark")
    canvas = page.locator("#images-in-space canvas")
    in_dark = canvas.evaluate(TEXTS)
    page.click("#theme")
    in_light = canvas.evaluate(TEXTS)
    page.click("#theme")
    assert in_dark["light"] > 30
    assert in_light["light"] == 0
    assert in_light["dark"] > in_dark["dark"] + 30


@pytest.mark.parametrize("width", [1440, 390])
def test_photos_show_right_and_wrong_by_more_than_colour(opened: Open, width: int) -> None:
    page = opened(width, "light")
    marks = page.evaluate(
        "[...document.querySelectorAll('.photo')].map((one) => [one.className.split(' ')[1], "
        "one.querySelector('.mark').textContent, one.querySelector('img').naturalWidth > 0])"
    )
    assert {tuple(mark) for mark in marks} == {("correct", "✓", True), ("wrong", "✗", True)}
    captions = page.locator("#confident-mistakes .photo .caption").all_inner_texts()
    assert captions
    assert all("predicted:" in caption and "true:" in caption for caption in captions)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(opened: Open, theme: str) -> None:
    page = opened(390, theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    parts = "[...document.querySelectorAll('.chart, .tile, .photo, h3, h4, .verdict')]"
    assert page.evaluate(f"{parts}.filter((one) => one.getBoundingClientRect().right > 391).length") == 0
