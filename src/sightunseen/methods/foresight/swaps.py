"""Pairs of classes that an adaptation may have swapped, because their class vectors hardly tell them apart."""

from typing import Any

import numpy as np

from sightunseen.core.arrays import Doubles
from sightunseen.core.class_table import Labels

AMBIGUOUS = 1.64  # separation of a pair whose labels are exchanged with a probability of 5 %


def separations(predicted: Doubles, found: Doubles, residuals: Doubles) -> Doubles:
    """How well the means of two groups of images fit to their classes, rather than to each other's, for every pair.

    The regression predicts the means p and q of two classes; the images that are labelled with them have the means m and n.
    Exchanging the labels fits better, in squared distance, exactly if (m - n).u < 0 for the direction u of p - q. The errors
    of the regression in this direction are known from the classes with images: they are the components of its leave-one-out
    residuals. The separation is (m - n).u in units of the standard deviation of such an error of p - q; it is about normally
    distributed, so that below 1.64 the labels of the two classes are exchanged with a probability of 5 % or more.

    Parameters
    ----------
    predicted : ndarray of shape (u, d)
        Class means that were predicted without unlabelled images.
    found : ndarray of shape (u, d)
        Means of the images that carry the label of each class.
    residuals : ndarray of shape (s, d)
        Leave-one-out residuals of the regression.

    Returns
    -------
    ndarray of shape (u, u)
        Separations; infinite on the diagonal.
    """
    # All products that are needed between differences of rows are differences of these matrices.
    along = found @ predicted.T  # (u, u): m_a . p_b
    between = predicted @ predicted.T
    squares = np.diag(between)
    lengths = np.sqrt(np.maximum(squares[:, None] + squares - 2 * between, 1e-12))
    own = np.diag(along)
    progress = (own[:, None] + own - along - along.T) / lengths  # (m_a - m_b) . (p_a - p_b) / |p_a - p_b|
    errors = residuals @ predicted.T  # (s, u)
    products = errors.T @ errors / len(residuals)  # (u, u)
    variances = np.diag(products)
    spread = np.sqrt(2 * np.maximum(variances[:, None] + variances - 2 * products, 1e-12)) / lengths
    separation = progress / spread
    np.fill_diagonal(separation, np.inf)
    return np.asarray(separation)


def ambiguous_pairs(labels: Labels, separation: Doubles) -> list[tuple[Any, Any]]:
    """List the pairs with a separation below 1.64, the smallest first.

    Parameters
    ----------
    labels : ndarray of shape (u,)
        Labels of the classes.
    separation : ndarray of shape (u, u)
        Result of :func:`separations`.

    Returns
    -------
    list of (label, label)
        The pairs.

    Examples
    --------
    >>> ambiguous_pairs(np.array(["gull", "tern", "wren"]), np.array([[9, 0.5, 4], [0.5, 9, 3], [4, 3, 9.0]]))
    [('gull', 'tern')]
    """
    one, other = np.triu_indices(len(labels), 1)
    values = separation[one, other]
    order = [k for k in np.argsort(values) if values[k] < AMBIGUOUS]
    return list(zip(labels[one[order]].tolist(), labels[other[order]].tolist(), strict=True))
