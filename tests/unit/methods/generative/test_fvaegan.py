"""f-VAEGAN-D2: losses compared with explicit loops, turns of the networks, and adaptation to unlabelled images."""

from pathlib import Path

import numpy as np
import pytest
import torch

from sightunseen.methods import load_model
from sightunseen.methods.generative.fvaegan import FVAEGAN
from sightunseen.methods.generative.unlabelled import UnlabelledTraining
from sightunseen.methods.generative.vaegan import VAEGANTraining
from sightunseen.training import Hook, Training, TrainingInterrupted

from .small_networks import SIZES, critic_loss_by_differences, in_double_precision, perceptron, small_world, updated_in_turns


def small_training(**hyperparameters: float) -> tuple[FVAEGAN, VAEGANTraining, dict[str, torch.Tensor]]:
    rng = np.random.default_rng(2)
    X, y, table = small_world()
    method = FVAEGAN(**SIZES, **hyperparameters).fit(X, y, table)
    in_double_precision(method.networks_)
    training = VAEGANTraining(method, torch.from_numpy(X).double(), torch.arange(9) // 3)
    drawn = {"features": rng.random((6, 4)), "vectors": rng.random((6, 3)), "noise": rng.standard_normal((6, 2))}
    return method, training, {name: torch.from_numpy(array) for name, array in drawn.items()}


@pytest.mark.parametrize("feature_scaling", ["range", "standard"])
def test_autoencoder_loss_by_loops(feature_scaling: str) -> None:
    method, training, drawn = small_training(adversarial_weight=0.7, feature_scaling=feature_scaling)
    expected = []
    for x, s, noise in zip(*(array.numpy() for array in drawn.values()), strict=True):
        mean, log_variance = np.split(perceptron(method.encoder_.network, np.concatenate([x, s])), 2)
        z = mean + np.exp(log_variance / 2) * noise
        output = perceptron(method.generator_, np.concatenate([z, s]))
        if feature_scaling == "range":
            fake = 1 / (1 + np.exp(-output))
            reconstruction = -np.sum(x * np.log(fake) + (1 - x) * np.log(1 - fake))
        else:
            fake = output
            reconstruction = np.sum((x - fake) ** 2)
        divergence = 0.5 * np.sum(mean**2 + np.exp(log_variance) - 1 - log_variance)
        expected.append(reconstruction + divergence - 0.7 * perceptron(method.critic_, np.concatenate([fake, s]))[0])
    assert training.autoencoder_loss(**drawn).item() == pytest.approx(np.mean(expected), rel=1e-9)


def test_critic_loss_by_finite_differences() -> None:
    method, training, drawn = small_training(gradient_penalty=4.0, adaptive_penalty=False)
    points = drawn["features"], drawn["features"].flip(0), drawn["vectors"], torch.linspace(0.1, 0.9, 6).double()[:, None]
    real, fake, vectors, share = (array.numpy() for array in points)
    expected = critic_loss_by_differences(method.critic_, real, fake, share, 4.0, vectors)
    assert training.critic_loss(*points).item() == pytest.approx(expected, rel=1e-6)


def test_critic_compares_features_with_their_reconstructions(monkeypatch: pytest.MonkeyPatch) -> None:
    method, training, _ = small_training()
    batch = {name: array[0] for name, array in training.draw(0, 1).items()}
    real, vectors = training.features[batch["rows"]], training.vectors_of(batch)
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(training, "critic_loss", lambda *points: seen.extend(points) or torch.zeros(()))
    training.critic_step(batch)
    expected = []
    for x, s, noise in zip(real.numpy(), vectors.numpy(), training.noise(batch).numpy(), strict=True):
        mean, log_variance = np.split(perceptron(method.encoder_.network, np.concatenate([x, s])), 2)
        output = perceptron(method.generator_, np.concatenate([mean + np.exp(log_variance / 2) * noise, s]))
        expected.append(1 / (1 + np.exp(-output)))
    torch.testing.assert_close(seen[0], real)
    np.testing.assert_allclose(seen[1].numpy(), expected, rtol=1e-4)
    torch.testing.assert_close(seen[2], vectors)


def test_adaptation_continues_with_the_weight_of_the_penalty(tmp_path: Path) -> None:
    X, y, table = small_world()
    method = FVAEGAN(**SIZES, gradient_penalty=4.0).fit(X, y, table)
    fitted = method.critic_.penalty_weight.item()
    assert fitted in (pytest.approx(4.0 * 1.1), pytest.approx(4.0 / 1.1))  # after one cycle of two steps of the critic
    method.save(tmp_path / "model")
    for model in (method, load_model(tmp_path / "model")):
        run = model.adaptation_run(X[:5], X_seen=X, y_seen=y, n_steps=3, batch_size=4)
        assert run.objective.seen.penalty.weight.item() == pytest.approx(fitted)
        run.objective.seen.penalty.weight.fill_(9.0)
    assert method.critic_.penalty_weight.item() == fitted  # the adapted model is a copy
    assert method.fit(X, y, table).critic_.penalty_weight.item() == fitted  # fit starts anew


def test_critic_loss_has_the_current_weight_of_the_penalty() -> None:
    _, training, drawn = small_training(gradient_penalty=4.0, adaptive_penalty=False)
    real, fake, share = drawn["features"], drawn["features"].flip(0), torch.full((6, 1), 0.5).double()
    at_four = training.critic_loss(real, fake, drawn["vectors"], share).item()
    penalty = training.penalty.total.item()
    training.penalty.weight.fill_(6.0)
    assert training.critic_loss(real, fake, drawn["vectors"], share).item() == pytest.approx(at_four + 2 * penalty, rel=1e-6)


def test_critic_is_updated_in_its_turn_and_encoder_and_generator_in_theirs() -> None:
    X, y, table = small_world()
    method = FVAEGAN(**SIZES).fit(X, y, table)
    training = VAEGANTraining(method, torch.from_numpy(X), torch.arange(9) // 3)
    expected = [{"critic"}, {"critic"}, {"encoder", "generator"}] * 2
    assert updated_in_turns(training, dict(method.networks_), 6) == expected


def test_latent_vector_is_as_long_as_class_vectors_by_default() -> None:
    X, y, table = small_world()
    method = FVAEGAN(**{**SIZES, "latent_size": None}).fit(X, y, table)
    assert method.generator_.layers[0].in_features == 3 + 3


def test_generator_starts_at_the_mean_features() -> None:
    X, y, table = small_world()
    method = FVAEGAN(**{**SIZES, "learning_rate": 0.0}).fit(X, y, table)
    generated = method._generate(method.seen_classes_).detach().numpy().mean(axis=0)
    np.testing.assert_allclose(generated, method._features(X).mean(axis=0), atol=0.05)


class Interruption(Hook):
    """Save the state after the first chunk, and stop there."""

    def on_chunk(self, training: Training) -> None:
        self.saved = training.state(), training.steps_done, list(training.losses)
        raise TrainingInterrupted("stop")


class Resumption(Hook):
    """Restore a saved state before the first step."""

    def __init__(self, saved: tuple[dict[str, torch.Tensor], int, list[tuple[int, float]]]) -> None:
        self.saved = saved

    def on_start(self, training: Training) -> None:
        training.restore(*self.saved)


@pytest.mark.parametrize("adapted", [False, True])
def test_resumed_training_has_the_same_weights(adapted: bool) -> None:
    """A chunk of 100 steps ends within a cycle of three, so that the sum of the penalties is restored, too."""
    X, y, table = small_world()

    def trained(*hooks: Hook) -> FVAEGAN:
        if not adapted:
            return FVAEGAN(**{**SIZES, "n_steps": 150}).fit(X, y, table, hooks=hooks)
        return FVAEGAN(**SIZES).fit(X, y, table).adapt(X, n_steps=150, batch_size=4, hooks=hooks)

    interruption = Interruption()
    with pytest.raises(TrainingInterrupted):
        trained(interruption)
    whole, resumed = trained(), trained(Resumption(interruption.saved))
    for name, network in whole.networks_.items():
        for one, other in zip(network.parameters(), resumed.networks_[name].parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0)


# -- adaptation --------------------------------------------------------------------------------------------------------


def small_adaptation(**hyperparameters: float) -> tuple[FVAEGAN, UnlabelledTraining]:
    X, y, table = small_world()
    method = FVAEGAN(**SIZES).fit(X, y, table)
    objective, _ = method._adaptation(method._features(X[:5]), np.array(["d"]), method._features(X), y, None, **hyperparameters)
    return method, objective


def test_second_critic_is_updated_with_the_first() -> None:
    method, objective = small_adaptation(batch_size=4)
    networks = {**method.networks_, "marginal": objective.critic}
    expected = [{"critic", "marginal"}] * 2 + [{"encoder", "generator"}]
    assert updated_in_turns(objective, networks, 3) == expected


def test_loss_of_the_second_critic_by_finite_differences() -> None:
    _, objective = small_adaptation()
    in_double_precision({"critic": objective.critic})
    rng = np.random.default_rng(3)
    points = [torch.from_numpy(rng.random((5, size))) for size in (4, 4, 1)]
    expected = critic_loss_by_differences(objective.critic, *(array.numpy() for array in points), penalty=10.0)
    assert objective.critic_loss(*points).item() == pytest.approx(expected, rel=1e-6)


def test_second_critic_compares_unlabelled_images_with_features_generated_for_unseen_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    method, objective = small_adaptation(batch_size=4)
    batch = {name: array[0] for name, array in objective.draw(0, 1).items()}
    vectors, noise = objective.unseen_vectors(batch), objective.unseen_noise(batch)
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(objective, "critic_loss", lambda *points: seen.extend(points) or torch.zeros(()))
    objective.critics_loss(batch, vectors, noise)
    torch.testing.assert_close(seen[0], objective.features[batch["unlabelled"]])
    pairs = zip(noise.numpy(), vectors.numpy(), strict=True)
    expected = [1 / (1 + np.exp(-perceptron(method.generator_, np.concatenate(pair)))) for pair in pairs]
    np.testing.assert_allclose(seen[1].numpy(), expected, rtol=1e-4)
    of_generator = objective.opponents_loss(batch, vectors, noise)  # the same features raise the value of the critic
    values = [perceptron(objective.critic, x)[0] for x in expected]
    assert of_generator.item() == pytest.approx(-10 * np.mean(values), rel=1e-4)


def test_weight_of_the_second_penalty_changes_after_each_cycle() -> None:
    _, objective = small_adaptation(batch_size=4)
    batches = objective.draw(0, 3)
    for turn in range(3):
        objective.loss_in_turn({name: array[turn] for name, array in batches.items()}, turn)
    weight = objective.memory()["marginal.weight"].item()
    assert weight in (pytest.approx(10 * 1.1), pytest.approx(10 / 1.1))


def test_second_critic_is_unconditional() -> None:
    method, objective = small_adaptation(unseen_weight=3.0)
    fake = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    values = [perceptron(objective.critic, x)[0] for x in fake.numpy()]
    found = objective.generator_loss(fake, method._vectors_on_device(np.array(["d"])))
    assert found.item() == pytest.approx(-3 * np.mean(values), rel=1e-5)


def test_unseen_classes_are_drawn_from_their_prior() -> None:
    _, objective = small_adaptation(batch_size=5000)
    objective.vectors, objective.shares = torch.eye(3), torch.tensor([0.2, 0.0, 0.8])
    drawn = objective.unseen_vectors({"step": torch.tensor(0)})
    np.testing.assert_allclose(drawn.mean(dim=0), [0.2, 0.0, 0.8], atol=0.03)
    assert drawn[:, 1].sum() == 0
