"""Label propagation of ALE, compared with its definition image by image."""

import copy
from pathlib import Path

import numpy as np
import pytest

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.ale import ALE

HYPERPARAMETERS = {"neighbours": 4, "alpha": 0.6, "sharpness": 3.0}


@pytest.fixture(scope="module")
def data() -> ZeroShotDataset:
    return make_world(World(n_seen=10, n_unseen=4, n_attributes=6, n_features=12, images_per_class=10, noise=0.7))


@pytest.fixture(scope="module")
def model(data: ZeroShotDataset) -> ALE:
    return ALE(n_steps=150, learning_rate=0.01, device="cpu").fit(data.train.X, data.train.y, data.classes)


@pytest.fixture(scope="module")
def adapted(model: ALE, data: ZeroShotDataset) -> ALE:
    return model.adapt(data.test_unseen.X, **HYPERPARAMETERS)


def projected(model: ALE, X: np.ndarray) -> np.ndarray:
    return model._features(X).astype(float) @ model.networks_["map"].weight.detach().numpy().astype(float)


def initial_labels(model: ALE, points: np.ndarray, among: np.ndarray) -> np.ndarray:
    """exp(t F) of all classes, normalised over the classes ``among``."""
    powers = {label: np.exp(3.0 * points @ model._vectors_of(np.array([label]))[0]) for label in model.classes_.tolist()}
    total = sum(powers[label] for label in among.tolist())
    return np.stack([powers[label] / total for label in model.classes_.tolist()], axis=1)


def propagated_labels(model: ALE, points: np.ndarray, unseen: np.ndarray) -> np.ndarray:
    """Dense closed form over the unlabelled images: zero for seen classes, normalised over the unseen ones."""
    m = len(points)
    distances = np.array([[np.linalg.norm(one - other) for other in points] for one in points])
    nearest = [sorted(set(range(m)) - {i}, key=lambda j: distances[i, j])[:4] for i in range(m)]
    width = np.mean([distances[i, j] for i in range(m) for j in nearest[i]])
    graph = np.zeros((m, m))
    for i in range(m):
        for j in nearest[i]:
            graph[i, j] = graph[j, i] = np.exp(-(distances[i, j] ** 2) / (2 * width**2))
    degrees = graph.sum(axis=1)
    smoothing = np.linalg.inv(np.eye(m) - 0.6 * graph / np.sqrt(np.outer(degrees, degrees)))
    labels = smoothing @ initial_labels(model, points, unseen)
    labels[:, np.isin(model.classes_, model.seen_classes_)] = 0
    return labels / labels[:, np.isin(model.classes_, unseen)].sum(axis=1, keepdims=True)


def test_scores_combine_own_label_and_labels_of_neighbours(adapted: ALE, data: ZeroShotDataset) -> None:
    graph, seen = projected(adapted, data.test_unseen.X), projected(adapted, data.train.X)
    of_seen = (data.train.y[:, None] == adapted.classes_).astype(float)
    labels = np.concatenate([propagated_labels(adapted, graph, data.unseen), of_seen])
    images = np.concatenate([graph, seen])
    X = np.concatenate([data.test_unseen.X[::3], data.test_seen.X[::2], data.train.X[::9]])
    points = projected(adapted, X)
    expected = 0.4 * initial_labels(adapted, points, adapted.classes_)
    for k, point in enumerate(points):
        distances = np.linalg.norm(images - point, axis=1)
        others = np.flatnonzero(distances > 1e-4 * np.linalg.norm(point))  # an image is not its own neighbour
        nearest = others[np.argsort(distances[others])[:4]]
        weights = np.exp(-((distances[nearest] / distances[nearest].mean()) ** 2) / 2)
        expected[k] += 0.6 * weights @ labels[nearest] / weights.sum()
    assert (labels.max(axis=1) > 0.5).mean() > 0.5  # the labels are informative
    np.testing.assert_allclose(adapted.decision_function(X), np.log(expected), rtol=1e-3, atol=1e-3)


