"""Generative methods on unusual data: few images or classes, negative or large features, class vectors of zeros."""

from typing import Any

import numpy as np
import pytest
import torch

from sightunseen.core.errors import DataError
from sightunseen.methods import BiVAEGAN, load_model, method_class
from sightunseen.methods.generative.base import GenerativeClassifier

from .small_networks import SIZES, small_world

NETWORKS: dict[str, dict[str, int]] = {
    "FCLSWGAN": {"hidden": 5, "noise_size": 2},
    "CEGZSL": {"hidden": 5, "noise_size": 2, "embedding_size": 4, "projection_size": 3, "comparator_hidden": 5},
    "FVAEGAN": {"hidden": 5},
    "TFVAEGAN": {"hidden": 5},
    "BiVAEGAN": {"hidden": 5},
    "CADAVAE": {"latent_size": 2},
}
every_method = pytest.mark.parametrize("name", NETWORKS)


def method_of(name: str, **hyperparameters: Any) -> GenerativeClassifier:
    sizes = {"n_steps": 12, "classifier_steps": 5, "n_synthesised": 4, "device": "cpu"}
    method = method_class(name)(**{**sizes, **NETWORKS[name], **hyperparameters})
    assert isinstance(method, GenerativeClassifier)
    return method


def assert_finite(method: GenerativeClassifier, X: np.ndarray) -> None:
    for candidates in ("all", "unseen") if len(method.unseen_classes_) else ("all",):
        assert np.isfinite(method.decision_function(X, candidates)).all()


@every_method
@pytest.mark.parametrize("final_classifier", ["softmax", "prototypes"])
def test_one_image_per_class(name: str, final_classifier: str) -> None:
    X, y, table = small_world()
    method = method_of(name, final_classifier=final_classifier, logit_adjustment=3.0)
    assert_finite(method.fit(X[::3], y[::3], table), X)


@every_method
def test_no_unseen_class(name: str) -> None:
    X, y, table = small_world()
    method = method_of(name, logit_adjustment=3.0).fit(X, y, table.only(["a", "b", "c"]))
    assert method.decision_function(X).shape == (9, 3)
    assert_finite(method, X)


@every_method
def test_negative_features_in_half_precision(name: str) -> None:
    """The default scaling fits the generator; test images may lie outside the range of the training images."""
    X, y, table = small_world()
    method = method_of(name).fit((X - 5).astype(np.float16), y, table)
    assert_finite(method, 4 * X - 7)


@pytest.mark.parametrize("name", ["FVAEGAN", "TFVAEGAN", "BiVAEGAN"])
def test_adaptation_to_one_image_outside_the_range_of_the_training_images(name: str) -> None:
    X, y, table = small_world()
    assert_finite(method_of(name).fit(X, y, table).adapt(4 * X[:1] - 2, n_steps=6), X)


@pytest.mark.parametrize("name", ["FVAEGAN", "TFVAEGAN", "BiVAEGAN"])
def test_adaptation_without_unseen_classes_says_what_to_do(name: str) -> None:
    X, y, table = small_world()
    method = method_of(name).fit(X, y, table.only(["a", "b", "c"]))
    with pytest.raises(DataError, match="add_classes"):
        method.adapt(X)


def test_adaptation_without_images_is_refused() -> None:
    X, y, table = small_world()
    with pytest.raises(DataError, match="minimum of 1 is required"):
        BiVAEGAN(**SIZES).fit(X, y, table).adapt(X[:0])


@pytest.mark.parametrize("factor", [1e5, 1e-8], ids=["large", "small"])
@pytest.mark.parametrize("name", ["FCLSWGAN", "CEGZSL", "FVAEGAN"])
def test_unscaled_features_outside_half_precision_are_kept_and_saved(name: str, factor: float, tmp_path: Any) -> None:
    X, y, table = small_world()
    X = factor * (1 + X)
    method = method_of(name, feature_scaling="none", learning_rate=1e-6).fit(X, y, table)
    np.testing.assert_allclose(torch.sort(method._images.flatten())[0], np.sort(X.ravel()), rtol=1e-6)
    method.save(tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").decision_function(X), method.decision_function(X))
    assert_finite(method, X)


@every_method
def test_class_vector_of_zeros_says_what_to_do(name: str) -> None:
    X, y, table = small_world()
    vectors = dict(zip(table.labels.tolist(), table.vectors.tolist(), strict=True)) | {"d": [0.0, 0.0, 0.0]}
    with pytest.raises(DataError, match=r"all zero and cannot be scaled.*semantic_norm=None"):
        method_of(name).fit(X, y, vectors)
    assert_finite(method_of(name, semantic_norm=None).fit(X, y, vectors), X)


def test_image_of_zeros_has_finite_scores_with_features_of_unit_length() -> None:
    X, y, table = small_world()
    X[0] = 0
    method = BiVAEGAN(**SIZES).fit(X, y, table)
    assert_finite(method, X)
