"""DEM: loss and scores, compared with explicit loops."""

from typing import Any

import numpy as np
import pytest
import torch

from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.dem import DEM, Embedding
from sightunseen.methods.shared.networks import Perceptron


def test_loss_is_mean_squared_distance_to_embedded_class(stub_model: Any) -> None:
    rng = torch.Generator().manual_seed(0)
    network = Perceptron((4, 6, 5), rng).double()
    vectors, features = (torch.randn(size, generator=rng, dtype=torch.float64) for size in ((7, 4), (40, 5)))
    model = stub_model({"embedding": network}, vectors, classes_per_episode=3, images_per_class=2)
    objective = Embedding(model, features, torch.arange(40) % 7)
    episode = {name: array[0] for name, array in objective.draw(0, 1).items()}
    squares = []
    for row, label in zip(episode["rows"].tolist(), episode["labels"].tolist(), strict=True):
        embedded = network(vectors[episode["classes"][label]]).tolist()
        squares += [(e - x) ** 2 for e, x in zip(embedded, features[row].tolist(), strict=True)]
    assert len(squares) == 3 * 2 * 5
    assert objective.loss(episode).item() == pytest.approx(sum(squares) / len(squares), rel=1e-12)


@pytest.mark.parametrize("similarity", ["distance", "cosine"])
def test_scores_are_cosines_or_negative_distances(similarity: str) -> None:
    world = make_world(World(n_seen=8, n_unseen=3, n_attributes=6, n_features=10, images_per_class=5))
    model = DEM(hidden=8, similarity=similarity, feature_scaling="none", n_steps=5, device="cpu")
    model.fit(world.train.X, world.train.y, world.classes)
    X, labels = world.test_unseen.X[:4], model.classes_[::2]
    with torch.no_grad():
        embedded = model.networks_["embedding"](torch.tensor(model._vectors_of(labels), dtype=torch.float32)).double().numpy()
    found = model.decision_function(X, labels)
    for x, scores in zip(X.astype(float), found, strict=True):
        if similarity == "cosine":
            expected = [x @ e / np.linalg.norm(x) / np.linalg.norm(e) for e in embedded]
        else:
            expected = [x @ x - ((x - e) ** 2).sum() for e in embedded]
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "value"), [("similarity", "dot"), ("hidden", 0), ("images_per_class", 1.5)])
def test_invalid_hyperparameter_is_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=name):
        DEM(**{name: value}).fit(np.eye(3), [0, 1, 2])
