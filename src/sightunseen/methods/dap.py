"""DAP: direct attribute prediction, from attribute-based classification (Lampert, Nickisch & Harmeling, TPAMI 2014)."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_positive
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.methods.shared.array_state import ArrayStateClassifier
from sightunseen.methods.shared.logistic_regression import logistic_regressions
from sightunseen.semantics.class_vectors import scale_vectors


class DAP(ArrayStateClassifier):
    """Direct attribute prediction (DAP): one classifier per attribute, combined into class posteriors.

    p(z | x) is proportional to the product over attributes m of p(a_m = a_m^z | x) / p(a_m = a_m^z) (Eq. 3, with equal class
    priors). p(a_m) is the share of seen classes with the attribute. An attribute that all or none of them have is left out.

    Differs from the paper: p(a_m | x) is logistic regression, for all attributes at once by L-BFGS, instead of a calibrated
    support vector machine; continuous attributes are binarised at their mean over the seen classes.

    Parameters
    ----------
    penalty : float, default=0.1
        Penalty on the weights of the logistic regressions; see
        :func:`~sightunseen.methods.shared.logistic_regression.logistic_regressions`.
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="unit"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        All labels that can be predicted, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        Labels with training images, sorted.
    map_ : ndarray of shape (d, a)
        Weights of the attribute classifiers.
    evidence_ : ndarray of shape (a,)
        Intercepts of the attribute classifiers minus the log odds of the attributes' priors.
    thresholds_ : ndarray of shape (a,)
        Means of the attributes over the seen classes.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> from sightunseen.methods import DAP
    >>> data = make_world(World(n_seen=6, n_unseen=3, images_per_class=6, n_features=12, n_attributes=8))
    >>> model = DAP().fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, candidates="unseen").shape
    (18,)
    """

    search_space = {"penalty": (0.01, 0.03, 0.1, 0.3)}
    learned_arrays = {"map": Expected("d a"), "evidence": Expected("a"), "thresholds": Expected("a")}

    map_: NDArray[Any]
    evidence_: NDArray[Any]
    thresholds_: NDArray[np.float64]

    def __init__(self, penalty: float = 0.1, feature_scaling: str = "unit", seen_penalty: float = 0.0) -> None:
        self.penalty = penalty
        self.feature_scaling = feature_scaling
        self.seen_penalty = seen_penalty

    def fit(self, X: ArrayLike, y: ArrayLike, classes: Any = None) -> Self:
        """Fit one logistic regression per attribute.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the training images.
        y : array-like of shape (n,)
            Labels of the training images; their classes are the seen classes.
        classes : ClassTable, mapping of label to vector or text, DataFrame or array-like, default=None
            Seen and unseen classes, in any form of :func:`~sightunseen.as_class_table`. None: one-hot vectors of the labels;
            then no unseen class can be recognised.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        SettingsError
            If a hyperparameter is invalid.
        DataError
            If features, labels or class vectors cannot be used.
        """
        X, y = self._begin_fit(X, y, classes)
        self.thresholds_ = self._vectors_of(self.seen_classes_).mean(axis=0)  # (a,)
        attributes = self._attributes_of(self.seen_classes_)  # (s, a)
        priors = attributes.mean(axis=0, dtype=np.float64)  # (a,)
        varying = (priors > 0) & (priors < 1)
        self.map_ = np.zeros((X.shape[1], len(priors)), dtype=np.float32)  # (d, a)
        self.evidence_ = np.zeros(len(priors))  # (a,)
        if varying.any():
            targets = attributes[np.searchsorted(self.seen_classes_, y)][:, varying]  # (n, a)
            self.map_[:, varying], intercepts = logistic_regressions(X, targets, self.penalty)
            self.evidence_[varying] = intercepts - logit(priors[varying])
        return self

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_positive("penalty", self.penalty)

    def _attributes_of(self, labels: Labels) -> Floats:
        """Binarise the attributes of classes: (c, a) of 0 and 1."""
        return (self._vectors_of(labels) > self.thresholds_).astype(np.float32)

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        # log p(z | x) is a sum over all attributes of log p(a_m = 0 | x) / p(a_m = 0), equal for all classes, plus a sum of
        # x' w_m + b_m - logit p(a_m) over the attributes of the class. The second sum is the score; it cannot underflow.
        attributes = self._attributes_of(labels).T  # (a, c)
        classifiers, offsets = self.map_ @ attributes, (self.evidence_ @ attributes).astype(np.float32)  # (d, c), (c,)
        return lambda X: X @ classifiers + offsets

    def _know(self, table: ClassTable) -> None:
        scale_vectors(table.vectors, 1.0)  # raises DataError for a class vector of zeros
        super()._know(table)
