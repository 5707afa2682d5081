"""Linear classifiers in plain numpy: for a fixed list of classes, and as a function of class vectors."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.array_checks import Expected, check_arrays
from sightunseen.core.arrays import Floats
from sightunseen.core.class_table import Labels
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError, ModelError, SettingsError
from sightunseen.core.files import written_atomically
from sightunseen.core.memory import check_memory

ARRAYS = {  # of a file of linear classifiers; those of earlier releases lack ``root``
    "weights": Expected("c d"),
    "bias": Expected("c"),
    "normalise": Expected(kind="b"),
    "root": Expected(kind="b", optional=True),
    "plain": Expected("c d", optional=True),
    "shift": Expected("d", optional=True),
    "factor": Expected("d", optional=True),
}
UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, BadZipFile, zlib.error)
SMALLEST_LENGTH = 1e-12  # lower bound of vector lengths, against division by zero
BLOCK_BYTES = 64 << 20  # of a matrix with one row per class, in double precision, that is computed at a time


@dataclass(frozen=True)
class Linear:
    """Linear classifiers of a fixed list of classes: scores are ``x @ w + b`` for preprocessed features ``x``.

    Parameters
    ----------
    labels : ndarray of shape (c,)
        The classes.
    weights : ndarray of float32 of shape (c, d)
        One weight vector per class.
    bias : ndarray of float32 of shape (c,)
        Bias of each class; the seen-class bias of calibrated stacking is part of it.
    normalise : bool
        Whether features are L2-normalised, after all other preprocessing.
    shift, factor : ndarray of float32 of shape (d,), default=None
        If given, features are first scaled: ``(x - shift) * factor``.
    root : bool, default=False
        Whether the signed square root is taken of the scaled features.
    plain : ndarray of float32 of shape (c, d), default=None
        Further weights, for the L2-normalised features without the square root.

    Examples
    --------
    >>> eye = np.eye(2, dtype=np.float32)
    >>> linear = Linear(np.array(["cat", "dog"]), eye, np.zeros(2, np.float32), normalise=True)
    >>> linear.scores([[3.0, 4.0]])
    array([[0.6, 0.8]], dtype=float32)
    >>> linear.predict([[3.0, 4.0]]).tolist()
    ['dog']
    """

    labels: Labels
    weights: Floats
    bias: Floats
    normalise: bool
    shift: Floats | None = None
    factor: Floats | None = None
    root: bool = False
    plain: Floats | None = None

    def scores(self, X: ArrayLike) -> Floats:
        """Score every class for every image.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features, not yet preprocessed.

        Returns
        -------
        ndarray of float32 of shape (n, c)
            Scores, one column per label.

        Raises
        ------
        DataError
            If the features have another shape.
        """
        features = np.asarray(X, dtype=np.float32)
        if features.ndim != 2 or features.shape[1] != self.weights.shape[1]:
            raise DataError(f"features must be a table with {self.weights.shape[1]} columns; got shape {features.shape}.")
        if self.shift is not None and self.factor is not None:
            features = (features - self.shift) * self.factor
        bias = self.bias if self.plain is None else self.bias + features @ self.plain.T / _lengths(features)
        if self.root:
            features = signed_root(features)
        scores = features @ self.weights.T
        if self.normalise:
            scores /= _lengths(features)
        return np.asarray(scores + bias)

    def predict(self, X: ArrayLike) -> Labels:
        """Predict the class with the best score.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features, not yet preprocessed.

        Returns
        -------
        ndarray of shape (n,)
            Predicted labels.
        """
        return np.asarray(self.labels[self.scores(X).argmax(axis=1)])

    def save(self, path: str | Path) -> None:
        """Write the classifiers to an ``.npz`` file with one array per field; fields that are None are left out.

        Parameters
        ----------
        path : str or Path
            The file; its name must end in ``.npz``.

        Raises
        ------
        SettingsError
            If the name has another ending.
        StorageError
            If the file cannot be written.
        """
        if Path(path).suffix != ".npz":
            raise SettingsError(f"the file name of linear classifiers must end in .npz; got {path}.")
        arrays: dict[str, Any] = {name: value for name, value in vars(self).items() if value is not None}
        arrays["labels"] = np.array(self.labels.tolist())  # an array of Python objects would be pickled
        with written_atomically(Path(path)) as temporary:
            np.savez(temporary, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> "Linear":
        """Read classifiers that :meth:`save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Linear
            The classifiers.

        Raises
        ------
        ModelError
            If the file is missing or is not such a file.
        """
        try:
            with ZipFile(path) as archive:
                check_memory(sum(member.file_size for member in archive.infolist()), path, Path(path).stat().st_size)
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
                arrays: dict[str, Any] = {name: content[name] for name in content.files if name in (*ARRAYS, "labels")}
            if not all(isinstance(array, np.ndarray) for array in arrays.values()):
                raise ModelError("some of its members are not arrays")
            check_arrays(arrays, ARRAYS, {})
            if arrays["labels"].shape != arrays["bias"].shape:
                raise ModelError(f"labels have shape {arrays['labels'].shape}; expected {arrays['bias'].shape}")
        except (*UNREADABLE, ModelError, DataError) as error:
            raise ModelError(f"{path} cannot be read as linear classifiers: {quoted(error, 300)}") from error
        return cls(**{**arrays, **{name: bool(arrays.get(name)) for name in ("normalise", "root")}})


@dataclass(frozen=True)
class Layer:
    """A fully connected layer, ``V W' + b``, optionally followed by a ReLU.

    Parameters
    ----------
    weights : ndarray of shape (m, k)
        The matrix W.
    bias : ndarray of shape (m,), default=None
        The bias b.
    rectify : bool, default=False
        Whether a ReLU follows.
    """

    weights: NDArray[Any]
    bias: NDArray[Any] | None = None
    rectify: bool = False

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        """Apply the layer.

        Parameters
        ----------
        values : ndarray of shape (c, k)
            Inputs.

        Returns
        -------
        ndarray of shape (c, m)
            Outputs.
        """
        values = values @ self.weights.T
        if self.bias is not None:
            values = values + self.bias
        return np.maximum(values, 0) if self.rectify else values


@dataclass(frozen=True)
class ClassifierMap:
    """Map from class vectors to linear classifiers: layers generate w, and a similarity compares images x with w.

    Parameters
    ----------
    layers : tuple of callable
        Applied in turn to the class vectors: (c, a) -> (c, k).
    similarity : {"dot", "cosine", "distance"}, default="dot"
        ``dot``: x . w; ``cosine``: scale * cos(x, w); ``distance``: -||x - w||^2 without the term ||x||^2, which is the
        same for all classes: x . 2w - ||w||^2.
    scale : float, default=1.0
        Factor of the cosine.
    learned : ndarray of shape (s, k), default=None
        Classifiers of the seen classes, if they were learned separately from the layers.
    projection : ndarray of shape (k, d), default=None
        Projects the images to the space of w. None: k = d.
    """

    layers: tuple[Callable[[NDArray[Any]], NDArray[Any]], ...]
    similarity: str = "dot"
    scale: float = 1.0
    learned: NDArray[Any] | None = None
    projection: NDArray[Any] | None = None

    def __call__(self, vectors: NDArray[Any], seen_indices: NDArray[Any]) -> tuple[Floats, Floats]:
        """Make classifiers of class vectors.

        Parameters
        ----------
        vectors : ndarray of shape (c, a)
            Scaled class vectors.
        seen_indices : ndarray of int of shape (c,)
            Index of each class among the seen classes; -1 for an unseen class.

        Returns
        -------
        weights : ndarray of float32 of shape (c, d)
            One weight vector per class.
        bias : ndarray of float32 of shape (c,)
            Bias of each class.
        """
        width = max(vectors.shape[1], 0 if self.projection is None else self.projection.shape[1])
        made = [self._made(vectors[rows], seen_indices[rows]) for rows in class_blocks(len(vectors), width)]
        weights, bias = zip(*made, strict=True)
        return np.concatenate(weights), np.concatenate(bias)

    def _made(self, vectors: NDArray[Any], seen_indices: NDArray[Any]) -> tuple[Floats, Floats]:
        classifiers = vectors.astype(np.float64)
        for layer in self.layers:
            classifiers = layer(classifiers)
        if self.learned is not None:
            seen = seen_indices >= 0
            classifiers[seen] = self.learned[seen_indices[seen]]
        if self.similarity == "cosine":
            classifiers = self.scale * classifiers / _lengths(classifiers)
        bias = np.zeros(len(classifiers))
        if self.similarity == "distance":
            classifiers, bias = 2 * classifiers, -np.square(classifiers).sum(axis=1)
        if self.projection is not None:
            classifiers = classifiers @ self.projection
        return classifiers.astype(np.float32), bias.astype(np.float32)


def class_blocks(count: int, width: int, size: int = BLOCK_BYTES) -> Iterator[slice]:
    """Yield blocks of consecutive classes whose rows of a matrix have at most ``size`` bytes together.

    Parameters
    ----------
    count : int
        Number of classes.
    width : int
        Number of columns of the matrix, in double precision.
    size : int, default=BLOCK_BYTES
        Number of bytes; a block has at least one class.

    Yields
    ------
    slice
        Consecutive rows; without classes, one empty slice.

    Examples
    --------
    >>> list(class_blocks(1000, 16384))
    [slice(0, 512, None), slice(512, 1000, None)]
    """
    rows = max(1, size // (8 * max(width, 1)))
    for start in range(0, max(count, 1), rows):
        yield slice(start, min(start + rows, count))


def signed_root(values: NDArray[Any]) -> NDArray[Any]:
    """Signed square root, ``sign(v) * sqrt(|v|)``, element by element.

    Parameters
    ----------
    values : ndarray
        Values of any shape.

    Returns
    -------
    ndarray of the same shape
        The signed square roots.

    Examples
    --------
    >>> signed_root(np.array([4.0, -9.0])).tolist()
    [2.0, -3.0]
    """
    roots = np.asarray(np.sqrt(np.abs(values)))
    if roots.size and np.min(values) < 0:
        roots *= np.sign(values)
    return roots


def _lengths(rows: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), SMALLEST_LENGTH))
