"""A zero-shot data set: features, labels, a class table, and which image serves for what."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.errors import DataError
from sightunseen.core.randomness import as_generator, derive_seed

Features = NDArray[Any]
Rows = NDArray[np.intp]

Data = TypeVar("Data", bound="Fold | ZeroShotDataset")

HELD_OUT_PART = 0.2  # of a training class's images, as in the benchmark's own test-seen sets


@dataclass(frozen=True)
class Split:
    """Some images of a data set. ``X`` is gathered when asked for, so a memory-mapped set stays on disk."""

    features: Features = field(repr=False)
    labels: Labels = field(repr=False)
    rows: Rows = field(repr=False)

    @cached_property
    def X(self) -> Features:  # noqa: N802 - scikit-learn's name for it
        """The features, (n, d)."""
        return np.asarray(self.features[self.rows])

    @cached_property
    def y(self) -> Labels:
        """The labels, (n,)."""
        return self.labels[self.rows]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Fold:
    """Training classes and, standing in for the unseen ones, validation classes; all images are training images."""

    train: Split
    test_seen: Split
    test_unseen: Split
    classes: ClassTable

    @cached_property
    def seen(self) -> Labels:
        """The labels of the fold's training classes, sorted."""
        return np.unique(self.train.y)

    @cached_property
    def unseen(self) -> Labels:
        """The labels of the fold's validation classes, sorted."""
        return np.unique(self.test_unseen.y)

    def unseen_held_out(self, part: float, seed: int = 0) -> tuple["Fold", "Fold"]:
        """The fold with some validation classes' images to adapt to, and with the others, a ``part`` of all, to measure on."""
        kept, held = (replace(self.test_unseen, rows=rows) for rows in _held_out(self.test_unseen.rows, part, seed))
        return replace(self, test_unseen=kept), replace(self, test_unseen=held)


