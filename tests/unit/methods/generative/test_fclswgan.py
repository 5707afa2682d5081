"""f-CLSWGAN: losses compared with explicit loops, and a generator that learns the class means."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from torch import Tensor, nn

from sightunseen.core.class_table import ClassTable
from sightunseen.methods.generative.fclswgan import FCLSWGAN, AdversarialTraining
from sightunseen.methods.generative.final_classifiers import train_softmax
from sightunseen.methods.shared.adversarial import gradient_penalty

LEAK = 0.2


def small_training(**hyperparameters: float) -> tuple[FCLSWGAN, AdversarialTraining, dict[str, np.ndarray]]:
    """Four features, three attributes, three seen classes; networks in double precision with non-zero biases."""
    rng = np.random.default_rng(0)
    X, y = rng.random((9, 4)).astype(np.float32), np.repeat(["a", "b", "c"], 3)
    table = ClassTable(["a", "b", "c", "d"], rng.random((4, 3)))
    sizes = {"hidden": 5, "noise_size": 2, "batch_size": 6, "critic_steps": 2, "n_steps": 3, "classifier_steps": 3}
    method = FCLSWGAN(device="cpu", **sizes, **hyperparameters).fit(X, y, table)
    for network in method.networks_.values():
        network.double()
        for parameter in network.parameters():
            parameter.data = torch.from_numpy(rng.standard_normal(parameter.shape))
    softmax = torch.from_numpy(rng.standard_normal((3, 4))), torch.from_numpy(rng.standard_normal(3))
    training = AdversarialTraining(method, torch.from_numpy(X).double(), torch.arange(9) // 3, softmax)
    training.vectors = torch.from_numpy(rng.random((3, 3)))
    drawn = {"real": rng.random((6, 4)), "fake": rng.random((6, 4)), "share": rng.random((6, 1)), "vectors": rng.random((6, 3))}
    return method, training, drawn


def critic_by_hand(method: FCLSWGAN, features: np.ndarray, vector: np.ndarray) -> float:
    first, second = ((layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in method.critic_.layers)
    hidden = first[0] @ np.concatenate([features, vector]) + first[1]
    return float((second[0] @ np.where(hidden > 0, hidden, LEAK * hidden) + second[1])[0])


def slopes_by_differences(method: FCLSWGAN, features: np.ndarray, vector: np.ndarray) -> np.ndarray:
    step = 1e-6 * np.eye(len(features))
    values = [critic_by_hand(method, features + s, vector) - critic_by_hand(method, features - s, vector) for s in step]
    return np.array(values) / 2e-6


def test_critic_loss_is_eq_3_by_finite_differences() -> None:
    method, training, drawn = small_training(gradient_penalty=7.0)
    expected = []
    for real, fake, share, vector in zip(*(drawn[k] for k in ("real", "fake", "share", "vectors")), strict=True):
        length = np.linalg.norm(slopes_by_differences(method, share * real + (1 - share) * fake, vector))
        difference = critic_by_hand(method, fake, vector) - critic_by_hand(method, real, vector)
        expected.append(difference + 7.0 * (length - 1) ** 2)
    tensors = [torch.from_numpy(drawn[name]) for name in ("real", "fake", "vectors", "share")]
    assert training.critic_loss(*tensors).item() == pytest.approx(np.mean(expected), rel=1e-6)


def test_gradient_of_gradient_penalty_matches_finite_differences() -> None:
    method, _, drawn = small_training()
    real, fake, share, vectors = (torch.from_numpy(drawn[name]) for name in ("real", "fake", "share", "vectors"))

    def penalty() -> Tensor:
        return gradient_penalty(lambda x: method.critic_(torch.cat([x, vectors], dim=1)), real, fake, share)

    penalty().backward()
    for layer in method.critic_.layers:
        found, weight = layer.weight.grad[0, 1].item(), layer.weight.data
        weight[0, 1] += 1e-6
        above = penalty().item()
        weight[0, 1] -= 2e-6
        assert found == pytest.approx((above - penalty().item()) / 2e-6, rel=1e-4, abs=1e-7)
        weight[0, 1] += 1e-6


def test_gradient_penalty_of_linear_critic() -> None:
    slope = torch.tensor([3.0, 4.0])
    points = torch.rand(5, 2, generator=torch.Generator().manual_seed(0))
    assert gradient_penalty(lambda x: x @ slope, points, -points, torch.full((5, 1), 0.5)).item() == pytest.approx(16)
    assert gradient_penalty(lambda x: x @ slope * 0, points, points, torch.ones(5, 1)).item() == pytest.approx(1, abs=1e-5)


def test_generator_loss_is_realness_plus_eq_4() -> None:
    method, training, drawn = small_training(classification_weight=0.3)
    fake, vectors, targets = drawn["fake"], drawn["vectors"], np.array([0, 2, 1, 1, 0, 2])
    weight, bias = (part.numpy() for part in training.softmax)
    expected = [
        -critic_by_hand(method, fake[k], vectors[k]) - 0.3 * log_softmax(weight @ fake[k] + bias)[targets[k]] for k in range(6)
    ]
    found = training.generator_loss(torch.from_numpy(fake), torch.from_numpy(vectors), torch.from_numpy(targets))
    assert found.item() == pytest.approx(np.mean(expected), rel=1e-9)


def test_generator_loss_without_eq_4_is_realness() -> None:
    method, training, drawn = small_training(classification_weight=0.0)
    training.softmax = method._objective(training.features, training.targets).softmax
    assert training.softmax is None  # no classifier is trained for it
    fake, vectors = drawn["fake"], drawn["vectors"]
    found = training.generator_loss(torch.from_numpy(fake), torch.from_numpy(vectors), torch.zeros(6, dtype=torch.long))
    assert found.item() == pytest.approx(-np.mean([critic_by_hand(method, fake[k], vectors[k]) for k in range(6)]), rel=1e-9)


def test_critic_and_generator_are_updated_in_turn() -> None:
    method, training, _ = small_training()
    updated = []
    method.generator_.float(), method.critic_.float()
    training.features, training.vectors = training.features.float(), training.vectors.float()
    training.softmax = training.softmax[0].float(), training.softmax[1].float()
    batches = training.draw(0, 6)
    for k in range(6):
        for network in method.networks_.values():
            network.zero_grad(set_to_none=True)
        training.loss_in_turn({name: array[k] for name, array in batches.items()}, k % training.turns).backward()
        moved = {name for name, network in method.networks_.items() if any(p.grad is not None for p in network.parameters())}
        updated.append(moved)
    assert updated == [{"critic"}, {"critic"}, {"generator"}] * 2


def test_synthesised_features_of_a_class_do_not_depend_on_other_classes() -> None:
    method, _, _ = small_training(n_synthesised=4)
    method.generator_.float()
    features = method._synthesise(np.array(["a", "c", "d"])).reshape(3, 4, -1)
    torch.testing.assert_close(features[2], method._synthesise(np.array(["d"])))
    assert not torch.equal(method.set_params(seed=1)._synthesise(np.array(["d"])), features[2])


def test_classes_have_noise_of_their_own() -> None:
    method, _, _ = small_training(n_synthesised=500)
    noise = method._noise(np.array(["a", "b"]), 2)
    assert noise.shape == (2, 500, 2)
    assert abs(np.corrcoef(noise[0].flatten(), noise[1].flatten())[0, 1]) < 0.2  # five standard errors
    assert noise.std().item() == pytest.approx(1, abs=0.1)


def test_final_classifier_is_trained_on_at_most_n_real_images_of_a_class() -> None:
    method, _, _ = small_training(n_real=2)
    assert np.bincount(method._image_targets).tolist() == [2, 2, 2]
    method, _, _ = small_training(n_real=None)
    assert np.bincount(method._image_targets).tolist() == [3, 3, 3]


def test_softmax_separates_separable_classes() -> None:
    rng = torch.Generator().manual_seed(0)
    targets = torch.arange(300) % 3
    features = torch.eye(3)[targets] + 0.1 * torch.randn(300, 3, generator=rng)
    weight, bias = train_softmax(features, targets, 3, seed=0, n_steps=100)
    assert torch.equal((features @ weight.T + bias).argmax(dim=1), targets)


class TwoFeatures(FCLSWGAN):
    """Variant for two features: no last ReLU, which could die, and initial weights for narrow layers."""

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        networks = super()._make_networks(rng)
        self.generator_.last = "linear"
        for network, last in ((self.generator_, 0.3), (self.critic_, 1.0)):
            for layer, factor in zip(network.layers, (1.0, last), strict=True):
                nn.init.normal_(layer.weight, 0.0, factor * (2 / layer.in_features) ** 0.5, generator=rng)
        return networks


def test_generator_learns_class_means_in_two_dimensions() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 40)
    X = np.array([[0.2, 0.2], [0.8, 0.3], [0.3, 0.8], [0.7, 0.9]])[y] + 0.05 * rng.standard_normal((160, 2))
    hyperparameters = {"hidden": 32, "noise_size": 2, "n_synthesised": 50, "classifier_steps": 20, "learning_rate": 5e-3}
    method = TwoFeatures(n_steps=900, critic_steps=2, classification_weight=0.01, device="cpu", **hyperparameters).fit(X, y)
    found = method._synthesise(method.classes_).detach().numpy().reshape(4, 50, 2).mean(axis=1)
    means = np.stack([method._features(X)[y == label].mean(axis=0) for label in range(4)])
    np.testing.assert_allclose(found, means, atol=0.2)  # the nearest two are 0.5 apart
