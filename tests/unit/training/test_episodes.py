"""Sampling of episodes: distinct classes and images, uniform distributions, and dependence on the step number alone."""

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

from sightunseen.core.randomness import derive_seed
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

UNLIKELY = 1e-3  # the seeds are fixed, so the tests are deterministic
CPU = torch.device("cpu")


def assert_uniform(outcomes: list[object], n_possible: int) -> None:
    """Chi-squared test that all possible outcomes are equally frequent."""
    _, counts = np.unique(np.array(outcomes), return_counts=True, axis=0)
    assert len(counts) == n_possible
    assert chisquare(counts).pvalue > UNLIKELY


def assert_independent(one: Tensor, other: Tensor) -> None:
    """Chi-squared test of independence."""
    table = np.zeros((int(one.max()) + 1, int(other.max()) + 1))
    np.add.at(table, (one.flatten().numpy(), other.flatten().numpy()), 1)
    assert chi2_contingency(table).pvalue > UNLIKELY


def targets(*counts: int, seed: int = 0) -> Tensor:
    """Shuffled class indices with these numbers of images of class 0, 1, ..."""
    return torch.from_numpy(np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts)))


def draw_episodes(
    images: ClassImages, n_steps: int, per_episode: int, per_class: int, seed: int, first: int = 0
) -> tuple[Tensor, Tensor]:
    classes = draw_classes(len(images.count), first, n_steps, per_episode, seed, CPU)
    return classes, draw_images(images, classes, first, per_class, seed)


