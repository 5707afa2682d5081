"""Foresight without some of its classes, in closed form.

A model scores an image x by inner products: with class means m, the shared covariance C and the coefficients a of the kernel
ridge regression, the predicted mean of a class is the combination p = sum_t a_t m_t, and its score is 2 x'p - p'p, where all
products are taken with the inverse of C. Both terms follow from the products of images with class means, (m, s), and of class
means with each other, (s, s). Leaving classes out of the regression changes the coefficients alone: one solve of an (s, s)
system per fold, instead of a fit. The covariance remains that of all classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from sightunseen.core.arrays import Doubles, Floats
from sightunseen.core.linear import SMALLEST_LENGTH
from sightunseen.methods.base.feature_scaling import CENTRED
from sightunseen.methods.base.leave_out import TrainingImages
from sightunseen.methods.foresight.whitening import shrunk_root
from sightunseen.methods.foresight.wide_generator import kernel_of

Indices = NDArray[np.intp]
MEAN_AT_ORIGIN = (*CENTRED, "standard")  # feature scalings that subtract the mean of the training images


@dataclass(frozen=True)
class Products:
    """Inner products in the whitened space; those of several views of the features add up.

    Parameters
    ----------
    with_means : ndarray of shape (m, s)
        Products of test images with class means.
    between : ndarray of shape (s, s)
        Products of class means.
    """

    with_means: NDArray[np.floating[Any]]
    between: Doubles

    def __add__(self, other: "Products") -> "Products":
        """Add the products of another view."""
        return Products(self.with_means + other.with_means, self.between + other.between)

    def of_classes(self, kept: Indices, counts: Doubles, centred: bool) -> "Products":
        """Products (m, t) and (t, t) of the kept classes; if ``centred``, relative to the mean of their images."""
        shares = np.zeros(len(self.between))
        shares[kept] = centred * counts[kept] / counts[kept].sum()
        shift = np.eye(len(shares))[kept] - shares  # (t, s): each mean minus the common one
        with_means = (self.with_means - shares @ self.between) @ shift.T
        return Products(with_means.astype(np.float32), shift @ self.between @ shift.T)

    def scores(self, weights: Doubles, length: float = 0.0) -> Doubles:
        """Scores of predicted class means.

        Parameters
        ----------
        weights : ndarray of shape (s, t)
            Coefficients of the predicted means.
        length : float, default=0.0
            If positive, predicted means are scaled to this length.

        Returns
        -------
        ndarray of shape (m, s)
            Log densities, up to a constant per image.
        """
        squares = np.einsum("st,st->s", weights @ self.between, weights)
        if not length:
            factors, offsets = np.full(len(squares), 2.0), squares
        else:
            factors = 2 * length / np.sqrt(np.maximum(squares, SMALLEST_LENGTH))
            offsets = np.full(len(squares), length**2)
        kind = self.with_means.dtype
        return np.asarray(self.with_means @ (weights.T * factors).astype(kind) - offsets.astype(kind))


class View:
    """One view of the features: scatter of scaled training images, and scaled test images.

    Parameters
    ----------
    kind : str
        Feature scaling with a single view.
    images : TrainingImages
        Training images.
    classes : ndarray of int of shape (s,)
        Indices of the classes that take part; the covariance is that of all.
    X_test : ndarray of shape (m, d)
        Features of test images.
    """

    def __init__(self, kind: str, images: TrainingImages, classes: Indices, X_test: Floats) -> None:
        scaling, scatter, span = images.scatter(kind)
        self.scatter, self.size = scatter.only(classes), X_test.shape[1]
        self.test = span.coordinates(scaling(X_test))

    def products(self, shrinkage: float) -> Products:
        """Inner products with the inverse of the shrunk covariance."""
        root = shrunk_root(self.scatter.covariances[0], shrinkage, self.size)
        whitened = linalg.solve_triangular(root, self.scatter.means.T, lower=True, check_finite=False)  # (r, s)
        normals = linalg.solve_triangular(root, whitened, lower=True, trans="T", check_finite=False)
        return Products((self.test @ normals.astype(np.float32)).astype(np.float64), whitened.T @ whitened)


def coefficients(vectors: Doubles, kept: Indices, counts: Doubles, linear: bool, noises: Sequence[float]) -> list[Doubles]:
    """Coefficients of the kernel ridge regression of all classes on the kept ones, for several values of the noise.

    Parameters
    ----------
    vectors : ndarray of shape (s, a)
        Class vectors.
    kept : ndarray of int of shape (t,)
        The classes that the regression is fitted to.
    counts : ndarray of shape (s,)
        Number of training images of each class.
    linear : bool
        Dot product instead of the arc-cosine kernel.
    noises : sequence of float
        Values of the hyperparameter ``noise``.

    Returns
    -------
    list of ndarray of shape (s, t)
        For each value: the prediction for a class is the sum of the targets of the kept classes with these coefficients.
    """
    centred = vectors - vectors[kept].mean(axis=0)
    centred = centred / (np.sqrt(np.square(centred[kept]).sum(axis=1).mean()) or 1.0)
    kernel = kernel_of(linear)(centred, centred[kept])  # (s, t)
    penalties = np.diag(counts[kept].mean() / counts[kept])
    return [np.asarray(np.linalg.solve(kernel[kept] + noise * penalties, kernel.T).T, np.float64) for noise in noises]


def left_out_scores(
    images: TrainingImages,
    classes: Indices,
    X_test: Floats,
    vectors_by_norm: Mapping[Any, Doubles],
    kept: Sequence[Indices],
    parameters: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[int, int, Doubles]]:
    """Score test images with every combination of hyperparameters, fitted to every set of kept classes.

    Parameters
    ----------
    images : TrainingImages
        Training images.
    classes : ndarray of int of shape (s,)
        Indices of the classes that take part.
    X_test : ndarray of shape (m, d)
        Features of test images.
    vectors_by_norm : mapping of semantic norm to ndarray of shape (s, a)
        Scaled class vectors.
    kept : sequence of ndarray of int
        The classes that each fold is fitted to, as indices in ``classes``.
    parameters : sequence of mapping
        All hyperparameters of each combination.

    Yields
    ------
    combination, fold : int
        Indices in ``parameters`` and ``kept``.
    scores : ndarray of shape (m, s)
        Scores of all classes.
    """
    views = {part: View(part, images, classes, X_test) for part in _parts(parameters)}
    counts = next(iter(views.values())).scatter.counts
    regressions = _regressions(vectors_by_norm, kept, counts, parameters)
    for shrinkage in _values(parameters, "shrinkage"):
        products: dict[str, Products] = {}
        for kind in _values(parameters, "feature_scaling"):
            mine = [k for k, one in enumerate(parameters) if (one["feature_scaling"], one["shrinkage"]) == (kind, shrinkage)]
            if not mine:
                continue
            for part in kind.split("+"):
                products[part] = products.get(part) or views[part].products(shrinkage)
            together = reduce(Products.__add__, [products[part] for part in kind.split("+")])
            for fold, own_classes in enumerate(kept):
                own = together.of_classes(own_classes, counts, kind in MEAN_AT_ORIGIN)
                length = float(np.sqrt(np.diag(own.between).mean()))
                for k in mine:
                    one = parameters[k]
                    weights = regressions[fold, one["semantic_norm"], one["generator"], one["noise"]]
                    yield k, fold, own.scores(weights, length if one["mean_length"] == "equal" else 0.0)


def _regressions(
    vectors_by_norm: Mapping[Any, Doubles],
    kept: Sequence[Indices],
    counts: Doubles,
    parameters: Sequence[Mapping[str, Any]],
) -> dict[tuple[int, Any, str, float], Doubles]:
    """Coefficients by fold, semantic norm, generator and noise; they do not depend on the features."""
    found: dict[tuple[int, Any, str, float], Doubles] = {}
    noises = _values(parameters, "noise")
    for fold, (norm, vectors), generator in product(
        range(len(kept)), vectors_by_norm.items(), _values(parameters, "generator")
    ):
        solved = coefficients(vectors, kept[fold], counts, generator == "linear", noises)
        found |= {(fold, norm, generator, noise): weights for noise, weights in zip(noises, solved, strict=True)}
    return found


def _parts(parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Feature scalings with a single view, in their order."""
    return list(dict.fromkeys(part for kind in _values(parameters, "feature_scaling") for part in kind.split("+")))


def _values(parameters: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """Distinct values of a hyperparameter, in their order."""
    return list(dict.fromkeys(one[name] for one in parameters))
