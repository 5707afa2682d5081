"""Bi-VAEGAN: losses compared with explicit loops, turns of the networks, and priors of the unseen classes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods import load_model
from sightunseen.methods.generative.alignment import AlignedTraining, regression_loss
from sightunseen.methods.generative.bivaegan import BiVAEGAN
from sightunseen.methods.generative.vaegan import VAEGANTraining
from sightunseen.selection.search import Measurements
from sightunseen.training import TrainingInterrupted
from sightunseen.training.checkpoints import Checkpoints

from .small_networks import SIZES, critic_loss_by_differences, in_double_precision, perceptron, small_world, updated_in_turns


def small_adaptation(**hyperparameters: Any) -> tuple[BiVAEGAN, AlignedTraining]:
    X, y, table = small_world()
    method = BiVAEGAN(**SIZES).fit(X, y, table)
    images = method._features(X)
    parameters = {"prior": "uniform", "batch_size": 4, **hyperparameters}
    objective, _ = method._adaptation(images[:5], np.array(["d"]), images, y, None, **parameters)
    return method, objective


def test_generated_features_have_unit_length() -> None:
    X, y, table = small_world()
    method = BiVAEGAN(**SIZES).fit(X, y, table)
    np.testing.assert_allclose(method._generate(np.array(["d"])).detach().norm(dim=1), 1, rtol=1e-5)
    other = BiVAEGAN(**SIZES, feature_scaling="range").fit(X, y, table)
    assert other.generator_.last == "sigmoid"


def test_networks_are_updated_in_their_turns_in_fit() -> None:
    X, y, table = small_world()
    method = BiVAEGAN(**SIZES).fit(X, y, table)
    training = method._training(torch.from_numpy(method._features(X)), torch.arange(9) // 3)
    expected = [{"critic"}, {"critic"}, {"encoder", "generator", "regressor"}]
    assert updated_in_turns(training, dict(method.networks_), 3) == expected


def test_networks_are_updated_in_their_turns_in_adapt() -> None:
    method, objective = small_adaptation()
    networks = {**method.networks_, "marginal": objective.critic, "semantic": objective.semantic_critic}
    expected = [{"critic", "marginal", "semantic"}] * 2 + [{"encoder", "generator", "regressor"}]
    assert updated_in_turns(objective, networks, 3) == expected


def test_regression_of_generated_features_changes_the_generator_only() -> None:
    method, objective = small_adaptation(unseen_weight=0.0, regression_weight=2.0)
    vectors = objective.vectors.expand(4, -1)
    for network in method.networks_.values():
        network.zero_grad(set_to_none=True)
    fake = objective.seen.generated(torch.zeros(4, 2), vectors)
    loss = objective.generator_loss(fake, vectors)
    loss.backward()
    assert all(parameter.grad is None for parameter in method.regressor_.parameters())
    assert any(parameter.grad is not None for parameter in method.generator_.parameters())
    unit = vectors[0].numpy() / np.linalg.norm(vectors[0].numpy())
    outputs = [perceptron(method.regressor_, x) for x in fake.detach().numpy()]
    differences = [output / np.linalg.norm(output) - unit for output in outputs]
    expected = np.mean([sum(abs(value) ** 3 for value in d) / np.sqrt(sum(value**2 for value in d)) for d in differences])
    assert loss.item() == pytest.approx(2 * expected, rel=1e-5)


def test_regression_loss_has_a_finite_gradient_at_its_minimum() -> None:
    vectors = torch.tensor([[0.6, 0.8]])
    regressed = vectors.clone().requires_grad_()
    regression_loss(regressed, 5 * vectors).backward()
    assert regressed.grad is not None
    torch.testing.assert_close(regressed.grad, torch.zeros(1, 2))


def test_adversarial_loss_of_the_regressor_by_loops() -> None:
    method, objective = small_adaptation(semantic_weight=0.3)
    images = torch.from_numpy(method._features(small_world()[0])[:8])
    values = []
    for x in images.numpy():
        output = perceptron(method.regressor_, x)
        values.append(perceptron(objective.semantic_critic, output / np.linalg.norm(output))[0])
    expected = -0.3 * (np.mean(values[:4]) + np.mean(values[4:]))
    assert objective.regressor_loss(images).item() == pytest.approx(expected, rel=1e-4)


def test_loss_of_the_semantic_critic_by_finite_differences() -> None:
    _, objective = small_adaptation()
    in_double_precision({"critic": objective.semantic_critic})
    rng = np.random.default_rng(3)
    points = [torch.from_numpy(rng.random((5, size))) for size in (3, 3, 1)]
    # Two distances, of seen and of unlabelled images, and the penalty with the weight 0.1.
    expected = 2 * critic_loss_by_differences(objective.semantic_critic, *(array.numpy() for array in points), penalty=0.05)
    assert objective.semantic_critic_loss(*points).item() == pytest.approx(expected, rel=1e-6)


def test_semantic_critic_compares_vectors_of_classes_with_those_of_images(monkeypatch: pytest.MonkeyPatch) -> None:
    method, objective = small_adaptation()
    seen = {}
    zero = torch.zeros(())
    monkeypatch.setattr(objective, "semantic_critic_loss", lambda real, fake, share: seen.update(real=real, fake=fake) or zero)
    batch = {name: array[0] for name, array in objective.draw(0, 1).items()}
    objective.critics_loss(batch, objective.vectors.expand(4, -1), torch.zeros(4, 2))
    images = torch.cat([objective.seen.features[batch["rows"]], objective.features[batch["unlabelled"]]])
    torch.testing.assert_close(seen["fake"], method.regressor_(images).detach())
    labels = objective.seen.targets[batch["rows"]]
    vectors = torch.cat([objective.seen.vectors[labels], objective.vectors.expand(4, -1)])
    torch.testing.assert_close(seen["real"], vectors / vectors.norm(dim=1, keepdim=True))


def test_regressor_is_trained_on_real_features_of_seen_classes() -> None:
    X, y, table = small_world()
    method = BiVAEGAN(**SIZES).fit(X, y, table)
    training = method._training(torch.from_numpy(method._features(X)), torch.arange(9) // 3)
    batch = {name: array[2] for name, array in training.draw(0, 3).items()}
    regression = regression_loss(method.regressor_(training.features[batch["rows"]]), training.vectors_of(batch))
    expected = VAEGANTraining.opponent_step(training, batch) + regression
    torch.testing.assert_close(training.opponent_step(batch), expected)


def test_classifiers_see_features_hidden_layer_and_regressed_vector() -> None:
    method, _ = small_adaptation()
    X = torch.from_numpy(method._features(small_world()[0]))
    found = method._represent(X)
    torch.testing.assert_close(found, torch.cat([X, method.regressor_.hidden(X), method.regressor_(X)], dim=1))


# -- priors ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted() -> tuple[BiVAEGAN, Any]:
    """A model of a small world with two unseen classes."""
    data = make_world(World(n_seen=20, n_unseen=2, n_attributes=10, n_features=24, images_per_class=24, private=0.0, noise=0.4))
    sizes = {"hidden": 48, "critic_steps": 2, "n_steps": 150, "n_synthesised": 20, "classifier_steps": 60, "device": "cpu"}
    model = BiVAEGAN(**sizes, adversarial_weight=1.0, learning_rate=1e-2)
    return model.fit(data.train.X, data.train.y, data.classes), data


def unbalanced(data: Any) -> np.ndarray:
    """Test images of the unseen classes, of which the second has three."""
    first, second = (np.flatnonzero(data.test_unseen.y == label) for label in np.sort(data.unseen))
    return np.concatenate([first, second[:3]])


def test_prior_of_unbalanced_classes_is_estimated(fitted: tuple[BiVAEGAN, Any]) -> None:
    model, data = fitted
    rows = unbalanced(data)
    run = model.adaptation_run(data.test_unseen.X[rows], n_steps=30, rounds=2, batch_size=16, learning_rate=1e-2)
    assert run.objective.round_size == 15
    np.testing.assert_allclose(run.objective.shares, [(len(rows) - 2) / (len(rows) + 2), 4 / (len(rows) + 2)], atol=0.1)


def test_prior_is_estimated_again_in_every_round(fitted: tuple[BiVAEGAN, Any]) -> None:
    model, data = fitted
    objective = model.adaptation_run(data.test_unseen.X, n_steps=31, rounds=2, batch_size=16).objective
    objective.shares.fill_(0.5)
    objective.after_chunk(15, 15, 2.0)
    assert objective.shares.tolist() == [0.5, 0.5]
    objective.features = objective.features[torch.as_tensor(unbalanced(data))]
    objective.clusters = objective.clusters[: len(objective.features)]
    objective.after_chunk(16, 1, 5.0)
    assert objective.shares[0] > 0.6
    assert objective.notes[0]["loss"] == pytest.approx((15 * 2 + 5) / 16)
    objective.after_chunk(30, 14, 1.0)
    objective.after_chunk(31, 1, 9.0)  # the last round has 15 steps instead of 16
    assert [(note["round"], "loss" in note) for note in objective.notes] == [(1, True), (2, True)]
    assert objective.notes[1]["loss"] == pytest.approx((14 * 1 + 9) / 15)


@pytest.mark.parametrize(
    ("n_steps", "rounds", "ends"), [(24, 5, [5, 10, 15, 20, 24]), (10, 7, [2, 4, 6, 8, 10]), (6, 3, [2, 4, 6])]
)
def test_adaptation_is_measured_at_the_end_of_every_round(
    fitted: tuple[BiVAEGAN, Any], n_steps: int, rounds: int, ends: list[int]
) -> None:
    model, data = fitted
    adapted = model.adapt(data.test_unseen.X, n_steps=n_steps, rounds=rounds, batch_size=8, hooks=[Measurements(data)])
    assert [point["steps"] for point in adapted.curve_] == ends
    assert [note["round"] for note in adapted.history_] == list(range(1, len(ends) + 1))


def test_interrupted_adaptation_resumes(fitted: tuple[BiVAEGAN, Any], tmp_path: Path) -> None:
    """The checkpoint is written at the end of the first round."""
    model, data = fitted
    options: dict[str, Any] = {"n_steps": 30, "rounds": 2, "batch_size": 8}
    whole = model.adapt(data.test_unseen.X, **options)
    with pytest.raises(TrainingInterrupted):
        model.adapt(data.test_unseen.X, **options, hooks=[Checkpoints(tmp_path, "a run", stop_asked=lambda: True)])
    resumed = model.adapt(data.test_unseen.X, **options, hooks=[Checkpoints(tmp_path, "a run")])
    np.testing.assert_array_equal(resumed.decision_function(data.test_unseen.X), whole.decision_function(data.test_unseen.X))
    assert resumed.history_ == whole.history_


def test_known_prior_is_that_of_the_given_shares(fitted: tuple[BiVAEGAN, Any], tmp_path: Path) -> None:
    model, data = fitted
    shares = dict(zip(np.sort(data.unseen).tolist(), [3.0, 1.0], strict=True))
    options: dict[str, Any] = {"prior": "known", "class_shares": shares, "n_steps": 6, "batch_size": 8}
    run = model.adaptation_run(data.test_unseen.X, **options)
    assert run.objective.shares.tolist() == [0.75, 0.25]
    assert run.objective.round_size is None
    adapted = model.adapt(data.test_unseen.X, **options)
    adapted.save(tmp_path / "model")
    noted = [f"{label}={share}" for label, share in shares.items()]
    assert load_model(tmp_path / "model").adaptation_["class_shares"] == noted


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prior": "known"}, "without class_shares"),
        ({"prior": "known", "class_shares": {"cow": 1.0}}, "class_shares has 1 classes, but not"),
        ({"rounds": 0}, "rounds"),
        ({"regression_weight": -1.0}, "regression_weight"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_invalid_hyperparameter_of_adapt_is_named(settings: dict[str, Any], message: str, fitted: tuple[BiVAEGAN, Any]) -> None:
    model, data = fitted
    with pytest.raises(SettingsError, match=message):
        model.adapt(data.test_unseen.X, **settings)
