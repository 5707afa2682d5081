"""Scores as linear maps of features, in plain numpy: of a fixed list of classes, and as they are made of class vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.class_table import Labels
from sightunseen.core.errors import DataError, ModelError, SettingsError
from sightunseen.core.files import written_atomically

SMALLEST_LENGTH = 1e-12  # what shorter lengths count as: nothing is divided by zero

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Linear:
    """The scores of a fixed list of classes: x . w + b for images x, (x - shift) * factor where the model scales features.

    Where ``root`` holds, x is of square roots, with the sign of what they are of; where ``normalise`` holds, it then has the
    length one.
    """

    labels: Labels  # (c,)
    weights: Floats  # (c, d)
    bias: Floats  # (c,)
    normalise: bool
    shift: Floats | None = None  # (d,)
    factor: Floats | None = None  # (d,)
    root: bool = False

    def scores(self, X: ArrayLike) -> Floats:
        """Scores of features: (n, d) -> (n, c), one column a label."""
        features = np.asarray(X, dtype=np.float32)
        if features.ndim != 2 or features.shape[1] != self.weights.shape[1]:
            raise DataError(f"features must be a table with {self.weights.shape[1]} columns; got shape {features.shape}.")
        if self.shift is not None and self.factor is not None:
            features = (features - self.shift) * self.factor
        if self.root:
            features = signed_root(features)
        scores = features @ self.weights.T
        if self.normalise:
            scores /= _lengths(features)
        return np.asarray(scores + self.bias)

    def predict(self, X: ArrayLike) -> Labels:
        """The best class of each image: (n, d) -> (n,) labels."""
        return np.asarray(self.labels[self.scores(X).argmax(axis=1)])

    def save(self, path: str | Path) -> None:
        """Write an ``.npz`` file with one array a field; a field that is None is left out."""
        if Path(path).suffix != ".npz":
            raise SettingsError(f"linear classifiers are written as .npz; got {path}.")
        arrays: dict[str, Any] = {name: value for name, value in vars(self).items() if value is not None}
        arrays["labels"] = np.array(self.labels.tolist())  # an array of Python objects would be pickled
        with written_atomically(Path(path)) as temporary:
            np.savez(temporary, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> "Linear":
        """Read what :meth:`save` wrote."""
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
                arrays: dict[str, Any] = dict(content)
            return cls(**{**arrays, **{name: bool(arrays.get(name)) for name in ("normalise", "root")}})
        except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
            raise ModelError(f"{path} cannot be read as linear classifiers: {error}") from error


@dataclass(frozen=True)
class Layer:
    """(c, k) -> (c, m): values W' + b, and nothing below zero where ``rectify`` holds."""

    weights: NDArray[Any]  # (m, k)
    bias: NDArray[Any] | None = None  # (m,)
    rectify: bool = False

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        """Apply it."""
        values = values @ self.weights.T
        if self.bias is not None:
            values = values + self.bias
        return np.maximum(values, 0) if self.rectify else values


@dataclass(frozen=True)
class ClassifierMap:
    """How a method makes linear classifiers of class vectors: layers give w, and a similarity compares images x with it.

    ``dot``: x . w; ``cosine``: scale * cos(x, w); ``distance``: -||x - w||^2 up to ||x||^2, that is x . 2w - ||w||^2.
    """

    layers: tuple[Callable[[NDArray[Any]], NDArray[Any]], ...]
    similarity: str = "dot"
    scale: float = 1.0  # of the cosine
    learned: NDArray[Any] | None = None  # (s, d): the w of seen classes, where they were learned beside the layers
    projection: NDArray[Any] | None = None  # (k, d): what images go through before they are compared with w, then (c, k)

    def __call__(self, vectors: NDArray[Any], places: NDArray[Any]) -> tuple[Floats, Floats]:
        """Weights (c, d) and bias (c,) of classes with scaled vectors (c, a).

        ``places`` (c,) are those among the seen classes, or -1.
        """
        classifiers = vectors.astype(np.float64)
        for layer in self.layers:
            classifiers = layer(classifiers)
        if self.learned is not None:
            classifiers[places >= 0] = self.learned[places[places >= 0]]
        if self.similarity == "cosine":
            classifiers = self.scale * classifiers / _lengths(classifiers)
        bias = np.zeros(len(classifiers))
        if self.similarity == "distance":
            classifiers, bias = 2 * classifiers, -np.square(classifiers).sum(axis=1)
        if self.projection is not None:
            classifiers = classifiers @ self.projection
        return classifiers.astype(np.float32), bias.astype(np.float32)


def signed_root(values: NDArray[Any]) -> NDArray[Any]:
    """The square roots of sizes, with the sign of what they are of."""
    return np.asarray(np.sign(values) * np.sqrt(np.abs(values)))


def _lengths(rows: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), SMALLEST_LENGTH))
