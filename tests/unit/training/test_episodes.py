"""Drawing tasks: distinct classes, distinct images of theirs, all equally likely, and each task known by its number."""

import itertools
import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare, kstest
from torch import Tensor

from sightunseen.methods.cvc.generator import ClassifierGenerator
from sightunseen.methods.cvc.inductive import EpisodeShape, EpisodicTraining
from sightunseen.methods.cvc.scores import Score
from sightunseen.methods.cvc.transductive import Adaptation, Pool, SelfTraining
from sightunseen.training import Objective
from sightunseen.training.episodes import (
    ClassImages,
    distinct_below,
    draw_batches,
    draw_classes,
    draw_images,
    draw_normal,
    draw_uniform,
)

UNLIKELY = 1e-3  # the seeds are fixed, so a test that passes once passes always
CPU = torch.device("cpu")


def assert_uniform(outcomes: list[object], n_possible: int) -> None:
    """Every one of the possible outcomes comes about equally often."""
    _, counts = np.unique(np.array(outcomes), return_counts=True, axis=0)
    assert len(counts) == n_possible
    assert chisquare(counts).pvalue > UNLIKELY


def assert_unrelated(one: Tensor, other: Tensor) -> None:
    """Whatever the one is, the other is as likely as ever."""
    table = np.zeros((int(one.max()) + 1, int(other.max()) + 1))
    np.add.at(table, (one.flatten().numpy(), other.flatten().numpy()), 1)
    assert chi2_contingency(table).pvalue > UNLIKELY


def places(*counts: int, seed: int = 0) -> Tensor:
    """This many images of class 0, 1, ..., mixed."""
    return torch.from_numpy(np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts)))


def draw_episodes(
    images: ClassImages, n_steps: int, per_episode: int, per_class: int, seed: int, first: int = 0
) -> tuple[Tensor, Tensor]:
    classes = draw_classes(len(images.count), first, n_steps, per_episode, seed, CPU)
    return classes, draw_images(images, classes, first, per_class, seed)


