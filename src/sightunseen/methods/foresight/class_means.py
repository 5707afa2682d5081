"""Means of classes in the whitened space and their weights: the data points of the regression."""

from dataclasses import dataclass, replace

import numpy as np

from sightunseen.core.arrays import Doubles
from sightunseen.core.class_table import Labels


@dataclass(frozen=True)
class ClassMeans:
    """Whitened means of t classes.

    Parameters
    ----------
    labels : ndarray of shape (t,)
        Labels, each at most once.
    means : ndarray of shape (t, d)
        Means of the whitened images of each class.
    weights : ndarray of shape (t,)
        Weights: numbers of images, or inverse ridge penalties.
    """

    labels: Labels
    means: Doubles
    weights: Doubles

    def __len__(self) -> int:
        """Return the number of classes."""
        return len(self.labels)

    def joined(self, other: "ClassMeans") -> "ClassMeans":
        """Join two sets of class means; a class of both has the weighted mean and the sum of the weights.

        Parameters
        ----------
        other : ClassMeans
            Means in the same whitened space.

        Returns
        -------
        ClassMeans
            Classes of this set in their order, followed by the further classes of the other set.

        Examples
        --------
        >>> one = ClassMeans(np.array(["a"]), np.array([[0.0]]), np.array([3.0]))
        >>> other = ClassMeans(np.array(["b", "a"]), np.array([[5.0], [4.0]]), np.array([1.0, 1.0]))
        >>> both = one.joined(other)
        >>> both.labels.tolist(), both.means.tolist(), both.weights.tolist()
        (['a', 'b'], [[1.0], [5.0]], [4.0, 1.0])
        """
        own = {label: row for row, label in enumerate(self.labels.tolist())}
        shared = np.array([label in own for label in other.labels.tolist()], dtype=bool)
        rows = [own[label] for label in other.labels[shared].tolist()]
        weights, means = self.weights.copy(), self.means.copy()
        weights[rows] += other.weights[shared]
        means[rows] += (other.weights[shared] / weights[rows])[:, None] * (other.means[shared] - means[rows])
        return ClassMeans(
            np.concatenate([self.labels, other.labels[~shared]]),
            np.concatenate([means, other.means[~shared]]),
            np.concatenate([weights, other.weights[~shared]]),
        )

    def only(self, labels: Labels) -> "ClassMeans":
        """Return the means of these classes."""
        keep = np.isin(self.labels, labels)
        return ClassMeans(self.labels[keep], self.means[keep], self.weights[keep])

    def without(self, labels: Labels) -> "ClassMeans":
        """Return the means of all other classes."""
        return self.only(np.setdiff1d(self.labels, labels))

    def thinned(self, most: int) -> "ClassMeans":
        """Return the means of at most ``most`` classes, evenly spaced in their order; this set if it has no more.

        Parameters
        ----------
        most : int
            Largest number of classes.

        Returns
        -------
        ClassMeans
            Means of some or all of the classes.

        Examples
        --------
        >>> means = ClassMeans(np.array(list("abcde")), np.eye(5), np.ones(5))
        >>> means.thinned(3).labels.tolist()
        ['a', 'c', 'e']
        """
        if len(self) <= most:
            return self
        rows = np.linspace(0, len(self) - 1, most).round().astype(np.intp)
        return ClassMeans(self.labels[rows], self.means[rows], self.weights[rows])

    def rounded(self) -> "ClassMeans":
        """Round the means to single precision, in which they are saved."""
        return replace(self, means=self.means.astype(np.float32).astype(np.float64))

    def weighted(self, factor: float) -> "ClassMeans":
        """Multiply all weights by a factor."""
        return replace(self, weights=factor * self.weights)
