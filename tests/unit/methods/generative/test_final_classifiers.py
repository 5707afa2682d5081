"""Final classifiers: logit adjustment compared with Bayes' rule, and prototypes that transfer to classes by their vectors."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor

from sightunseen import UncalibratedWarning
from sightunseen.core.calibration import Calibration
from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import FCLSWGAN, load_model
from sightunseen.methods.catalogue import card_of
from sightunseen.methods.generative.final_classifiers import (
    TEMPERATURE,
    GeneratedPrototypes,
    log_priors,
    train_prototypes,
    train_softmax,
)
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.selection.evaluation import zsl_accuracy

SEEN = torch.tensor([True, True, True, False, False])
SMALL = {"hidden": 64, "noise_size": 4, "n_synthesised": 20, "classifier_steps": 100, "n_steps": 90, "learning_rate": 1e-2}
SMALL |= {"critic_steps": 2, "classification_weight": 1.0, "device": "cpu"}


def discrete_world() -> tuple[np.ndarray, Tensor, Tensor]:
    """Six values of an image, five classes: counts (value, class), and one-hot features and targets of all images."""
    counts = np.random.default_rng(1).integers(1, 40, size=(6, 5)) * np.array([4, 2, 3, 1, 1])
    values, targets = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    return counts, torch.eye(6)[values], torch.from_numpy(targets)


def test_log_priors_are_prior_of_the_group_times_share_in_the_group() -> None:
    _, _, targets = discrete_world()
    odds, found = 7.0, log_priors(targets, SEEN, 7.0).exp()
    for k in range(5):
        group = odds / (1 + odds) if SEEN[k] else 1 / (1 + odds)
        same = [j for j in range(5) if SEEN[j] == SEEN[k]]
        share = (targets == k).sum().item() / sum((targets == j).sum().item() for j in same)
        assert found[k].item() == pytest.approx(group * share, rel=1e-5)
    assert found.sum().item() == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("odds", [0.5, 3.0, 30.0])
def test_adjusted_classifier_predicts_by_bayes_rule_with_the_stated_prior_divided_out(odds: float) -> None:
    counts, features, targets = discrete_world()
    adjustment = log_priors(targets, SEEN, odds)
    weight, bias = train_softmax(features, targets, 5, seed=0, n_steps=1000, batch_size=1024, adjustment=adjustment)
    scores = (torch.eye(6) @ weight.T + bias).numpy()
    # Bayes' rule: the training images have joint probability p(x, y); under the stated prior q, p(x | y) = p(x, y) / q(y).
    joint = counts / counts.sum()
    adjusted = joint / adjustment.exp().numpy()
    np.testing.assert_array_equal(scores.argmax(axis=1), adjusted.argmax(axis=1))
    posterior = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(posterior, adjusted / adjusted.sum(axis=1, keepdims=True), atol=0.05)


def test_prior_of_the_training_images_leaves_equal_priors_of_classes() -> None:
    counts, features, targets = discrete_world()
    odds = float(counts[:, :3].sum() / counts[:, 3:].sum())
    adjustment = log_priors(targets, SEEN, odds)
    np.testing.assert_allclose(adjustment.exp().numpy(), counts.sum(axis=0) / counts.sum(), rtol=1e-5)
    weight, bias = train_softmax(features, targets, 5, seed=0, n_steps=1000, batch_size=1024, adjustment=adjustment)
    likelihoods = counts / counts.sum(axis=0)
    np.testing.assert_array_equal((torch.eye(6) @ weight.T + bias).argmax(dim=1), likelihoods.argmax(axis=1))


def test_prototype_loss_matches_explicit_cosines() -> None:
    rng = np.random.default_rng(0)
    network = Perceptron((3, 4, 5), torch.Generator().manual_seed(0), "leaky relu").double()
    vectors, features, targets = rng.random((2, 3)), rng.random((4, 5)), [0, 1, 1, 0]
    adjustment = np.log([0.9, 0.1])
    tensors = torch.from_numpy(vectors), torch.from_numpy(features), torch.tensor(targets)
    training = GeneratedPrototypes(network, *tensors, 4, 0, torch.from_numpy(adjustment))
    prototypes = network(tensors[0]).detach().numpy()
    losses = []
    for image, target in zip(features, targets, strict=True):
        cosines = [image @ p / np.linalg.norm(image) / np.linalg.norm(p) for p in prototypes]
        weights = np.exp(np.array(cosines) / TEMPERATURE + adjustment)
        losses.append(-np.log(weights[target] / weights.sum()))
    assert training.loss({"rows": torch.arange(4)}).item() == pytest.approx(np.mean(losses), rel=1e-9)


def test_prototypes_of_classes_without_images_follow_their_vectors() -> None:
    rng = torch.Generator().manual_seed(0)
    vectors, basis = torch.rand(40, 6, generator=rng), torch.rand(6, 16, generator=rng)
    means = vectors @ basis
    targets = torch.arange(35).repeat_interleave(10)  # none of the last five classes
    features = means[targets] + 0.02 * torch.randn(350, 16, generator=rng)
    prototypes = train_prototypes(features, targets, vectors, seed=0, n_steps=300)
    unit = torch.nn.functional.normalize(means[35:], dim=1)
    assert torch.equal((unit @ prototypes[35:].T).argmax(dim=1), torch.arange(5))


@pytest.fixture(scope="module")
def world() -> Any:
    return make_world(World(n_seen=40, n_unseen=5, n_attributes=12, n_features=32, images_per_class=12, private=0.0, noise=0.5))


@pytest.fixture(scope="module")
def zlap(world: Any) -> FCLSWGAN:
    method = FCLSWGAN(**{**SMALL, **card_of("ZLAP").settings})
    return method.fit(world.train.X, world.train.y, world.classes)


def test_zlap_recognises_unseen_classes(zlap: FCLSWGAN, world: Any) -> None:
    assert zlap.final_classifier == "prototypes"
    assert zsl_accuracy(zlap, world.test_unseen.X, world.test_unseen.y) > 0.6  # by chance 0.2


def test_scores_of_prototypes_do_not_depend_on_the_candidates(zlap: FCLSWGAN, world: Any) -> None:
    scores = zlap.decision_function(world.test_unseen.X)
    columns = np.isin(zlap.classes_, world.unseen)
    np.testing.assert_allclose(zlap.decision_function(world.test_unseen.X, world.unseen), scores[:, columns], atol=1e-4)


def test_calibration_is_not_applied_to_the_classifier_of_unseen_classes(world: Any) -> None:
    model = FCLSWGAN(**SMALL).fit(world.train.X, world.train.y, world.classes)
    model.calibration_ = Calibration(temperature=3.0, ECE=1.0, ECE_before=2.0, none_below=1e6)  # rejects every image
    X, unseen = world.test_unseen.X, np.sort(world.unseen)
    np.testing.assert_allclose(model.predict_proba(X), softmax(model.decision_function(X) / 3, axis=1), rtol=1e-4)
    assert model.predict_frame(X)["none_of_these"].all()
    scores = model.decision_function(X, unseen)
    with pytest.warns(UncalibratedWarning, match="among unseen classes alone"):
        np.testing.assert_allclose(model.predict_proba(X, unseen), softmax(scores, axis=1), rtol=1e-4)
    assert not model.is_none(scores, unseen).any()
    assert list(model.predict_frame(X, unseen)) == ["class", "uncalibrated_probability", "seen"]


def test_saved_prototypes_predict_the_same(zlap: FCLSWGAN, world: Any, tmp_path: Any) -> None:
    zlap.save(tmp_path / "model")
    restored = load_model(tmp_path / "model")
    np.testing.assert_array_equal(restored.decision_function(world.test_unseen.X), zlap.decision_function(world.test_unseen.X))


def test_larger_odds_of_seen_classes_move_images_to_unseen_classes(world: Any) -> None:
    shares = []
    for odds in (None, 1.0, 1000.0):
        method = FCLSWGAN(**SMALL, logit_adjustment=odds).fit(world.train.X, world.train.y, world.classes)
        shares.append(np.isin(method.predict(world.test_seen.X), world.unseen).mean())
    assert shares[1] < shares[2]
    assert shares[0] < shares[2]


@pytest.mark.parametrize(("name", "value"), [("final_classifier", "svm"), ("logit_adjustment", 0.0), ("logit_adjustment", "x")])
def test_invalid_hyperparameter_is_named(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=name):
        FCLSWGAN(device="cpu", **{name: value}).check_settings()
