"""Class tables: lookup by label, and errors that name the fault."""

import numpy as np
import pytest

from sightunseen.core.class_table import ClassTable
from sightunseen.core.errors import DataError

LABELS = ["zebra", "okapi", "tapir", "cat"]
ATTRIBUTES = np.array([[1.0, 1.0, 0.5], [0.25, 1.0, 0.0], [0.0, 0.75, 0.0], [0.0, 0.0, 1.0]])
WORDS = np.array([[3.0, 1.0], [4.0, 1.0], [5.0, 9.0], [2.0, 6.0]])
NAMES = ["stripes", "hooves", "whiskers"]


@pytest.fixture
def table() -> ClassTable:
    return ClassTable(LABELS, {"attributes": ATTRIBUTES, "words": WORDS}, {"attributes": NAMES})


def test_vectors_of_keeps_order_and_repeats_of_labels(table: ClassTable) -> None:
    np.testing.assert_array_equal(table.vectors_of(["cat", "zebra", "cat"]), ATTRIBUTES[[3, 0, 3]])


@pytest.mark.parametrize("seed", range(4))
def test_lookup_does_not_depend_on_the_order_of_rows(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(4)
    mixed = ClassTable(np.array(LABELS)[order], ATTRIBUTES[order])
    np.testing.assert_array_equal(mixed.vectors_of(LABELS), ATTRIBUTES)
    np.testing.assert_array_equal(mixed.labels[mixed.rows_of(LABELS)], LABELS)


def test_numeric_labels_are_not_positions() -> None:
    table = ClassTable([2, 0, 1], [[2.0], [0.0], [1.0]])
    np.testing.assert_array_equal(table.vectors_of(np.array([0, 1, 2])), [[0.0], [1.0], [2.0]])
    assert 1 in table
    assert 3 not in table


def test_membership_is_by_label(table: ClassTable) -> None:
    assert "okapi" in table
    assert "otter" not in table
    assert 0 not in table


def test_first_semantics_are_in_use_by_default(table: ClassTable) -> None:
    np.testing.assert_array_equal(table.vectors, ATTRIBUTES)
    assert table.attribute_names == tuple(NAMES)
    words = table.using("words")
    np.testing.assert_array_equal(words.vectors_of(["tapir", "zebra"]), WORDS[[2, 0]])
    assert words.attribute_names is None
    assert words.using("attributes").attribute_names == tuple(NAMES)


def test_using_does_not_change_the_table(table: ClassTable) -> None:
    table.using("words")
    assert table.use == "attributes"


def test_semantics_in_use_can_be_given_to_the_constructor() -> None:
    table = ClassTable(LABELS, {"attributes": ATTRIBUTES, "words": WORDS}, ["x", "y"], use="words")
    np.testing.assert_array_equal(table.vectors, WORDS)
    assert table.attribute_names == ("x", "y")


def test_only_keeps_order_semantics_and_names(table: ClassTable) -> None:
    few = table.using("words").only(["tapir", "zebra"])
    assert few.labels.tolist() == ["tapir", "zebra"]
    assert few.use == "words"
    np.testing.assert_array_equal(few.vectors, WORDS[[2, 0]])
    np.testing.assert_array_equal(few.using("attributes").vectors, ATTRIBUTES[[2, 0]])
    assert few.using("attributes").attribute_names == tuple(NAMES)
    assert "okapi" not in few


def test_extended_has_old_and_new_classes_in_the_semantics_in_use(table: ClassTable) -> None:
    more = table.using("words").extended(ClassTable(["otter"], [[7.0, 8.0]]))
    np.testing.assert_array_equal(more.vectors_of(["otter", "zebra"]), [[7.0, 8.0], WORDS[0]])
    assert more.use == "words"
    assert "otter" not in table


def test_extended_keeps_the_attribute_names(table: ClassTable) -> None:
    assert table.extended(ClassTable(["otter"], [[0, 0, 1]])).attribute_names == tuple(NAMES)


def test_extended_matches_attributes_by_name(table: ClassTable) -> None:
    other = ClassTable(["otter"], [[9.0, 8.0, 7.0]], NAMES[::-1])
    try:
        found = table.extended(other).vectors_of(["otter"])
    except DataError:
        return  # an error is acceptable, too
    np.testing.assert_array_equal(found, [[7.0, 8.0, 9.0]])


def test_of_converts_a_mapping_and_returns_a_table_unchanged() -> None:
    table = ClassTable.of({"b": [1, 2], "a": np.array([3.0, 4.0])})
    np.testing.assert_array_equal(table.vectors_of(["a", "b"]), [[3, 4], [1, 2]])
    assert ClassTable.of(table) is table


def test_one_hot_vectors_are_rows_of_the_identity() -> None:
    table = ClassTable.one_hot(["b", "a", "b", "c"])
    assert sorted(table.labels.tolist()) == ["a", "b", "c"]
    np.testing.assert_array_equal(table.vectors @ table.vectors.T, np.eye(3))
    np.testing.assert_array_equal(np.sort(table.vectors, axis=1), [[0, 0, 1]] * 3)


def test_repr_says_how_many_classes_and_which_semantics(table: ClassTable) -> None:
    text = repr(table.using("words"))
    assert all(part in text for part in ("4 classes", "attributes (3)", "words (2)", "using words"))


@pytest.mark.parametrize("changed", ["labels", "vectors"])
def test_table_is_independent_of_the_arrays_given(changed: str) -> None:
    given = {"labels": np.array(LABELS), "vectors": ATTRIBUTES.copy()}
    table = ClassTable(**given)
    given[changed][[0, 1]] = given[changed][[1, 0]]
    np.testing.assert_array_equal(table.only(["zebra"]).vectors_of(["zebra"]), ATTRIBUTES[:1])


def test_vectors_are_read_only(table: ClassTable) -> None:
    with pytest.raises(ValueError, match="read-only"):
        table.vectors[0, 0] = 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ClassTable(["a", "b", "a"], np.eye(3)), "must be unique; repeated: 'a'"),
        (lambda: ClassTable([1, 2, 2], np.eye(3)), "must be unique; repeated: '2'"),
        (lambda: ClassTable([], np.empty((0, 2))), "needs a list of labels"),
        (lambda: ClassTable("a", np.eye(1)), "needs a list of labels"),
        (lambda: ClassTable([["a", "b"]], np.eye(2)), "needs a list of labels"),
        (lambda: ClassTable(["a"], {}), "at least one kind of semantic vectors"),
        (
            lambda: ClassTable(["a", "b"], np.eye(3)),
            r"'attributes' must have one row for each of the 2 labels; got shape \(3, 3\)",
        ),
        (lambda: ClassTable(["a", "b"], [1, 2]), r"'attributes' must be a table of numbers; got .* of shape \(2,\)"),
        (
            lambda: ClassTable(["a", "b"], {"fine": np.eye(2), "short": [[1]]}),
            r"'short' must have one row .* got shape \(1, 1\)",
        ),
        (lambda: ClassTable(["a", "b"], [["x"], ["y"]]), "'attributes' must be a table of numbers"),
        (lambda: ClassTable(["a", "b"], [[1], [1, 2]]), "'attributes' must be a table of numbers"),
        (lambda: ClassTable(["a", "b"], np.eye(2), ["one"]), "'attributes' has 2 dimensions but 1 attribute names"),
        (
            lambda: ClassTable(["a"], {"u": [[1]], "v": [[1, 2]]}, {"v": list("pqr")}),
            "'v' has 2 dimensions but 3 attribute names",
        ),
        (lambda: ClassTable(["a"], {"u": [[1]], "v": [[2]]}, use="w"), "no semantics called 'w' .* it has u, v"),
        (lambda: ClassTable(["a"], {"u": [[1]]}).using("w"), "no semantics called 'w'"),
        (lambda: ClassTable(["a"], {"u": [[1]]}, {"w": ["x"]}), "'w'"),
        (lambda: ClassTable(["a", 1], np.eye(2)), "label"),
        (lambda: ClassTable.of({}), "mapping of labels to vectors is empty"),
        (lambda: ClassTable.of({"a": [1], "b": [1, 2, 3]}), r"found lengths \[1, 3\]"),
        (lambda: ClassTable.of({"a": 1, "b": 2}), "must be a table of numbers"),
        (lambda: ClassTable.of({"a": ["much"], "b": ["little"]}), "number"),
    ],
    ids=[
        "repeated label",
        "repeated number",
        "no labels",
        "one bare label",
        "labels in two dimensions",
        "no semantics",
        "too many rows",
        "vectors in one dimension",
        "second semantics too short",
        "text for numbers",
        "ragged rows",
        "too few names",
        "too many names",
        "unknown use",
        "using unknown",
        "names of unknown semantics",
        "text and numbers as labels",
        "empty mapping",
        "mapping of several lengths",
        "mapping to bare numbers",
        "mapping to text",
    ],
)
def test_invalid_tables_raise_an_error_with_the_reason(make, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()


@pytest.mark.parametrize("ask", ["rows_of", "vectors_of", "only"])
def test_unknown_label_is_named(table: ClassTable, ask: str) -> None:
    with pytest.raises(DataError, match=r"^'otter' has no semantic vector; 4 classes do .*Add the missing classes"):
        getattr(table, ask)(["zebra", "otter", "otter"])


def test_first_few_of_many_unknown_labels_are_named(table: ClassTable) -> None:
    with pytest.raises(DataError, match=r"^'a', 'b', 'c' and 2 more have no semantic vector"):
        table.vectors_of(list("edcba"))


def test_only_rejects_empty_and_repeated_labels(table: ClassTable) -> None:
    with pytest.raises(DataError, match="needs a list of labels"):
        table.only([])
    with pytest.raises(DataError, match="must be unique; repeated: 'cat'"):
        table.only(["cat", "cat"])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (ClassTable(["otter", "cat"], np.eye(2, 3)), "'cat' is already in the class table"),
        (ClassTable(["otter"], [[1.0, 2.0]]), r"vectors of length 3 \('attributes'\); got 2"),
        (ClassTable([7], [[1.0, 2.0, 3.0]]), "label"),
    ],
    ids=["known label", "other length", "a number among names"],
)
def test_extended_rejects_incompatible_classes(table: ClassTable, other: ClassTable, message: str) -> None:
    with pytest.raises(DataError, match=message):
        table.extended(other)


def test_table_does_not_change_with_the_array_it_was_made_of(table: ClassTable) -> None:
    given = ATTRIBUTES.copy()
    view = given.view()
    view.flags.writeable = False
    tables = [ClassTable(LABELS, given), ClassTable(LABELS, view)]
    given[:] = 7
    for made in tables:
        np.testing.assert_array_equal(made.vectors, ATTRIBUTES)
        with pytest.raises(ValueError, match="read-only"):
            made.vectors[0, 0] = 7


def test_tables_of_the_same_classes_share_their_vectors(table: ClassTable) -> None:
    assert table.using("words").semantics["attributes"] is table.semantics["attributes"]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
def test_mapping_of_arrays_is_a_table(kind: type) -> None:
    vectors = np.array([[1, 2, 3], [4, 5, 6]], dtype=kind)
    made = ClassTable.of(dict(zip(["a", "b"], vectors, strict=True)))
    np.testing.assert_array_equal(made.vectors_of(["b", "a"]), vectors[::-1])
    assert made.vectors.dtype == np.float64
