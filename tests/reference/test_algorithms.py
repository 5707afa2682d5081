"""The library's Algorithms 1 and 2 against the literal ones, on the very tasks that the library drew."""

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
from sightunseen.methods.cvc.cvc import CVC
from sightunseen.methods.cvc.transductive import Adaptation, SelfTraining, trusted_pool
from sightunseen.training import Draw, Hook, Training

from .algorithms import Adam, Parameters, Round, Task, algorithm_1, algorithm_2, trusted

# Both sides do the same arithmetic, the library in single precision (2^-24 = 6e-8 an operation). Sixty steps leave a few 1e-7
# of the size of the classifiers; another processor may sum in another order, so there is room for twenty times that. The
# smallest change of `test_the_comparison_would_notice`, a schedule one step early, moves them by 1e-2.
TOLERANCE = 1e-5

N_TASKS = 60
SETTINGS = {
    "hidden": 16,
    "output": "relu",
    "initial_scale": 8.0,
    "n_steps": N_TASKS,
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
    """Keeps the first parameters, and every chunk of tasks with the pool it was drawn from."""

    def on_start(self, training: Training) -> None:
        self.objective = training.objective
        self.first = [p.detach().clone() for p in training.objective.parameters]
        self.chunks: list[list[Task]] = []
        self.pools: list[dict[int, int]] = []
        draw = training.objective.draw

        def noted(first: int, n_steps: int) -> Draw:
            assert first == sum(map(len, self.chunks))  # every task once, in order
            drawn = draw(first, n_steps)
            self.chunks.append([{name: array[i].tolist() for name, array in drawn.items()} for i in range(n_steps)])
            if isinstance(self.objective, SelfTraining):
                pool = self.objective.pool
                self.pools.append(dict(zip(pool.rows.tolist(), pool.labels.tolist(), strict=True)))
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
    """The class vectors, each scaled to the length sqrt(a)."""
    rows = dict(zip(world.classes.labels.tolist(), world.classes.vectors, strict=True))
    return torch.tensor(np.array([rows[k] * math.sqrt(len(rows[k])) / np.sqrt(np.sum(rows[k] ** 2)) for k in labels.tolist()]))


def cosine_rate(step: int) -> float:
    return 5e-3 * (1 + math.cos(math.pi * step / N_TASKS)) / 2


def halving_rate(step: int) -> float:
    return 5e-3 / 2 ** (step // 20)


def relative_difference(found: np.ndarray, expected: Tensor) -> float:
    wanted = expected.detach().numpy()
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def classifiers(parameters: Parameters, vectors: Tensor) -> Tensor:
    hidden = torch.relu(vectors @ parameters.first_weight.T + parameters.first_bias)
    return torch.relu(hidden @ parameters.second_weight.T + parameters.second_bias)


# -- Algorithm 1 --------------------------------------------------------------------------------------------------------


def run_algorithm_1(world: ZeroShotDataset, replay: Replay, adam: Adam) -> tuple[Parameters, list[float]]:
    parameters = Parameters(*replay.first)
    tasks = [task for chunk in replay.chunks for task in chunk]
    assert len(tasks) == N_TASKS
    losses = algorithm_1(parameters, vectors_of(world, world.seen), torch.tensor(world.train.X).double(), tasks, adam)
    return parameters, losses


def test_cvc_is_algorithm_1(world: ZeroShotDataset, trained: tuple[CVC, Replay]) -> None:
    model, replay = trained
    parameters, losses = run_algorithm_1(world, replay, Adam(cosine_rate, 1e-2, 0.5))
    everything = vectors_of(world, world.classes.labels)
    assert relative_difference(model.classifiers_of(world.classes.labels), classifiers(parameters, everything)) < TOLERANCE
    assert model.score_.scale.item() == pytest.approx(parameters.sigma.item(), rel=TOLERANCE)
    assert model.losses_ == [{"steps": N_TASKS, "loss": pytest.approx(np.mean(losses), rel=TOLERANCE)}]
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
def test_the_comparison_would_notice(
    change: Callable[[Adam], Adam], world: ZeroShotDataset, trained: tuple[CVC, Replay]
) -> None:
    model, replay = trained
    parameters, _ = run_algorithm_1(world, replay, change(Adam(cosine_rate, 1e-2, 0.5)))
    seen = vectors_of(world, world.seen)
    assert relative_difference(model.classifiers_of(world.seen), classifiers(parameters, seen)) > 100 * TOLERANCE


def test_the_tasks_are_distinct_classes_with_distinct_images_of_theirs(
    world: ZeroShotDataset, trained: tuple[CVC, Replay]
) -> None:
    _, replay = trained
    for task in replay.chunks[0]:
        assert len(set(task["classes"])) == 4
        assert len(set(task["rows"])) == 12
        assert sorted(task["labels"]) == sorted([0, 1, 2, 3] * 3)
        for row, label in zip(task["rows"], task["labels"], strict=True):
            assert world.train.y[row] == world.seen[task["classes"][label]]
    assert {k for task in replay.chunks[0] for k in task["classes"]} == set(range(7))


# -- Algorithm 2 --------------------------------------------------------------------------------------------------------


def two_sides(task: Task, world: ZeroShotDataset) -> Task:
    """T_s and T_u of a task whose unlabelled images are counted after the seen ones, and unseen classes after seen classes."""
    n_images, n_seen, m = len(world.train), len(world.seen), 4 * 2
    return {
        "seen_rows": task["rows"][:m],
        "seen_labels": task["labels"][:m],
        "unseen_rows": [row - n_images for row in task["rows"][m:]],
        "unseen_labels": [label - n_seen for label in task["labels"][m:]],
    }


def run_algorithm_2(world: ZeroShotDataset, replay: Replay, adam: Adam, *rule: Any) -> tuple[Parameters, list[Round]]:
    parameters = Parameters(*replay.first[:5])
    sides = vectors_of(world, world.seen), vectors_of(world, world.unseen)
    images = torch.tensor(world.train.X).double(), torch.tensor(world.test_unseen.X).double()
    rounds = [[two_sides(task, world) for task in chunk] for chunk in replay.chunks]
    return parameters, algorithm_2(parameters, *sides, *images, rounds, adam, *rule)


RULES = [
    pytest.param("score", 1.3, 2, "gxe", 0.5, id="score ratio, best of each class, gxe"),
    pytest.param("probability", 1.5, 0, "gxe", 0.9, id="probability ratio, gxe"),
    pytest.param("probability", 2.0, 3, "xe", None, id="probability ratio, best of each class, xe"),
    pytest.param("score", 1.2, 0, "xe", None, id="score ratio, xe"),
]


@pytest.mark.parametrize(("peakiness", "gamma", "best_per_class", "loss", "q"), RULES)
def test_self_training_is_algorithm_2(
    peakiness: str, gamma: float, best_per_class: int, loss: str, q: float | None, world: ZeroShotDataset, trained: Any
) -> None:
    replay = Replay()
    rule = {"peakiness": peakiness, "threshold": gamma, "best_per_class": best_per_class, "loss": loss}
    rule |= {} if q is None else {"q": q}
    model = trained[0].adapt(world.test_unseen.X, hooks=[replay], **ADAPTATION, **rule)
    parameters, rounds = run_algorithm_2(world, replay, Adam(halving_rate, 1e-3, 0.3), peakiness, gamma, best_per_class, q)

    assert [dict(sorted(r.pool.items())) for r in rounds] == replay.pools
    assert len({tuple(pool.items()) for pool in replay.pools}) > 1  # pools are chosen anew
    assert [entry["pool"] for entry in model.history_] == [len(r.pool) for r in rounds]
    before = [[-1] * len(world.test_unseen), *(r.pseudo_labels for r in rounds)]
    changed = [sum(a != b for a, b in zip(old, r.pseudo_labels, strict=True)) for old, r in zip(before, rounds, strict=False)]
    assert [entry["changed_labels"] for entry in model.history_] == changed

    seen, unseen = model.classifiers_of(world.seen), model.classifiers_of(world.unseen)
    assert relative_difference(seen, parameters.seen_classifiers) < TOLERANCE
    assert relative_difference(unseen, classifiers(parameters, vectors_of(world, world.unseen))) < TOLERANCE
    assert model.score_.scale.item() == pytest.approx(parameters.sigma.item(), rel=TOLERANCE)
    # W_s went its own way: it is no longer what f would give.
    assert relative_difference(seen, classifiers(parameters, vectors_of(world, world.seen))) > 100 * TOLERANCE


def test_every_task_holds_seen_images_and_trusted_ones_with_global_labels(world: ZeroShotDataset, trained: Any) -> None:
    replay = Replay()
    trained[0].adapt(world.test_unseen.X, hooks=[replay], best_per_class=2, **ADAPTATION)
    for chunk, pool in zip(replay.chunks, replay.pools, strict=True):
        for drawn in chunk:
            assert drawn["classes"] == [0, 1, 2]  # classifiers are generated for all unseen classes
            task = two_sides(drawn, world)
            assert [world.seen[k] for k in task["seen_labels"]] == world.train.y[task["seen_rows"]].tolist()
            assert [pool[row] for row in task["unseen_rows"]] == task["unseen_labels"]
            assert len(set(task["seen_rows"])) == 8
            assert len(set(task["seen_labels"])) == 4  # M of the seen classes, and every unseen class of the pool
            assert set(task["unseen_labels"]) == set(pool.values())
            assert all(task["unseen_labels"].count(k) == 2 for k in set(pool.values()))


# -- the trusted pool -----------------------------------------------------------------------------------------------------


def pool_of(scores: np.ndarray, **settings: Any) -> dict[int, int]:
    pool = trusted_pool(scores, Adaptation(**settings))
    assert (np.diff(pool.rows) > 0).all()
    return dict(zip(pool.rows.tolist(), pool.labels.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("centre", [5.0, 0.0, -5.0])
@pytest.mark.parametrize("best_per_class", [0, 1, 4, 40, 100])
@pytest.mark.parametrize("peakiness", ["score", "probability"])
def test_the_pool_is_what_a_loop_over_images_selects(peakiness: str, best_per_class: int, centre: float, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(centre, 2.0, size=(40, 6))
    found = pool_of(scores, peakiness=peakiness, threshold=1.2, best_per_class=best_per_class)
    assert found == trusted(scores.tolist(), peakiness, 1.2, best_per_class)
    if best_per_class >= 40:
        assert len(found) == 40
    elif centre != -5:
        assert 0 < len(found) < 40


@pytest.mark.parametrize("peakiness", ["score", "probability"])
def test_a_single_unseen_class_takes_every_image(peakiness: str) -> None:
    scores = np.random.default_rng(0).normal(size=(5, 1))
    assert pool_of(scores, peakiness=peakiness, best_per_class=0) == dict.fromkeys(range(5), 0)


def test_the_two_ratios_are_not_the_same() -> None:
    scores = np.array([[6.0, 5.4], [0.6, 0.4]])  # ratios of scores 1.11 and 1.5, of probabilities 1.82 and 1.22
    assert pool_of(scores, peakiness="score", threshold=1.2, best_per_class=0) == {1: 0}
    assert pool_of(scores, peakiness="probability", threshold=1.25, best_per_class=0) == {0: 0}


def test_a_ratio_at_the_threshold_is_not_above_it() -> None:
    assert pool_of(np.array([[3.0, 2.0], [3.5, 2.0]]), peakiness="score", threshold=1.5, best_per_class=0) == {1: 0}


def test_images_are_not_trusted_for_being_less_negative() -> None:
    scores = np.array([[-1.0, -4.0], [2.0, -4.0], [-4.0, -1.0]])
    assert pool_of(scores, peakiness="score", threshold=1.2, best_per_class=0) == {1: 0}
    assert pool_of(scores, peakiness="probability", threshold=1.2, best_per_class=0) == {0: 0, 1: 0, 2: 1}


def test_the_best_of_a_class_carry_its_label_even_where_it_is_not_their_best() -> None:
    scores = np.array([[5.0, 4.9, 1.0], [5.2, 4.8, 2.0], [5.1, 4.7, 0.0]])
    # Class 2 is nobody's first choice and takes image 1 only if that is not wanted more elsewhere; here class 0 wants it.
    assert pool_of(scores, threshold=1.5, best_per_class=1) == {0: 1, 1: 0}


def test_a_pool_without_images_says_what_to_change(world: ZeroShotDataset, trained: Any) -> None:
    with pytest.raises(DataError, match="Lower the threshold or set best_per_class"):
        trained[0].adapt(world.test_unseen.X, threshold=1e6, best_per_class=0, **ADAPTATION)
