"""ALE: label-embedding for image classification (Akata, Perronnin, Harchaoui & Schmid, CVPR 2013, TPAMI 2016).

By ``adapt``, ALE-tran: its transductive extension by label propagation (Xian, Lampert, Schiele & Akata, TPAMI 2018), after
propagated semantic transfer (Rohrbach, Ebert & Schiele, NIPS 2013).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from torch import Tensor

from sightunseen.core.checks import check_number, check_whole
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.errors import SettingsError
from sightunseen.core.linear import ClassifierMap
from sightunseen.methods.base.adaptable import AdaptableClassifier
from sightunseen.methods.base.classifier import Floats, ZeroShotClassifier
from sightunseen.methods.shared.label_propagation import propagate
from sightunseen.methods.shared.ranking import RankingClassifier, weighted_ranking

SAME = 1e-4  # part of an image's length: nearer than this, an image is itself, but for rounding


class ALE(RankingClassifier, AdaptableClassifier):
    """F(x, y) = x' W s_y; the loss is l_r / r times the sum of max(0, margin + F(x_n, y) - F(x_n, y_n)) over wrong classes.

    r is the number of wrong classes for which that is more than zero, and l_r = 1 + 1/2 + ... + 1/r.

    Parameters
    ----------
    margin : by how much the right class must win.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    n_steps, batch_size : mini-batches, and the images in each.
    learning_rate, schedule, weight_decay : see :class:`~sightunseen.training.Optimisation`.
    seen_penalty : subtracted from the scores of seen classes.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    adaptation_space = {"neighbours": (5, 10), "alpha": (0.5, 0.7, 0.8)}

    propagation_: "Propagation | None" = None  # after adapt

    def ranking_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """The weighted approximate ranking loss."""
        return weighted_ranking(scores, targets, self.margin)

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Images in the space of class vectors, and the class vectors; after ``adapt``, neighbours have a say as well."""
        if self.propagation_ is not None:
            return ZeroShotClassifier.compared(self, X, labels)
        return super().compared(X, labels)

    def classifier_map(self) -> ClassifierMap:
        """One layer; after ``adapt``, neighbours have a say as well."""
        return super().classifier_map() if self.propagation_ is None else ZeroShotClassifier.classifier_map(self)

    def _adapt(  # type: ignore[override]
        self,
        X: Floats,
        unseen: Labels,
        X_seen: Floats,
        y_seen: Labels,
        *,
        neighbours: int = 5,
        alpha: float = 0.7,
        sharpness: float = 10.0,
    ) -> None:
        """Propagate labels among the unlabelled images; how they reach any other image, see :class:`Propagation`.

        Parameters
        ----------
        neighbours : of an image in the graph.
        alpha : the part of its label that an image has from its neighbours, below 1; the rest is from its own scores.
        sharpness : scores times this are the logarithms of the labels that images start from.
        """
        check_whole("neighbours", neighbours, 1)
        check_number("alpha", alpha, 0)
        check_number("sharpness", sharpness, 0)
        if alpha >= 1:
            raise SettingsError(f"alpha must be below 1; got {alpha}.")
        self.propagation_ = Propagation(
            unlabelled=self._projected(self._on_device(X)).cpu().numpy(),
            seen=self._projected(self._on_device(X_seen)).cpu().numpy(),
            places=np.searchsorted(self.seen_classes_, y_seen),
            vectors=self._vectors_of(unseen).astype(np.float32),
            settings=np.array([neighbours, alpha, sharpness], dtype=np.float64),
        )
        self._propagate()

    # -- inside --------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _projected(self, X: Tensor) -> Tensor:
        """Images in the space of class vectors: x' W, (n, a)."""
        return X @ self.networks_["map"].get_parameter("weight")

    def _propagate(self) -> None:
        """Once for all classes that can be predicted; a class added later has its labels propagated, too."""
        if self.propagation_ is not None:
            self._propagated = self.propagation_.labels(self._vectors_of(self.unseen_classes_))  # (m, u)

    def _after_fit(self, X: Floats, y: Labels) -> None:
        self._remember_images(X, y)

    def _forget(self) -> None:
        self.propagation_ = None

    def _know(self, table: ClassTable) -> None:
        super()._know(table)
        self._propagate()

    def _prepare(self, labels: Labels) -> Any:
        if self.propagation_ is None:
            return super()._prepare(labels)
        graph, seen = self.propagation_, np.isin(labels, self.seen_classes_)
        known = np.concatenate([graph.vectors, self._vectors_of(self.seen_classes_)])
        images = np.concatenate([graph.unlabelled, graph.seen])
        of_images = np.zeros((len(images), len(labels)))  # the unlabelled are of unseen classes, the others of their own
        unlabelled, labelled = np.split(of_images, [len(graph.unlabelled)])
        unlabelled[:, ~seen] = self._propagated[:, np.searchsorted(self.unseen_classes_, labels[~seen])]
        labelled[:, seen] = graph.places[:, None] == np.searchsorted(self.seen_classes_, labels[seen])
        return [self._on_device(array) for array in (self._vectors_of(labels), known, images, of_images)]

    def _score_images(self, X: Tensor, prepared: Any) -> Tensor:
        if self.propagation_ is None:
            return super()._score_images(X, prepared)
        return self.propagation_.scores(self._projected(X), *prepared)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        learned = {} if self.propagation_ is None else vars(self.propagation_)
        return {**super()._arrays(), **{f"propagation.{name}": array for name, array in learned.items()}}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._take_arrays(arrays)
        prefix = "propagation."
        learned = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        if learned:
            self.propagation_ = Propagation(**learned)
            self._propagate()


