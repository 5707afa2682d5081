"""Imputation of missing attributes, scaling of attributes in different units, and their effect on models."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.metrics import per_class_accuracy
from sightunseen.core.model_files import read_model, write_model
from sightunseen.data.doctor import WARN, examine
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import CVC, DAP, ESZSL, ZeroShotClassifier, load_model
from sightunseen.semantics.class_vectors import AttributeScaling, attribute_count, missing_values
from sightunseen.semantics.describe import ClassDescriptions, describe_classes

ANIMALS = np.array([[5000.0, 4, 0], [450, 4, 1], [0.02, 8, 1], [90, 0, 0]])  # kg, legs, stripes


def scaled(*columns: Any) -> list[list[float]]:
    vectors = np.column_stack([np.asarray(column, dtype=float) for column in columns])
    return AttributeScaling.of_attributes(vectors)(vectors).T.tolist()


# -- scaling -------------------------------------------------------------------------------------------------------------


def test_attributes_in_different_units_are_divided_by_their_largest_value() -> None:
    found = AttributeScaling.of_attributes(ANIMALS)(ANIMALS)
    np.testing.assert_allclose(found, [[1, 0.5, 0], [0.09, 0.5, 1], [4e-6, 1, 1], [0.018, 0, 0]], rtol=1e-12)


@pytest.mark.parametrize(
    "vectors",
    [
        np.array([[1.0, 8], [0, 2]]),  # numbers of legs and binary attributes
        np.array([[100.0, 40, 15], [0, 2, 1]]),  # percentages, one of them rare
        np.array([[-90.0, 40], [0, -12]]),
        np.array([[3.0], [7000]]),  # a single attribute
        np.array([[5000.0, 0], [3000, 0]]),  # no information
        np.eye(40),
        np.random.default_rng(0).normal(size=(9, 300)),
        np.random.default_rng(0).lognormal(size=(50, 40)),
        np.full((2, 3), np.nan),
        np.zeros((0, 3)),
    ],
)
def test_attributes_in_one_unit_are_not_scaled(vectors: np.ndarray) -> None:
    scaling = AttributeScaling.of_attributes(vectors)
    assert scaling(vectors) is vectors
    assert scaling.arrays() == {}


@pytest.mark.parametrize(
    "columns",
    [
        [(5000, 2), (1, 0)],  # two attributes
        [(600, 20), (500, 1), (700, 3), (4, 2), (0, 1)],  # more large than small attributes
        [(1, 0)] * 60 + [(30, 2)],  # one large attribute among many
        [(1, 0), (4, 1), (20, 3), (90, 8), (400, 9), (2000, 5)],  # no gap, but a large range
        [(-5000, 2), (1, 0)],
        [(0.00002, 0), (0.9, 0.1)],  # also with small units
    ],
)
def test_different_units_are_detected(columns: list[tuple[float, float]]) -> None:
    found = np.abs(scaled(*columns)).max(axis=1)
    np.testing.assert_allclose(found, 1, rtol=1e-12)


def test_an_attribute_far_from_zero_is_shifted() -> None:
    stripes, year, celsius = scaled([0, 1, 1, 0], [1990, 2005, 2020, 2020], [-300, -290, -280, -280])
    assert stripes == [0, 1, 1, 0]
    np.testing.assert_allclose(year, [0.5, 0.75, 1, 1], rtol=1e-12)
    np.testing.assert_allclose(celsius, [-1, -0.75, -0.5, -0.5], rtol=1e-12)
    halves = scaled([0, 1], [1000, 2000])[1], scaled([0, 1], [1001, 2000])[1]
    np.testing.assert_allclose(halves[0], halves[1], rtol=0.01)  # continuous at the threshold


def test_constant_attributes_are_not_shifted() -> None:
    weight, nothing, ones, same, noise = scaled([5000, 1], [0, 0], [1, 1], [-7e5, -7e5], [0.3, 0.1 + 0.2])
    assert (nothing, ones, same) == ([0, 0], [1, 1], [-1, -1])
    assert weight == [1, 1 / 5000]
    assert min(noise) > 0.999  # not amplified


def test_classes_with_invalid_values_are_ignored() -> None:
    broken = np.vstack([ANIMALS, [1e9, np.nan, 0], [np.inf, 2, 0]])
    np.testing.assert_array_equal(AttributeScaling.of_attributes(broken).factor, 1 / np.array([5000, 8, 1]))


def test_text_is_not_scaled() -> None:
    names = ["kg", "legs", "stripes", "text 1", "text 2"]
    vectors = np.hstack([ANIMALS, [[0.6, 0.8]] * 4])
    both = ClassTable(list("abcd"), {"both:letters": vectors}, names)
    assert attribute_count(both) == 3
    scaling = AttributeScaling.learned(both)
    np.testing.assert_array_equal(scaling(vectors)[:, 3:], vectors[:, 3:])
    assert np.abs(scaling(vectors)[:, :3]).max(axis=0).tolist() == [1, 1, 1]
    for kind, given in (("text:letters", None), ("names:letters", None), ("both:letters", None)):
        table = ClassTable(list("abcd"), {kind: vectors}, given)
        assert AttributeScaling.learned(table).factor is None
    assert attribute_count(ClassTable(list("abcd"), {"both:letters": ANIMALS}, ["a", "b", "text 1"])) == 2


def test_attributes_in_different_units_have_the_length_of_the_text() -> None:
    class Ones:
        name, fingerprint, size = "ones", "none", 4

        def __call__(self, texts: Any) -> Any:
            return np.full((len(texts), 4), 0.5)

    texts = ("a", "b", "c", "d")
    table = describe_classes(ClassDescriptions(texts, ("kg", "legs", "stripes"), ANIMALS, texts), "both", Ones())
    np.testing.assert_array_equal(table.vectors[:, :3], ANIMALS)
    met = AttributeScaling.learned(table)(table.vectors)
    squares = np.square(met)
    assert squares[:, :3].sum() == pytest.approx(squares[:, 3:].sum(), rel=1e-12)
    assert squares[:, 3:].sum() / 4 == pytest.approx((1 + 0.25 + 0.0081 + 0.25 + 1 + 1 + 1 + 0.018**2) / 4, rel=1e-6)


# -- models --------------------------------------------------------------------------------------------------------------

QUICK: dict[str, Any] = {"hidden": 64, "n_steps": 300, "device": "cpu"}
METHODS = {"ESZSL": ESZSL(), "CVC": CVC(**QUICK)}


@pytest.fixture(scope="module")
def plain() -> ZeroShotDataset:
    """Easy synthetic data in which every attribute is needed."""
    return make_world(
        World(n_seen=40, n_unseen=10, n_attributes=12, n_features=64, images_per_class=20, private=0.2, noise=1.0)
    )


def in_units(data: ZeroShotDataset, factors: np.ndarray) -> ClassTable:
    return ClassTable(data.classes.labels, data.classes.vectors * factors, data.classes.attribute_names)


def unseen_accuracy(method: ZeroShotClassifier, data: ZeroShotDataset, classes: ClassTable) -> float:
    model = method.fit(data.train.X, data.train.y, classes)
    return per_class_accuracy(data.test_unseen.y, model.predict(data.test_unseen.X, "unseen"))


WILD = np.array([5000.0, 8, 1, 1, 0.003, 250, 1, 1, 60, 1e6, 1, 1])


@pytest.mark.parametrize("name", METHODS)
def test_units_do_not_reduce_accuracy(name: str, plain: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    wild = in_units(plain, WILD)
    expected = unseen_accuracy(METHODS[name], plain, plain.classes)
    assert expected > 0.6  # chance is 0.1
    assert unseen_accuracy(METHODS[name], plain, wild) == pytest.approx(expected, abs=0.03)
    monkeypatch.setattr(AttributeScaling, "learned", lambda table: AttributeScaling())
    assert unseen_accuracy(METHODS[name], plain, wild) < expected - 0.2  # the scaling makes the difference


@pytest.mark.parametrize("name", METHODS)
def test_predictions_do_not_depend_on_the_size_of_units(name: str, plain: ZeroShotDataset) -> None:
    answers = []
    for size in (1e3, 1e5):
        factors = np.where(np.arange(12) < 4, size, 1.0)
        model = METHODS[name].fit(plain.train.X, plain.train.y, in_units(plain, factors))
        answers.append(model.predict(plain.test_unseen.X))
    assert (answers[0] == answers[1]).mean() > 0.995  # up to ties


@pytest.mark.parametrize("name", METHODS)
def test_an_added_class_uses_the_units_of_the_table(name: str, plain: ZeroShotDataset, tmp_path: Path) -> None:
    wild, late = in_units(plain, WILD), plain.unseen[:3]
    known = np.setdiff1d(wild.labels, late)
    model = METHODS[name].fit(plain.train.X, plain.train.y, wild.only(known))
    model.save(tmp_path / "model")
    for one in (model, load_model(tmp_path / "model")):
        one.add_classes(wild.only(late))
        images = np.isin(plain.test_unseen.y, late)
        found = one.predict(plain.test_unseen.X[images], "unseen")
        assert per_class_accuracy(plain.test_unseen.y[images], found) > 0.6
        np.testing.assert_array_equal(one.table_.vectors_of(late), wild.vectors_of(late))  # in the user's units
    np.testing.assert_array_equal(
        model.decision_function(plain.test_unseen.X, "all"), one.decision_function(plain.test_unseen.X, "all")
    )


def test_a_saved_model_without_scaling_loads_without_scaling(plain: ZeroShotDataset, tmp_path: Path) -> None:
    ESZSL().fit(plain.train.X, plain.train.y, plain.classes).save(tmp_path / "model")
    assert load_model(tmp_path / "model").attribute_scaling_ == AttributeScaling()


def test_refitting_updates_the_scaling(plain: ZeroShotDataset) -> None:
    model = ESZSL().fit(plain.train.X, plain.train.y, in_units(plain, WILD))
    assert model.attribute_scaling_.factor is not None
    again = model.fit(plain.train.X, plain.train.y, plain.classes)
    fresh = ESZSL().fit(plain.train.X, plain.train.y, plain.classes)
    np.testing.assert_array_equal(again.map_, fresh.map_)


def test_every_method_uses_scaled_vectors(plain: ZeroShotDataset) -> None:
    """Including a method without semantic_norm."""
    model = DAP().fit(plain.train.X, plain.train.y, in_units(plain, WILD))
    np.testing.assert_allclose(model._vectors_of(plain.unseen), plain.classes.vectors_of(plain.unseen), rtol=1e-12)


def test_linear_and_onnx_models_accept_the_users_units(plain: ZeroShotDataset, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from sightunseen.export.onnx_files import TOLERANCE, export_onnx

    # Including a year, whose offset costs precision in float32.
    years = np.random.default_rng(0).integers(1990, 2021, size=(len(plain.classes.labels), 1))
    wild = ClassTable(plain.classes.labels, np.hstack([plain.classes.vectors * WILD, years]))
    model, X = CVC(**QUICK).fit(plain.train.X, plain.train.y, wild), plain.test_unseen.X
    written = export_onnx(model, tmp_path / "model.onnx")
    assert written.difference is not None
    assert written.difference <= TOLERANCE
    model.add_classes({"novel": wild.vectors[:5].mean(axis=0)})
    labels = ["novel", *plain.unseen]
    expected = model.decision_function(X, labels)
    vectors = model.table_.vectors_of(labels).astype(np.float32)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"features": X, "class_vectors": vectors})
    assert np.abs(scores - expected).max() <= TOLERANCE * np.abs(expected).max()
    assert np.abs(model.to_linear(labels).scores(X) - expected).max() <= TOLERANCE * np.abs(expected).max()


def test_different_units_are_reported_by_the_split_doctor(plain: ZeroShotDataset) -> None:
    wild = ZeroShotDataset.from_arrays(plain.features, plain.labels, in_units(plain, WILD))
    (finding,) = [finding for finding in examine(wild) if finding.check == "attribute-units"]
    assert finding.level == WARN
    assert "'attribute 09' reaches 1e+06, 'attribute 04' 0.003" in finding.what


# -- missing attributes --------------------------------------------------------------------------------------------------


def with_missing(vectors: np.ndarray, seed: int, share: float = 0.04) -> np.ndarray:
    marked = np.random.default_rng(seed).random(vectors.shape) < share
    return np.where(marked, -1.0, vectors)


def imputed_by_loops(vectors: np.ndarray, known: np.ndarray | None = None) -> np.ndarray:
    """Replace each -1 by the mean of the other values of its column in ``known``, the whole table by default."""
    filled = vectors.copy()
    for row in range(len(vectors)):
        for column in range(vectors.shape[1]):
            if vectors[row, column] == -1:
                values = [value for value in (vectors if known is None else known)[:, column] if value != -1]
                filled[row, column] = sum(values) / len(values)
    return filled


@pytest.fixture(scope="module")
def gaps(plain: ZeroShotDataset) -> ClassTable:
    """The class table of ``plain`` with missing values, of seen and of unseen classes."""
    return ClassTable(plain.classes.labels, with_missing(plain.classes.vectors, 0), plain.classes.attribute_names)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factors", [1.0, WILD])
def test_missing_values_are_replaced_by_the_mean_of_the_known_ones(seed: int, factors: Any) -> None:
    rng = np.random.default_rng(seed)
    vectors = with_missing(factors * rng.integers(0, 4, (60, 12)), seed)
    assert (vectors == -1).any()
    expected = imputed_by_loops(vectors)
    scaling = AttributeScaling.of_attributes(vectors)
    np.testing.assert_allclose(scaling.imputed(vectors), expected, rtol=1e-12)
    np.testing.assert_array_equal(missing_values(vectors), vectors == -1)
    # The units are those of the imputed attributes.
    np.testing.assert_allclose(
        scaling(scaling.imputed(vectors)), AttributeScaling.of_attributes(expected)(expected), rtol=1e-12
    )


def test_complete_tables_are_not_changed() -> None:
    for vectors in (ANIMALS, np.eye(40), np.random.default_rng(0).normal(size=(30, 20))):
        table = ClassTable(range(len(vectors)), vectors)
        scaling = AttributeScaling.learned(table)
        assert scaling.means is None
        assert scaling.imputed(vectors) is vectors
        assert scaling.imputed_table(table) is table
        assert not missing_values(vectors).any()


def test_minus_one_is_a_number_if_it_is_frequent_or_others_are_negative() -> None:
    vectors = np.random.default_rng(0).random((20, 10))
    vectors.flat[:10] = -1  # a twentieth
    assert missing_values(vectors).sum() == 10
    vectors.flat[10] = -1
    assert not missing_values(vectors).any()
    vectors.flat[3:] = np.abs(vectors.flat[3:])
    assert missing_values(vectors).sum() == 3
    vectors[9, 9] = -0.5
    assert not missing_values(vectors).any()


def test_an_attribute_without_any_known_value_is_zero() -> None:
    vectors = np.random.default_rng(0).random((10, 30))
    vectors[:, 4] = -1
    assert AttributeScaling.of_attributes(vectors).imputed(vectors)[:, 4].tolist() == [0] * 10


def test_empty_cells_are_not_filled_with_means_over_missing_values() -> None:
    values = np.random.default_rng(0).random((20, 10))
    values[2, 4], values[3, 4] = np.nan, -1
    raw = ClassDescriptions(tuple(f"c{k}" for k in range(20)), tuple(f"a{k}" for k in range(10)), values)
    with pytest.warns(UserWarning, match="missing attribute values: 1 of 200"):
        table = describe_classes(raw, "attributes")
    expected = np.delete(values[:, 4], [2, 3]).mean()
    found = AttributeScaling.learned(table).imputed(table.vectors)
    np.testing.assert_allclose(found[[2, 3], 4], expected, rtol=1e-12)


def test_minus_one_in_text_is_a_number() -> None:
    vectors = np.random.default_rng(0).random((20, 14))
    vectors[3, 1] = vectors[5, 12] = -1
    names = [*(f"a{k}" for k in range(10)), *(f"text {k}" for k in range(1, 5))]
    table = ClassTable(range(20), {"both:letters": vectors}, names)
    found = AttributeScaling.learned(table).imputed(table.vectors)
    assert (found != vectors).sum() == 1
    assert found[3, 1] == pytest.approx(np.delete(vectors[:, 1], 3).mean(), rel=1e-12)
    assert AttributeScaling.learned(ClassTable(range(20), {"text:letters": vectors})).means is None


@pytest.mark.parametrize("method", [ESZSL(), CVC(**QUICK), DAP()], ids=lambda method: type(method).__name__)
def test_models_use_imputed_vectors(method: ZeroShotClassifier, plain: ZeroShotDataset, gaps: ClassTable) -> None:
    expected = ClassTable(gaps.labels, imputed_by_loops(gaps.vectors), gaps.attribute_names)
    X = plain.test_unseen.X
    scores = [method.fit(plain.train.X, plain.train.y, table).decision_function(X) for table in (gaps, expected)]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-4, atol=1e-5)


def test_an_added_class_is_imputed_by_the_means_of_the_training_table(
    plain: ZeroShotDataset, gaps: ClassTable, tmp_path: Path
) -> None:
    late = plain.unseen[:3]
    known = gaps.only(np.setdiff1d(gaps.labels, late))
    added = gaps.vectors_of(late)
    added[:, [0, 7]] = -1
    expected = imputed_by_loops(added, known.vectors)
    model = ESZSL().fit(plain.train.X, plain.train.y, known)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    reverse = np.arange(12)[::-1]
    names = known.attribute_names
    assert names is not None
    for one, table in (
        (model, ClassTable(late, added, names)),
        (loaded, ClassTable(late, added[:, reverse], [names[k] for k in reverse])),  # columns are matched by name
    ):
        one.add_classes(table)
        np.testing.assert_allclose(one.table_.vectors_of(late), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.decision_function(plain.test_unseen.X), loaded.decision_function(plain.test_unseen.X))
    loaded.save(tmp_path / "again")
    again = load_model(tmp_path / "again").remove_classes(late[:1]).add_classes({late[0]: added[0]})
    np.testing.assert_allclose(again.table_.vectors_of(late), expected, rtol=1e-12)


def test_refitting_forgets_the_means(plain: ZeroShotDataset, gaps: ClassTable) -> None:
    model = ESZSL().fit(plain.train.X, plain.train.y, gaps)
    assert model.attribute_scaling_.means is not None
    assert model.fit(plain.train.X, plain.train.y, plain.classes).attribute_scaling_.means is None
    model.add_classes({"novel": np.full(12, -1.0)})  # a table without missing values does not define -1 as missing
    assert model.table_.vectors_of(["novel"]).tolist() == [[-1.0] * 12]


def test_a_model_folder_without_means_reads_minus_one_as_a_number(
    plain: ZeroShotDataset, gaps: ClassTable, tmp_path: Path
) -> None:
    """As written by versions that did not impute."""
    ESZSL().fit(plain.train.X, plain.train.y, gaps).save(tmp_path / "model")
    files = read_model(tmp_path / "model")
    arrays = {**files.arrays, "class_vectors": gaps.vectors}
    del arrays["attribute_scaling.means"]
    write_model(tmp_path / "old", replace(files, arrays=arrays))
    old = load_model(tmp_path / "old")
    np.testing.assert_array_equal(old.table_.vectors, gaps.vectors)
    assert old.attribute_scaling_ == AttributeScaling()


def test_onnx_models_impute_new_classes(plain: ZeroShotDataset, gaps: ClassTable, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    from sightunseen.export.onnx_files import TOLERANCE, export_onnx

    wild = ClassTable(gaps.labels, np.where(gaps.vectors == -1, -1, gaps.vectors * WILD))
    model, X = CVC(**QUICK).fit(plain.train.X, plain.train.y, wild), plain.test_unseen.X
    export_onnx(model, tmp_path / "model.onnx")
    new = (plain.classes.vectors[0] * WILD).copy()
    new[[1, 8]] = -1
    expected = model.add_classes({"novel": new}).decision_function(X, ["novel", *plain.unseen])
    vectors = np.vstack([new, wild.vectors_of(plain.unseen)]).astype(np.float32)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"features": X, "class_vectors": vectors})
    assert np.abs(scores - expected).max() <= TOLERANCE * np.abs(expected).max()
