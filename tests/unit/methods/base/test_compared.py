"""Joint embeddings returned by ``compared`` reproduce the scores."""

import numpy as np
import pytest

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods import ALE, CVC, DEM, DEVISE, ESZSL, LATEM, SAE, SJE, Foresight, Projection, ZeroShotClassifier

QUICK = {"n_steps": 20, "device": "cpu"}
SPACES = {
    "CVC": CVC(hidden=16, seen_penalty=0.5, **QUICK),
    "CVC, dot": CVC(hidden=16, similarity="dot", **QUICK),
    "DEM": DEM(hidden=16, **QUICK),
    "DEM, distance": DEM(hidden=16, similarity="distance", **QUICK),
    "Projection": Projection("attributes", hidden=16, **QUICK),
    "Projection, between": Projection("between", hidden=16, similarity="dot", **QUICK),
    "ESZSL": ESZSL(),
    "ALE": ALE(**QUICK),
    "DEVISE": DEVISE(**QUICK),
    "SJE": SJE(**QUICK),
    "Foresight": Foresight(),
    "Foresight, centred": Foresight(feature_scaling="centred", noise=0.3),
}


def fitted(model: ZeroShotClassifier, data: ZeroShotDataset) -> ZeroShotClassifier:
    return model.fit(data.train.X, data.train.y, data.classes)


def expected_scores(model: ZeroShotClassifier, images: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Cosine, distance or dot product of every image and class, computed pair by pair."""
    images, classes = images.astype(float), classes.astype(float)
    similarity = "distance" if isinstance(model, Foresight) else getattr(model, "similarity", "dot")
    scale = float(model.score_.scale.detach()) if hasattr(model, "score_") else 1.0
    scores = np.empty((len(images), len(classes)))
    for i, x in enumerate(images):
        for c, w in enumerate(classes):
            if similarity == "cosine":
                scores[i, c] = scale * (x @ w) / np.sqrt((x @ x) * (w @ w))
            elif similarity == "distance":
                scores[i, c] = x @ x - np.sum((x - w) ** 2)
            else:
                scores[i, c] = x @ w
    return scores


@pytest.mark.parametrize("name", SPACES)
def test_scores_are_similarities_in_the_joint_embedding_space(name: str, small_world: ZeroShotDataset) -> None:
    model = fitted(SPACES[name], small_world)
    X, labels = small_world.test_unseen.X[::7], small_world.unseen[::-1]
    images, classes = model.compared(X, labels)
    assert images.dtype == classes.dtype == np.float32
    assert images.shape[0] == len(X)
    assert classes.shape == (len(labels), images.shape[1])
    found = model.decision_function(X, labels)
    np.testing.assert_allclose(found, expected_scores(model, images, classes), rtol=1e-3, atol=1e-3 * np.abs(found).max())


def test_adapted_model_embeds_seen_classes_as_their_learned_classifiers(small_world: ZeroShotDataset) -> None:
    model = fitted(SPACES["CVC"], small_world)
    adapted = model.adapt(small_world.test_unseen.X, rounds=1, steps_per_round=10)
    X = small_world.test_seen.X[:20]
    images, classes = adapted.compared(X, "seen")
    found = adapted.decision_function(X, "seen")
    np.testing.assert_allclose(found, expected_scores(adapted, images, classes), rtol=1e-3, atol=1e-2)
    assert not np.allclose(classes, model.compared(X, "seen")[1])


def test_methods_without_a_joint_embedding_space_raise(small_world: ZeroShotDataset) -> None:
    X = small_world.test_unseen.X
    propagating = fitted(ALE(**QUICK), small_world).adapt(X)
    several_maps = fitted(LATEM(n_steps=5, device="cpu"), small_world)
    for model in (propagating, several_maps, fitted(SAE(), small_world)):
        with pytest.raises(SettingsError, match=f"{type(model).__name__} has no joint embedding"):
            model.compared(X, None)
