"""PSR: the loss, compared with explicit loops over pairs of all relations."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.psr import PSR, RelationLoss
from sightunseen.methods.shared.networks import Perceptron


def cosine(one: list[float], other: list[float]) -> float:
    product = sum(a * b for a, b in zip(one, other, strict=True))
    return product / math.sqrt(sum(a * a for a in one)) / math.sqrt(sum(b * b for b in other))


def mean_square(one: list[float], other: list[float]) -> float:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) / len(one)


def mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


@pytest.mark.parametrize("pairs", ["all", "hard"])
def test_loss_is_sum_of_mapping_relation_and_reconstruction(pairs: str, stub_model: Any) -> None:
    rng = torch.Generator().manual_seed(0)
    encoder, decoder = Perceptron((4, 6, 5), rng).double(), Perceptron((5, 6, 4), rng).double()
    vectors, features = (torch.randn(size, generator=rng, dtype=torch.float64) for size in ((7, 4), (40, 5)))
    hyperparameters = {"threshold": 0.1, "relation": 0.7, "reconstruction": 0.3, "pairs": pairs}
    networks = {"encoder": encoder, "decoder": decoder}
    model = stub_model(networks, vectors, classes_per_episode=5, images_per_class=2, **hyperparameters)
    objective = RelationLoss(model, features, torch.arange(40) % 7)
    centred = vectors - vectors.mean(dim=0)
    semantics = [[cosine(s, t) for t in centred.tolist()] for s in centred.tolist()]
    episode = {name: array[0] for name, array in objective.draw(0, 1).items()}
    indices = episode["classes"].tolist()
    mapped = [encoder(vectors[index]).tolist() for index in indices]
    kinds, mapping, relation, hardest = set(), [], [], []
    for row, label in zip(episode["rows"].tolist(), episode["labels"].tolist(), strict=True):
        x = features[row].tolist()
        mapping.append(mean_square(x, mapped[label]))
        worst = {"identical": 0.0, "similar": 0.0, "dissimilar": 0.0}
        for column, index in enumerate(indices):
            semantic = semantics[indices[label]][index]
            visual = cosine(x, mapped[column])
            if column == label:
                kind, violation = "identical", 0.0
            elif semantic >= 0.1:
                kind, violation = "similar", max(0.0, semantic - visual)
            else:
                kind, violation = "dissimilar", max(0.0, visual - semantic)
            relation.append(violation)
            worst[kind] = max(worst[kind], violation)
            kinds.add((kind, violation > 0))
        hardest.append(worst["similar"] + worst["dissimilar"])
    assert len(kinds) == 5  # similar and dissimilar classes, each satisfied and violated, and identical ones
    reconstruction = [
        mean_square(decoder(torch.tensor(m, dtype=torch.float64)).tolist(), vectors[index].tolist())
        for m, index in zip(mapped, indices, strict=True)
    ]
    expected = mean(mapping) + 0.7 * mean(relation if pairs == "all" else hardest) + 0.3 * mean(reconstruction)
    assert objective.loss(episode).item() == pytest.approx(expected, rel=1e-12)


def test_scores_are_cosines_in_feature_space() -> None:
    world = make_world(World(n_seen=8, n_unseen=3, n_attributes=6, n_features=10, images_per_class=5))
    model = PSR(hidden=8, feature_scaling="none", n_steps=5, device="cpu").fit(world.train.X, world.train.y, world.classes)
    labels = model.classes_[::2]
    with torch.no_grad():
        mapped = model.networks_["encoder"](torch.tensor(model._vectors_of(labels), dtype=torch.float32)).tolist()
    expected = [[cosine(x, m) for m in mapped] for x in world.test_unseen.X[:4].tolist()]
    np.testing.assert_allclose(model.decision_function(world.test_unseen.X[:4], labels), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "value"), [("threshold", "high"), ("relation", -1.0), ("reconstruction", None), ("hidden", 0), ("pairs", "easy")]
)
def test_invalid_hyperparameter_is_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=name):
        PSR(**{name: value}).fit(np.eye(3), [0, 1, 2])
