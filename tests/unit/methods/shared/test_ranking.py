"""Ranking losses, compared with explicit loops, and the loss of each method."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from sightunseen.core.errors import SettingsError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.ale import ALE
from sightunseen.methods.devise import DEVISE
from sightunseen.methods.shared.ranking import (
    RankingClassifier,
    structured_ranking,
    summed_ranking,
    violations,
    weighted_ranking,
)
from sightunseen.methods.sje import SJE


def hinges(scores: list[float], target: int, margin: float) -> list[float]:
    return [max(0.0, margin + score - scores[target]) for k, score in enumerate(scores) if k != target]


def summed(scores: list[float], target: int, margin: float) -> float:
    return sum(hinges(scores, target, margin))


def structured(scores: list[float], target: int, margin: float) -> float:
    return max(hinges(scores, target, margin))


def weighted(scores: list[float], target: int, margin: float) -> float:
    found = hinges(scores, target, margin)
    rank = sum(hinge > 0 for hinge in found)
    return sum(1 / k for k in range(1, rank + 1)) / rank * sum(found) if rank else 0.0


LOSSES = {summed_ranking: (summed, DEVISE), structured_ranking: (structured, SJE), weighted_ranking: (weighted, ALE)}

Loop = Callable[[list[float], int, float], float]


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Images of all ranks, from violations by all classes to none."""
    rng = np.random.default_rng(0)
    scores, targets = rng.normal(size=(40, 7)), rng.integers(7, size=40)
    scores[np.arange(40), targets] += np.linspace(-4, 6, 40)
    return torch.as_tensor(scores), torch.as_tensor(targets)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("margin", [0.0, 0.3, 1.0, 5.0])
def test_loss_matches_explicit_loop(loss: Callable[..., torch.Tensor], margin: float) -> None:
    scores, targets = batch()
    one = LOSSES[loss][0]
    expected = np.mean([one(row, t, margin) for row, t in zip(scores.tolist(), targets.tolist(), strict=True)])
    assert float(loss(scores, targets, margin)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_matches_finite_differences(loss: Callable[..., torch.Tensor]) -> None:
    """Weights and the chosen class are constant except at kinks, which random scores miss."""
    scores, targets = batch()
    assert torch.autograd.gradcheck(lambda s: loss(s, targets, 1.0), scores.requires_grad_())


def test_loss_is_zero_beyond_the_margin() -> None:
    scores, targets = torch.tensor([[5.0, 3.9, -2.0]], requires_grad=True), torch.tensor([0])
    for loss in LOSSES:
        value = loss(scores, targets, 1.0)
        (gradient,) = torch.autograd.grad(value, scores)
        assert value.item() == 0
        assert not gradient.any()
    assert violations(scores.detach(), targets, 2.0).tolist() == [[0.0, pytest.approx(0.9, abs=1e-6), 0.0]]


@pytest.mark.parametrize(("one", "method"), LOSSES.values())
def test_method_trains_on_its_own_loss(one: Loop, method: type[RankingClassifier]) -> None:
    data = make_world(World(n_seen=6, n_unseen=2, n_attributes=4, n_features=5, images_per_class=6))
    model = method(n_steps=3, learning_rate=0.1, margin=0.7, batch_size=9, device="cpu")
    run = model.fitting(data.train.X, data.train.y, data.classes)
    with torch.no_grad():
        model.networks_["map"].weight.normal_(generator=torch.Generator().manual_seed(0))
    batches = run.objective.draw(4, 2)
    X, y = model._features(data.train.X), data.train.y
    weight = model.networks_["map"].weight.detach().numpy().astype(float)
    vectors = {label: model._vectors_of(np.array([label]))[0] for label in model.seen_classes_}
    for k, rows in enumerate(batches["rows"].tolist()):
        assert len(rows) == 9
        costs = []
        for row in rows:
            scores = [float(X[row].astype(float) @ weight @ vectors[label]) for label in model.seen_classes_]
            costs.append(one(scores, model.seen_classes_.tolist().index(y[row]), 0.7))
        found = run.objective.loss({name: array[k] for name, array in batches.items()})
        assert found.item() == pytest.approx(np.mean(costs), rel=1e-4)


@pytest.mark.parametrize(("name", "value"), [("margin", -1.0), ("batch_size", 0), ("feature_scaling", "l2")])
def test_invalid_hyperparameter_is_named(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match=name):
        SJE(**{name: value}).check_settings()
