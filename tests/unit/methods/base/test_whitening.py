"""Whitened features against the eigendecomposition of the shrunk covariance, class by class in double precision."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import ModelError, SettingsError
from sightunseen.core.model_files import ModelFiles, read_model, write_model
from sightunseen.core.rows import CollectedRows
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import CVC, DEM, ESZSL, GFZSL, METHODS, SAE, SJE, SYNC, Foresight, load_model
from sightunseen.methods.base import whitening
from sightunseen.methods.base.feature_scaling import SEARCHED, WHITENED, FeatureScaling

RNG = np.random.default_rng(3)
Y = RNG.permutation(np.repeat([f"class {k}" for k in range(9)], 25))
NEW_SIZE = 15
SHORT: dict[str, Any] = {"n_steps": 30, "device": "cpu"}


def images(d: int, n: int = 225) -> np.ndarray:
    """Correlated, skewed features (n, d) of unequal variance, with class means; some are negative."""
    mixing = RNG.normal(size=(d, d)) * np.geomspace(1, 0.01, d)
    targets = np.unique(Y[:n], return_inverse=True)[1]
    X = RNG.normal(size=(n, d)) @ mixing + 2 * RNG.normal(size=(9, d))[targets]
    return np.where(X > 0, X**2, X).astype(np.float32)


def slow_reference(X: np.ndarray, y: np.ndarray, shrinkage: float) -> Any:
    """Map from features to whitened features, up to a common factor."""

    def rooted(values: np.ndarray) -> np.ndarray:
        roots = np.sign(values) * np.sqrt(np.abs(values.astype(float)))
        return np.stack([row / np.linalg.norm(row) for row in roots])

    train = rooted(X)
    centre = train.mean(axis=0)
    covariance = np.zeros((X.shape[1], X.shape[1]))
    for row, label in zip(train, y, strict=True):
        deviation = row - train[y == label].mean(axis=0)
        covariance += np.outer(deviation, deviation) / len(X)
    shrunk = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    variances, vectors = np.linalg.eigh(shrunk)
    return lambda values: (rooted(values) - centre) @ (vectors / np.sqrt(variances)) @ vectors.T


@pytest.mark.parametrize("d", [12, 600], ids=["few features", "more features than images"])
@pytest.mark.parametrize("kind", WHITENED)
def test_distances_are_mahalanobis_distances(kind: str, d: int) -> None:
    X, new = images(d), images(d, NEW_SIZE)
    assert (X < 0).any()  # the square root is signed
    scaling, reference = FeatureScaling.learned(kind, X, Y), slow_reference(X, Y, WHITENED[kind])
    unit = np.sqrt(np.square(reference(X)).sum(axis=1).mean())
    expected = cdist(reference(X), reference(new)) / unit
    np.testing.assert_allclose(cdist(scaling(X), scaling(new)), expected, rtol=2e-3, atol=1e-5)
    np.testing.assert_allclose(scaling(new), reference(new) / unit, atol=2e-4)  # the symmetric root
    assert scaling(new).dtype == np.float32


def test_few_images_are_whitened_in_their_span() -> None:
    X = images(600)
    assert FeatureScaling.learned("whitened-0.3", X, Y).arrays()["scaling.directions"].shape == (225, 600)


@pytest.mark.parametrize("d", [12, 600])
def test_length_of_whitened_images(d: int) -> None:
    X = images(d)
    for unit_variance, expected in ((False, 1.0), (True, d)):
        scaled = FeatureScaling.learned("whitened-0.6", X, Y, unit_variance)(X)
        assert np.square(scaled).sum(axis=1).mean() == pytest.approx(expected, rel=1e-4)


def test_within_class_covariance_is_proportional_to_the_identity_without_shrinkage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(WHITENED, "whitened-0.1", 0.0)
    X = images(8)
    scaled = FeatureScaling.learned("whitened-0.1", X, Y)(X).astype(float)
    around = np.concatenate([scaled[label == Y] - scaled[label == Y].mean(axis=0) for label in np.unique(Y)])
    covariance = around.T @ around
    np.testing.assert_allclose(covariance / covariance[0, 0], np.eye(8), atol=1e-3)


def test_order_of_the_features_does_not_matter() -> None:
    X, order = images(12), RNG.permutation(12)
    one, other = FeatureScaling.learned("whitened-0.3", X, Y), FeatureScaling.learned("whitened-0.3", X[:, order], Y)
    np.testing.assert_allclose(other(X[:, order]), one(X)[:, order], atol=1e-5)


@pytest.mark.parametrize("y", [np.arange(225), np.zeros(225)], ids=["one image per class", "one class"])
def test_odd_classes_are_whitened(y: np.ndarray) -> None:
    X = images(12)
    X[:, 3] = 0
    scaled = FeatureScaling.learned("whitened-0.3", X, y)(X)
    assert np.isfinite(scaled).all()
    assert np.square(scaled).sum(axis=1).mean() == pytest.approx(1, rel=1e-3)


def test_equal_images_are_whitened_to_zero() -> None:
    X = np.ones((6, 4), dtype=np.float32)
    scaled = FeatureScaling.learned("whitened-0.3", X, np.array(list("aabbcc")))(X)
    np.testing.assert_allclose(scaled, 0, atol=1e-6)


def test_errors_of_whitening(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="needs the labels"):
        FeatureScaling.learned("whitened-0.3", images(12))
    monkeypatch.setattr(whitening, "WHITENED_SIZE", 11)
    with pytest.raises(SettingsError, match="covariance of 12 features; the limit is 11"):
        FeatureScaling.learned("whitened-0.3", images(12), Y)


# -- in methods ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    return make_world(World(n_seen=9, n_unseen=4, images_per_class=20, n_features=16, n_attributes=8))


@pytest.mark.parametrize("method", [ESZSL, SAE])
@pytest.mark.parametrize("kind", WHITENED)
def test_one_pass_fit_is_that_to_whitened_images(method: Any, kind: str, world: ZeroShotDataset) -> None:
    """Scaling features by hand and fitting to those gives the same scores as the scaling from sums."""
    X, y = world.train.X, world.train.y
    scaling = FeatureScaling.learned(kind, X, y)
    by_hand = method(feature_scaling="none").fit(scaling(X), y, world.classes).decision_function(scaling(world.test_unseen.X))
    in_memory = method(feature_scaling=kind).fit(X, y, world.classes)
    blocks = method(feature_scaling=kind).fit(iter([(X[:70], y[:70]), (X[70:], y[70:])]), classes=world.classes)
    in_parts = method(feature_scaling=kind).partial_fit(X[:70], y[:70], world.classes).partial_fit(X[70:], y[70:])
    for model in (in_memory, blocks, in_parts):
        found = model.decision_function(world.test_unseen.X)
        np.testing.assert_allclose(found, by_hand, atol=2e-4 * np.abs(by_hand).max())


def test_variances_by_class_are_those_of_whitened_images(world: ZeroShotDataset) -> None:
    X, y = world.train.X, world.train.y
    scaling = FeatureScaling.learned("whitened-0.6", X, y)
    by_hand = GFZSL(feature_scaling="none").fit(scaling(X), y, world.classes)
    model = GFZSL(feature_scaling="whitened-0.6").fit(X, y, world.classes)
    for found, expected in zip(model.parameters_of(model.classes_), by_hand.parameters_of(by_hand.classes_), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


def test_variances_by_class_need_the_images_in_memory(world: ZeroShotDataset) -> None:
    X, y, model = world.train.X, world.train.y, GFZSL(feature_scaling="whitened-0.6")
    with pytest.raises(SettingsError, match="needs all images in memory"):
        model.fit(CollectedRows(X, np.arange(len(X))), y, world.classes)
    with pytest.raises(SettingsError, match="needs all images in memory"):
        model.fit(iter([(X, y)]), classes=world.classes)
    with pytest.raises(SettingsError, match="needs all images in memory"):
        model.partial_fit(X, y, world.classes)


def test_fits_that_share_statistics_are_the_same(world: ZeroShotDataset) -> None:
    X, y = world.train.X, world.train.y
    for method in (ESZSL, GFZSL, SYNC):
        cache: dict[str, Any] = {}
        for kind in ("whitened-0.3", "whitened-0.9", "root", "whitened-0.3"):
            together = method(feature_scaling=kind).fit_sharing(cache, X, y, world.classes)
            alone = method(feature_scaling=kind).fit(X, y, world.classes)
            np.testing.assert_array_equal(together.decision_function(X), alone.decision_function(X))


MODELS = {
    "ESZSL": ESZSL(feature_scaling="whitened-0.3"),
    "SAE": SAE(feature_scaling="whitened-0.6"),
    "GFZSL": GFZSL(feature_scaling="whitened-0.6"),
    "SJE": SJE(feature_scaling="whitened-0.9", **SHORT),
    "DEM": DEM(hidden=12, feature_scaling="whitened-0.6", **SHORT),
    "CVC": CVC(hidden=12, feature_scaling="whitened-0.6", **SHORT),
}


@pytest.mark.parametrize("wide", [False, True], ids=["few features", "more features than images"])
@pytest.mark.parametrize("name", MODELS)
def test_saved_model_gives_the_same_scores(name: str, wide: bool, world: ZeroShotDataset, tmp_path: Path) -> None:
    data = make_world(World(n_seen=5, n_unseen=3, images_per_class=5, n_features=64, n_attributes=6)) if wide else world
    model = MODELS[name].fit(data.train.X, data.train.y, data.classes)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(data.test_unseen.X), model.decision_function(data.test_unseen.X))


@pytest.mark.parametrize("name", ["scaling.directions", "scaling.scale", "scaling.shift"])
def test_damaged_whitening_is_refused(name: str, world: ZeroShotDataset, tmp_path: Path) -> None:
    MODELS["ESZSL"].fit(world.train.X, world.train.y, world.classes).save(tmp_path / "model")
    files = read_model(tmp_path / "model")
    for change in (None, np.zeros((2, 3), np.float32), np.full_like(files.arrays[name], np.nan)):
        arrays = {other: array for other, array in files.arrays.items() if other != name}
        changed = arrays if change is None else {**arrays, name: change}
        write_model(tmp_path / "other", ModelFiles(files.method, files.content, changed, None))
        with pytest.raises(ModelError, match=name):
            load_model(tmp_path / "other")


def test_cosine_of_whitened_features_is_not_linear(world: ZeroShotDataset) -> None:
    model = MODELS["CVC"].fit(world.train.X, world.train.y, world.classes)
    with pytest.raises(SettingsError, match=r"the cosine with centred features .* is not linear"):
        model.to_linear()


def test_every_method_but_foresight_can_whiten() -> None:
    can = {name for name, method in METHODS.items() if set(SEARCHED) <= set(method.feature_scalings)}
    scaled = {name for name, method in METHODS.items() if "feature_scaling" in method._get_param_names()}
    assert scaled - can == {"Foresight"}
    assert set(METHODS) - scaled == {"CLIP"}
    with pytest.raises(SettingsError, match="feature_scaling must be one of"):
        Foresight(feature_scaling="whitened-0.3").check_settings()
