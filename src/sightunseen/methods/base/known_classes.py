"""The classes a model knows: seen ones with images, others by their vectors alone; more can be added at any time."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sightunseen.core.calibration import NONE
from sightunseen.core.class_table import ClassTable, Labels, Vectors
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.semantics.class_vectors import AttributeScaling, scale_vectors


class KnownClasses(BaseEstimator):  # type: ignore[misc]
    """A class table that can grow, the seen classes among it, and class vectors as a method meets them."""

    table_: ClassTable
    classes_: Labels
    seen_classes_: Labels
    attribute_scaling_: AttributeScaling

    @property
    def unseen_classes_(self) -> Labels:
        """The labels that can be predicted but had no training images, sorted."""
        return np.setdiff1d(self.classes_, self.seen_classes_)

    def candidates(self, wanted: ArrayLike | str | None = None) -> Labels:
        """The labels that ``wanted`` stands for; unknown or empty candidates are an error."""
        check_is_fitted(self)
        words = {"all": self.classes_, "seen": self.seen_classes_, "unseen": self.unseen_classes_}
        wanted = "all" if wanted is None else wanted
        if isinstance(wanted, str) and wanted not in words:
            raise SettingsError(f"candidates must be a list of labels or one of {', '.join(words)}; got '{wanted}'.")
        labels = words[wanted] if isinstance(wanted, str) else np.asarray(wanted)
        if labels.size == 0:
            raise DataError(
                f"there are no candidates to choose from ({wanted if isinstance(wanted, str) else 'an empty list'}). "
                "Add classes with add_classes, or choose among 'all'."
            )
        if labels.ndim != 1 or len(np.unique(labels)) != len(labels):
            raise DataError("candidates must be a list of labels, each of them once.")
        self.table_.rows_of(labels)
        return labels

    def seen_indices(self, labels: Labels) -> NDArray[np.int64]:
        """The places of these classes among ``seen_classes_``, (c,); -1 for an unseen one."""
        seen = np.isin(labels, self.seen_classes_)
        return np.where(seen, np.searchsorted(self.seen_classes_, labels), -1)

    def add_classes(self, classes: ClassTable | Mapping[Any, ArrayLike]) -> Self:
        """Make more classes recognisable at once, from their vectors alone; nothing is retrained."""
        check_is_fitted(self)
        added = ClassTable.of(classes)
        _check_finite(added)
        self._know(self.table_.extended(added))
        return self

    def remove_classes(self, labels: ArrayLike) -> Self:
        """Take unseen classes out of those that can be predicted; nothing is retrained. A seen class stays."""
        check_is_fitted(self)
        wanted = np.atleast_1d(labels).tolist()
        unknown = [label for label in wanted if label not in self.table_]
        if unknown:
            raise DataError(f"'{unknown[0]}' is not a class of the model, so it cannot be removed.")
        if np.isin(wanted, self.seen_classes_).any():
            seen = next(label for label in wanted if label in self.seen_classes_)
            raise DataError(f"'{seen}' was trained on, so it cannot be removed. Leave it out of the candidates instead.")
        self._know(self.table_.without(wanted))
        return self

    def _table_for(self, labels: Labels, classes: ClassTable | Mapping[Any, ArrayLike] | None) -> ClassTable:
        """The class table given to ``fit``, or one that only tells the classes of these images apart, (n,)."""
        table = ClassTable.one_hot(labels) if classes is None else ClassTable.of(classes)
        table.rows_of(np.unique(labels))
        _check_finite(table)
        return table

    def _learn_classes(self, table: ClassTable, seen: Labels) -> None:
        self.seen_classes_ = seen
        self.attribute_scaling_ = AttributeScaling.learned(table)
        self._know(table)

    def _vectors_of(self, labels: Labels) -> Vectors:
        """Class vectors as the method meets them, (c, a)."""
        return self._scaled_vectors(self.table_.vectors_of(labels))

    def _scaled_vectors(self, vectors: Vectors) -> Vectors:
        """Any class vectors (c, a) as the method meets them: in units of one size, and of one length."""
        return scale_vectors(self.attribute_scaling_(vectors), getattr(self, "semantic_norm", None))

    def _know(self, table: ClassTable) -> None:
        # Refuses what it cannot use, before anything changes.
        if NONE in table:
            raise DataError(f"no class can be called '{NONE}': it is the answer for what fits no class. Give it another name.")
        self._scaled_vectors(table.vectors)
        self.table_ = table
        self.classes_ = np.unique(table.labels)


def _check_finite(table: ClassTable) -> None:
    bad = table.labels[~np.isfinite(table.vectors).all(axis=1)].tolist()
    if bad:
        raise DataError(
            f"the vectors of {len(bad)} classes hold NaN or infinity (first: '{bad[0]}'). Fill the missing values or drop them."
        )
