"""The page of the service in Chromium: predictions, candidates, new classes and the keyboard."""

import io
import re
import time
from pathlib import Path

import pytest
from PIL import Image

from sightunseen.core.records import RunRecord
from sightunseen.features.backbones import CallableBackbone
from sightunseen.methods import ESZSL

from .served import ATTRIBUTES, NASTY, Open, by_attributes, by_text, near, photo

pytestmark = pytest.mark.browser


def test_photos_have_ranked_classes_and_contributions(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_attributes)
    page = opened.page
    assert "9 classes" in page.inner_text("#subtitle")
    page.set_input_files("#files", [photo(tmp_path, hue) for hue in (0, 240, 85)])
    for card, colour in enumerate(("red", "blue", "lime")):
        opened.becomes(colour, card)
    first = page.locator(".photo").first
    assert first.locator(".ranks li").count() == 5
    widths = first.locator(".bar").evaluate_all("bars => bars.map((bar) => bar.getBoundingClientRect().width)")
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > widths[-1]
    assert first.locator(".reasons li").first.inner_text().startswith("less yellowness\n0.37 vs. 0.89")
    texts = [text.replace("\N{MINUS SIGN}", "-") for text in first.locator(".reasons .number").all_inner_texts()]
    *parts, total = [float(text) for text in texts]
    assert sum(parts) == pytest.approx(total, abs=0.006 * max(map(abs, [*parts, total])) * len(parts))  # rounded
    assert "lead in score" in first.locator(".reasons .total").inner_text()
    assert total > 0
    assert first.locator("summary").inner_text() == f"Why “red” and not “{opened.answer()[1]}”?"
    shares = first.locator(".reasons .share").evaluate_all("bars => bars.map((bar) => bar.getBoundingClientRect().width)")
    sizes = [abs(float(text)) for text in texts]
    assert sorted(range(len(sizes)), key=sizes.__getitem__)[-1] == sorted(range(len(shares)), key=shares.__getitem__)[-1]
    assert (opened.messages, opened.strangers) == ([], [])


def test_verdict_of_the_run_record_is_at_the_top(open_page: Open) -> None:
    def tested() -> tuple[ESZSL, CallableBackbone]:
        model, backbone = by_attributes()
        verdict = ("8 of 9 photos of unseen classes right.", "<b>Photos</b> of lime are mostly taken for mint.")
        model.record_ = RunRecord("train", "ESZSL", {}, 0, "honest", {}, verdict=verdict)
        return model, backbone

    page = open_page(tested).page
    assert page.inner_text("#verdict summary") == "When tested: 8 of 9 photos of unseen classes right."
    page.click("#verdict summary")
    assert page.inner_text("#verdict p") == "<b>Photos</b> of lime are mostly taken for mint."
    assert open_page(by_attributes).page.is_hidden("#verdict")


def test_candidates_can_be_restricted(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_attributes)
    page = opened.page
    page.set_input_files("#files", photo(tmp_path, 40))
    opened.becomes("amber")
    page.check("input[value=unseen]")
    opened.becomes("lime")
    assert set(opened.answer()) == {"lime", "azure"}
    page.check("input[value=some]")
    page.get_by_text("Select at least one class to get answers.").wait_for()
    assert opened.answer() == []  # answers for other candidates are gone
    assert page.inner_text(".photo .hint") == "Select at least one class to get an answer."
    assert opened.errors() == []
    page.fill("#find-class", "m")
    page.get_by_label("mint").check()
    page.get_by_label("plum").check()
    opened.becomes("mint")
    assert opened.answer() == ["mint", "plum"]
    assert page.is_hidden("#some-hint")
    page.check("input[value=seen]")
    opened.becomes("amber")
    assert opened.messages == []


