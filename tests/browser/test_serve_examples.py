"""Corrections and examples on the page of the service."""

from pathlib import Path
from typing import Any

import pytest

from .served import NASTY, Open, by_attributes, by_means, photo

pytestmark = pytest.mark.browser


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
    assert "“lime” now has 1 example." in page.inner_text("#status")
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
    page.wait_for_selector("#errors > div")
    assert "token" in opened.errors()[0]
    page.fill("#token", "sesame")
    page.click("text=Use as example")
    opened.becomes("lime")


def test_method_without_examples_offers_no_correction(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_attributes)
    opened.page.set_input_files("#files", photo(tmp_path, 0))
    opened.becomes("red")
    assert opened.page.locator(".correction").is_hidden()
    assert opened.page.inner_text("#no-examples") == "This model cannot use examples. A Foresight model of this version can."
    assert opened.page.is_hidden("#teach")


def test_example_photos_are_added_for_a_class(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_means)
    page = opened.page
    page.set_input_files("#files", photo(tmp_path, 55))
    opened.becomes("amber")
    page.set_input_files("#example-files", photo(tmp_path, 60))
    page.get_by_text("Choose the class that the example photos show.").wait_for()
    page.select_option("#example-class", "lime")
    page.set_input_files("#example-files", [photo(tmp_path, 54), photo(tmp_path, 56)])
    page.get_by_text("lime: 2 examples").wait_for()
    opened.becomes("lime")
    assert page.inner_text("#status") == "“lime” now has 2 examples."
    assert opened.errors() == []
    assert (opened.messages, opened.strangers) == ([], [])
