"""Relation network: relation module and loss, compared with explicit loops."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.relation_network import Comparison, Relation, RelationNetwork
from sightunseen.methods.shared.networks import Perceptron


def networks(rng: torch.Generator) -> tuple[nn.Module, Relation]:
    relation = Relation(5, 9, right=0.25, rng=rng).double()
    nn.init.normal_(relation.first.bias, generator=rng)
    return Perceptron((4, 6, 5), rng, last="leaky relu").double(), relation


def relation_of(relation: Relation, embedded: list[float], x: list[float]) -> float:
    """g([f(s), x]) of a concatenated pair, by explicit sums."""
    pair = embedded + x
    sums = zip(relation.first.weight.tolist(), relation.first.bias.tolist(), strict=True)
    hidden = [max(0.0, sum(w * p for w, p in zip(row, pair, strict=True)) + b) for row, b in sums]
    return sum(w * h for w, h in zip(relation.second.weight[0].tolist(), hidden, strict=True)) + relation.second.bias.item()


def test_split_first_layer_matches_concatenated_pair() -> None:
    rng = torch.Generator().manual_seed(0)
    _, relation = networks(rng)
    X, embedded = (torch.randn(size, generator=rng, dtype=torch.float64) for size in ((3, 5), (2, 5)))
    expected = [[relation_of(relation, e, x) for e in embedded.tolist()] for x in X.tolist()]
    np.testing.assert_allclose(relation(X, embedded).tolist(), expected, rtol=1e-12)


def test_loss_is_mean_squared_error_of_relations(stub_model: Any) -> None:
    rng = torch.Generator().manual_seed(1)
    embedding, relation = networks(rng)
    vectors, features = (torch.randn(size, generator=rng, dtype=torch.float64) for size in ((7, 4), (40, 5)))
    networks_of = {"embedding": embedding, "relation": relation}
    model = stub_model(networks_of, vectors, classes_per_episode=3, images_per_class=2)
    objective = Comparison(model, features, torch.arange(40) % 7)
    episode = {name: array[0] for name, array in objective.draw(0, 1).items()}
    squares = []
    for row, label in zip(episode["rows"].tolist(), episode["labels"].tolist(), strict=True):
        for column, index in enumerate(episode["classes"].tolist()):
            score = relation_of(relation, embedding(vectors[index]).tolist(), features[row].tolist())
            squares.append((1 / (1 + math.exp(-score)) - (1.0 if column == label else 0.0)) ** 2)
    assert objective.loss(episode).item() == pytest.approx(sum(squares) / len(squares), rel=1e-12)


def test_initial_relation_is_share_of_matching_pairs() -> None:
    relation = Relation(50, 200, right=0.1, rng=torch.Generator().manual_seed(0))
    X = torch.randn(100, 50, generator=torch.Generator().manual_seed(1))
    found = torch.sigmoid(relation(X, X[:10]))
    assert 0.05 < found.mean().item() < 0.2


def test_scores_are_relations_of_scaled_images() -> None:
    world = make_world(World(n_seen=8, n_unseen=3, n_attributes=6, n_features=10, images_per_class=5))
    model = RelationNetwork(hidden=8, n_steps=5, device="cpu").fit(world.train.X, world.train.y, world.classes)
    labels = model.classes_[::2]
    X = (world.test_unseen.X[:4] - world.train.X.mean(axis=0)) / world.train.X.std(axis=0)
    with torch.no_grad():
        embedded = model.networks_["embedding"](torch.tensor(model._vectors_of(labels), dtype=torch.float32)).tolist()
    expected = [[relation_of(model.networks_["relation"], e, x) for e in embedded] for x in X.tolist()]
    np.testing.assert_allclose(model.decision_function(world.test_unseen.X[:4], labels), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("name", "value"), [("hidden", 0), ("classes_per_episode", 0), ("images_per_class", "few")])
def test_invalid_hyperparameter_is_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=name):
        RelationNetwork(**{name: value}).fit(np.eye(3), [0, 1, 2])
