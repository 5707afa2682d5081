"""Compare Algorithms 1 and 2 with the reference implementation, on the episodes drawn by the library."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.data.synthetic_features import World, make_world
from sightunseen.methods.cvc.confident_set import trusted_pool
from sightunseen.methods.cvc.cvc import CVC
from sightunseen.methods.cvc.transductive import SelfTraining
from sightunseen.training import Draw, Hook, Training

from .algorithms import Adam, Episode, Parameters, Round, algorithm_1, algorithm_2, authors_list, trusted

# The library computes in single precision (2^-24 = 6e-8 per operation). After sixty steps the relative difference of the
# classifiers is a few 1e-7; the tolerance is twenty times that, since another processor may sum in another order. The smallest
# change in `test_comparison_detects_a_change`, a schedule shifted by one step, changes them by 1e-2.
TOLERANCE = 1e-5

N_STEPS = 60
SETTINGS = {
    "hidden": 16,
    "output": "relu",
    "initial_scale": 8.0,
    "n_steps": N_STEPS,
    "classes_per_episode": 4,
    "images_per_class": 3,
    "learning_rate": 5e-3,
    "schedule": "cosine",
    "weight_decay": 1e-2,
    "clip_norm": 0.5,
    "seed": 5,
    "device": "cpu",
}
ADAPTATION = {
    "rounds": 3,
    "steps_per_round": 15,
    "classes_per_episode": 4,
    "images_per_class": 2,
    "learning_rate": 5e-3,
    "schedule": "halve every 20",
    "weight_decay": 1e-3,
    "clip_norm": 0.3,
}


class Replay(Hook):
    """Record the initial parameters, and the episodes of every chunk, or of every round with its confident set."""

    def on_start(self, training: Training) -> None:
        self.objective = training.objective
        self.first = [p.detach().clone() for p in training.objective.parameters]
        self.chunks: list[list[Episode]] = []
        self.pools: list[list[tuple[int, int]]] = []
        draw = training.objective.draw

        def noted(first: int, n_steps: int) -> Draw:
            assert first == sum(map(len, self.chunks))  # each episode once, in order
            drawn = draw(first, n_steps)
            episodes = [{name: array[i].tolist() for name, array in drawn.items()} for i in range(n_steps)]
            if self.objective.round_size is not None and first % self.objective.round_size:
                self.chunks[-1] += episodes
                return drawn
            self.chunks.append(episodes)
            if isinstance(self.objective, SelfTraining):
                pool = self.objective.pool
                self.pools.append(sorted(zip(pool.rows.tolist(), pool.labels.tolist(), strict=True)))
            return drawn

        training.objective.draw = noted  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def world() -> ZeroShotDataset:
    return make_world(World(n_seen=7, n_unseen=3, n_attributes=8, n_features=12, images_per_class=12, private=0.3, noise=0.8))


@pytest.fixture(scope="module")
def trained(world: ZeroShotDataset) -> tuple[CVC, Replay]:
    replay = Replay()
    return CVC(**SETTINGS).fit(world.train.X, world.train.y, world.classes, hooks=[replay]), replay


def vectors_of(world: ZeroShotDataset, labels: np.ndarray) -> Tensor:
    """Class vectors, scaled to the norm sqrt(a)."""
    rows = dict(zip(world.classes.labels.tolist(), world.classes.vectors, strict=True))
    return torch.tensor(np.array([rows[k] * math.sqrt(len(rows[k])) / np.sqrt(np.sum(rows[k] ** 2)) for k in labels.tolist()]))


def cosine_rate(step: int) -> float:
    return 5e-3 * (1 + math.cos(math.pi * step / N_STEPS)) / 2


def halving_rate(step: int) -> float:
    return 5e-3 / 2 ** (step // 20)


def relative_difference(found: np.ndarray, expected: Tensor) -> float:
    wanted = expected.detach().numpy()
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def classifiers(parameters: Parameters, vectors: Tensor) -> Tensor:
    hidden = torch.relu(vectors @ parameters.first_weight.T + parameters.first_bias)
    return torch.relu(hidden @ parameters.second_weight.T + parameters.second_bias)


# -- Algorithm 1 -------------------------------------------------------------------------------------------------------


def run_algorithm_1(world: ZeroShotDataset, replay: Replay, adam: Adam) -> tuple[Parameters, list[float]]:
    parameters = Parameters(*replay.first)
    episodes = [episode for chunk in replay.chunks for episode in chunk]
    assert len(episodes) == N_STEPS
    losses = algorithm_1(parameters, vectors_of(world, world.seen), torch.tensor(world.train.X).double(), episodes, adam)
    return parameters, losses


def test_cvc_agrees_with_reference_algorithm_1(world: ZeroShotDataset, trained: tuple[CVC, Replay]) -> None:
    model, replay = trained
    parameters, losses = run_algorithm_1(world, replay, Adam(cosine_rate, 1e-2, 0.5))
    everything = vectors_of(world, world.classes.labels)
    assert relative_difference(model.classifiers_of(world.classes.labels), classifiers(parameters, everything)) < TOLERANCE
    assert model.score_.scale.item() == pytest.approx(parameters.sigma.item(), rel=TOLERANCE)
    ends = np.cumsum([len(chunk) for chunk in replay.chunks])
    means = [np.mean(part) for part in np.split(losses, ends[:-1])]
    expected = [{"steps": end, "loss": pytest.approx(mean, rel=TOLERANCE)} for end, mean in zip(ends, means, strict=True)]
    assert model.losses_ == expected
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda adam: replace(adam, decay=0.0), id="no decay"),
        pytest.param(lambda adam: replace(adam, clip=None), id="no clipping"),
        pytest.param(lambda adam: replace(adam, rate_at=lambda _: 5e-3), id="constant rate"),
        pytest.param(lambda adam: replace(adam, rate_at=lambda step: cosine_rate(step + 1)), id="rate one step early"),
    ],
)
def test_comparison_detects_a_change(
    change: Callable[[Adam], Adam], world: ZeroShotDataset, trained: tuple[CVC, Replay]
) -> None:
    model, replay = trained
    parameters, _ = run_algorithm_1(world, replay, change(Adam(cosine_rate, 1e-2, 0.5)))
    seen = vectors_of(world, world.seen)
    assert relative_difference(model.classifiers_of(world.seen), classifiers(parameters, seen)) > 100 * TOLERANCE


def test_episodes_contain_distinct_classes_and_distinct_images(world: ZeroShotDataset, trained: tuple[CVC, Replay]) -> None:
    _, replay = trained
    for episode in replay.chunks[0]:
        assert len(set(episode["classes"])) == 4
        assert len(set(episode["rows"])) == 12
        assert sorted(episode["labels"]) == sorted([0, 1, 2, 3] * 3)
        for row, label in zip(episode["rows"], episode["labels"], strict=True):
            assert world.train.y[row] == world.seen[episode["classes"][label]]
    assert {k for episode in replay.chunks[0] for k in episode["classes"]} == set(range(7))


# -- Algorithm 2 -------------------------------------------------------------------------------------------------------


def two_sides(episode: Episode, world: ZeroShotDataset) -> Episode:
    """Split an episode into T_s and T_u; unlabelled images are indexed after seen images, unseen classes after seen ones."""
    n_images, n_seen, m = len(world.train), len(world.seen), 4 * 2
    return {
        "seen_rows": episode["rows"][:m],
        "seen_labels": episode["labels"][:m],
        "unseen_rows": [row - n_images for row in episode["rows"][m:]],
        "unseen_labels": [label - n_seen for label in episode["labels"][m:]],
    }


def run_algorithm_2(world: ZeroShotDataset, replay: Replay, adam: Adam, *rule: Any) -> tuple[Parameters, list[Round]]:
    parameters = Parameters(*replay.first[:5])
    sides = vectors_of(world, world.seen), vectors_of(world, world.unseen)
    images = torch.tensor(world.train.X).double(), torch.tensor(world.test_unseen.X).double()
    rounds = [[two_sides(episode, world) for episode in chunk] for chunk in replay.chunks]
    return parameters, algorithm_2(parameters, *sides, *images, rounds, adam, *rule)


RULES = [
    pytest.param("score", 1.3, 2, "gxe", 0.5, id="score ratio, best of each class, gxe"),
    pytest.param("probability", 1.5, 0, "gxe", 0.9, id="probability ratio, gxe"),
    pytest.param("probability", 2.0, 3, "xe", None, id="probability ratio, best of each class, xe"),
    pytest.param("score", 1.2, 0, "xe", None, id="score ratio, xe"),
    pytest.param("authors' rule", 1.2, 5, "gxe", 0.5, id="authors' rule, gxe"),
    pytest.param("authors' rule", 1.1, 2, "xe", None, id="concatenated lists with other sizes, xe"),
]


@pytest.mark.parametrize(("peakiness", "gamma", "best_per_class", "loss", "q"), RULES)
def test_self_training_agrees_with_reference_algorithm_2(
    peakiness: str, gamma: float, best_per_class: int, loss: str, q: float | None, world: ZeroShotDataset, trained: Any
) -> None:
    replay = Replay()
    authors = peakiness == "authors' rule"
    rule = {"peakiness": "magnitude" if authors else peakiness, "concatenated": authors, "loss": loss}
    rule |= {"threshold": gamma, "best_per_class": best_per_class, **({} if q is None else {"q": q})}
    model = trained[0].adapt(world.test_unseen.X, hooks=[replay], **ADAPTATION, **rule)

    def confident(scores: list[list[float]]) -> list[tuple[int, int]]:
        if authors:
            return authors_list(scores, gamma, best_per_class)
        return list(trusted(scores, peakiness, gamma, best_per_class).items())

    parameters, rounds = run_algorithm_2(world, replay, Adam(halving_rate, 1e-3, 0.3), confident, q)

    assert [r.pool for r in rounds] == replay.pools
    assert len({tuple(pool) for pool in replay.pools}) > 1  # the confident set changes
    assert [entry["pool"] for entry in model.history_] == [len(r.pool) for r in rounds]
    before = [[-1] * len(world.test_unseen), *(r.pseudo_labels for r in rounds)]
    changed = [sum(a != b for a, b in zip(old, r.pseudo_labels, strict=True)) for old, r in zip(before, rounds, strict=False)]
    assert [entry["changed_labels"] for entry in model.history_] == changed

    seen, unseen = model.classifiers_of(world.seen), model.classifiers_of(world.unseen)
    assert relative_difference(seen, parameters.seen_classifiers) < TOLERANCE
    assert relative_difference(unseen, classifiers(parameters, vectors_of(world, world.unseen))) < TOLERANCE
    assert model.score_.scale.item() == pytest.approx(parameters.sigma.item(), rel=TOLERANCE)
    # W_s was trained directly and differs from the output of f.
    assert relative_difference(seen, classifiers(parameters, vectors_of(world, world.seen))) > 100 * TOLERANCE


def test_adaptation_episodes_contain_seen_and_confident_images(world: ZeroShotDataset, trained: Any) -> None:
    replay = Replay()
    trained[0].adapt(world.test_unseen.X, hooks=[replay], best_per_class=2, **ADAPTATION)
    for chunk, pairs in zip(replay.chunks, replay.pools, strict=True):
        pool = dict(pairs)
        for drawn in chunk:
            assert drawn["classes"] == [0, 1, 2]  # classifiers are generated for all unseen classes
            episode = two_sides(drawn, world)
            assert [world.seen[k] for k in episode["seen_labels"]] == world.train.y[episode["seen_rows"]].tolist()
            assert [pool[row] for row in episode["unseen_rows"]] == episode["unseen_labels"]
            assert len(set(episode["seen_rows"])) == 8
            assert len(set(episode["seen_labels"])) == 4  # M seen classes and every unseen class of the confident set
            assert set(episode["unseen_labels"]) == set(pool.values())
            assert all(episode["unseen_labels"].count(k) == 2 for k in set(pool.values()))


# -- the confident set -------------------------------------------------------------------------------------------------


def pool_of(scores: np.ndarray, peakiness: str, threshold: float, best_per_class: int) -> dict[int, int]:
    pool = trusted_pool(scores, peakiness, threshold, best_per_class)
    assert (np.diff(pool.rows) > 0).all()
    return dict(zip(pool.rows.tolist(), pool.labels.tolist(), strict=True))


def authors_pool(scores: np.ndarray, threshold: float = 1.2, best_per_class: int = 5) -> list[tuple[int, int]]:
    pool = trusted_pool(scores, "magnitude", threshold, best_per_class, concatenated=True)
    return list(zip(pool.rows.tolist(), pool.labels.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("centre", [5.0, 0.0, -5.0])
@pytest.mark.parametrize("best_per_class", [0, 1, 4, 40, 100])
@pytest.mark.parametrize("peakiness", ["score", "probability"])
def test_pool_agrees_with_reference(peakiness: str, best_per_class: int, centre: float, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(centre, 2.0, size=(40, 6))
    found = pool_of(scores, peakiness=peakiness, threshold=1.2, best_per_class=best_per_class)
    assert found == trusted(scores.tolist(), peakiness, 1.2, best_per_class)
    if best_per_class >= 40:
        assert len(found) == 40
    elif centre != -5:
        assert 0 < len(found) < 40


@pytest.mark.parametrize("peakiness", ["score", "probability", "magnitude"])
def test_single_unseen_class_gets_all_images(peakiness: str) -> None:
    scores = np.random.default_rng(0).normal(size=(5, 1))
    assert pool_of(scores, peakiness, threshold=1.1, best_per_class=0) == dict.fromkeys(range(5), 0)


def test_ratios_of_scores_and_probabilities_differ() -> None:
    scores = np.array([[6.0, 5.4], [0.6, 0.4]])  # ratios of scores 1.11 and 1.5, of probabilities 1.82 and 1.22
    assert pool_of(scores, peakiness="score", threshold=1.2, best_per_class=0) == {1: 0}
    assert pool_of(scores, peakiness="probability", threshold=1.25, best_per_class=0) == {0: 0}


def test_ratio_equal_to_threshold_is_not_confident() -> None:
    assert pool_of(np.array([[3.0, 2.0], [3.5, 2.0]]), peakiness="score", threshold=1.5, best_per_class=0) == {1: 0}


def test_score_ratio_requires_positive_score() -> None:
    scores = np.array([[-1.0, -4.0], [2.0, -4.0], [-4.0, -1.0]])
    assert pool_of(scores, peakiness="score", threshold=1.2, best_per_class=0) == {1: 0}
    assert pool_of(scores, peakiness="probability", threshold=1.2, best_per_class=0) == {0: 0, 1: 0, 2: 1}


def test_best_per_class_images_get_the_label_of_that_class() -> None:
    scores = np.array([[5.0, 4.9, 1.0], [5.2, 4.8, 2.0], [5.1, 4.7, 0.0]])
    # Class 2 also selects image 1, but the image is assigned to class 0, where its score is higher.
    assert pool_of(scores, "score", threshold=1.5, best_per_class=1) == {0: 1, 1: 0}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("centre", [5.0, 0.0, -5.0])
@pytest.mark.parametrize("best_per_class", [0, 1, 5, 40, 100])
@pytest.mark.parametrize("gamma", [1.0, 1.2])
def test_authors_rule_agrees_with_reference(gamma: float, best_per_class: int, centre: float, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(centre, 2.0, size=(40, 6))
    found, expected = authors_pool(scores, gamma, best_per_class), authors_list(scores.tolist(), gamma, best_per_class)
    n_best = 6 * min(best_per_class, 40)
    # Images that pass the ratio test come first, in order; the order within the best of a class has no meaning.
    assert found[: len(found) - n_best] == expected[: len(expected) - n_best]
    assert sorted(found) == sorted(expected)


def test_authors_rule_gives_every_class_its_best_images_and_an_image_two_labels() -> None:
    scores = np.array([[9.0, 3.0, 1.0], [8.0, 7.0, 2.0], [7.5, 6.9, 0.5]])
    # Image 0 passes the ratio test and is the best of class 0 (twice in the set); image 1 is the best of classes 1 and 2.
    assert authors_pool(scores, best_per_class=1) == [(0, 0), (0, 0), (1, 1), (1, 2)]
    assert pool_of(scores, "score", 1.2, 1) == {0: 0, 1: 1}  # one label each: class 2 has no image


def test_authors_ratio_is_that_of_absolute_values() -> None:
    scores = np.array([[-1.0, -4.0], [2.0, -4.0], [-4.0, -3.5], [2.0, -1.9]])
    assert authors_pool(scores, best_per_class=0) == [(0, 0), (1, 0)]


def test_empty_pool_error_suggests_a_remedy(world: ZeroShotDataset, trained: Any) -> None:
    with pytest.raises(DataError, match="Lower the threshold or set best_per_class"):
        trained[0].adapt(world.test_unseen.X, threshold=1e6, best_per_class=0, **ADAPTATION)
