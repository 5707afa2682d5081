"""Zero-shot data sets: features, labels, a class table, train and test splits, and class folds for validation."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.conversion import as_labels
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.core.memory import free_memory
from sightunseen.core.randomness import as_generator, derive_seed
from sightunseen.core.rows import Indices, Rows, SelectedRows

Features = Any  # ndarray or Rows of shape (n, d)

Data = TypeVar("Data", bound="Fold | ZeroShotDataset")

LOADED_PART = 0.25  # share of the free memory up to which features of a split are loaded
HELD_OUT_PART = 0.2  # share of each training class's images, as in the test-seen sets of the benchmark


@dataclass(frozen=True)
class Split:
    """A subset of the images of a data set.

    ``X`` is gathered at first use, so features in files stay on disk until then.

    Parameters
    ----------
    features : ndarray or Rows of shape (N, d)
        Features of all images of the data set: in memory, memory-mapped or in files.
    labels : ndarray of shape (N,)
        Labels of all images of the data set.
    rows : ndarray of int of shape (n,)
        Row indices of this subset.
    """

    features: Features = field(repr=False)
    labels: Labels = field(repr=False)
    rows: Indices = field(repr=False)

    @cached_property
    def X(self) -> Features:  # noqa: N802 - scikit-learn's name for it
        """Features of the subset, shape (n, d): an array, or rows on disk if they need more than a quarter of the memory."""
        if not isinstance(self.features, Rows):
            return np.asarray(self.features[self.rows])
        on_disk = SelectedRows(self.features, self.rows)
        return on_disk if on_disk.nbytes > LOADED_PART * free_memory() else np.asarray(on_disk)

    @cached_property
    def y(self) -> Labels:
        """Labels of the subset, shape (n,)."""
        return self.labels[self.rows]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Fold:
    """A class fold: training classes, and validation classes that stand in for unseen classes.

    All images of a fold are training images of the data set it was drawn from.

    Parameters
    ----------
    train : Split
        Images of the training classes to fit on.
    test_seen : Split
        Held-out images of the training classes.
    test_unseen : Split
        All images of the validation classes.
    classes : ClassTable
        Training and validation classes.
    all_unseen : ndarray of labels, default=None
        The validation classes, sorted. None: those of ``test_unseen``.
    """

    train: Split
    test_seen: Split
    test_unseen: Split
    classes: ClassTable
    all_unseen: Labels | None = None

    @cached_property
    def seen(self) -> Labels:
        """Labels of the training classes, sorted."""
        return np.unique(self.train.y)

    @cached_property
    def unseen(self) -> Labels:
        """Labels of the validation classes, sorted."""
        return np.unique(self.test_unseen.y) if self.all_unseen is None else self.all_unseen


@dataclass(frozen=True)
class ZeroShotDataset:
    """Features and labels of all images, the class table, and the rows of each split.

    Parameters
    ----------
    name : str
        Name of the data set, for messages and records.
    features : ndarray or Rows of shape (N, d)
        Features of all images: in memory, memory-mapped or in files.
    labels : ndarray of shape (N,)
        Labels of all images.
    classes : ClassTable
        Seen and unseen classes.
    train_rows, test_seen_rows, test_unseen_rows : ndarray of int
        Row indices of the training images, of the test images of seen classes and of those of unseen classes.
    listed_train, listed_validation : ndarray of int, default=None
        Indices in ``train_loc`` and ``val_loc`` of benchmark files. Only the split doctor reads them.
    validation : tuple of (ndarray, ndarray), default=()
        Class folds that come with the data, as pairs of training and validation labels.
    image_names : ndarray of shape (N,), default=None
        Names of the images.
    sources : mapping of str to str, default={}
        SHA-256 of the files, by role and file name.
    options : mapping of str to str, default={}
        Options that the data were loaded with.
    listed_classes : tuple of str, default=None
        Content of ``allclasses.txt``. Only the split doctor reads it.
    backbone : mapping, default=None
        Description of the network that extracted the features, if known.
    all_unseen : ndarray of labels, default=None
        The unseen classes, sorted. None: those of the unseen test images, or without such images all classes that have no
        training image.

    Raises
    ------
    DataError
        If the features are not two-dimensional, or if features and labels differ in length.

    Examples
    --------
    >>> table = ClassTable(["cat", "dog", "okapi"], [[1, 0], [0, 1], [1, 1]])
    >>> data = ZeroShotDataset.from_arrays([[0.1], [0.9], [0.5]], ["cat", "dog", "okapi"], table,
    ...                                    split=["train", "train", "test_unseen"])
    >>> data.seen.tolist(), data.unseen.tolist(), data.test_unseen.X.tolist()
    (['cat', 'dog'], ['okapi'], [[0.5]])
    """

    name: str
    features: Features = field(repr=False)
    labels: Labels = field(repr=False)
    classes: ClassTable
    train_rows: Indices = field(repr=False)
    test_seen_rows: Indices = field(repr=False)
    test_unseen_rows: Indices = field(repr=False)
    listed_train: Indices | None = field(default=None, repr=False)
    listed_validation: Indices | None = field(default=None, repr=False)
    validation: tuple[tuple[Labels, Labels], ...] = field(default=(), repr=False)
    image_names: NDArray[Any] | None = field(default=None, repr=False)
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    listed_classes: tuple[str, ...] | None = field(default=None, repr=False)
    backbone: Mapping[str, Any] | None = field(default=None, repr=False)
    all_unseen: Labels | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.features.ndim != 2:
            raise DataError(f"features must be a table with one row per image; got shape {self.features.shape}.")
        if np.ndim(self.labels) != 1:
            raise DataError(f"{self.name}: labels must be a list, one per image; got shape {np.shape(self.labels)}.")
        if len(self.features) != len(self.labels):
            raise DataError(
                f"{self.name}: {len(self.features)} feature rows but {len(self.labels)} labels; give one label per row."
            )
        if self.image_names is not None and len(self.image_names) != len(self.labels):
            raise DataError(
                f"{self.name}: {len(self.labels)} images but {len(self.image_names)} names of images; give one name per image."
            )

    @classmethod
    def from_arrays(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        classes: ClassTable,
        split: ArrayLike | None = None,
        name: str = "arrays",
        **others: Any,
    ) -> "ZeroShotDataset":
        """Make a data set from arrays.

        Parameters
        ----------
        X : array-like or Rows of shape (N, d)
            Features of the images.
        y : array-like of shape (N,)
            Labels of the images.
        classes : ClassTable
            Seen and unseen classes.
        split : array-like of shape (N,), default=None
            ``train``, ``test_seen`` or ``test_unseen`` for each image. None: all images are training images, and the
            classes without images are unseen.
        name : str, default="arrays"
            Name of the data set.
        **others
            Further fields of the data set.

        Returns
        -------
        ZeroShotDataset
            The data set.

        Raises
        ------
        DataError
            If ``split`` has other values or another length, or if features and labels do not fit together.
        """
        features, labels = X if isinstance(X, Rows) else np.asarray(X), np.asarray(y)
        part = np.full(labels.shape, "train") if split is None else as_labels(split, "split")
        unknown = sorted(set(part.ravel().tolist()) - {"train", "test_seen", "test_unseen"})
        if unknown:
            raise DataError(f"split must be train, test_seen or test_unseen for each image; found {quoted(unknown)}.")
        if part.shape != labels.shape:
            raise DataError(f"{labels.size} labels but {len(part)} entries in split; give one entry per image.")
        rows = {word: np.flatnonzero(part == word) for word in ("train", "test_seen", "test_unseen")}
        return cls(name, features, labels, classes, rows["train"], rows["test_seen"], rows["test_unseen"], **others)

    @cached_property
    def train(self) -> Split:
        """Training images of the seen classes."""
        return self._split(self.train_rows)

    @cached_property
    def test_seen(self) -> Split:
        """Test images of the seen classes."""
        return self._split(self.test_seen_rows)

    @cached_property
    def test_unseen(self) -> Split:
        """Test images of the unseen classes; their labels are used for evaluation only."""
        return self._split(self.test_unseen_rows)

    @cached_property
    def seen(self) -> Labels:
        """Labels of the classes with training images, sorted."""
        return np.unique(self.labels[self.train_rows])

    @cached_property
    def unseen(self) -> Labels:
        """Labels of the unseen test images, sorted; without such images, all classes that have no training image."""
        if self.all_unseen is not None:
            return self.all_unseen
        if len(self.test_unseen_rows):
            return np.unique(self.labels[self.test_unseen_rows])
        return np.setdiff1d(self.classes.labels, self.seen)

    def describe(self) -> dict[str, Any]:
        """Describe the data for a run record.

        Returns
        -------
        dict
            Name, fingerprints of the files, loading options, semantics, and numbers of images, classes and features.
        """
        return {
            "name": self.name,
            "fingerprints": dict(self.sources),
            "options": dict(self.options),
            "semantics": self.classes.use,
            "images": {"train": len(self.train), "test_seen": len(self.test_seen), "test_unseen": len(self.test_unseen)},
            "classes": {"seen": len(self.seen), "unseen": len(self.unseen)},
            "features": int(self.features.shape[1]),
            **({} if self.backbone is None else {"backbone": dict(self.backbone)}),
        }

    def using(self, semantics: str) -> "ZeroShotDataset":
        """Return the same data with other semantics in use.

        Parameters
        ----------
        semantics : str
            Name of the semantics; see :meth:`ClassTable.using`.

        Returns
        -------
        ZeroShotDataset
            New data that share all arrays.

        Raises
        ------
        DataError
            If the class table has no such semantics.
        """
        return replace(self, classes=self.classes.using(semantics))

    def validation_folds(self, n_folds: int = 1, seed: int = 0) -> list[Fold]:
        """Draw class folds from the training images.

        In each fold, validation classes stand in for unseen classes. The folds that come with the data are used first.
        Further ones are drawn from the seen classes at the data set's own ratio of unseen to all classes. A fifth of the
        images of each training class is held out as the fold's test images of seen classes. Test images of the data set are
        never used.

        Parameters
        ----------
        n_folds : int, default=1
            Number of folds.
        seed : int, default=0
            Seed of the drawn classes and of the held-out images.

        Returns
        -------
        list of Fold
            The folds; with more folds, the first ones stay the same.

        Raises
        ------
        DataError
            If a fold has to be drawn and there are fewer than 4 seen classes.
        """
        pairs = [self._listed_pair(k) for k in range(min(n_folds, len(self.validation)))]
        for k in range(len(pairs), n_folds):
            held = self.drawn_classes(k, seed)
            pairs.append((np.setdiff1d(self.seen, held), held))
        return [self.class_fold(held, derive_seed(seed, "held out", k), train) for k, (train, held) in enumerate(pairs)]

    def _split(self, rows: Indices) -> Split:
        return Split(self.features, self.labels, rows)

    def _listed_pair(self, k: int) -> tuple[Labels, Labels]:
        train, held = self.validation[k]
        return np.intersect1d(train, self.seen), np.intersect1d(held, self.seen)

    def drawn_classes(self, k: int, seed: int = 0, among: Labels | None = None) -> Labels:
        """Draw the validation classes of a class fold from the seen classes.

        Parameters
        ----------
        k : int
            Number of the fold.
        seed : int, default=0
            Seed of the draw.
        among : ndarray of labels, default=None
            Seen classes to draw from. None: all.

        Returns
        -------
        ndarray of labels
            Sorted. Their share of the seen classes is that of the unseen classes in the data set.

        Raises
        ------
        DataError
            If there are fewer than 4 seen classes.
        """
        if len(self.seen) < 4:
            raise DataError(
                f"choosing on validation classes needs at least 4 seen classes to hold some out; {self.name} has "
                f"{len(self.seen)}. Add classes, or train with fixed hyperparameters (--select none; in Python, fit the method "
                "itself)."
            )
        among = self.seen if among is None else among
        ratio = len(self.unseen) / (len(self.seen) + len(self.unseen))
        size = int(np.clip(round(ratio * len(among)), 2, len(among) - 2))
        mixed = as_generator(derive_seed(seed, "validation classes", k)).permutation(among)
        return np.sort(mixed[:size])

    def held_out_images(self, classes: Labels, seed: int = 0) -> tuple[Split, Split]:
        """Split the training images of some classes: a fifth of each class is held out.

        Parameters
        ----------
        classes : ndarray of labels
            Seen classes.
        seed : int, default=0
            Seed of the draw.

        Returns
        -------
        train, held_out : Split
            At least one image of a class remains in ``train``; of a single image, none is held out.
        """
        rng = as_generator(seed)
        train, held = [], []
        for rows in self._train_rows_by_class(classes):
            mixed = rng.permutation(rows)
            size = max(1, round(HELD_OUT_PART * len(mixed))) if len(mixed) > 1 else 0
            held.append(mixed[:size])
            train.append(mixed[size:])
        return self._split(np.sort(np.concatenate(train))), self._split(np.sort(np.concatenate(held)))

    def _train_rows_by_class(self, classes: Labels) -> list[Indices]:
        """Indices of the training images of each class, in the order of ``train_rows``."""
        order, starts = self._train_order
        first = np.searchsorted(self.seen, classes)
        return [self.train_rows[order[starts[k] : starts[k + 1]]] for k in first.tolist()]

    @cached_property
    def _train_order(self) -> tuple[Indices, Indices]:
        """Training images sorted by class, and the position at which each seen class begins."""
        codes = np.searchsorted(self.seen, self.labels[self.train_rows])
        return np.argsort(codes, kind="stable"), np.searchsorted(np.sort(codes), np.arange(len(self.seen) + 1))

    def class_fold(self, validation: Labels, seed: int = 0, train: Labels | None = None) -> Fold:
        """Make a class fold.

        Parameters
        ----------
        validation : ndarray of labels
            The validation classes, seen classes of the data set.
        seed : int, default=0
            Seed of the held-out images.
        train : ndarray of labels, default=None
            The training classes. None: all other seen classes.

        Returns
        -------
        Fold
            The fold.
        """
        train = np.setdiff1d(self.seen, validation) if train is None else train
        images, held = self.held_out_images(train, seed)
        of_validation = self.train_rows[np.isin(self.labels[self.train_rows], validation)]
        return Fold(images, held, self._split(of_validation), self.classes.only(np.concatenate([train, validation])))


def apart(data: Data, hold_out: float, seed: int = 0) -> tuple[Data, Data]:
    """Split the images of unseen classes into images to adapt to and held-out images to evaluate on.

    The held-out images are drawn without using labels.

    Parameters
    ----------
    data : ZeroShotDataset or Fold
        The data; of a fold the images of validation classes are split.
    hold_out : float
        Share of these images that is held out, between 0 and 1. 0: nothing is held out.
    seed : int, default=0
        Seed of the draw.

    Returns
    -------
    adapted_to, measured_on : two of the same type as ``data``
        The data with the images to adapt to and with those held out; ``data`` twice if ``hold_out`` is 0. Both have the unseen
        classes of ``data``, also those without an image.

    Raises
    ------
    DataError
        If one of the two would have no images.
    """
    if not hold_out:
        return data, data
    mixed = as_generator(derive_seed(seed, "unseen images held out")).permutation(data.test_unseen.rows)
    size = round(hold_out * len(mixed)) if 0 < hold_out < 1 else 0
    if not 0 < size < len(mixed):
        raise DataError(
            f"holding out {hold_out:g} of {len(mixed)} images of unseen classes leaves no image to adapt to or none to "
            "evaluate on. Choose a share between 0 and 1, or add images."
        )
    return _with_unseen(data, np.sort(mixed[size:])), _with_unseen(data, np.sort(mixed[:size]))


def _with_unseen(data: Data, rows: Indices) -> Data:
    if isinstance(data, Fold):
        return replace(data, test_unseen=replace(data.test_unseen, rows=rows), all_unseen=data.unseen)
    return replace(data, test_unseen_rows=rows, all_unseen=data.unseen)