def test_class_described_by_attributes_is_predicted_before_and_after_adding(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_attributes)
    page = opened.page
    page.set_input_files("#files", [photo(tmp_path, 60), photo(tmp_path, 240)])
    opened.becomes("blue", 1)
    assert opened.answer()[0] in ("amber", "lime")
    page.fill("#name", NASTY)
    for attribute, value in zip(ATTRIBUTES, near(60, 6), strict=True):
        opened.slide(attribute, float(value))
    opened.becomes(NASTY)  # described, not added yet
    assert "Add it to keep it" in page.inner_text("#preview")
    assert page.locator("#added-list li").count() == 0
    page.click("text=Add this class")
    page.wait_for_selector("#added-list li")
    opened.becomes(NASTY)
    opened.becomes("blue", 1)
    assert "10 classes" in page.inner_text("#subtitle")
    assert page.locator("#photos img[src=x]").count() == 0  # the name is text
    page.click("#added-list button")
    page.wait_for_selector("#added", state="hidden")
    until = time.monotonic() + 10
    while NASTY in opened.answer():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert "9 classes" in page.inner_text("#subtitle")
    assert opened.messages == []


def test_class_described_by_a_sentence_is_predicted(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_text)
    page = opened.page
    page.set_input_files("#files", [photo(tmp_path, 60), photo(tmp_path, 240)])
    opened.becomes("a blue car", 1)
    assert opened.answer()[0] != "citrus"
    assert page.is_hidden("#by-attributes")
    page.fill("#name", "citrus")
    page.fill("#description", "a bright yellow lemon")
    opened.becomes("citrus")
    reasons = page.locator(".photo").first.locator(".reasons li").all_inner_texts()
    assert any(re.search("“(bright|yellow|lemon)”", text) and "in its description" in text for text in reasons), reasons
    page.click("text=Add this class")
    page.wait_for_selector("#added-list li")
    opened.becomes("citrus")
    opened.becomes("a blue car", 1)
    assert opened.messages == []


def test_invalid_file_does_not_affect_other_photos(open_page: Open, tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("not a photo")
    opened = open_page(by_attributes)
    page = opened.page
    page.set_input_files("#files", [str(tmp_path / "notes.png"), photo(tmp_path, 0)])
    opened.becomes("red", 1)
    page.wait_for_selector(".failed")
    assert "not an image" in page.inner_text(".failed")
    assert "1 of 2" in opened.errors()[0]
    assert [one for one in opened.messages if "422" not in one] == []  # logged by Chromium itself


def test_pasted_and_dropped_photos_are_predicted(open_page: Open) -> None:
    opened = open_page(by_attributes)
    content = io.BytesIO()
    Image.new("RGB", (30, 30), "blue").save(content, "png")
    script = """([kind, bytes]) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], "a.png", { type: "image/png" }));
        const key = kind === "paste" ? "clipboardData" : "dataTransfer";
        const Made = kind === "paste" ? ClipboardEvent : DragEvent;
        dispatchEvent(new Made(kind, { [key]: data, cancelable: true }));
    }"""
    for cards, kind in enumerate(("paste", "drop"), 1):
        opened.page.evaluate(script, [kind, list(content.getvalue())])
        opened.page.locator(".ranks").nth(cards - 1).wait_for()
        opened.becomes("blue")
    assert opened.messages == []


def test_all_controls_are_reachable_by_keyboard(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_attributes)
    page = opened.page

    def tab_to(wanted: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.id || document.activeElement.textContent") == wanted:
                return
        raise AssertionError(f"{wanted} is not reached")

    with page.expect_file_chooser() as chooser:
        tab_to("files")
        page.keyboard.press("Space")
    chooser.value.set_files(photo(tmp_path, 60))
    page.wait_for_selector(".ranks")
    tab_to("name")
    page.keyboard.type("yellow")
    for attribute, value in zip(ATTRIBUTES, near(60, 6), strict=True):
        tab_to("find-attribute")
        page.keyboard.press("Control+a")
        page.keyboard.type(attribute)
        tab_to("attribute-0")
        page.keyboard.press("ArrowRight")
        steps = round((value - float(page.input_value("#attribute-0"))) / float(page.evaluate(STEP)))
        for _ in range(abs(steps)):
            page.keyboard.press("ArrowRight" if steps > 0 else "ArrowLeft")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Shift+Tab")
    opened.becomes("yellow")
    tab_to("Add this class")
    page.keyboard.press("Enter")
    page.wait_for_selector("#added-list li")
    tab_to("remove")
    page.keyboard.press("Enter")
    page.wait_for_selector("#added", state="hidden")
    assert opened.messages == []


STEP = "(document.getElementById('attribute-0').max - document.getElementById('attribute-0').min) / 20"
