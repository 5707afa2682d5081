"""t-SNE keeps neighbours, handles degenerate points and is reproducible bit for bit."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.neighbors import KNeighborsClassifier

from sightunseen.analysis import tsne
from sightunseen.analysis.tsne import tsne_embedding
from sightunseen.core.errors import DataError, MissingDependencyError

K = 60


@pytest.fixture
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def clusters(n_classes: int = 5, images: int = 12, k: int = K) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images of random norms around class directions, their labels, and the directions."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(n_classes, k))
    y = np.repeat(np.arange(n_classes), images)
    lengths = rng.uniform(0.1, 10, size=(len(y), 1))
    return (directions[y] + 0.2 * rng.normal(size=(len(y), k))) * lengths, y, directions


def test_images_are_nearest_to_their_class() -> None:
    X, y, directions = clusters()
    embedding = tsne_embedding(X, 100 * directions)
    assert embedding.images.shape == (60, 2)
    assert embedding.classes.shape == (5, 2)
    nearest = KNeighborsClassifier(1).fit(embedding.classes, np.arange(5)).predict(embedding.images)
    np.testing.assert_array_equal(nearest, y)


def test_norms_do_not_matter() -> None:
    X, _, directions = clusters(k=8)
    # Powers of two, which normalisation undoes without rounding.
    factors = 2.0 ** np.random.default_rng(1).integers(-3, 4, size=(len(X), 1))
    one, other = tsne_embedding(X, directions), tsne_embedding(X * factors, 4 * directions)
    np.testing.assert_array_equal(one.images, other.images)
    np.testing.assert_array_equal(one.classes, other.classes)


@pytest.mark.usefixtures("_threads")
def test_results_are_equal_bit_for_bit_with_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    X, _, directions = clusters()
    X[30:40] = X[30]  # ties among neighbours
    embeddings = []
    for threads, many in [(1, 1000), (1, 1000), (3, 1), (4, 1)]:
        torch.set_num_threads(threads)
        monkeypatch.setattr(tsne, "MANY", many)
        embeddings.append(tsne_embedding(X, directions, seed=3))
    for other in embeddings[1:]:
        np.testing.assert_array_equal(other.images, embeddings[0].images)
        np.testing.assert_array_equal(other.classes, embeddings[0].classes)
    assert not np.array_equal(tsne_embedding(X, directions, seed=4).images, embeddings[0].images)


def test_progress_is_reported_until_the_last_iteration() -> None:
    told: list[tuple[int, int]] = []
    X, _, directions = clusters(images=2)
    tsne_embedding(X, directions, tell=lambda done, total: told.append((done, total)))
    done = [count for count, _ in told]
    assert {total for _, total in told} == {done[-1]}
    assert done == sorted(set(done))
    assert len(done) >= 10


@pytest.mark.parametrize("n", [1, 2, 3])
def test_up_to_three_points_keep_their_distances(n: int) -> None:
    points = np.random.default_rng(n).normal(size=(n, K))
    directions = points / np.linalg.norm(points, axis=1, keepdims=True)
    embedding = tsne_embedding(points[:0], points)
    assert embedding.images.shape == (0, 2)
    np.testing.assert_allclose(pdist(embedding.classes), pdist(directions), atol=1e-7)


@pytest.mark.parametrize("k", [1, 2, 5, K])
@pytest.mark.parametrize("kind", ["equal", "zero", "some zero", "two points"])
def test_degenerate_points_have_finite_coordinates(k: int, kind: str) -> None:
    points = np.ones((9, k))
    if kind == "zero":
        points[:] = 0
    elif kind == "some zero":
        points = np.random.default_rng(0).normal(size=(9, k))
        points[::4] = 0
    elif kind == "two points":
        points[4:] = -1
    embedding = tsne_embedding(points[:3], points[3:])
    placed = np.concatenate([embedding.images, embedding.classes])
    assert np.isfinite(placed).all()
    if kind in ("equal", "zero"):
        assert pdist(placed).max() == 0
    else:
        assert pdist(placed).max() > 0


def test_invalid_points_are_rejected() -> None:
    with pytest.raises(DataError, match=r"one space.*\(4, 3\).*\(2, 5\)"):
        tsne_embedding(np.ones((4, 3)), np.ones((2, 5)))
    with pytest.raises(DataError, match="no images and no classes"):
        tsne_embedding(np.ones((0, 3)), np.ones((0, 3)))
    with pytest.raises(DataError, match="NaN"):
        tsne_embedding([[1.0, np.nan]], [[1.0, 0.0]])


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openTSNE", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'sightunseen\[report\]'"):
        tsne_embedding(*clusters(images=1)[::2])
