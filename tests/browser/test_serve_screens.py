"""The page of the service on small screens, in both themes, and its accessibility."""

from pathlib import Path
from typing import Any

import pytest

from .served import Open, by_attributes, by_means, by_text, photo

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_small_screen_has_no_horizontal_scrolling(open_page: Open, tmp_path: Path, theme: str) -> None:
    opened = open_page(by_attributes, 375, theme, token="sesame")
    page = opened.page
    page.set_input_files("#files", [photo(tmp_path, 0), photo(tmp_path, 240)])
    opened.becomes("blue", 1)
    page.check("input[value=some]")
    page.fill("#name", "W" * 100)
    opened.slide("redness", 1.0)
    page.wait_for_timeout(400)
    assert page.evaluate("document.documentElement.scrollWidth") == 375
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('#side *')].map((one) => one.getBoundingClientRect().right))"
    )
    assert right <= 375
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(20, 24, 29)" if theme == "dark" else "rgb(255, 255, 255)")
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


@pytest.mark.parametrize("width", [390, 1440])
def test_everything_that_is_pressed_has_44_pixels(open_page: Open, tmp_path: Path, width: int) -> None:
    opened = open_page(by_means, width, token="sesame")
    page = opened.page
    page.set_input_files("#files", [photo(tmp_path, 0), photo(tmp_path, 240)])
    opened.becomes("blue", 1)
    page.check("input[value=some]")
    page.locator("#class-list label").first.click()
    page.fill("#name", "new")
    opened.slide("redness", 1.0)
    page.wait_for_timeout(300)
    small = page.evaluate(TARGETS)
    assert small == []


# The area of a checkbox or radio button is its label.
TARGETS = """[...document.querySelectorAll('a, button, select, summary, textarea, input')]
    .filter((one) => one.checkVisibility())
    .map((one) => ['checkbox', 'radio', 'file'].includes(one.type) ? one.closest('label') || one.parentElement : one)
    .filter((one) => one.getBoundingClientRect().height < 43.5 || one.getBoundingClientRect().width < 43.5)
    .map((one) => one.outerHTML.slice(0, 100))"""


def test_all_photos_are_reachable_on_a_phone(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_means, 390)
    page = opened.page
    page.set_input_files("#files", [photo(tmp_path, hue) for hue in (0, 40, 120, 160, 240, 280)])
    opened.becomes("plum", 5)
    boxes = [page.locator(".photo").nth(card).bounding_box() for card in range(6)]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
    assert [box["y"] for box in boxes] == sorted({box["y"] for box in boxes})  # below each other
    for name, section in (("New class", "#describe"), ("Candidates", "#candidates"), ("Photos", "#answers")):
        page.get_by_role("navigation").get_by_text(name).click()
        assert page.locator(section).bounding_box()["y"] == pytest.approx(16, abs=20)
    first = page.locator(".photo").first
    assert first.locator(".reasons").is_hidden()  # a summary until it is opened
    first.locator("summary").click()
    assert first.locator(".reasons").is_visible()
    page.check("input[value=seen]")
    page.wait_for_timeout(300)
    assert first.locator(".reasons").is_visible()  # stays open when predictions change


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("model", [by_means, by_text], ids=["attributes", "text"])
def test_axe_finds_no_serious_violation(open_page: Open, tmp_path: Path, model: Any, width: int, theme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    (tmp_path / "notes.png").write_text("not a photo")
    opened = open_page(model, width, theme, token="sesame")
    page = opened.page
    page.set_input_files("#files", [photo(tmp_path, 0), photo(tmp_path, 240), str(tmp_path / "notes.png")])
    page.locator(".ranks").nth(1).wait_for()
    page.wait_for_selector(".failed")
    for card in page.locator(".photo:has(.ranks)").all():
        if card.locator(".reasons").is_hidden():
            card.locator("summary").click()
    page.check("input[value=some]")
    page.get_by_role("button", name="select all shown").click()
    page.fill("#name", "new")
    page.fill("#description", "a new thing") if model is by_text else opened.slide("redness", 1.0)
    page.click("text=Add this class")  # without the token
    page.wait_for_selector("#errors > div:nth-child(2)")
    page.wait_for_timeout(300)
    found = axe.Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in serious] == []