def test_adapting_to_half_of_the_images_helps_on_the_other_half() -> None:
    """Unseen classes gain among all classes, and seen classes do not lose."""
    data = make_world(World(n_seen=20, n_unseen=6, n_attributes=8, n_features=24, images_per_class=30, noise=0.5))
    model = ALE(n_steps=200, learning_rate=0.01, device="cpu").fit(data.train.X, data.train.y, data.classes)
    adapted = model.adapt(data.test_unseen.X[::2])
    new, labels = data.test_unseen.X[1::2], data.test_unseen.y[1::2]
    assert adapted.score(new, labels) > model.score(new, labels) + 0.1
    assert adapted.score(data.test_seen.X, data.test_seen.y) > model.score(data.test_seen.X, data.test_seen.y) - 0.05


def test_adapt_does_not_change_the_model(model: ALE, data: ZeroShotDataset) -> None:
    before = model.decision_function(data.test_unseen.X)
    model.adapt(data.test_unseen.X, **HYPERPARAMETERS)
    np.testing.assert_array_equal(model.decision_function(data.test_unseen.X), before)


def test_order_of_unlabelled_images_does_not_matter(model: ALE, adapted: ALE, data: ZeroShotDataset) -> None:
    mixed = np.random.default_rng(0).permutation(len(data.test_unseen.X))
    found = model.adapt(data.test_unseen.X[mixed], **HYPERPARAMETERS).decision_function(data.test_unseen.X)
    np.testing.assert_allclose(found, adapted.decision_function(data.test_unseen.X), rtol=1e-4, atol=1e-4)


def test_labels_of_an_added_class_are_propagated(model: ALE, data: ZeroShotDataset) -> None:
    """The scores equal those of a model that knew the class but was not adapted to it."""
    label, others = data.unseen[1], np.delete(data.unseen, 1)
    known = model.adapt(data.test_unseen.X, others, **HYPERPARAMETERS)
    table = data.classes.only([other for other in data.classes.labels if other != label])
    later = ALE(n_steps=150, learning_rate=0.01, device="cpu").fit(data.train.X, data.train.y, table)
    later = later.adapt(data.test_unseen.X, **HYPERPARAMETERS).add_classes({label: data.classes.vectors_of([label])[0]})
    X = np.concatenate([data.test_unseen.X, data.test_seen.X])
    np.testing.assert_allclose(later.decision_function(X), known.decision_function(X), rtol=1e-5, atol=1e-5)
    images = data.test_unseen.X[data.test_unseen.y == label]
    assert (later.predict(images, "unseen") == label).mean() > 0.5


def test_propagation_is_saved_and_reset_by_fit(model: ALE, adapted: ALE, data: ZeroShotDataset, tmp_path: Path) -> None:
    adapted.save(tmp_path / "model")
    X = np.concatenate([data.test_unseen.X, data.test_seen.X])
    loaded = ALE.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.decision_function(X), adapted.decision_function(X))
    again = copy.deepcopy(adapted).fit(data.train.X, data.train.y, data.classes)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("unlabelled", [1, 2])
def test_adapting_to_one_image_or_two_equal_images(model: ALE, data: ZeroShotDataset, unlabelled: int) -> None:
    adapted = model.adapt(np.repeat(data.test_unseen.X[:1], unlabelled, axis=0))
    assert np.isfinite(adapted.decision_function(data.test_unseen.X)).all()


@pytest.mark.parametrize(("name", "value"), [("neighbours", 0), ("alpha", 1.0), ("alpha", -0.1), ("sharpness", -1.0)])
def test_invalid_hyperparameter_of_adapt_is_named(name: str, value: float, model: ALE, data: ZeroShotDataset) -> None:
    with pytest.raises(SettingsError, match=name):
        model.adapt(data.test_unseen.X, **{name: value})
