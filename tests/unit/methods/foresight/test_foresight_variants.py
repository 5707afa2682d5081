"""Variants of Foresight without one of its components reduce to well-known methods."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import Ridge

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods import Foresight, load_model


def unit_and_centred(X: np.ndarray, of: np.ndarray) -> np.ndarray:
    """L2-normalised images, centred by the mean of those in ``of``."""
    one = [row / np.sqrt(row @ row) for row in X.astype(float)]
    return np.array(one) - np.mean([row / np.sqrt(row @ row) for row in of.astype(float)], axis=0)


@pytest.mark.parametrize("noise", [0.1, 2.0])
def test_linear_kernel_without_whitening_is_ridge_regression_of_class_means(small_world: ZeroShotDataset, noise: float) -> None:
    data = small_world
    model = Foresight(shrinkage=1.0, noise=noise, feature_scaling="centred", semantic_norm=None, generator="linear")
    model.fit(data.train.X, data.train.y, data.classes)
    images = unit_and_centred(data.train.X, data.train.X)
    means = np.array([images[data.train.y == label].mean(axis=0) for label in data.seen])
    counts = [(data.train.y == label).sum() for label in data.seen]
    assert len(set(counts)) == 1  # otherwise the noise differs between classes

    vectors, unseen = (model._vectors_of(labels).astype(float) for labels in (data.seen, data.unseen))
    centre = vectors.mean(axis=0)
    unit = np.sqrt(np.mean([(v - centre) @ (v - centre) for v in vectors]))
    ridge = Ridge(alpha=noise, fit_intercept=False).fit((vectors - centre) / unit, means)
    points = ridge.predict((unseen - centre) / unit)
    tested = unit_and_centred(data.test_unseen.X, data.train.X)
    distances = np.array([[(x - p) @ (x - p) for p in points] for x in tested])
    assert (model.predict(data.test_unseen.X, data.unseen) == data.unseen[distances.argmin(axis=1)]).all()
    # The scores are these distances divided by twice the within-class variance, up to a constant per image.
    scores = model.decision_function(data.test_unseen.X, data.unseen)
    scatter = np.mean(np.square(images - means[np.searchsorted(data.seen, data.train.y)]))
    expected = -distances / (2 * scatter)
    np.testing.assert_allclose(scores - scores[:, :1], expected - expected[:, :1], rtol=1e-3, atol=1e-3)


def test_linear_generator_is_saved(small_world: ZeroShotDataset, tmp_path: object) -> None:
    model = Foresight(generator="linear").fit(small_world.train.X, small_world.train.y, small_world.classes)
    model.save(f"{tmp_path}/model")
    expected = model.decision_function(small_world.test_unseen.X)
    np.testing.assert_array_equal(load_model(f"{tmp_path}/model").decision_function(small_world.test_unseen.X), expected)
    wide = Foresight().fit(small_world.train.X, small_world.train.y, small_world.classes)
    assert not np.allclose(wide.decision_function(small_world.test_unseen.X), expected, rtol=0.01)


def test_with_much_trust_adapted_class_means_are_the_weighted_image_means(small_world: ZeroShotDataset) -> None:
    data = small_world
    model = Foresight().fit(data.train.X, data.train.y, data.classes)
    labels = softmax(model.decision_function(data.test_unseen.X, data.unseen).astype(float) / 3.0, axis=1)
    adapted = model.adapt(data.test_unseen.X, rounds=1, temperature=3.0, trust=1e9)
    images, points = adapted.compared(data.test_unseen.X, data.unseen)
    for k in range(len(data.unseen)):
        own = sum(weight * image for weight, image in zip(labels[:, k], images, strict=True)) / labels[:, k].sum()
        np.testing.assert_allclose(points[k], own, atol=1e-3 * np.abs(images).max())
    with_less = model.adapt(data.test_unseen.X, rounds=1, temperature=3.0).compared(data.test_unseen.X, data.unseen)[1]
    assert np.abs(with_less).mean() < 0.99 * np.abs(points).mean()  # shrunk towards zero


def test_invalid_generator_and_noise_raise(small_world: ZeroShotDataset) -> None:
    data = small_world
    with pytest.raises(SettingsError, match="generator must be one of wide, linear; got 'deep'"):
        Foresight(generator="deep").fit(data.train.X, data.train.y, data.classes)
    with pytest.raises(SettingsError, match="noise"):
        Foresight(noise=0).fit(data.train.X, data.train.y, data.classes)