@dataclass(frozen=True)
class ZeroShotDataset:
    """Features and labels of all images, the class table, and the rows of each split.

    ``validation`` holds pairs of (training classes, validation classes) that came with the data; where there are none,
    ``validation_folds`` draws them. ``listed_train`` and ``listed_validation`` are the rows that the files' own
    ``train_loc`` and ``val_loc`` name: kept for the split doctor, never trained on as they are.
    """

    name: str
    features: Features = field(repr=False)
    labels: Labels = field(repr=False)
    classes: ClassTable
    train_rows: Rows = field(repr=False)
    test_seen_rows: Rows = field(repr=False)
    test_unseen_rows: Rows = field(repr=False)
    listed_train: Rows | None = field(default=None, repr=False)
    listed_validation: Rows | None = field(default=None, repr=False)
    validation: tuple[tuple[Labels, Labels], ...] = field(default=(), repr=False)
    image_names: NDArray[Any] | None = field(default=None, repr=False)
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)  # role and file name -> fingerprint
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # how it was loaded
    listed_classes: tuple[str, ...] | None = field(default=None, repr=False)  # allclasses.txt, for the split doctor
    backbone: Mapping[str, Any] | None = field(default=None, repr=False)  # what made the features of photos, where known

    def __post_init__(self) -> None:
        if self.features.ndim != 2:
            raise DataError(f"features must be a table, one row an image; got shape {self.features.shape}.")
        if len(self.features) != len(self.labels):
            raise DataError(
                f"{self.name}: {len(self.features)} feature rows but {len(self.labels)} labels; they must be as many."
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
        """A data set of arrays in memory.

        ``split`` says of each image ``train``, ``test_seen`` or ``test_unseen``; without it all images train, and the
        classes of the table that have no image are the unseen ones.
        """
        features, labels = np.asarray(X), np.asarray(y)
        part = np.full(len(labels), "train") if split is None else np.asarray(split).astype(str)
        unknown = sorted(set(part.tolist()) - {"train", "test_seen", "test_unseen"})
        if unknown:
            raise DataError(f"split must say train, test_seen or test_unseen for each image; found {unknown}.")
        if len(part) != len(labels):
            raise DataError(f"{len(labels)} labels but {len(part)} entries in split; they must be as many.")
        rows = {word: np.flatnonzero(part == word) for word in ("train", "test_seen", "test_unseen")}
        return cls(name, features, labels, classes, rows["train"], rows["test_seen"], rows["test_unseen"], **others)

    @cached_property
    def train(self) -> Split:
        """The labelled images of the seen classes that training may use."""
        return self._split(self.train_rows)

    @cached_property
    def test_seen(self) -> Split:
        """Held-out images of the seen classes."""
        return self._split(self.test_seen_rows)

    @cached_property
    def test_unseen(self) -> Split:
        """Images of the unseen classes; their labels serve evaluation only."""
        return self._split(self.test_unseen_rows)

    @cached_property
    def seen(self) -> Labels:
        """The labels with training images, sorted."""
        return np.unique(self.labels[self.train_rows])

    @cached_property
    def unseen(self) -> Labels:
        """The labels that are tested as unseen; where nothing is tested, all of the table without training images."""
        if len(self.test_unseen_rows):
            return np.unique(self.labels[self.test_unseen_rows])
        return np.setdiff1d(self.classes.labels, self.seen)

    def describe(self) -> dict[str, Any]:
        """What a record says about its data."""
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
        """The same data read through another of its semantics."""
        return replace(self, classes=self.classes.using(semantics))

    def unseen_held_out(self, part: float, seed: int = 0) -> tuple["ZeroShotDataset", "ZeroShotDataset"]:
        """The data with some unseen classes' test images to adapt to, and with the others, a ``part`` of all, to measure on."""
        kept, held = _held_out(self.test_unseen_rows, part, seed)
        return replace(self, test_unseen_rows=kept), replace(self, test_unseen_rows=held)

    def validation_folds(self, n_folds: int = 1, seed: int = 0) -> list[Fold]:
        """Folds in which some seen classes play the unseen ones; test images never take part.

        The folds that came with the data come first; more are drawn from the seen classes, at the data set's own ratio
        of unseen to all classes. A fifth of each remaining class's images is held out to measure the seen side.
        """
        pairs = [self._listed_pair(k) for k in range(min(n_folds, len(self.validation)))]
        pairs += [self._drawn_pair(k, seed) for k in range(len(pairs), n_folds)]
        return [self._fold(train, held, derive_seed(seed, "held out", k)) for k, (train, held) in enumerate(pairs)]

    def _split(self, rows: Rows) -> Split:
        return Split(self.features, self.labels, rows)

    def _listed_pair(self, k: int) -> tuple[Labels, Labels]:
        train, held = self.validation[k]
        return np.intersect1d(train, self.seen), np.intersect1d(held, self.seen)

    def _drawn_pair(self, k: int, seed: int) -> tuple[Labels, Labels]:
        if len(self.seen) < 4:
            raise DataError(
                f"choosing on validation classes needs at least 4 seen classes to hold some out; {self.name} has "
                f"{len(self.seen)}. Add classes, or train with fixed settings (--select none)."
            )
        ratio = len(self.unseen) / (len(self.seen) + len(self.unseen))
        size = int(np.clip(round(ratio * len(self.seen)), 2, len(self.seen) - 2))
        mixed = as_generator(derive_seed(seed, "validation classes", k)).permutation(self.seen)
        return np.sort(mixed[size:]), np.sort(mixed[:size])

    def _fold(self, train_classes: Labels, held_classes: Labels, seed: int) -> Fold:
        labels = self.labels[self.train_rows]
        rng = as_generator(seed)
        train, held = [], []
        for label in train_classes:
            mixed = rng.permutation(self.train_rows[labels == label])
            size = max(1, round(HELD_OUT_PART * len(mixed))) if len(mixed) > 1 else 0
            held.append(mixed[:size])
            train.append(mixed[size:])
        return Fold(
            self._split(np.sort(np.concatenate(train))),
            self._split(np.sort(np.concatenate(held))),
            self._split(self.train_rows[np.isin(labels, held_classes)]),
            self.classes.only(np.concatenate([train_classes, held_classes])),
        )


def apart(data: Data, hold_out: float, seed: int = 0) -> tuple[Data, Data]:
    """The data to adapt a model to and the data to measure it on: the same, unless a part of the images is held out."""
    return cast("tuple[Data, Data]", data.unseen_held_out(hold_out, seed)) if hold_out else (data, data)


def _held_out(rows: Rows, part: float, seed: int) -> tuple[Rows, Rows]:
    """Rows to keep, and a part of them to hold out, drawn without a look at labels."""
    mixed = as_generator(derive_seed(seed, "unseen images held out")).permutation(rows)
    size = round(part * len(mixed))
    if not 0 < size < len(mixed):
        raise DataError(
            f"to hold out {part:g} of {len(mixed)} images of unseen classes leaves none on one side. Choose a part between 0 "
            "and 1, and have more images."
        )
    return np.sort(mixed[size:]), np.sort(mixed[:size])
