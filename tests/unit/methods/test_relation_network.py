"""Relation Network: the relation module over concatenated pairs, and the loss, written out."""

import math

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
    """g([f(s), x]), the pair put together and every sum taken one by one."""
    pair = embedded + x
    sums = zip(relation.first.weight.tolist(), relation.first.bias.tolist(), strict=True)
    hidden = [max(0.0, sum(w * p for w, p in zip(row, pair, strict=True)) + b) for row, b in sums]
    return sum(w * h for w, h in zip(relation.second.weight[0].tolist(), hidden, strict=True)) + relation.second.bias.item()


def test_the_halves_of_the_first_layer_make_the_relation_of_the_pair() -> None:
    rng = torch.Generator().manual_seed(0)
    _, relation = networks(rng)
    X, embedded = (torch.randn(size, generator=rng, dtype=torch.float64) for size in ((3, 5), (2, 5)))
    expected = [[relation_of(relation, e, x) for e in embedded.tolist()] for x in X.tolist()]
    np.testing.assert_allclose(relation(X, embedded).tolist(), expected, rtol=1e-12)


def test_the_loss_is_the_mean_square_of_relations_less_one_for_right_pairs_and_none_for_wrong_ones() -> None:
    rng = torch.Generator().manual_seed(1)
    embedding, relation = networks(rng)
    vectors, features = (torch.randn(size, generator=rng, dtype=torch.float64) for size in ((7, 4), (40, 5)))
    objective = Comparison([embedding, relation], vectors, features, torch.arange(40) % 7, 3, 2, seed=0)
    task = {name: array[0] for name, array in objective.draw(0, 1).items()}
    squares = []
    for row, label in zip(task["rows"].tolist(), task["labels"].tolist(), strict=True):
        for column, place in enumerate(task["classes"].tolist()):
            score = relation_of(relation, embedding(vectors[place]).tolist(), features[row].tolist())
            squares.append((1 / (1 + math.exp(-score)) - (1.0 if column == label else 0.0)) ** 2)
    assert objective.loss(task).item() == pytest.approx(sum(squares) / len(squares), rel=1e-12)


def test_before_training_a_pair_is_right_as_often_as_pairs_of_a_task_are() -> None:
    relation = Relation(50, 200, right=0.1, rng=torch.Generator().manual_seed(0))
    X = torch.randn(100, 50, generator=torch.Generator().manual_seed(1))
    found = torch.sigmoid(relation(X, X[:10]))
    assert 0.05 < found.mean().item() < 0.2


def test_scores_are_relations_of_the_scaled_image_with_each_candidate() -> None:
    world = make_world(World(n_seen=8, n_unseen=3, n_attributes=6, n_features=10, images_per_class=5))
    model = RelationNetwork(hidden=8, n_steps=5, device="cpu").fit(world.train.X, world.train.y, world.classes)
    labels = model.classes_[::2]
    X = (world.test_unseen.X[:4] - world.train.X.mean(axis=0)) / world.train.X.std(axis=0)
    with torch.no_grad():
        embedded = model.networks_["embedding"](torch.tensor(model._vectors_of(labels), dtype=torch.float32)).tolist()
    expected = [[relation_of(model.networks_["relation"], e, x) for e in embedded] for x in X.tolist()]
    np.testing.assert_allclose(model.decision_function(world.test_unseen.X[:4], labels), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("name", "value"), [("hidden", 0), ("classes_per_episode", 0), ("images_per_class", "few")])
def test_a_bad_setting_is_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=name):
        RelationNetwork(**{name: value}).fit(np.eye(3), [0, 1, 2])
