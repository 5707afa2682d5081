"""EXEM, compared with scikit-learn's PCA, nu-support vector regression and nearest neighbour."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import NuSVR

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.generative import exem
from sightunseen.methods.generative.exem import EXEM, PrincipalComponents, regressed


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    return make_world(World(n_seen=25, n_unseen=6, n_attributes=8, n_features=20, images_per_class=9, private=0.0, noise=0.7))


def reference(
    world: ZeroShotDataset, n_components: int, C: float, nu: float, gamma: float
) -> tuple[PCA, np.ndarray, np.ndarray]:
    """PCA, exemplars (c, k) of all classes, and mean deviation (k,) within seen classes; class by class, column by column."""
    X, y = world.train.X.astype(float), world.train.y
    pca = PCA(n_components, svd_solver="full").fit(X)
    Z = pca.transform(X)
    means = np.stack([Z[y == label].mean(axis=0) for label in world.seen])
    deviations = np.mean([Z[y == label].std(axis=0, ddof=1) for label in world.seen], axis=0)
    S, A = (world.classes.vectors_of(labels).astype(float) for labels in (world.seen, np.unique(world.labels)))
    S, A = (V / np.linalg.norm(V, axis=1, keepdims=True) for V in (S, A))
    squares = [((s - t) ** 2).sum() for i, s in enumerate(S) for j, t in enumerate(S) if i != j]
    size = np.sqrt(np.mean([((v - means.mean(axis=0)) ** 2).sum() for v in means]))
    predicted = np.zeros((len(A), n_components))
    for k in range(n_components):
        regression = NuSVR(C=C * size, nu=nu, kernel="rbf", gamma=gamma / np.mean(squares), tol=1e-6)
        predicted[:, k] = regression.fit(S, means[:, k]).predict(A)
    return pca, predicted, deviations


@pytest.mark.parametrize("distance", ["standardised", "euclidean"])
@pytest.mark.parametrize(("n_components", "C", "nu", "gamma"), [(7, 0.3, 0.5, 1.0), (20, 0.05, 0.2, 0.3), (12, 2.0, 1.0, 3.0)])
def test_scores_match_pca_regression_and_nearest_neighbour(
    n_components: int, C: float, nu: float, gamma: float, distance: str, world: ZeroShotDataset
) -> None:
    model = EXEM(n_components, C, nu, gamma, distance).fit(world.train.X, world.train.y, world.classes)
    pca, exemplars, deviations = reference(world, n_components, C, nu, gamma)
    units = deviations if distance == "standardised" else np.ones(n_components)
    X = world.test_unseen.X
    Z, E = pca.transform(X.astype(float)) / units, exemplars / units
    expected = [[-np.linalg.norm(z - e) for e in E] for z in Z]
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=2e-3)
    nearest = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(E).kneighbors(Z, return_distance=False).ravel()
    agreement = (model.predict(X) == model.classes_[nearest]).mean()
    assert agreement > 0.97  # ties up to the solver's tolerance


def test_joint_embedding_distances_are_scores(world: ZeroShotDataset) -> None:
    model = EXEM(n_components=9).fit(world.train.X, world.train.y, world.classes)
    images, classes = model.compared(world.test_unseen.X[:5], "unseen")
    assert images.shape == (5, 9)
    expected = [[-np.linalg.norm(x - e) for e in classes] for x in images]
    np.testing.assert_allclose(model.decision_function(world.test_unseen.X[:5], "unseen"), expected, rtol=1e-4)


def test_exemplars_of_many_loosely_bounded_classes_are_class_means(world: ZeroShotDataset) -> None:
    """Without a bound on the coefficients and with a narrow kernel, the regression interpolates the class means."""
    model = EXEM(C=1e4, nu=1.0, gamma=20.0).fit(world.train.X, world.train.y, world.classes)
    means = np.stack([world.train.X[world.train.y == label].mean(axis=0) for label in world.seen])
    projected = (means - model.centre_) @ model.components_
    np.testing.assert_allclose(model.exemplars("seen"), projected, atol=5e-3 * np.abs(projected).max())


def test_regression_is_equivariant_to_the_scale_of_targets() -> None:
    rng = np.random.default_rng(0)
    points, targets = rng.normal(size=(12, 2)), rng.normal(size=(12, 3)) * [1.0, 1e-3, 0.0] + 5
    kernel = np.exp(-((points[:, None] - points) ** 2).sum(axis=2))
    weights, intercepts = regressed(kernel, targets, C=0.5, nu=0.4)
    scaled = regressed(kernel, 1e-4 * targets, C=0.5, nu=0.4)
    np.testing.assert_allclose(scaled[0], 1e-4 * weights, rtol=1e-3, atol=1e-12)
    np.testing.assert_allclose(scaled[1], 1e-4 * intercepts, rtol=1e-6)
    assert np.abs(weights[:, 1]).max() > 0  # small components are regressed, too
    assert not weights[:, 2].any()
    assert intercepts[2] == pytest.approx(5)


def test_components_are_limited_by_the_rank_of_the_images() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 30)).astype(np.float32)
    X[:, 5:] = 0
    projection = PrincipalComponents.of(X, np.repeat([0, 1], 4), 500)
    assert projection.components.shape == (30, 5)
    np.testing.assert_allclose(projection.components.T @ projection.components, np.eye(5), atol=1e-6)


@pytest.mark.parametrize("images", [1, 3])
def test_deviations_are_positive_without_spread_within_classes(images: int) -> None:
    X = np.repeat(np.eye(4, 6), images, axis=0)
    model = EXEM().fit(X, np.repeat(list("abcd"), images), dict(zip("abcde", np.eye(5, 7) + 0.1, strict=True)))
    assert (model.deviations_ > 0).all()
    assert model.predict(X, "seen").tolist() == np.repeat(list("abcd"), images).tolist()


def test_identical_images_have_finite_scores() -> None:
    model = EXEM().fit(np.ones((4, 3)), list("aabb"), {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [1.0, 1.0]})
    assert np.isfinite(model.decision_function(np.ones((1, 3)))).all()


def test_fits_share_projection_and_regressions(world: ZeroShotDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []

    def counted(kernel: np.ndarray, targets: np.ndarray, C: float, nu: float) -> tuple[np.ndarray, np.ndarray]:
        calls.append(C)
        return regressed(kernel, targets, C, nu)

    monkeypatch.setattr(exem, "regressed", counted)
    shared: dict[str, object] = {}
    images = world.train.X, world.train.y, world.classes
    for C in (0.3, 1.0):
        for distance in ("euclidean", "standardised"):
            model = EXEM(n_components=5, C=C, distance=distance)
            found = model.fit_sharing(shared, *images).decision_function(world.test_unseen.X)
            alone = EXEM(n_components=5, C=C, distance=distance).fit(*images)
            np.testing.assert_array_equal(found, alone.decision_function(world.test_unseen.X))
    assert len(calls) == 2 + 4  # one for each C with sharing, one for each model without


def test_saved_model_has_the_same_scores(world: ZeroShotDataset, tmp_path: Path) -> None:
    model = EXEM(feature_scaling="root").fit(world.train.X, world.train.y, world.classes)
    model.save(tmp_path / "model")
    X = world.test_unseen.X
    np.testing.assert_array_equal(EXEM.load(tmp_path / "model").decision_function(X), model.decision_function(X))


@pytest.mark.parametrize(
    ("name", "value"), [("n_components", 0), ("C", 0.0), ("nu", 0.0), ("nu", 1.1), ("gamma", -1.0), ("distance", "cosine")]
)
def test_invalid_hyperparameter_is_named(name: str, value: object, world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        EXEM(**{name: value}).fit(world.train.X, world.train.y, world.classes)
