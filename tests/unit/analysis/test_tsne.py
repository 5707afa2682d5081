"""t-SNE pictures: neighbours stay neighbours, odd points have a place, and the same bits come out again."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.neighbors import KNeighborsClassifier

from sightunseen.analysis import tsne as embeddings
from sightunseen.analysis.tsne import picture_of
from sightunseen.core.errors import DataError, MissingDependencyError

K = 60


@pytest.fixture
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def clusters(n_classes: int = 5, images: int = 12, k: int = K) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images of random lengths around directions, their classes, and the directions."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(n_classes, k))
    y = np.repeat(np.arange(n_classes), images)
    lengths = rng.uniform(0.1, 10, size=(len(y), 1))
    return (directions[y] + 0.2 * rng.normal(size=(len(y), k))) * lengths, y, directions


def test_every_image_is_nearest_to_its_class_whatever_its_length() -> None:
    X, y, directions = clusters()
    picture = picture_of(X, 100 * directions)
    assert picture.images.shape == (60, 2)
    assert picture.classes.shape == (5, 2)
    nearest = KNeighborsClassifier(1).fit(picture.classes, np.arange(5)).predict(picture.images)
    np.testing.assert_array_equal(nearest, y)


def test_lengths_do_not_count() -> None:
    X, _, directions = clusters(k=8)
    # By powers of two, which normalising takes back without rounding.
    factors = 2.0 ** np.random.default_rng(1).integers(-3, 4, size=(len(X), 1))
    one, other = picture_of(X, directions), picture_of(X * factors, 4 * directions)
    np.testing.assert_array_equal(one.images, other.images)
    np.testing.assert_array_equal(one.classes, other.classes)


@pytest.mark.usefixtures("_threads")
def test_the_same_bits_on_a_rerun_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    X, _, directions = clusters()
    X[30:40] = X[30]  # ties among neighbours
    pictures = []
    for threads, many in [(1, 1000), (1, 1000), (3, 1), (4, 1)]:
        torch.set_num_threads(threads)
        monkeypatch.setattr(embeddings, "MANY", many)
        pictures.append(picture_of(X, directions, seed=3))
    for other in pictures[1:]:
        np.testing.assert_array_equal(other.images, pictures[0].images)
        np.testing.assert_array_equal(other.classes, pictures[0].classes)
    assert not np.array_equal(picture_of(X, directions, seed=4).images, pictures[0].images)


def test_progress_is_told_from_the_first_iterations_to_the_last() -> None:
    told: list[tuple[int, int]] = []
    X, _, directions = clusters(images=2)
    picture_of(X, directions, tell=lambda done, total: told.append((done, total)))
    done = [count for count, _ in told]
    assert {total for _, total in told} == {done[-1]}
    assert done == sorted(set(done))
    assert len(done) >= 10


@pytest.mark.parametrize("n", [1, 2, 3])
def test_up_to_three_points_keep_their_distances(n: int) -> None:
    points = np.random.default_rng(n).normal(size=(n, K))
    directions = points / np.linalg.norm(points, axis=1, keepdims=True)
    picture = picture_of(points[:0], points)
    assert picture.images.shape == (0, 2)
    np.testing.assert_allclose(pdist(picture.classes), pdist(directions), atol=1e-7)


@pytest.mark.parametrize("k", [1, 2, 5, K])
@pytest.mark.parametrize("kind", ["equal", "zero", "some zero", "two places"])
def test_odd_points_have_a_place(k: int, kind: str) -> None:
    points = np.ones((9, k))
    if kind == "zero":
        points[:] = 0
    elif kind == "some zero":
        points = np.random.default_rng(0).normal(size=(9, k))
        points[::4] = 0
    elif kind == "two places":
        points[4:] = -1
    picture = picture_of(points[:3], points[3:])
    placed = np.concatenate([picture.images, picture.classes])
    assert np.isfinite(placed).all()
    if kind in ("equal", "zero"):
        assert pdist(placed).max() == 0
    else:
        assert pdist(placed).max() > 0


def test_what_is_no_point_of_one_space_is_refused() -> None:
    with pytest.raises(DataError, match=r"one space.*\(4, 3\).*\(2, 5\)"):
        picture_of(np.ones((4, 3)), np.ones((2, 5)))
    with pytest.raises(DataError, match="no images and no classes"):
        picture_of(np.ones((0, 3)), np.ones((0, 3)))
    with pytest.raises(DataError, match="NaN"):
        picture_of([[1.0, np.nan]], [[1.0, 0.0]])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'sightunseen\[report\]'"):
        picture_of(*clusters(images=1)[::2])
