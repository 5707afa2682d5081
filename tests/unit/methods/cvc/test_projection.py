"""Projection: loss and scores agree with plain Python in both joint embedding spaces."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import CVC, Projection

VARIANTS = list(product(["attributes", "between"], ["cosine", "dot"], [True, False]))


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    return make_world(World(n_seen=8, n_unseen=3, n_attributes=6, n_features=11, images_per_class=5))


def fitted(world: ZeroShotDataset, **settings: object) -> Projection:
    settings = {"hidden": 7, "n_steps": 5, "classes_per_episode": 3, "images_per_class": 2, "device": "cpu", **settings}
    return Projection(**settings).fit(world.train.X, world.train.y, world.classes)


def layers(values: list[float], network: torch.nn.Module, output: str) -> list[float]:
    """Two-layer network, one value at a time."""
    for index, layer in enumerate(network.layers):
        sums = [
            bias + sum(w * v for w, v in zip(row, values, strict=True))
            for row, bias in zip(layer.weight.double().tolist(), layer.bias.double().tolist(), strict=True)
        ]
        values = [max(value, 0.0) for value in sums] if index == 0 or output == "relu" else sums
    return values


def points(model: Projection, x: list[float], label: str) -> tuple[list[float], list[float]]:
    """Joint embedding of one image and one class."""
    vector = model.table_.vectors_of([label])[0].tolist()
    length = math.sqrt(sum(value**2 for value in vector))
    vector = [value * math.sqrt(len(vector)) / length for value in vector]
    image = layers(x, model.networks_["images"], model.output)
    return image, vector if model.space == "attributes" else layers(vector, model.networks_["classes"], model.output)


def score(model: Projection, x: list[float], label: str) -> float:
    image, other = points(model, x, label)
    dot = sum(a * b for a, b in zip(image, other, strict=True))
    if model.similarity == "dot":
        return dot
    return model.score_.scale.item() * dot / math.sqrt(sum(a * a for a in image)) / math.sqrt(sum(b * b for b in other))


@pytest.mark.parametrize(("space", "similarity", "episodic"), VARIANTS)
def test_loss_is_the_cross_entropy_over_the_classes_of_the_episode(
    space: str, similarity: str, episodic: bool, world: ZeroShotDataset
) -> None:
    model = fitted(world, space=space, similarity=similarity, episodic=episodic)
    X, y = world.train.X, world.train.y
    objective = model._objective(torch.tensor(X), model._indices(world.seen, y))
    batch = {name: array[0] for name, array in objective.draw(0, 1).items()}
    classes = world.seen[batch["classes"].numpy()]
    assert len(classes) == (3 if episodic else 8)
    losses = []
    for row, target in zip(batch["rows"].tolist(), batch["labels"].tolist(), strict=True):
        assert classes[target] == y[row]
        scores = [score(model, X[row].tolist(), label) for label in classes]
        losses.append(math.log(sum(math.exp(other - scores[target]) for other in scores)))
    assert len(losses) == 3 * 2
    assert objective.loss(batch).item() == pytest.approx(sum(losses) / len(losses), rel=1e-4, abs=1e-5)
    assert objective.fused_form() is None


@pytest.mark.parametrize(("space", "similarity", "episodic"), VARIANTS)
@pytest.mark.parametrize("output", ["relu", "linear"])
def test_scores_compare_projected_images_with_embedded_classes(
    space: str, similarity: str, episodic: bool, output: str, world: ZeroShotDataset
) -> None:
    model = fitted(world, space=space, similarity=similarity, episodic=episodic, output=output, seen_penalty=0.5)
    X, labels = world.test_unseen.X[:3], model.classes_[::3]
    found = model.decision_function(X, labels)
    expected = [[score(model, x.tolist(), label) - 0.5 * (label in world.seen) for label in labels] for x in X]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    images, classes = model.compared(X, labels)
    assert images.dtype == classes.dtype == np.float32
    for index, x in enumerate(X):
        np.testing.assert_allclose(images[index], points(model, x.tolist(), labels[0])[0], rtol=1e-4, atol=1e-4)
    for index, label in enumerate(labels):
        np.testing.assert_allclose(classes[index], points(model, X[0].tolist(), label)[1], rtol=1e-4, atol=1e-4)


def test_intermediate_space_has_half_the_feature_dimension(world: ZeroShotDataset) -> None:
    X, y = world.train.X, world.train.y
    assert fitted(world, space="between").compared(X, "unseen")[0].shape == (len(X), 5)
    assert fitted(world).compared(X, "unseen")[1].shape == (3, 6)
    narrow = Projection("between", hidden=4, n_steps=2, device="cpu").fit(X[:, :1], y, world.classes)
    assert narrow.compared(X[:, :1], "seen")[1].shape == (8, 1)


@pytest.mark.parametrize("space", ["attributes", "between"])
def test_all_parameters_are_trained(space: str, world: ZeroShotDataset) -> None:
    short, long = fitted(world, space=space, n_steps=1), fitted(world, space=space, n_steps=3)
    for name, network in short.networks_.items():
        for before, after in zip(network.parameters(), long.networks_[name].parameters(), strict=True):
            assert not torch.equal(before, after), name


def test_shared_hyperparameters_have_the_defaults_of_cvc() -> None:
    ours, theirs = Projection().get_params(), CVC().get_params()
    assert set(ours) == set(theirs) - {"initialisation"} | {"space"}
    assert {name: value for name, value in ours.items() if name in theirs and theirs[name] != value} == {"output": "linear"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("space", "visual"), ("output", "auto"), ("similarity", "l2"), ("episodic", "yes"), ("hidden", 0), ("initial_scale", 0)],
)
def test_invalid_hyperparameter_is_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=name):
        Projection(**{name: value}).fit(np.eye(3), [0, 1, 2])
