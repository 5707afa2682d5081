"""DAP: direct attribute prediction, from attribute-based classification (Lampert, Nickisch & Harmeling, TPAMI 2014)."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logit

from sightunseen.core.checks import check_number
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.methods.base.classifier import Floats, ZeroShotClassifier
from sightunseen.methods.shared.logistic_regression import logistic_regressions
from sightunseen.semantics.class_vectors import scale_vectors


class DAP(ZeroShotClassifier):
    """Every attribute is recognised by itself, and a class by the attributes it has and has not.

    p(z | x) is proportional to the product over attributes m of p(a_m = a_m^z | x) / p(a_m = a_m^z) (Eq. 3, with classes
    equally likely). Attributes are yes or no: continuous ones are yes above their mean over the seen classes. p(a_m | x) is
    logistic regression, in place of the paper's calibrated support vector machines, and p(a_m) how many seen classes have
    the attribute. One that all or none of them have cannot be learned and is left out.

    Parameters
    ----------
    penalty : on the weights of the logistic regressions; see ``logistic_regressions``.
    feature_scaling : see :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    seen_penalty : subtracted from the scores of seen classes.
    """

    search_space = {"penalty": (0.01, 0.03, 0.1, 0.3)}

    map_: NDArray[Any]
    evidence_: NDArray[Any]
    thresholds_: NDArray[np.float64]

    def __init__(self, penalty: float = 0.1, feature_scaling: str = "unit", seen_penalty: float = 0.0) -> None:
        self.penalty = penalty
        self.feature_scaling = feature_scaling
        self.seen_penalty = seen_penalty

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | Mapping[Any, ArrayLike] | None = None) -> Self:
        """Learn the attributes from features (n, d), labels (n,) and the class table of seen and unseen classes."""
        X, y = self._begin_fit(X, y, classes)
        self.thresholds_ = self._vectors_of(self.seen_classes_).mean(axis=0)  # (a,)
        attributes = self._attributes_of(self.seen_classes_)  # (s, a)
        priors = attributes.mean(axis=0, dtype=np.float64)  # (a,)
        told = (priors > 0) & (priors < 1)
        self.map_ = np.zeros((X.shape[1], len(priors)), dtype=np.float32)  # (d, a)
        self.evidence_ = np.zeros(len(priors))  # (a,)
        if told.any():
            targets = attributes[np.searchsorted(self.seen_classes_, y)][:, told]  # (n, a)
            self.map_[:, told], intercepts = logistic_regressions(X, targets, self.penalty)
            self.evidence_[told] = intercepts - logit(priors[told])
        return self

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant."""
        super().check_settings()
        check_number("penalty (more than zero)", self.penalty, np.nextafter(0, 1))

    def _attributes_of(self, labels: Labels) -> Floats:
        """(c, a) of 0 and 1."""
        return (self._vectors_of(labels) > self.thresholds_).astype(np.float32)

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        # log p(z | x) is the sum of log p(a_m = 0 | x) / p(a_m = 0) over all attributes, which is the same for every class,
        # plus the sum of x' w_m + b_m - logit p(a_m) over those the class has: the score, which cannot underflow.
        attributes = self._attributes_of(labels).T  # (a, c)
        classifiers, offsets = self.map_ @ attributes, (self.evidence_ @ attributes).astype(np.float32)  # (d, c), (c,)
        return lambda X: X @ classifiers + offsets

    def _know(self, table: ClassTable) -> None:
        scale_vectors(table.vectors, 1.0)  # refuses a class without a description
        super()._know(table)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {"map": self.map_, "evidence": self.evidence_, "thresholds": self.thresholds_}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.map_, self.evidence_, self.thresholds_ = arrays["map"], arrays["evidence"], arrays["thresholds"]
