"""Messages of the page of the service: errors, tokens, incomplete forms and rejected photos."""

from pathlib import Path

import pytest

from .served import Open, by_attributes, by_attributes_calibrated, photo

pytestmark = pytest.mark.browser


def test_errors_stay_until_they_are_dismissed_or_their_cause_is_gone(open_page: Open, tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("not a photo")
    opened = open_page(by_attributes)
    page = opened.page
    page.set_input_files("#files", str(tmp_path / "notes.png"))
    page.get_by_text("1 of 1 photos could not be read").wait_for()
    page.click("text=Add this class")
    assert [text.split()[0] for text in opened.errors()] == ["1", "Give"]
    page.fill("#name", "yellow")
    opened.slide("yellowness", 1.0)
    page.click("text=Add this class")
    page.wait_for_selector("#added-list li")  # which settles the error about the form, and no other
    assert page.inner_text("#status").startswith("Added “yellow”")
    assert [text.split()[0] for text in opened.errors()] == ["1"]
    page.get_by_role("button", name="dismiss: 1 of 1 photos").click()
    assert opened.errors() == []


def test_a_failed_prediction_is_settled_by_the_next_one(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_attributes)
    page = opened.page
    page.set_input_files("#files", photo(tmp_path, 0))
    opened.becomes("red")
    page.route("**/predict", lambda route: route.abort())
    page.check("input[value=unseen]")
    page.get_by_text("no response from the server").wait_for()
    page.click("text=Add this class")
    assert len(opened.errors()) == 2
    page.unroute("**/predict")
    page.check("input[value=seen]")
    opened.becomes("red")
    page.get_by_text("no response from the server").wait_for(state="detached")
    assert "name" in opened.errors()[0]


def test_missing_token_is_an_error(open_page: Open) -> None:
    opened = open_page(by_attributes, token="sesame")
    page = opened.page
    page.fill("#name", "yellow")
    opened.slide("yellowness", 1.0)
    page.click("text=Add this class")
    page.wait_for_selector("#errors > div")
    assert "token" in opened.errors()[0]
    page.fill("#token", "sesame")
    page.click("text=Add this class")
    page.wait_for_selector("#added-list li")


def test_token_for_everything_is_asked_for_first(open_page: Open, tmp_path: Path) -> None:
    opened = open_page(by_attributes, token="sesame", token_for="everything")
    page = opened.page
    assert "needs a token" in opened.errors()[0]
    page.fill("#token", "wrong")
    page.keyboard.press("Tab")
    page.wait_for_selector("#errors > div")
    assert page.inner_text("#subtitle") == "…"
    page.fill("#token", "sesame")
    page.keyboard.press("Tab")
    page.get_by_text("9 classes").wait_for()
    assert opened.errors() == []
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
    assert "name" in opened.errors()[0]
    page.fill("#name", "red")
    opened.slide("redness", 1.0)
    page.click("text=Add this class")
    assert "already" in opened.errors()[0]
    page.click("text=Start over")
    page.fill("#name", "new")
    page.click("text=Add this class")
    assert "slider" in opened.errors()[0]
    page.select_option("#like", "plum")
    page.get_by_text("6 set").wait_for()
    page.click("text=Add this class")
    page.wait_for_selector("#added-list li")
    assert opened.messages == []


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
    assert "“plum”" in unsure.locator("summary").inner_text()
    assert unsure.locator(".percent").count() == 4  # of the classes below
    assert (opened.messages, opened.strangers) == ([], [])
