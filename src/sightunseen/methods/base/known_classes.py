"""The classes of a model: seen classes, which have training images, and unseen classes, which have only a class vector."""

from collections import Counter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sightunseen.core.calibration import NONE
from sightunseen.core.class_table import ClassTable, Labels, Vectors
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.linear import class_blocks
from sightunseen.core.warnings import SeenClassesOnlyWarning, warn_once
from sightunseen.semantics.class_vectors import AttributeScaling, scale_vectors

WORDS = {"all": "classes_", "seen": "seen_classes_", "unseen": "unseen_classes_"}  # attributes by the name of the candidates


class KnownClasses(BaseEstimator):  # type: ignore[misc]
    """Base class that manages the class table of an estimator.

    Attributes
    ----------
    table_ : ClassTable
        Class vectors of all classes that can be predicted, with missing attributes imputed.
    classes_ : ndarray of shape (c,)
        Labels of all classes that can be predicted, sorted.
    seen_classes_ : ndarray of shape (s,)
        Labels of the classes with training images, sorted.
    unseen_classes_ : ndarray of shape (c - s,)
        Labels of the classes without training images, sorted.
    attribute_scaling_ : AttributeScaling
        Imputation of missing attributes, and scaling of attributes with different units.
    """

    table_: ClassTable
    classes_: Labels
    seen_classes_: Labels
    attribute_scaling_: AttributeScaling

    @property
    def unseen_classes_(self) -> Labels:
        """Labels of the classes without training images, sorted."""
        return np.asarray(self.classes_[~self.is_seen(self.classes_)])

    def candidates(self, wanted: ArrayLike | str | None = None) -> Labels:
        """Resolve and validate candidate classes.

        Parameters
        ----------
        wanted : array-like of labels, "all", "seen", "unseen" or None, default=None
            Candidate classes; None means ``"all"``.

        Returns
        -------
        ndarray of shape (c,)
            Labels of the candidates.

        Raises
        ------
        SettingsError
            If ``wanted`` is an unknown word.
        DataError
            If there are no candidates, a label is repeated, or a label is not in the class table.
        """
        check_is_fitted(self)
        wanted = "all" if wanted is None else wanted
        if isinstance(wanted, str) and wanted not in WORDS:
            raise SettingsError(f"candidates must be a list of labels or one of {', '.join(WORDS)}; got '{wanted}'.")
        labels = np.asarray(getattr(self, WORDS[wanted]) if isinstance(wanted, str) else wanted)
        if labels.size == 0:
            raise DataError(
                f"there are no candidates to choose from ({wanted if isinstance(wanted, str) else 'an empty list'}). "
                "Add classes with add_classes, or use candidates='all'."
            )
        if isinstance(wanted, str):
            return labels
        if labels.ndim != 1:
            raise DataError(f"candidates must be a one-dimensional list of labels; got shape {labels.shape}.")
        repeated = [label for label, count in Counter(labels.tolist()).items() if count > 1]
        if repeated:
            raise DataError(f"the candidate {quoted(repeated[0])!r} is repeated. Give every label once.")
        self.table_.rows_of(labels)
        return labels

    def is_seen(self, labels: Labels) -> NDArray[np.bool_]:
        """Tell which classes are seen classes.

        Parameters
        ----------
        labels : ndarray of shape (c,)
            Class labels.

        Returns
        -------
        ndarray of bool of shape (c,)
            True for a class with training images.
        """
        return self.seen_indices(labels) >= 0

    def seen_indices(self, labels: Labels) -> NDArray[np.int64]:
        """Return the index of each class in ``seen_classes_``.

        Parameters
        ----------
        labels : ndarray of shape (c,)
            Class labels.

        Returns
        -------
        ndarray of shape (c,)
            Indices; -1 for an unseen class.
        """
        index = {label: k for k, label in enumerate(self.seen_classes_.tolist())}
        return np.array([index.get(label, -1) for label in np.asarray(labels).tolist()], dtype=np.int64)

    def add_classes(self, classes: Any) -> Self:
        """Add unseen classes by their class vectors or descriptions, without retraining.

        If the table that the model was fitted on marks missing attributes with -1, -1 in a new class is missing too.

        Parameters
        ----------
        classes : ClassTable, mapping of label to vector or text, DataFrame or pair (labels, array)
            The new classes; see :func:`~sightunseen.as_class_table`. Texts are encoded by the encoder of the model's classes.

        Returns
        -------
        self
            The model itself.

        Raises
        ------
        DataError
            If a class is already known, or a vector is not finite or has the wrong size.
        """
        from sightunseen.data.class_inputs import as_new_classes

        check_is_fitted(self)
        added = as_new_classes(classes, self.table_)
        _check_finite(added)
        self._know(self.attribute_scaling_.imputed_table(self.table_.extended(added)))
        return self

    def remove_classes(self, labels: ArrayLike) -> Self:
        """Remove unseen classes, without retraining.

        Parameters
        ----------
        labels : label or array-like of labels
            Unseen classes to remove.

        Returns
        -------
        self
            The model itself.

        Raises
        ------
        DataError
            If a class is unknown or is a seen class.
        """
        check_is_fitted(self)
        wanted = np.atleast_1d(labels).tolist()
        unknown = [label for label in wanted if label not in self.table_]
        if unknown:
            raise DataError(f"'{unknown[0]}' is not a class of the model, so it cannot be removed.")
        seen = np.atleast_1d(labels)[self.is_seen(np.atleast_1d(labels))]
        if len(seen):
            raise DataError(f"'{seen[0]}' was trained on, so it cannot be removed. Leave it out of the candidates instead.")
        self._know(self.table_.without(wanted))
        return self

    def _learn_classes(self, labels: Labels, classes: Any) -> None:
        """Store the class table and the seen classes; without a table, use one-hot vectors of the training labels (n,)."""
        from sightunseen.data.class_inputs import as_class_table

        seen = np.unique(labels)
        if classes is None:
            warn_once(
                self,
                f"classes were left out, so only the {len(seen)} classes of y can be recognised. To recognise unseen classes, "
                "describe all of them: fit(X, y, classes) with {label: vector}, {label: text} or a DataFrame.",
                SeenClassesOnlyWarning,
            )
        table = ClassTable.one_hot(seen) if classes is None else as_class_table(classes, seen)
        table.rows_of(seen)
        _check_finite(table)
        self._forget()
        self.seen_classes_ = seen
        self.attribute_scaling_ = AttributeScaling.learned(table)
        self._know(self.attribute_scaling_.imputed_table(table))

    def _forget(self) -> None:
        """Drop state of an earlier fit that depends on its classes, in methods that keep such state."""

    def _vectors_of(self, labels: Labels) -> Vectors:
        """Scaled class vectors, of shape (c, a)."""
        return self._scaled_vectors(self.table_.vectors_of(labels))

    def _scaled_vectors(self, vectors: Vectors) -> Vectors:
        """Apply the attribute scaling and ``semantic_norm`` to class vectors of shape (c, a)."""
        return scale_vectors(self.attribute_scaling_(vectors), getattr(self, "semantic_norm", None))

    def _know(self, table: ClassTable) -> None:
        # Validates the table before anything changes.
        if NONE in table:
            raise DataError(f"no class can be called '{NONE}': it is the label of rejected images. Rename the class.")
        for rows in class_blocks(*table.vectors.shape):
            self._scaled_vectors(table.vectors[rows])
        self.table_ = table
        self.classes_ = np.unique(table.labels)


def _check_finite(table: ClassTable) -> None:
    bad = table.labels[~np.isfinite(table.vectors).all(axis=1)].tolist()
    if bad:
        raise DataError(
            f"the vectors of {len(bad)} classes contain NaN or infinity (first: '{bad[0]}'). Impute the missing values or "
            "drop these classes."
        )