def random_numbers(*shape: int, seed: int) -> Tensor:
    """Input of ``distinct_below``, from a generator other than the library's."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 2**63, shape))


# -- episodes ----------------------------------------------------------------------------------------------------------


def test_images_are_grouped_by_class_index() -> None:
    images = ClassImages.of(torch.tensor([5, 7, 2, 5, 2, 5]))
    grouped = [images.rows[s : s + n].tolist() for s, n in zip(images.start, images.count, strict=True)]
    assert grouped == [[2, 4], [0, 3, 5], [1]]


@pytest.mark.parametrize("classes_per_episode", [1, 3, 5])
def test_episode_has_distinct_classes_and_distinct_images(classes_per_episode: int) -> None:
    y = targets(4, 5, 6, 20, 9)
    classes, rows = draw_episodes(ClassImages.of(y), 300, classes_per_episode, 4, seed=0)
    assert classes.shape == (300, classes_per_episode)
    assert rows.shape == (300, classes_per_episode, 4)
    for own_classes, own_rows in zip(classes, rows, strict=True):
        assert len(set(own_classes.tolist())) == classes_per_episode
        assert len(set(own_rows.flatten().tolist())) == classes_per_episode * 4
        assert (y[own_rows] == own_classes[:, None]).all()


def test_small_class_repeats_only_its_own_images() -> None:
    y = targets(2, 8, 1)
    classes, rows = draw_episodes(ClassImages.of(y), 200, 3, 4, seed=0)
    assert (y[rows] == classes[..., None]).all()
    distinct = [{len(set(drawn.tolist())) for drawn in rows[classes == k]} for k in range(3)]
    assert distinct == [{1, 2}, {4}, {1}]


# -- uniform sampling --------------------------------------------------------------------------------------------------


def test_sets_of_classes_are_uniform() -> None:
    classes = draw_classes(6, 0, 20_000, 3, 1, CPU)
    assert_uniform(classes.sort(dim=1).values.tolist(), math.comb(6, 3))


def test_classes_are_uniform_at_every_position_of_an_episode() -> None:
    for drawn in draw_classes(6, 0, 20_000, 3, 2, CPU).T:
        assert_uniform(drawn.tolist(), 6)


def test_sets_of_images_of_a_class_are_uniform() -> None:
    classes, rows = draw_episodes(ClassImages.of(targets(5, 7)), 20_000, 1, 2, seed=2)
    for k, count in enumerate((5, 7)):
        assert_uniform(rows[classes == k].sort(dim=1).values.tolist(), math.comb(count, 2))


def test_images_of_a_small_class_are_uniform_with_replacement() -> None:
    classes, rows = draw_episodes(ClassImages.of(targets(2, 9, 3)), 20_000, 3, 4, seed=3)
    for k, count in ((0, 2), (2, 3)):
        assert_uniform(rows[classes == k].tolist(), count**4)


def test_images_of_different_classes_are_independent() -> None:
    """Pairs of an image of one class and an image of the other are uniform."""
    classes, rows = draw_episodes(ClassImages.of(targets(4, 3)), 12_000, 2, 1, seed=3)
    in_order = rows[..., 0].gather(1, classes.argsort(dim=1))
    assert_uniform(in_order.tolist(), 4 * 3)


@pytest.mark.parametrize(("count", "size"), [(4, 3), (5, 2), (6, 1), (7, 5)])
def test_distinct_below_gives_uniform_subsets(count: int, size: int) -> None:
    drawn = distinct_below(torch.full((15_000,), count), random_numbers(15_000, size, seed=count)).sort(dim=1).values
    assert_uniform(drawn.tolist(), math.comb(count, size))
    assert {tuple(row) for row in drawn.tolist()} == set(itertools.combinations(range(count), size))


def test_distinct_below_a_small_bound_is_uniform_with_replacement() -> None:
    drawn = distinct_below(torch.full((16_000,), 2), random_numbers(16_000, 3, seed=4))
    assert_uniform(drawn.tolist(), 2**3)


def test_distinct_below_accepts_bounds_of_any_shape() -> None:
    count = torch.tensor([[1, 2, 3], [4, 50, 600]])
    drawn = distinct_below(count.expand(500, 2, 3), random_numbers(500, 2, 3, 3, seed=5))
    assert drawn.shape == (500, 2, 3, 3)
    assert (drawn >= 0).all()
    assert (drawn < count[..., None]).all()
    distinct = torch.tensor([len(set(row)) for row in drawn.reshape(-1, 3).tolist()]).reshape(500, 2, 3)
    assert (distinct[:, count >= 3] == 3).all()


def test_mini_batches_are_uniform_over_all_images() -> None:
    rows = draw_batches(7, 0, 2000, 5, 6, CPU)
    assert rows.shape == (2000, 5)
    assert_uniform(rows.flatten().tolist(), 7)
    assert_uniform(rows[:, :2].tolist(), 7 * 7)


# -- dependence on the step number -------------------------------------------------------------------------------------


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
    "episodes": lambda seed: inductive(seed=seed),
    "mini-batches": lambda seed: inductive(episodic=False, seed=seed),
    "episodes with a pool": transductive,
}
every_draw = pytest.mark.parametrize("objective_of", DRAWS.values(), ids=DRAWS.keys())


@every_draw
@hypothesis_settings(deadline=None, max_examples=25, derandomize=True)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6), first=st.integers(0, 10**12), seed=st.integers(0, 2**62))
def test_batches_drawn_in_pieces_of_any_size_are_the_same(
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
def test_batches_depend_on_the_seed(objective_of: Callable[[int], Objective]) -> None:
    once, again, other = (objective_of(seed).draw(0, 20) for seed in (0, 0, 1))
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert not torch.equal(once["rows"], other["rows"])
    assert (once["rows"] == other["rows"]).float().mean() < 0.5


@every_draw
def test_consecutive_batches_are_independent(objective_of: Callable[[int], Objective]) -> None:
    rows = objective_of(0).draw(0, 1000)["rows"]
    assert len({tuple(batch) for batch in rows.tolist()}) > 990
    # The first image of each batch against that of the next batch.
    assert_independent(rows[:-1, 0], rows[1:, 0])


def test_classes_images_and_seeds_are_independent() -> None:
    images = ClassImages.of(torch.arange(24) // 4)  # the position of an image in its class is its row modulo four
    classes, rows = draw_episodes(images, 5000, 3, 2, seed=0)
    _, others = draw_episodes(images, 5000, 3, 2, seed=1)
    assert_independent(classes, rows[..., 0] % 4)
    assert_independent(classes[:, 0], rows[:, 1, 0] % 4)
    assert_independent(rows[:, 0, 0] % 4, rows[:, 1, 0] % 4)
    assert_independent(rows[..., 0] % 4, others[..., 0] % 4)


def test_mini_batches_and_episodes_of_one_seed_are_independent() -> None:
    images = ClassImages.of(torch.zeros(8, dtype=torch.int64))
    _, rows = draw_episodes(images, 5000, 1, 1, seed=0)
    batches = draw_batches(8, 0, 5000, 1, 0, CPU)
    assert_independent(rows[:, 0, 0], batches[:, 0])


def test_seen_and_confident_images_of_an_episode_are_independent() -> None:
    """Both sides have the same numbers of classes and images: with a shared random stream the positions would agree."""
    objective = transductive(classes_per_episode=3)
    objective.pool = Pool(np.arange(15), np.arange(15) % 3)
    rows = objective.draw(0, 5000)["rows"]
    seen_position, pool_position = rows[:, :6] // 6, (rows[:, 6:] - 30) // 3  # image k is the (k // 6)-th of class k % 6
    assert set(seen_position.unique().tolist()) == set(pool_position.unique().tolist()) == set(range(5))
    for one, other in itertools.product(range(6), range(6)):
        assert_independent(seen_position[:, one], pool_position[:, other])


def test_inductive_and_transductive_episodes_of_one_seed_are_independent() -> None:
    one, other = inductive().draw(0, 5000), transductive().draw(0, 5000)
    assert_independent(one["classes"][:, 0], other["labels"][:, 0])
    assert_independent(one["rows"][:, 0] // 6, other["rows"][:, 0] // 6)


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_warning_counts_small_classes() -> None:
    with pytest.warns(UserWarning, match="^2 of 5 classes have fewer than 3 images; .* with replacement"):
        ClassImages.of(targets(1, 3, 2, 9, 4)).warn_of_small_classes(3)


def test_no_warning_without_small_classes() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ClassImages.of(targets(3, 3, 9)).warn_of_small_classes(3)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_gpu_draws_the_same_batches() -> None:
    on_cpu, on_gpu = (ClassImages.of(targets(4, 5, 2, 20, 9).to(device)) for device in ("cpu", "cuda"))
    classes, same = (draw_classes(5, 17, 1000, 3, 0, images.rows.device) for images in (on_cpu, on_gpu))
    assert torch.equal(classes, same.cpu())
    assert torch.equal(draw_images(on_cpu, classes, 17, 4, 0), draw_images(on_gpu, same, 17, 4, 0).cpu())
    assert torch.equal(draw_batches(40, 17, 1000, 6, 0, CPU), draw_batches(40, 17, 1000, 6, 0, same.device).cpu())


# -- noise -------------------------------------------------------------------------------------------------------------


def test_noise_depends_only_on_seed_and_step() -> None:
    one = draw_normal(5, torch.tensor(3), (4, 6))
    assert torch.equal(one, draw_normal(5, torch.tensor(3), (4, 6)))
    assert not torch.equal(one, draw_normal(5, torch.tensor(4), (4, 6)))
    assert not torch.equal(one, draw_normal(6, torch.tensor(3), (4, 6)))


@pytest.mark.parametrize("seed", [0, derive_seed(3, "noise"), 2**63 - 1])
@pytest.mark.parametrize("step", [0, 7, 1_000_000])
def test_kernel_draws_the_same_noise(seed: int, step: int) -> None:
    kernels = pytest.importorskip("sightunseen.training.random_kernels", reason="Triton is for Linux only")
    number, shape = torch.tensor(step), (33, 71)
    assert torch.equal(kernels.drawn(seed, number, shape, normal=False), draw_uniform(seed, number, shape))
    assert torch.allclose(kernels.drawn(seed, number, shape, normal=True), draw_normal(seed, number, shape), atol=1e-5)


def test_noise_has_the_expected_distribution() -> None:
    uniform = torch.cat([draw_uniform(1, torch.tensor(step), (1000,)) for step in range(100)]).numpy()
    normal = torch.cat([draw_normal(1, torch.tensor(step), (1000,)) for step in range(100)]).numpy()
    assert kstest(uniform, "uniform").pvalue > UNLIKELY
    assert kstest(normal, "norm").pvalue > UNLIKELY
    assert abs(np.corrcoef(normal[:-1], normal[1:])[0, 1]) < 0.02
    assert uniform.min() >= 0
    assert uniform.max() < 1
