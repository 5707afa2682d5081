"""SP-AEN: losses compared with explicit loops."""

import numpy as np
import pytest
import torch

from sightunseen.core.class_table import ClassTable
from sightunseen.methods.shared.networks import Perceptron
from sightunseen.methods.spaen import SPAEN, AdversarialEmbedding


def small_training(**hyperparameters: float) -> tuple[SPAEN, AdversarialEmbedding]:
    """Six features, three attributes, four seen classes; networks in double precision with non-zero biases."""
    rng = np.random.default_rng(0)
    X, y = rng.random((12, 6)), np.repeat(["a", "b", "c", "d"], 3)
    table = ClassTable(["a", "b", "c", "d", "e"], rng.random((5, 3)))
    method = SPAEN(hidden=5, batch_size=7, critic_steps=2, n_steps=3, device="cpu", **hyperparameters).fit(X, y, table)
    for network in method.networks_.values():
        network.double()
        for parameter in network.parameters():
            parameter.data = torch.from_numpy(rng.standard_normal(parameter.shape))
    training = AdversarialEmbedding(method, torch.from_numpy(X), torch.arange(12) // 3)
    training.vectors = torch.from_numpy(rng.standard_normal((4, 3)))
    return method, training


def by_hand(network: Perceptron, values: np.ndarray, last: bool = True) -> np.ndarray:
    """Apply a network layer by layer; with ``last``, a leaky ReLU also follows the last layer."""
    for index, layer in enumerate(network.layers):
        values = layer.weight.detach().numpy() @ values + layer.bias.detach().numpy()
        if last or index < len(network.layers) - 1:
            values = np.where(values > 0, values, 0.2 * values)
    return values


def test_embedding_loss_is_ranking_minus_realness() -> None:
    method, training = small_training(margin=0.7, adversarial_weight=0.3)
    embedded, targets = np.random.default_rng(1).standard_normal((7, 3)), np.array([0, 1, 2, 3, 3, 1, 0])
    vectors, total = training.vectors.numpy(), 0.0
    for e, own in zip(embedded, targets, strict=True):
        for other in range(4):
            if other != own:
                total += max(0.0, 0.7 + e @ vectors[other] - e @ vectors[own])
        total -= 0.3 * by_hand(method.critic_, e, last=False)[0]
    found = training.embedding_loss(torch.from_numpy(embedded), torch.from_numpy(targets))
    assert found.item() == pytest.approx(total / 7, rel=1e-9)


def test_reconstruction_loss_is_error_plus_norm_penalty() -> None:
    method, training = small_training()
    rng, total = np.random.default_rng(1), 0.0
    features, mapped = rng.random((7, 6)), rng.standard_normal((7, 3))
    length = np.mean([np.linalg.norm(vector) for vector in training.vectors.numpy()])
    for x, m in zip(features, mapped, strict=True):
        total += np.sum((x - by_hand(method.decoder_, m)) ** 2) + (np.linalg.norm(m) / length - 1) ** 2
    found = training.reconstruction_loss(torch.from_numpy(features), torch.from_numpy(mapped))
    assert found.item() == pytest.approx(total / 7, rel=1e-9)


def test_critic_loss_matches_finite_differences() -> None:
    method, training = small_training(gradient_penalty=4.0)
    rng, total = np.random.default_rng(1), 0.0
    embedded, mapped, share = rng.standard_normal((7, 3)), rng.standard_normal((7, 3)), rng.random((7, 1))

    def critic(values: np.ndarray) -> float:
        return float(by_hand(method.critic_, values, last=False)[0])

    for e, m, s in zip(embedded, mapped, share, strict=True):
        between = s * m + (1 - s) * e
        slopes = [(critic(between + step) - critic(between - step)) / 2e-6 for step in 1e-6 * np.eye(3)]
        total += critic(e) - critic(m) + 4.0 * (np.linalg.norm(slopes) - 1) ** 2
    found = training.critic_loss(*(torch.from_numpy(part) for part in (embedded, mapped, share)))
    assert found.item() == pytest.approx(total / 7, rel=1e-6)


def test_critic_and_embedders_are_updated_in_turn() -> None:
    method, training = small_training()
    batches, updated = training.draw(0, 3), []
    for k in range(3):
        for network in method.networks_.values():
            network.zero_grad(set_to_none=True)
        training.loss_in_turn({name: array[k] for name, array in batches.items()}, k % training.turns).backward()
        updated.append({name for name, net in method.networks_.items() if any(p.grad is not None for p in net.parameters())})
    assert updated == [{"critic"}, {"critic"}, {"embedder", "reconstructive", "decoder"}]


def test_adversarial_term_brings_embeddings_closer() -> None:
    """The means of E's and F's embeddings are close with the adversarial term, and far apart without it."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(6), 20)
    X = np.eye(6)[y] + 0.1 * rng.random((120, 6))
    distances = []
    for weight in (0.0, 1.0):
        hyperparameters = {"hidden": 16, "n_steps": 400, "critic_steps": 3, "learning_rate": 1e-2}
        method = SPAEN(adversarial_weight=weight, device="cpu", **hyperparameters).fit(X, y)
        assert method.score(X, y) == 1
        features = torch.from_numpy(method._features(X))
        with torch.no_grad():
            embedded, mapped = method.embedder_(features), method.reconstructive_(features)
        distances.append((embedded.mean(dim=0) - mapped.mean(dim=0)).norm().item())
    assert distances[1] < 0.5 * distances[0]


def test_dropout_zeroes_inputs_of_embedder_layers_in_training_only() -> None:
    method, training = small_training(dropout=0.5)
    batches = training.draw(0, 2)
    batch = {name: array[0] for name, array in batches.items()}
    features = training.features[batch["rows"]]
    factors = method.embedder_.dropout_factors(0.5, training.seed, batch["step"], len(features))
    for row, (x, found) in enumerate(zip(features.numpy(), training.embedded(features, batch).detach().numpy(), strict=True)):
        values = x
        for layer, factor in zip(method.embedder_.layers, factors, strict=True):
            values = layer.weight.detach().numpy() @ (values * factor[row].numpy()) + layer.bias.detach().numpy()
            values = np.where(values > 0, values, 0.2 * values)
        np.testing.assert_allclose(found, values, rtol=1e-6)
    following = training.embedded(features, {name: array[1] for name, array in batches.items()})
    assert not torch.allclose(following, training.embedded(features, batch))  # other inputs are dropped in the next step
    plain = np.stack([by_hand(method.embedder_, x) for x in features.numpy()])
    np.testing.assert_allclose(method.embedder_(features).detach().numpy(), plain, rtol=1e-6)
