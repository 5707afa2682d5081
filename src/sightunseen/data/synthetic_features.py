"""Generated worlds with known answers, for the demo and the tests. Synthetic, and called so wherever a number shows."""

from dataclasses import dataclass

import numpy as np

from sightunseen.core.class_table import ClassTable
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.core.randomness import as_generator, derive_seed


@dataclass(frozen=True)
class World:
    """How a world is made.

    A class is a combination of attributes. Its prototype in feature space follows from them by a fixed random two-layer
    map, plus a part of its own that no attribute tells (``private``): the more of it, the harder the unseen classes.
    Images scatter around the prototype (``noise``); features are rectified, like those of a real backbone.
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
    """The data set of a world; a fifth of each seen class's images is held out for testing."""
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
    place_in_class = np.tile(np.arange(world.images_per_class), n_classes)
    seen = np.isin(y, order[: world.n_seen])
    held_out = place_in_class < world.images_per_class // 5
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
    """Random combinations of about a third of the attributes, no two alike and none empty."""
    if n_classes > 2**n_attributes - 1:
        raise SettingsError(f"{n_classes} distinct classes need more than {n_attributes} attributes.")
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
