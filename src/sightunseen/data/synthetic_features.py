"""Synthetic data sets of features with known class attributes, for the demo and the tests."""

from dataclasses import dataclass

import numpy as np

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.core.randomness import as_generator, derive_seed


@dataclass(frozen=True)
class World:
    """Parameters of a synthetic data set.

    A class is a combination of binary attributes. Its prototype in feature space is a fixed random two-layer map of the
    attributes plus a class-specific offset that the attributes do not predict. Images are the prototype plus Gaussian
    noise, rectified like the features of a convolutional network.

    Parameters
    ----------
    n_seen : int, default=80
        Number of seen classes.
    n_unseen : int, default=20
        Number of unseen classes.
    n_attributes : int, default=30
        Number of attributes.
    n_features : int, default=256
        Number of features.
    images_per_class : int, default=40
        Number of images per class.
    private : float, default=0.7
        Standard deviation of the class-specific offset. Unseen classes become harder as it grows.
    noise : float, default=1.8
        Standard deviation of the images around their prototype.
    seed : int, default=0
        Random seed.
    """

    n_seen: int = 80
    n_unseen: int = 20
    n_attributes: int = 30
    n_features: int = 256
    images_per_class: int = 40
    private: float = 0.7
    noise: float = 1.8
    seed: int = 0


def make_world(world: World | None = None) -> ZeroShotDataset:
    """Generate a synthetic data set.

    Parameters
    ----------
    world : World, optional
        Parameters of the data set. The default is ``World()``.

    Returns
    -------
    ZeroShotDataset
        The data set. A fifth of the images of each seen class are held out for testing.

    Raises
    ------
    SettingsError
        If there are too few attributes to make all classes distinct.

    Examples
    --------
    >>> data = make_world(World(n_seen=4, n_unseen=2, n_attributes=5, n_features=8, images_per_class=10))
    >>> data.train.X.shape, data.test_seen.X.shape, data.test_unseen.X.shape
    ((32, 8), (8, 8), (20, 8))
    """
    world = world or World()
    rng = as_generator(derive_seed(world.seed, "world"))
    n_classes = world.n_seen + world.n_unseen
    attributes = _distinct_attributes(n_classes, world.n_attributes, rng)  # (c, a) of 0 and 1
    described = _random_map(attributes, world.n_features, rng)  # (c, d)
    prototypes = described + world.private * rng.standard_normal(described.shape)
    labels = np.array([f"thing {number:03d}" for number in range(n_classes)])
    order = rng.permutation(n_classes)
    y = np.repeat(order, world.images_per_class)
    features = np.maximum(prototypes[y] + world.noise * rng.standard_normal((len(y), world.n_features)), 0)
    index_in_class = np.tile(np.arange(world.images_per_class), n_classes)
    seen = np.isin(y, order[: world.n_seen])
    held_out = index_in_class < world.images_per_class // 5
    split = np.where(~seen, "test_unseen", np.where(held_out, "test_seen", "train"))
    names = [f"attribute {number:02d}" for number in range(world.n_attributes)]
    return ZeroShotDataset.from_arrays(
        features.astype(np.float32),
        labels[y],
        ClassTable(labels, attributes, names),
        split,
        name="synthetic world",
        options={"world": repr(world)},
    )


def _distinct_attributes(n_classes: int, n_attributes: int, rng: np.random.Generator) -> np.ndarray:
    """Random combinations of about a third of the attributes, all distinct and none empty."""
    if n_classes > 2**n_attributes - 1:
        raise SettingsError(f"{n_classes} distinct classes need more than {n_attributes} attributes. Increase n_attributes.")
    found: dict[bytes, np.ndarray] = {}
    while len(found) < n_classes:
        row = (rng.random(n_attributes) < 1 / 3).astype(float)
        if row.any():
            found.setdefault(row.tobytes(), row)
    return np.array(list(found.values()))


def _random_map(attributes: np.ndarray, n_features: int, rng: np.random.Generator) -> np.ndarray:
    centred = attributes - attributes.mean(axis=0)
    hidden = np.tanh(centred @ rng.standard_normal((centred.shape[1], 64)) / 6)
    mapped = hidden @ rng.standard_normal((64, n_features)) / 8
    return np.asarray(mapped / mapped.std())
