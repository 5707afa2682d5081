"""Contrastive losses compared with literal loops over pairs."""

import numpy as np
import pytest
import torch

from sightunseen.methods.generative.contrastive import class_loss, comparator_scores, instance_loss
from sightunseen.methods.shared.networks import Perceptron


def instance_loss_by_loops(projections: np.ndarray, targets: np.ndarray, temperature: float) -> float:
    unit = [row / np.sqrt(sum(value * value for value in row)) for row in projections]
    losses = []
    for i in range(len(unit)):
        others = [j for j in range(len(unit)) if j != i]
        total = sum(np.exp(unit[i] @ unit[j] / temperature) for j in others)
        terms = [-np.log(np.exp(unit[i] @ unit[j] / temperature) / total) for j in others if targets[j] == targets[i]]
        if terms:
            losses.append(sum(terms) / len(terms))
    return float(np.mean(losses))


@pytest.mark.parametrize("targets", [[0, 1, 0, 2, 1, 0, 3], [0, 0, 0, 1, 1, 1, 1]], ids=["with single images", "without"])
@pytest.mark.parametrize("temperature", [0.1, 0.7])
def test_instance_loss_matches_loops_over_pairs(targets: list[int], temperature: float) -> None:
    projections = np.random.default_rng(0).standard_normal((7, 4))
    found = instance_loss(torch.from_numpy(projections), torch.tensor(targets), temperature)
    assert found.item() == pytest.approx(instance_loss_by_loops(projections, np.array(targets), temperature), rel=1e-10)


def test_gradient_of_instance_loss_matches_finite_differences() -> None:
    projections = torch.from_numpy(np.random.default_rng(0).standard_normal((6, 3))).requires_grad_()
    targets = torch.tensor([0, 0, 1, 1, 1, 2])
    assert torch.autograd.gradcheck(lambda values: instance_loss(values, targets, 0.5), projections)


def test_instance_loss_of_images_of_different_classes_is_zero() -> None:
    projections = torch.ones(3, 2, requires_grad=True)
    loss = instance_loss(projections, torch.arange(3), 0.1)
    loss.backward()
    assert loss.item() == 0
    assert torch.equal(projections.grad, torch.zeros(3, 2))


def comparator() -> Perceptron:
    network = Perceptron((4 + 3, 5, 1), torch.Generator().manual_seed(0), "leaky relu").double()
    for layer in network.layers:
        torch.nn.init.normal_(layer.bias, generator=torch.Generator().manual_seed(1))
    return network


def test_class_loss_matches_loops_over_images_and_classes() -> None:
    rng = np.random.default_rng(0)
    embeddings, vectors, targets = rng.standard_normal((6, 4)), rng.standard_normal((3, 3)), [0, 2, 1, 1, 0, 2]
    network, losses = comparator(), []
    for embedding, target in zip(embeddings, targets, strict=True):
        pairs = [torch.from_numpy(np.concatenate([embedding, vector])) for vector in vectors]
        scores = [network(pair).item() / 0.3 for pair in pairs]
        losses.append(-np.log(np.exp(scores[target]) / sum(np.exp(scores))))
    arguments = torch.from_numpy(embeddings), torch.tensor(targets), torch.from_numpy(vectors)
    assert class_loss(network, *arguments, temperature=0.3).item() == pytest.approx(np.mean(losses), rel=1e-10)


def test_gradient_of_comparator_scores_matches_that_of_pairs() -> None:
    rng = np.random.default_rng(0)
    embeddings = torch.from_numpy(rng.standard_normal((6, 4))).requires_grad_()
    vectors, weights = torch.from_numpy(rng.standard_normal((3, 3))), torch.from_numpy(rng.standard_normal((6, 3)))
    network = comparator()
    pairs = torch.cat([embeddings[:, None].expand(-1, 3, -1), vectors.expand(6, -1, -1)], dim=2)
    inputs = [embeddings, *network.parameters()]
    expected = torch.autograd.grad((network(pairs).squeeze(2) * weights).sum(), inputs)
    found = torch.autograd.grad((comparator_scores(network, embeddings, vectors) * weights).sum(), inputs)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