def random_numbers(*shape: int, seed: int) -> Tensor:
    """What ``distinct_below`` makes integers of, from another generator than the library's."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 2**63, shape))


# -- one task -----------------------------------------------------------------------------------------------------------


def test_images_are_grouped_by_place_in_sorted_order() -> None:
    images = ClassImages.of(torch.tensor([5, 7, 2, 5, 2, 5]))
    grouped = [images.rows[s : s + n].tolist() for s, n in zip(images.start, images.count, strict=True)]
    assert grouped == [[2, 4], [0, 3, 5], [1]]


@pytest.mark.parametrize("classes_per_episode", [1, 3, 5])
def test_a_task_has_distinct_classes_and_distinct_images_of_them(classes_per_episode: int) -> None:
    y = places(4, 5, 6, 20, 9)
    classes, rows = draw_episodes(ClassImages.of(y), 300, classes_per_episode, 4, seed=0)
    assert classes.shape == (300, classes_per_episode)
    assert rows.shape == (300, classes_per_episode, 4)
    for task_classes, task_rows in zip(classes, rows, strict=True):
        assert len(set(task_classes.tolist())) == classes_per_episode
        assert len(set(task_rows.flatten().tolist())) == classes_per_episode * 4
        assert (y[task_rows] == task_classes[:, None]).all()


def test_a_class_with_fewer_images_than_asked_for_repeats_its_own_and_only_its_own() -> None:
    y = places(2, 8, 1)
    classes, rows = draw_episodes(ClassImages.of(y), 200, 3, 4, seed=0)
    assert (y[rows] == classes[..., None]).all()
    distinct = [{len(set(drawn.tolist())) for drawn in rows[classes == place]} for place in range(3)]
    assert distinct == [{1, 2}, {4}, {1}]


# -- all equally likely -------------------------------------------------------------------------------------------------


def test_every_set_of_classes_is_equally_likely() -> None:
    classes = draw_classes(6, 0, 20_000, 3, 1, CPU)
    assert_uniform(classes.sort(dim=1).values.tolist(), math.comb(6, 3))


def test_every_class_is_equally_likely_in_every_place_of_a_task() -> None:
    for drawn in draw_classes(6, 0, 20_000, 3, 2, CPU).T:
        assert_uniform(drawn.tolist(), 6)


def test_every_set_of_images_of_a_class_is_equally_likely() -> None:
    classes, rows = draw_episodes(ClassImages.of(places(5, 7)), 20_000, 1, 2, seed=2)
    for place, count in enumerate((5, 7)):
        assert_uniform(rows[classes == place].sort(dim=1).values.tolist(), math.comb(count, 2))


def test_images_of_too_small_a_class_are_drawn_with_replacement_uniformly() -> None:
    classes, rows = draw_episodes(ClassImages.of(places(2, 9, 3)), 20_000, 3, 4, seed=3)
    for place, count in ((0, 2), (2, 3)):
        assert_uniform(rows[classes == place].tolist(), count**4)


def test_images_are_drawn_apart_from_the_classes_they_are_drawn_with() -> None:
    """The pair of an image of one class and an image of the other is uniform, too."""
    classes, rows = draw_episodes(ClassImages.of(places(4, 3)), 12_000, 2, 1, seed=3)
    in_order = rows[..., 0].gather(1, classes.argsort(dim=1))
    assert_uniform(in_order.tolist(), 4 * 3)


@pytest.mark.parametrize(("count", "size"), [(4, 3), (5, 2), (6, 1), (7, 5)])
def test_distinct_numbers_below_a_count_are_a_uniform_subset(count: int, size: int) -> None:
    drawn = distinct_below(torch.full((15_000,), count), random_numbers(15_000, size, seed=count)).sort(dim=1).values
    assert_uniform(drawn.tolist(), math.comb(count, size))
    assert {tuple(row) for row in drawn.tolist()} == set(itertools.combinations(range(count), size))


def test_too_small_a_count_is_drawn_from_with_replacement_uniformly() -> None:
    drawn = distinct_below(torch.full((16_000,), 2), random_numbers(16_000, 3, seed=4))
    assert_uniform(drawn.tolist(), 2**3)


def test_counts_of_any_shape_are_drawn_from_each_on_its_own() -> None:
    count = torch.tensor([[1, 2, 3], [4, 50, 600]])
    drawn = distinct_below(count.expand(500, 2, 3), random_numbers(500, 2, 3, 3, seed=5))
    assert drawn.shape == (500, 2, 3, 3)
    assert (drawn >= 0).all()
    assert (drawn < count[..., None]).all()
    distinct = torch.tensor([len(set(row)) for row in drawn.reshape(-1, 3).tolist()]).reshape(500, 2, 3)
    assert (distinct[:, count >= 3] == 3).all()


def test_batches_are_drawn_from_all_images_equally() -> None:
    rows = draw_batches(7, 0, 2000, 5, 6, CPU)
    assert rows.shape == (2000, 5)
    assert_uniform(rows.flatten().tolist(), 7)
    assert_uniform(rows[:, :2].tolist(), 7 * 7)


# -- a task is known by its number --------------------------------------------------------------------------------------


def inductive(episodic: bool = True, seed: int = 0) -> EpisodicTraining:
    rng = torch.Generator().manual_seed(0)
    vectors, features = torch.rand(6, 3, generator=rng), torch.rand(30, 4, generator=rng)
    pieces = ClassifierGenerator(3, 5, 4, True, "he", rng), Score("cosine", 5.0)
    return EpisodicTraining(*pieces, vectors, features, torch.arange(30) % 6, EpisodeShape(4, 2, episodic), seed)


def transductive(seed: int = 0, classes_per_episode: int = 4) -> SelfTraining:
    rng = torch.Generator().manual_seed(0)
    seen, unseen = torch.rand(6, 3, generator=rng), torch.rand(3, 3, generator=rng)
    features, unlabelled = torch.rand(30, 4, generator=rng), torch.rand(40, 4, generator=rng)
    pieces = ClassifierGenerator(3, 5, 4, False, "he", rng), Score("cosine", 5.0)
    settings = {"best_per_class": 5, "threshold": 100.0, "images_per_class": 2}
    adaptation = Adaptation(**settings, classes_per_episode=classes_per_episode, seed=seed)
    return SelfTraining(*pieces, seen, unseen, features, torch.arange(30) % 6, unlabelled, adaptation)


DRAWS: dict[str, Callable[[int], Objective]] = {
    "steps": lambda seed: inductive(seed=seed),
    "mini-batches": lambda seed: inductive(episodic=False, seed=seed),
    "tasks with a pool": transductive,
}
every_draw = pytest.mark.parametrize("objective_of", DRAWS.values(), ids=DRAWS.keys())


@every_draw
@hypothesis_settings(deadline=None, max_examples=25, derandomize=True)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), first=st.integers(0, 10**12), seed=st.integers(0, 2**62))
def test_tasks_drawn_in_pieces_of_any_size_are_the_same_tasks(
    objective_of: Callable[[int], Objective], sizes: list[int], first: int, seed: int
) -> None:
    objective = objective_of(seed)
    whole = objective.draw(first, sum(sizes))
    starts = itertools.accumulate(sizes[:-1], initial=first)
    pieces = [objective.draw(start, size) for start, size in zip(starts, sizes, strict=True)]
    assert whole.keys() == {"classes", "rows", "labels"}
    for name, drawn in whole.items():
        assert torch.equal(torch.cat([piece[name] for piece in pieces]), drawn), name


@every_draw
def test_the_same_seed_draws_the_same_tasks_and_another_one_others(objective_of: Callable[[int], Objective]) -> None:
    once, again, other = (objective_of(seed).draw(0, 20) for seed in (0, 0, 1))
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert not torch.equal(once["rows"], other["rows"])
    assert (once["rows"] == other["rows"]).float().mean() < 0.5


@every_draw
def test_no_task_is_like_the_one_before(objective_of: Callable[[int], Objective]) -> None:
    rows = objective_of(0).draw(0, 1000)["rows"]
    assert len({tuple(task) for task in rows.tolist()}) > 990
    # One image of a thousand tasks against that of the tasks after them.
    assert_unrelated(rows[:-1, 0], rows[1:, 0])


def test_the_classes_of_a_task_say_nothing_of_its_images_or_of_another_seeds() -> None:
    images = ClassImages.of(torch.arange(24) // 4)  # the image's place in its class is its row modulo four
    classes, rows = draw_episodes(images, 5000, 3, 2, seed=0)
    _, others = draw_episodes(images, 5000, 3, 2, seed=1)
    assert_unrelated(classes, rows[..., 0] % 4)
    assert_unrelated(classes[:, 0], rows[:, 1, 0] % 4)
    assert_unrelated(rows[:, 0, 0] % 4, rows[:, 1, 0] % 4)
    assert_unrelated(rows[..., 0] % 4, others[..., 0] % 4)


def test_batches_and_images_of_one_seed_are_not_copies_of_each_other() -> None:
    images = ClassImages.of(torch.zeros(8, dtype=torch.int64))
    _, rows = draw_episodes(images, 5000, 1, 1, seed=0)
    batches = draw_batches(8, 0, 5000, 1, 0, CPU)
    assert_unrelated(rows[:, 0, 0], batches[:, 0])


def test_seen_and_trusted_images_of_a_task_are_not_copies_of_each_other() -> None:
    """As many classes on both sides, of as many images: if they shared a stream, the places drawn in them would agree."""
    objective = transductive(classes_per_episode=3)
    objective.pool = Pool(np.arange(15), np.arange(15) % 3)
    rows = objective.draw(0, 5000)["rows"]
    seen_place, trusted_place = rows[:, :6] // 6, (rows[:, 6:] - 30) // 3  # image k is the (k // 6)-th of class k % 6
    assert set(seen_place.unique().tolist()) == set(trusted_place.unique().tolist()) == set(range(5))
    for one, other in itertools.product(range(6), range(6)):
        assert_unrelated(seen_place[:, one], trusted_place[:, other])


def test_the_inductive_and_the_transductive_tasks_of_one_seed_are_different() -> None:
    one, other = inductive().draw(0, 5000), transductive().draw(0, 5000)
    assert_unrelated(one["classes"][:, 0], other["labels"][:, 0])
    assert_unrelated(one["rows"][:, 0] // 6, other["rows"][:, 0] // 6)


# -- warnings -------------------------------------------------------------------------------------------------------------


def test_small_classes_are_counted_in_a_warning() -> None:
    with pytest.warns(UserWarning, match="^2 of 5 classes have fewer than 3 images; .* with replacement"):
        ClassImages.of(places(1, 3, 2, 9, 4)).warn_of_small_classes(3)


def test_without_small_classes_there_is_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClassImages.of(places(3, 3, 9)).warn_of_small_classes(3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_gpu_draws_the_same_tasks() -> None:
    on_cpu, on_gpu = (ClassImages.of(places(4, 5, 2, 20, 9).to(device)) for device in ("cpu", "cuda"))
    classes, same = (draw_classes(5, 17, 1000, 3, 0, images.rows.device) for images in (on_cpu, on_gpu))
    assert torch.equal(classes, same.cpu())
    assert torch.equal(draw_images(on_cpu, classes, 17, 4, 0), draw_images(on_gpu, same, 17, 4, 0).cpu())
    assert torch.equal(draw_batches(40, 17, 1000, 6, 0, CPU), draw_batches(40, 17, 1000, 6, 0, same.device).cpu())


# -- noise --------------------------------------------------------------------------------------------------------------


def test_noise_of_a_task_depends_on_its_number_alone() -> None:
    one = draw_normal(5, torch.tensor(3), (4, 6))
    assert torch.equal(one, draw_normal(5, torch.tensor(3), (4, 6)))
    assert not torch.equal(one, draw_normal(5, torch.tensor(4), (4, 6)))
    assert not torch.equal(one, draw_normal(6, torch.tensor(3), (4, 6)))


def test_noise_is_distributed_as_it_should_be() -> None:
    uniform = torch.cat([draw_uniform(1, torch.tensor(task), (1000,)) for task in range(100)]).numpy()
    normal = torch.cat([draw_normal(1, torch.tensor(task), (1000,)) for task in range(100)]).numpy()
    assert kstest(uniform, "uniform").pvalue > UNLIKELY
    assert kstest(normal, "norm").pvalue > UNLIKELY
    assert abs(np.corrcoef(normal[:-1], normal[1:])[0, 1]) < 0.02
    assert uniform.min() >= 0
    assert uniform.max() < 1
