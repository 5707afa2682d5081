"""Reference implementation of Foresight: Gaussian densities in feature space, the kernel of one pair at a time, EM in loops.

There is no whitening and no projection; everything is in double precision.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import stats

Array = np.ndarray


def kernel(u: Array, v: Array) -> float:
    """The arc-cosine kernel of order one."""
    lengths = math.sqrt(float(u @ u) * float(v @ v))
    if lengths == 0:
        return 0.0
    t = math.acos(max(-1.0, min(1.0, float(u @ v) / lengths)))
    return lengths * (math.sin(t) + (math.pi - t) * math.cos(t)) / math.pi


def directions(X: Array, root: bool) -> Array:
    """L2-normalised images, optionally after the signed square root."""
    rows = []
    for x in X.astype(float):
        values = [math.copysign(math.sqrt(abs(value)), value) if root else value for value in x]
        length = math.sqrt(sum(value**2 for value in values)) or 1.0
        rows.append([value / length for value in values])
    return np.array(rows)


class Textbook:
    """Reference model of seen images ``X``, their class indices ``targets`` and the class vectors ``seen``."""

    def __init__(self, X: Array, targets: Array, seen: Array, *, shrinkage: float, noise: float, root: bool = True) -> None:
        self.root, self.noise = root, noise
        raw = directions(X, root)
        self.origin = raw.mean(axis=0)
        images = raw - self.origin
        self.seen = np.array([v / math.sqrt(v @ v) for v in seen.astype(float)])
        self.counts = [int((targets == c).sum()) for c in range(len(seen))]
        self.means = [images[targets == c].mean(axis=0) for c in range(len(seen))]
        covariance = sum(np.outer(x - self.means[c], x - self.means[c]) for x, c in zip(images, targets, strict=True)) / len(X)
        size = len(covariance)
        self.covariance = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / size * np.eye(size)
        self.solve(self.seen, self.means, self.counts)

    def solve(self, vectors: Array, means: Sequence[Array], counts: Sequence[float]) -> None:
        """Kernel ridge regression of means on class vectors, with noise inversely proportional to the counts."""
        self.centre = self.seen.mean(axis=0)
        self.unit = math.sqrt(np.mean([(v - self.centre) @ (v - self.centre) for v in vectors]))
        self.anchors = [(v - self.centre) / self.unit for v in vectors]
        ridge = np.array([[kernel(u, v) for v in self.anchors] for u in self.anchors])
        for c, count in enumerate(counts):
            ridge[c, c] += self.noise * np.mean(self.counts) / count
        self.weights = np.linalg.inv(ridge) @ np.array(means)

    def predicted_means(self, vectors: Array) -> Array:
        """Class means in centred feature space."""
        scaled = [(v / math.sqrt(v @ v) - self.centre) / self.unit for v in vectors.astype(float)]
        return np.array([[kernel(v, anchor) for anchor in self.anchors] for v in scaled]) @ self.weights

    def log_densities(self, X: Array, vectors: Array) -> Array:
        """Log densities (n, c) of images (n, d) in classes with vectors (c, a), by scipy."""
        images = directions(X, self.root) - self.origin
        columns = [stats.multivariate_normal(mean, self.covariance).logpdf(images) for mean in self.predicted_means(vectors)]
        return np.stack([np.atleast_1d(column) for column in columns], axis=1)

    def adapt(
        self, X: Array, unseen: Array, *, rounds: int, temperature: float, prior: Array | None = None, trust: float = 1.0
    ) -> Iterator[Array]:
        """EM; yields the soft pseudo-labels of every round."""
        images = directions(X, self.root) - self.origin
        vectors = np.concatenate([self.seen, [v / math.sqrt(v @ v) for v in unseen.astype(float)]])
        for _ in range(rounds):
            weights = self.log_densities(X, unseen) / temperature
            weights = np.exp(weights - weights.max(axis=1, keepdims=True))
            for _ in range(1 if prior is None else 20_000):  # Sinkhorn iterations
                weights = weights if prior is None else weights * (prior / weights.mean(axis=0))
                weights = weights / weights.sum(axis=1, keepdims=True)
            yield weights
            counts = [trust * sum(column) for column in weights.T]
            means = [sum(w * x for w, x in zip(column, images, strict=True)) / sum(column) for column in weights.T]
            self.solve(vectors, [*self.means, *means], [*self.counts, *counts])
