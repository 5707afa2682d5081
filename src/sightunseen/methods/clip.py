"""CLIP: zero-shot classification with a dual encoder of images and texts (Radford et al., ICML 2021)."""

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import normalize

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_positive
from sightunseen.core.class_table import Labels
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.core.linear import ClassifierMap
from sightunseen.methods.shared.array_state import ArrayStateClassifier
from sightunseen.semantics.class_vectors import AttributeScaling

CURE = (
    "Extract the features with a dual encoder (--backbone hf:NAME, such as CLIP or SigLIP) and let its text side encode the "
    "names of the classes (--semantics names)."
)


class CLIP(ArrayStateClassifier):
    """Zero-shot CLIP: the cosine of image and text embeddings of one dual encoder.

    The score of a class is ``logit_scale`` times the cosine between the image embedding and the class vector. The class vector
    is the mean embedding of the class name in several prompt templates (Section 3.1.4), see
    :class:`~sightunseen.semantics.dual_encoders.DualTextEncoder`. Nothing is learned from the training images: they define the
    seen classes, for which seen-class bias and calibration are chosen.

    Differs from the paper: any dual encoder can be used; ten prompt templates instead of the authors' sets.

    Parameters
    ----------
    logit_scale : float, default=100.0
        Factor of the cosine; CLIP learned 100. The order of the classes does not depend on it.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        All labels that can be predicted, sorted.
    seen_classes_ : ndarray of shape (n_seen,)
        Labels with training images, sorted.

    Examples
    --------
    >>> from sightunseen.methods import CLIP
    >>> texts = {"cat": [1.0, 0.0, 0.1], "dog": [0.0, 1.0, 0.1], "owl": [0.0, 0.1, 1.0]}
    >>> model = CLIP().fit([[2.0, 0.5, 0.1], [0.3, 1.0, 0.0]], ["cat", "dog"], texts)
    >>> model.predict([[0.1, 0.2, 3.0]]).tolist()
    ['owl']
    """

    semantics = "names"
    learned_arrays = {}

    def __init__(self, logit_scale: float = 100.0, seen_penalty: float = 0.0) -> None:
        self.logit_scale = logit_scale
        self.seen_penalty = seen_penalty

    def fit(self, X: ArrayLike, y: ArrayLike, classes: Any = None) -> Self:
        """Store the classes; one image of each seen class is enough.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Image embeddings.
        y : array-like of shape (n,)
            Labels of the images; their classes are the seen classes.
        classes : ClassTable or any form of :func:`~sightunseen.as_class_table`
            Text embeddings (d,) of the seen and unseen classes. Names are encoded by a dual encoder with
            ``as_class_table(names, semantics="names", encoder="hf:NAME_OR_FOLDER")``.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        SettingsError
            If a hyperparameter is invalid.
        DataError
            If features, labels or class vectors cannot be used, or features and class vectors differ in size.
        """
        if classes is None:
            raise DataError(f"CLIP needs class vectors: text embeddings of the same dual encoder as the features. {CURE}")
        self._begin_fit(X, y, classes)
        self.attribute_scaling_ = AttributeScaling()  # dimensions of an embedding differ in size, but not in unit
        found = self.table_.vectors.shape[1]
        if found != self.n_features_in_:
            raise DataError(
                f"CLIP needs features and class vectors of one dual encoder, of the same size; got {self.n_features_in_} "
                f"features and {found} numbers per class ('{quoted(self.table_.use)}'). {CURE}"
            )
        return self

    @classmethod
    def check_origin(cls, backbone: Mapping[str, Any] | None, semantics: str) -> None:
        """Check that class vectors come from the text side of the features' dual encoder.

        Parameters
        ----------
        backbone : mapping or None
            Description of the backbone of the features; None: unknown, not checked.
        semantics : str
            Name of the class vectors, such as ``names:hf:NAME``.

        Raises
        ------
        DataError
            If they come from different encoders.
        """
        encoder = semantics.partition(":")[2]
        if backbone is not None and (not encoder or backbone.get("text_encoder") != encoder):
            raise DataError(
                f"CLIP needs features and class vectors of one dual encoder; got features of '{quoted(backbone.get('name'))}' "
                f"and class vectors '{quoted(semantics)}'. {CURE}"
            )

    def check_settings(self) -> None:
        """Validate hyperparameters."""
        super().check_settings()
        check_positive("logit_scale", self.logit_scale)

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Return the joint embedding space: embeddings of images and of classes, of unit length.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Image embeddings.
        labels : array-like of labels, {"all", "seen", "unseen"} or None
            The classes; None stands for all.

        Returns
        -------
        images : ndarray of shape (n, d)
            Image embeddings.
        classes : ndarray of shape (c, d)
            Text embeddings.
        """
        classes = normalize(self._vectors_of(self.candidates(labels)))
        return normalize(self._features(X)).astype(np.float32), classes.astype(np.float32)

    def classifier_map(self) -> ClassifierMap:
        """Return the cosine with the class vectors themselves."""
        return ClassifierMap((), "cosine", self.logit_scale)

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        return {"class_vectors": Expected("c d")}

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        directions = (self.logit_scale * normalize(self._vectors_of(labels))).T.astype(np.float32)  # (d, c)
        return lambda X: normalize(X) @ directions
