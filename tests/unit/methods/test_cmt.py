"""CMT and CMT*: losses, Gaussians of the seen classes, and the decision between seen and unseen, against explicit loops."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.base.serialisation import as_files
from sightunseen.methods.catalogue import CARDS
from sightunseen.methods.cmt import CMT, Novelty, Transfer, TransferWithNovelty
from sightunseen.methods.shared.networks import Perceptron


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    return make_world(World(n_seen=8, n_unseen=3, n_attributes=6, n_features=10, images_per_class=12))


@pytest.fixture(scope="module")
def fitted(world: ZeroShotDataset) -> CMT:
    model = CMT(novelty=True, hidden=16, kept=0.5, n_steps=100, learning_rate=1e-2, feature_scaling="none", device="cpu")
    return model.fit(world.train.X, world.train.y, world.classes)


def test_loss_is_sum_of_mapping_and_classification_loss(stub_model: Any) -> None:
    rng = torch.Generator().manual_seed(0)
    mapping, softmax = Perceptron((5, 6, 4), rng, "tanh").double(), Perceptron((5, 7), rng).double()
    vectors, features = (torch.randn(size, generator=rng, dtype=torch.float64) for size in ((7, 4), (40, 5)))
    networks = {"mapping": mapping, "softmax": softmax, "novelty": Novelty(7)}
    model = stub_model(networks, vectors, images_per_episode=9)
    objective = TransferWithNovelty(model, features, torch.arange(40) % 7)
    (rows,) = objective.draw(3, 1)["rows"].tolist()
    squares, losses = [], []
    for row in rows:
        mapped, scores = mapping(features[row]).tolist(), softmax(features[row]).tolist()
        squares += [(s - m) ** 2 for s, m in zip(vectors[row % 7].tolist(), mapped, strict=True)]
        losses.append(math.log(sum(math.exp(score) for score in scores)) - scores[row % 7])
    expected = sum(squares) / len(squares)
    assert len(rows) == 9
    batch = {"rows": torch.tensor(rows)}
    assert Transfer(model, features, torch.arange(40) % 7).loss(batch).item() == pytest.approx(expected, rel=1e-12)
    assert objective.loss(batch).item() == pytest.approx(expected + sum(losses) / len(losses), rel=1e-12)


def test_without_novelty_detection_the_nearest_vector_decides_among_all_classes(world: ZeroShotDataset) -> None:
    model = CMT(hidden=16, n_steps=100, learning_rate=1e-2, feature_scaling="none", device="cpu")
    model.fit(world.train.X, world.train.y, world.classes)
    assert list(model.networks_) == ["mapping"]
    X, labels = np.concatenate([world.test_seen.X, world.test_unseen.X]), model.classes_[::-2]
    with torch.no_grad():
        mapped = model.networks_["mapping"](torch.from_numpy(X)).numpy()
    scores = -((mapped[:, None] - model._vectors_of(labels)) ** 2).mean(axis=2)
    np.testing.assert_allclose(model.decision_function(X, labels), scores, rtol=1e-4, atol=1e-5)
    predicted = model.predict(X, labels)
    np.testing.assert_array_equal(predicted, labels[scores.argmax(axis=1)])
    assert 0 < np.isin(predicted, model.seen_classes_).mean() < 1


def test_mapping_does_not_depend_on_novelty_detection(fitted: CMT, world: ZeroShotDataset) -> None:
    plain = CMT(**{**fitted.get_params(), "novelty": False}).fit(world.train.X, world.train.y, world.classes)
    one, other = plain.networks_["mapping"].state_dict(), fitted.networks_["mapping"].state_dict()
    for name, values in one.items():
        torch.testing.assert_close(values, other[name])
    X = world.test_unseen.X
    np.testing.assert_array_equal(plain.predict(X, "unseen"), fitted.predict(X, "unseen"))


def test_catalogue_names_both_variants() -> None:
    assert [(name, dict(card.settings)) for name, card in CARDS.items() if card.estimator == "CMT"] == [
        ("CMT", {}),
        ("CMT*", {"novelty": True}),
    ]


def test_folder_without_the_hyperparameter_is_read_as_a_model_with_novelty_detection(
    fitted: CMT, world: ZeroShotDataset
) -> None:
    files = as_files(fitted, None)
    files.content["settings"] = {name: value for name, value in files.content["settings"].items() if name != "novelty"}
    loaded = CMT.from_files(files)
    assert loaded.novelty
    np.testing.assert_array_equal(loaded.decision_function(world.test_unseen.X), fitted.decision_function(world.test_unseen.X))


def test_novelty_is_largest_density_of_isotropic_gaussians() -> None:
    rng = torch.Generator().manual_seed(0)
    vectors, targets = torch.randn((3, 4), generator=rng, dtype=torch.float64), torch.arange(60) % 3
    spread = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)[targets, None]
    mapped = vectors[targets] + spread * torch.randn((60, 4), generator=rng, dtype=torch.float64)
    novelty = Novelty(3).double()
    novelty.learn(mapped, targets, vectors, kept=0.9)
    densities = []
    for k in range(3):
        variance = float((mapped[targets == k] - vectors[k]).square().mean())
        densities.append(multivariate_normal(vectors[k].numpy(), variance * np.eye(4)).logpdf(mapped.numpy()))
    best = np.max(densities, axis=0)
    found = novelty(mapped, vectors).numpy()
    np.testing.assert_allclose(found - found[0], best - best[0], rtol=1e-9, atol=1e-9)
    assert (found < 0).sum() == 6  # a tenth of the images are novel


def test_softmax_classifies_known_images_and_nearest_vector_novel_ones(fitted: CMT, world: ZeroShotDataset) -> None:
    X = np.concatenate([world.test_seen.X, world.test_unseen.X])
    mapping, softmax, novelty = fitted.networks_.values()
    seen = torch.tensor(fitted._vectors_of(fitted.seen_classes_), dtype=torch.float32)
    unseen = fitted._vectors_of(fitted.unseen_classes_)
    with torch.no_grad():
        mapped = mapping(torch.from_numpy(X)).numpy()
        known = novelty(torch.from_numpy(mapped), seen).numpy()
        classified = fitted.seen_classes_[softmax(torch.from_numpy(X)).numpy().argmax(axis=1)]
    nearest = fitted.unseen_classes_[((mapped[:, None] - unseen) ** 2).sum(axis=2).argmin(axis=1)]
    np.testing.assert_array_equal(fitted.predict(X, "unseen"), nearest)
    np.testing.assert_array_equal(fitted.predict(X, "seen"), classified)
    assert (known > 0).any()
    assert ((known > -1) & (known < 0)).any()
    np.testing.assert_array_equal(fitted.predict(X), np.where(known >= 0, classified, nearest))


def test_gaussians_match_trained_mapping_and_are_saved(fitted: CMT, world: ZeroShotDataset, tmp_path: object) -> None:
    with torch.no_grad():
        mapped = fitted.networks_["mapping"](torch.from_numpy(world.train.X)).numpy()
    for label, variance in zip(fitted.seen_classes_, fitted.networks_["novelty"].variances.tolist(), strict=True):
        images = mapped[world.train.y == label]
        assert variance == pytest.approx(((images - fitted._vectors_of([label])) ** 2).mean(), rel=1e-4)
    fitted.save(f"{tmp_path}/model")
    loaded = CMT.load(f"{tmp_path}/model").networks_["novelty"]
    assert all(
        torch.equal(value, loaded.state_dict()[name]) for name, value in fitted.networks_["novelty"].state_dict().items()
    )


@pytest.mark.parametrize(
    ("name", "value"), [("kept", 1.2), ("kept", -0.1), ("hidden", 0), ("images_per_episode", 0), ("novelty", "yes")]
)
def test_invalid_hyperparameter_is_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=name):
        CMT(**{name: value}).fit(np.eye(3), [0, 1, 2])