@dataclass(frozen=True)
class Propagation:
    """Images in the space of class vectors, where what is near is likely of one class, and the labels they spread.

    The graph is over the unlabelled images, as published. Their first labels are Y_ic = exp(t F(x_i, c)), over the sum of
    that over the classes they may be of; the propagated ones are (I - alpha S)^-1 Y, brought to the sum of one. To carry
    them to any image, here the equation of propagation is used once more: its label is (1 - alpha) y + alpha z, where y is
    its own first label among all classes and z the mean label of its nearest neighbours. These are unlabelled images with
    their propagated labels and images of seen classes with their own. The score is the label's logarithm.
    """

    unlabelled: Floats  # (m, a), projected
    seen: Floats  # (n, a), projected
    places: NDArray[np.int64]  # (n,), of their classes among the seen ones
    vectors: Floats  # (u, a), of the classes the unlabelled images are of
    settings: NDArray[np.float64]  # neighbours, alpha and sharpness t

    def labels(self, vectors: NDArray[Any]) -> NDArray[np.float64]:
        """Propagated labels of the unlabelled images for the classes of these vectors, (m, c), each class by itself."""
        neighbours, alpha, sharpness = self.settings
        logits = sharpness * self.unlabelled @ np.concatenate([self.vectors, vectors]).T
        known = len(self.vectors)
        first = np.exp(logits - logsumexp(logits[:, :known], axis=1, keepdims=True))
        # Solved to ten digits: what is next to nothing may come out below it.
        found = propagate(self.unlabelled, first, int(neighbours), alpha).clip(min=0)
        return np.asarray(found[:, known:] / found[:, :known].sum(axis=1, keepdims=True))

    def scores(self, projected: Tensor, vectors: Tensor, known: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        """Scores (b, c) of projected images (b, a).

        ``vectors`` (c, a) are the candidates', ``known`` (k, a) those of all classes that there are images of; ``images``
        (m + n, a) and ``labels`` (m + n, c) those of the neighbours.
        """
        neighbours, alpha, sharpness = self.settings.tolist()
        own = sharpness * projected @ vectors.T - torch.logsumexp(sharpness * projected @ known.T, dim=1, keepdim=True)
        # In double precision, in which an image of the graph has no distance from itself. It is not its own neighbour:
        # that would tell which images stood in the graph, all of them of unseen classes.
        distances = torch.cdist(projected.double(), images.double())  # (b, m + n)
        distances[distances <= SAME * projected.norm(dim=1, keepdim=True)] = torch.inf
        nearest, rows = distances.topk(min(int(neighbours), len(images)), largest=False)
        nearest = torch.where(nearest.isinf(), 0.0, nearest)  # only where every image is the same
        width = nearest.mean(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
        weights = torch.exp(-((nearest / width) ** 2) / 2)
        weights = (weights / weights.sum(dim=1, keepdim=True)).float()
        spread = torch.einsum("bk,bkc->bc", weights, labels[rows])
        return torch.logaddexp(own + math.log(1 - alpha), torch.log(alpha * spread))
