"""Readable forms of labels and attributes, unique per class."""

import pytest

from sightunseen.core.names import readable_attribute, readable_names


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("001.Black_footed_Albatross", "Black footed Albatross"),
        ("humpback+whale", "humpback whale"),
        ("thing 007", "thing 007"),
        ("3.5", "3.5"),  # a number, not a numbered name
        ("12.", "12."),
        ("007", "007"),
        (7, "7"),
        (2.5, "2.5"),
        ("___", "___"),  # would be empty
        ("  tern ", "tern"),
        ("<b>_&_</b>", "<b> & </b>"),
        ("ツバメ", "ツバメ"),
    ],
)
def test_readable_label(label: object, name: str) -> None:
    assert readable_names([label]) == {label: name}


@pytest.mark.parametrize("labels", [["001.Tern", "002.Tern"], ["sea_lion", "sea+lion"], ["Tern", "03.Tern", "04.Jay"]])
def test_labels_stay_unchanged_if_readable_forms_collide(labels: list[str]) -> None:
    assert readable_names(labels) == {label: label for label in labels}


def test_no_labels_give_an_empty_dict() -> None:
    assert readable_names([]) == {}


@pytest.mark.parametrize(
    ("attribute", "name"),
    [
        ("has_bill_shape::curved_(up_or_down)", "bill shape: curved (up or down)"),
        ("stripes", "stripes"),
        ("newworld", "newworld"),
        ("was_has_been", "was has been"),
        ("has_", "has_"),
    ],
)
def test_readable_attribute_name(attribute: str, name: str) -> None:
    assert readable_attribute(attribute) == name
