"""Foresight agrees with a reference implementation, scipy's densities and scikit-learn's LDA; invariances."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.covariance import ShrunkCovariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.core.linear import Linear
from sightunseen.methods import Foresight, load_model
from sightunseen.methods.base.scatter import Scatter, memberships, weighted_means
from sightunseen.methods.foresight.whitening import Whitening

from .textbook_foresight import Textbook, directions


def fitted(data: ZeroShotDataset, **settings: Any) -> Foresight:
    return Foresight(**settings).fit(data.train.X, data.train.y, data.classes)


def up_to_a_constant(scores: np.ndarray) -> np.ndarray:
    """Subtract the mean score of each image, (n, c)."""
    scores = scores.astype(float)
    return np.asarray(scores - scores.mean(axis=1, keepdims=True))


def assert_close(found: np.ndarray, expected: np.ndarray, part: float = 1e-4) -> None:
    found, expected = up_to_a_constant(found), up_to_a_constant(expected)
    assert np.ptp(expected) > 1
    np.testing.assert_allclose(found, expected, rtol=0, atol=part * np.ptp(expected))


# -- comparison with other implementations -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["root", "centred"])
@pytest.mark.parametrize(("shrinkage", "noise"), [(0.5, 0.1), (0.1, 1.0), (1.0, 1e-6)])
def test_scores_are_log_densities_around_predicted_means(
    kind: str, shrinkage: float, noise: float, small_world: ZeroShotDataset
) -> None:
    keep = np.delete(
        np.arange(len(small_world.train.y)), np.flatnonzero(small_world.train.y == small_world.seen[2])[3:]
    )  # only three images of one class
    X, y = small_world.train.X[keep] - np.float32(0.4), small_world.train.y[keep]  # some features are negative
    model = Foresight(shrinkage, noise, kind).fit(X, y, small_world.classes)
    vectors = small_world.classes.vectors_of(small_world.seen)
    textbook = Textbook(X, np.searchsorted(small_world.seen, y), vectors, shrinkage=shrinkage, noise=noise, root=kind == "root")
    images = np.concatenate([small_world.test_unseen.X[::3], small_world.test_seen.X[::3]]) - np.float32(0.4)
    expected = textbook.log_densities(images, small_world.classes.vectors_of(model.classes_))
    assert_close(model.decision_function(images), expected)


@pytest.mark.parametrize("shrinkage", [0.0, 0.4])
def test_without_noise_seen_classes_are_classified_as_by_lda(shrinkage: float, small_world: ZeroShotDataset) -> None:
    model = fitted(small_world, shrinkage=shrinkage, noise=1e-9, feature_scaling="root")
    uniform = np.full(len(small_world.seen), 1 / len(small_world.seen))
    estimator = ShrunkCovariance(shrinkage=shrinkage) if shrinkage else None
    lda = LinearDiscriminantAnalysis(solver="lsqr", priors=uniform, covariance_estimator=estimator)
    lda.fit(directions(small_world.train.X, root=True), small_world.train.y)
    X = np.concatenate([small_world.test_seen.X, small_world.test_unseen.X])
    assert_close(model.decision_function(X, "seen"), lda.decision_function(directions(X, root=True)), 1e-3)
    np.testing.assert_array_equal(model.predict(X, "seen"), lda.predict(directions(X, root=True)))


def test_whitened_covariance_is_half_the_identity_and_distances_are_log_densities() -> None:
    rng = np.random.default_rng(0)
    mixing, targets = rng.normal(size=(5, 5)), np.arange(300) % 3
    X = (rng.normal(size=(300, 5)) @ mixing + 4 * rng.normal(size=(3, 5))[targets]).astype(np.float32)
    means, counts = weighted_means(X, memberships(targets, 3))
    np.testing.assert_allclose(means, [X[targets == c].mean(axis=0) for c in range(3)], rtol=1e-5)
    assert counts.tolist() == [100, 100, 100]
    covariances = Scatter.of(X, targets, 3).covariances
    whitening = Whitening.of(covariances, 0.0)
    within = whitening(X) - whitening(means)[targets]
    np.testing.assert_allclose(within.T @ within / 300, np.eye(5) / 2, atol=1e-4)
    shrunk = Whitening.of(covariances, 0.3)
    scatter = X.astype(float) - means[targets]
    covariance = 0.7 * scatter.T @ scatter / 300 + 0.3 * (scatter**2).mean() * np.eye(5)
    new = rng.normal(size=(20, 5)) * 3
    expected = np.stack([stats.multivariate_normal(mean, covariance).logpdf(new) for mean in means], axis=1)
    found = [[-np.sum((z - p) ** 2) for p in shrunk(means)] for z in shrunk(new)]
    assert_close(np.array(found), expected, 1e-5)


@pytest.mark.parametrize("n_classes", [3, 8, 40])
def test_projection_onto_the_span_of_the_means_preserves_score_differences(n_classes: int) -> None:
    rng = np.random.default_rng(1)
    targets = np.arange(400) % n_classes
    X = (rng.normal(size=(400, 20)) @ rng.normal(size=(20, 20)) + rng.normal(size=(n_classes, 20))[targets]).astype(np.float32)
    means, _ = weighted_means(X, memberships(targets, n_classes))
    whitening = Whitening.of(Scatter.of(X, targets, n_classes).covariances, 0.2)
    points = whitening(means)
    projection, basis = whitening.onto(points)
    assert projection.shape == (min(n_classes, 20), 20)
    assert (basis is None) == (n_classes >= 20)  # the span is everything
    basis = np.eye(20) if basis is None else basis
    assert basis.shape == projection.shape
    predicted = rng.normal(size=(5, n_classes)) @ points  # predictions are linear combinations of the means
    whole = [[-np.sum((z - p) ** 2) for p in predicted] for z in whitening(X)]
    projected = [[-np.sum((z - p) ** 2) for p in predicted @ basis.T] for z in X @ projection.T]
    assert_close(np.array(projected), np.array(whole), 1e-5)


def test_fit_sharing_equals_fit(small_world: ZeroShotDataset) -> None:
    X, y = small_world.train.X, small_world.train.y
    settings = [
        {"feature_scaling": scaling, "shrinkage": shrinkage, "noise": noise}
        for scaling in ("root", "centred", "root+centred")
        for shrinkage in (0.2, 0.7)
        for noise in (0.1, 1.0)
    ]
    shared: dict[str, Any] = {}
    together = [Foresight(**chosen).fit_sharing(shared, X, y, small_world.classes) for chosen in settings]
    assert set(shared["moments"]) == {"root", "unit"}  # computed once per normalisation
    for model, chosen in zip(together, settings, strict=True):
        alone = Foresight(**chosen).fit(X, y, small_world.classes)
        assert model.get_params() == alone.get_params()
        np.testing.assert_array_equal(model.decision_function(X), alone.decision_function(X))
        again = model.fit(X[::2], y[::2], small_world.classes)  # no longer shared
        np.testing.assert_array_equal(
            again.decision_function(X), Foresight(**chosen).fit(X[::2], y[::2], small_world.classes).decision_function(X)
        )


def test_class_without_weight_has_a_finite_mean() -> None:
    means, counts = weighted_means(np.ones((2, 3), np.float32), np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert means.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert 0 < counts[1] < 1e-3


# -- two views of the features -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("generator", ["wide", "linear"])
@pytest.mark.parametrize(("shrinkage", "noise"), [(0.0, 0.1), (0.3, 1.0), (1.0, 1e-6)])
def test_log_densities_of_two_views_add_up(
    generator: str, shrinkage: float, noise: float, small_world: ZeroShotDataset
) -> None:
    X = np.concatenate([small_world.test_unseen.X, small_world.test_seen.X])
    root, centred, both = (
        fitted(small_world, shrinkage=shrinkage, noise=noise, generator=generator, feature_scaling=kind).decision_function(X)
        for kind in ("root", "centred", "root+centred")
    )
    assert_close(both, root.astype(float) + centred)
    assert not np.allclose(up_to_a_constant(root), up_to_a_constant(centred), atol=0.01 * np.ptp(root))


def test_scatter_and_whitening_of_two_views_are_those_of_each_view() -> None:
    rng = np.random.default_rng(5)
    views, targets = rng.normal(size=(2, 60, 4)).astype(np.float32), np.arange(60) % 3
    both = Scatter.of(np.hstack(views), targets, 3, views=2)
    alone = [Scatter.of(view, targets, 3) for view in views]
    np.testing.assert_allclose(both.means, np.hstack([one.means for one in alone]))
    for found, one in zip(both.covariances, alone, strict=True):
        np.testing.assert_allclose(found, one.covariances[0], rtol=1e-6)
    whitening, new = Whitening.of(both.covariances, 0.3), rng.normal(size=(5, 8))
    parts = [Whitening.of(one.covariances, 0.3)(part) for one, part in zip(alone, np.split(new, 2, axis=1), strict=True)]
    np.testing.assert_allclose(whitening(new), np.hstack(parts), rtol=1e-5)
    again = Whitening.unpacked(whitening.packed(), 4, 2)
    assert whitening.packed().shape == (2 * 10,)  # lower triangles of two 4 x 4 matrices
    np.testing.assert_allclose(again(new), whitening(new), rtol=1e-4)


# -- equal lengths of the means ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["root", "centred", "root+centred", "unit"])
def test_means_of_equal_length_rank_classes_by_the_cosine(kind: str, small_world: ZeroShotDataset) -> None:
    parameters = {"shrinkage": 0.4, "noise": 0.2, "feature_scaling": kind}
    plain, model = fitted(small_world, **parameters), fitted(small_world, **parameters, mean_length="equal")
    X = np.concatenate([small_world.test_unseen.X, small_world.test_seen.X])
    images, predicted = plain.compared(X, None)
    means = model.compared(X, None)[1]
    lengths = np.linalg.norm(means, axis=1)
    np.testing.assert_allclose(lengths, lengths[0], rtol=1e-5)
    assert np.ptp(np.linalg.norm(predicted, axis=1)) > 0.1 * lengths[0]
    cosines = images @ predicted.T / np.linalg.norm(predicted, axis=1)
    clear = np.ptp(np.sort(cosines, axis=1)[:, -2:], axis=1) > 1e-4 * np.ptp(cosines)
    assert clear.mean() > 0.95
    np.testing.assert_array_equal(model.predict(X)[clear], model.classes_[cosines.argmax(axis=1)][clear])


def test_equal_length_is_the_root_mean_square_length_of_seen_means(small_world: ZeroShotDataset) -> None:
    model = fitted(small_world, feature_scaling="centred", shrinkage=0.4, mean_length="equal")
    images = directions(small_world.train.X, root=False)
    images = images - images.mean(axis=0)
    means = np.array([images[small_world.train.y == label].mean(axis=0) for label in small_world.seen])
    around = images - means[np.searchsorted(small_world.seen, small_world.train.y)]
    covariance = around.T @ around / len(images)
    shrunk = 0.6 * covariance + 0.4 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    expected = np.sqrt(np.mean([m @ np.linalg.solve(2 * shrunk, m) for m in means]))
    found = np.linalg.norm(model.compared(small_world.test_unseen.X, "unseen")[1], axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["root", "centred", "root+centred", "standard", "unit", "none"])
@pytest.mark.parametrize("mean_length", ["predicted", "equal"])
def test_all_forms_of_a_model_have_the_same_scores(
    kind: str, mean_length: str, small_world: ZeroShotDataset, tmp_path: Path
) -> None:
    model = fitted(small_world, feature_scaling=kind, mean_length=mean_length, seen_penalty=1.5)
    X = np.concatenate([small_world.test_unseen.X, small_world.test_seen.X])
    expected = model.decision_function(X)
    images, means = model.compared(X, None)
    distances = np.square(images[:, None].astype(float) - means).sum(axis=2)
    assert_close(-distances - 1.5 * np.isin(model.classes_, small_world.seen), expected)
    np.testing.assert_allclose(model.to_linear().scores(X), expected, rtol=0, atol=1e-5 * np.ptp(expected))
    model.to_linear().save(tmp_path / "linear.npz")
    np.testing.assert_array_equal(Linear.load(tmp_path / "linear.npz").scores(X), model.to_linear().scores(X))
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X), expected)
    one = small_world.unseen[0]
    examples = small_world.test_unseen.X[:2], [one, one]
    assert_close(loaded.add_examples(*examples).decision_function(X), model.add_examples(*examples).decision_function(X), 1e-3)


# -- invariances -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["root", "centred", "root+centred"])
def test_scores_do_not_depend_on_norms_of_images_and_class_vectors(kind: str, small_world: ZeroShotDataset) -> None:
    rng = np.random.default_rng(2)
    model, X = fitted(small_world, feature_scaling=kind), small_world.test_unseen.X
    longer = small_world.train.X * rng.uniform(0.01, 100, (len(small_world.train.y), 1))
    table = {label: small_world.classes.vectors_of([label])[0] * rng.uniform(0.5, 2) for label in small_world.classes.labels}
    again = Foresight(feature_scaling=kind).fit(longer, small_world.train.y, table)
    assert_close(again.decision_function(X * rng.uniform(0.01, 100, (len(X), 1))), model.decision_function(X))


def test_scores_do_not_depend_on_the_order_of_images_and_features(small_world: ZeroShotDataset) -> None:
    rng = np.random.default_rng(3)
    model, X = fitted(small_world), small_world.test_unseen.X
    rows, columns = rng.permutation(len(small_world.train.y)), rng.permutation(X.shape[1])
    again = Foresight().fit(small_world.train.X[rows][:, columns], small_world.train.y[rows], small_world.classes)
    assert_close(again.decision_function(X[:, columns]), model.decision_function(X))


def test_scores_of_centred_features_are_invariant_to_rotation(small_world: ZeroShotDataset) -> None:
    rotation = stats.ortho_group(24, seed=4).rvs()
    model, X = fitted(small_world, feature_scaling="centred"), small_world.test_unseen.X
    again = Foresight(feature_scaling="centred").fit(small_world.train.X @ rotation, small_world.train.y, small_world.classes)
    assert_close(again.decision_function(X @ rotation), model.decision_function(X))


def test_class_with_the_mean_vector_is_mapped_to_the_mean_image(small_world: ZeroShotDataset) -> None:
    model = fitted(small_world, semantic_norm=None)
    model.add_classes({"mean": small_world.classes.vectors_of(small_world.seen).mean(axis=0)})
    np.testing.assert_allclose(model.compared(small_world.test_unseen.X, ["mean"])[1], 0, atol=1e-6)
    np.testing.assert_allclose(model.decision_function(small_world.test_unseen.X, ["mean"]), 0, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shrinkage", -0.1),
        ("shrinkage", 1.1),
        ("shrinkage", None),
        ("noise", 0.0),
        ("noise", float("nan")),
        ("noise", "much"),
        ("feature_scaling", "square"),
        ("mean_length", "long"),
        ("semantic_norm", "l2"),
        ("seen_penalty", float("inf")),
    ],
)
def test_invalid_hyperparameter_is_named(name: str, value: object, small_world: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        fitted(small_world, **{name: value})
