"""ALE: label-embedding for image classification (Akata, Perronnin, Harchaoui & Schmid, CVPR 2013, TPAMI 2016).

``adapt`` is ALE-tran, its transductive extension by label propagation (Xian, Lampert, Schiele & Akata, TPAMI 2018), after
propagated semantic transfer (Rohrbach, Ebert & Schiele, NIPS 2013).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

from sightunseen.core.array_checks import Expected, indices
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_number
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.methods.base.adaptable import AdaptableClassifier
from sightunseen.methods.shared.label_propagation import check_graph, propagate
from sightunseen.methods.shared.ranking import RankingClassifier, weighted_ranking

PROPAGATION = {
    "propagation.unlabelled": Expected("m a"),
    "propagation.seen": Expected("n a"),
    "propagation.places": indices("n", "s"),
    "propagation.vectors": Expected("k a"),
    "propagation.settings": Expected("3"),
}
SAME = 1e-4  # relative distance below which two projected images count as the same image


class ALE(RankingClassifier, AdaptableClassifier):
    """Attribute label embedding (ALE): bilinear scores with the weighted approximate ranking loss.

    The score is F(x, y) = x' W s_y. The loss of an image is l_r / r times the sum of max(0, margin + F(x_n, y) - F(x_n, y_n))
    over the wrong classes, where r is the number of wrong classes with a positive term and l_r = 1 + 1/2 + ... + 1/r.
    :meth:`adapt` propagates labels among unlabelled images; its hyperparameters are ``neighbours``, ``alpha`` and
    ``sharpness``.

    Differs from the paper: the loss includes all wrong classes instead of a sample, and is minimised by Adam on mini-batches
    from W = 0 instead of plain stochastic gradient descent from random weights. After ``adapt``, the propagated labels also
    reach new images, through their nearest neighbours.

    Parameters
    ----------
    margin : float, default=1.0
        Margin by which the score of an image's own class must exceed all other scores.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="unit"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        L2 norm to which class vectors are scaled; ``"sqrt"`` is the square root of the number of attributes, None leaves the
        vectors unscaled.
    n_steps : int, default=1000
        Number of gradient steps.
    batch_size : int, default=64
        Number of images per mini-batch.
    learning_rate : float, default=5e-4
        Learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="cosine"
        Learning-rate schedule: ``"cosine"`` decays to zero at the last step, ``"halve every K"`` halves the rate every K steps.
    weight_decay : float, default=0.0
        L2 penalty of Adam, added to the gradient.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes.
    seed : int, default=0
        Seed from which all random numbers are derived.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device for training and prediction; ``"auto"`` uses a GPU if there is one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        All labels that can be predicted, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        Labels with training images, sorted.
    networks_ : dict
        ``"map"`` holds the parameter ``weight``, W of shape (d, a).
    propagation_ : PropagatedLabels or None
        Propagated labels of the unlabelled images; None before ``adapt``.
    losses_ : list of dict
        Training loss over time.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import ALE
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = ALE(n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    >>> adapted = model.adapt(data.test_unseen.X)
    >>> adapted.is_adapted
    True
    """

    adaptation_space = {"neighbours": (5, 10), "alpha": (0.5, 0.7, 0.8)}

    propagation_: "PropagatedLabels | None" = None  # set by adapt

    def ranking_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Compute the weighted approximate ranking loss; see :func:`~sightunseen.methods.shared.ranking.weighted_ranking`."""
        return weighted_ranking(scores, targets, self.margin)

    @property
    def _is_bilinear(self) -> bool:
        return self.propagation_ is None  # after ``adapt`` the scores also depend on neighbouring images

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
        """Propagate labels among the unlabelled images; see :class:`PropagatedLabels` for the scores of new images.

        Parameters
        ----------
        neighbours : int, default=5
            Number of nearest neighbours of an image.
        alpha : float, default=0.7
            Weight of the neighbours' labels, from 0 to below 1; the image's own scores have the weight 1 - alpha.
        sharpness : float, default=10.0
            Factor of the scores in the softmax that gives the initial labels.
        """
        check_graph(neighbours, alpha)
        check_number("sharpness", sharpness, 0)
        self.propagation_ = PropagatedLabels(
            unlabelled=self._projected(self._on_device(X)).cpu().numpy(),
            seen=self._projected(self._on_device(X_seen)).cpu().numpy(),
            places=np.searchsorted(self.seen_classes_, y_seen),
            vectors=self._vectors_of(unseen).astype(np.float32),
            settings=np.array([neighbours, alpha, sharpness], dtype=np.float64),
        )
        self._propagate()

    @torch.no_grad()
    def _projected(self, X: Tensor) -> Tensor:
        """Project images (n, d) into the space of class vectors: x' W, (n, a)."""
        return X @ self.networks_["map"].get_parameter("weight")

    def _propagate(self) -> None:
        """Propagate labels for all unseen classes, including classes added later."""
        if self.propagation_ is not None:
            self._propagated = self.propagation_.labels(self._vectors_of(self.unseen_classes_))  # (m, u)

    def _after_fit(self, X: Floats, y: Labels) -> None:
        self._remember_images(X, y)

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("_propagated", None)
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
        of_images = np.zeros((len(images), len(labels)))  # propagated labels of unlabelled images, one-hot labels of seen ones
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

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        learned = PROPAGATION if any(name in arrays for name in PROPAGATION) else {}
        return {**super()._expected_arrays(arrays), **learned}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._take_arrays(arrays)
        learned = {name.removeprefix("propagation."): arrays[name] for name in PROPAGATION if name in arrays}
        if learned:
            self.propagation_ = PropagatedLabels(**learned)
            neighbours, alpha, sharpness = self.propagation_.settings.tolist()
            check_graph(int(neighbours), alpha)
            check_number("sharpness", sharpness, 0)
            self._propagate()


@dataclass(frozen=True)
class PropagatedLabels:
    """Label propagation among images in the space of class vectors.

    The graph connects the unlabelled images, as published. Their initial labels are Y_ic = exp(t F(x_i, c)), normalised over
    the classes they can belong to. The propagated labels are (I - alpha S)^-1 Y, normalised to a sum of one. For any image, one
    more step of the propagation equation is computed: its label is (1 - alpha) y + alpha z, where y is its initial label among
    all classes and z is the weighted mean of its nearest neighbours' labels. The neighbours are unlabelled images with
    propagated labels and images of seen classes with their own. The score is the logarithm of the label.

    The names of the fields are the names of the arrays in a model folder.

    Parameters
    ----------
    unlabelled : ndarray of shape (m, a)
        Projected unlabelled images.
    seen : ndarray of shape (n, a)
        Projected images of the seen classes.
    places : ndarray of shape (n,)
        Indices of their classes among the seen classes.
    vectors : ndarray of shape (u, a)
        Vectors of the classes of the unlabelled images.
    settings : ndarray of shape (3,)
        Number of neighbours, alpha and the sharpness t.
    """

    unlabelled: Floats
    seen: Floats
    places: NDArray[np.int64]
    vectors: Floats
    settings: NDArray[np.float64]

    def labels(self, vectors: NDArray[Any]) -> NDArray[np.float64]:
        """Propagate labels of the unlabelled images for further classes.

        Parameters
        ----------
        vectors : ndarray of shape (c, a)
            Class vectors. Each class is treated independently of the others.

        Returns
        -------
        ndarray of shape (m, c)
            Propagated labels.
        """
        neighbours, alpha, sharpness = self.settings
        logits = sharpness * self.unlabelled @ np.concatenate([self.vectors, vectors]).T
        known = len(self.vectors)
        first = np.exp(logits - logsumexp(logits[:, :known], axis=1, keepdims=True))
        # Conjugate gradients are accurate to ten digits, so tiny labels can come out negative.
        found = propagate(self.unlabelled, first, int(neighbours), alpha).clip(min=0)
        return np.asarray(found[:, known:] / found[:, :known].sum(axis=1, keepdims=True))

    def scores(self, projected: Tensor, vectors: Tensor, known: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        """Score projected images.

        Parameters
        ----------
        projected : Tensor of shape (b, a)
            Projected images.
        vectors : Tensor of shape (c, a)
            Vectors of the candidate classes.
        known : Tensor of shape (k, a)
            Vectors of all classes with labelled or unlabelled images.
        images : Tensor of shape (m + n, a)
            Projected images that can be neighbours.
        labels : Tensor of shape (m + n, c)
            Labels of these images.

        Returns
        -------
        Tensor of shape (b, c)
            Logarithms of the labels.
        """
        neighbours, alpha, sharpness = self.settings.tolist()
        own = sharpness * projected @ vectors.T - torch.logsumexp(sharpness * projected @ known.T, dim=1, keepdim=True)
        # In double precision, in which the distance of a graph image to itself is about zero. Such an image is not its own
        # neighbour: that would reveal which images were in the graph, all of them of unseen classes.
        distances = torch.cdist(projected.double(), images.double())  # (b, m + n)
        distances[distances <= SAME * projected.norm(dim=1, keepdim=True)] = torch.inf
        nearest, rows = distances.topk(min(int(neighbours), len(images)), largest=False)
        nearest = torch.where(nearest.isinf(), 0.0, nearest)  # only if all images are the same
        width = nearest.mean(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
        weights = torch.exp(-((nearest / width) ** 2) / 2)
        weights = (weights / weights.sum(dim=1, keepdim=True)).float()
        spread = torch.einsum("bk,bkc->bc", weights, labels[rows])
        return torch.logaddexp(own + math.log(1 - alpha), torch.log(alpha * spread))
