"""Checks of the training, validation and test splits."""

from dataclasses import replace
from itertools import combinations

import numpy as np

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.rows import Indices
from sightunseen.data.doctor.finding import FAIL, PASS, WARN, Finding, some


def check_splits(data: ZeroShotDataset) -> list[Finding]:
    """Check the splits: overlaps, leaks of test images, and classes in the wrong split.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set.

    Returns
    -------
    list of Finding
        One finding per check.
    """
    return [
        _split_overlap(data),
        _validation_leak(data),
        _seen_and_unseen(data),
        _test_seen_classes(data),
        _training_images(data),
    ]


def without_test_images(data: ZeroShotDataset) -> ZeroShotDataset:
    """Remove test images from ``listed_train`` and ``listed_validation``.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set.

    Returns
    -------
    ZeroShotDataset
        A copy without test images in these lists.
    """
    test = np.union1d(data.test_seen_rows, data.test_unseen_rows)

    def clean(rows: Indices | None) -> Indices | None:
        return None if rows is None else np.setdiff1d(rows, test)

    return replace(data, listed_train=clean(data.listed_train), listed_validation=clean(data.listed_validation))


def _split_overlap(data: ZeroShotDataset) -> Finding:
    parts = {"train": data.train_rows, "test_seen": data.test_seen_rows, "test_unseen": data.test_unseen_rows}
    shared = {f"{a} and {b}": len(np.intersect1d(parts[a], parts[b])) for a, b in combinations(parts, 2)}
    shared = {pair: count for pair, count in shared.items() if count}
    repeated = {name: len(rows) - len(np.unique(rows)) for name, rows in parts.items()}
    if not shared and any(repeated.values()):
        what = "; ".join(f"images listed twice in {name}: {count}" for name, count in repeated.items() if count) + "."
        return Finding("split-overlap", WARN, what, "They are counted twice.", "List every image once.")
    if not shared:
        return Finding("split-overlap", PASS, "no image is in two of train, test_seen and test_unseen, or in one twice.")
    what = "; ".join(f"images in both {pair}: {count}" for pair, count in shared.items()) + "."
    why = "Accuracy on training images does not measure accuracy on new images."
    return Finding("split-overlap", FAIL, what, why, "Use the published split file, or remove these images from one split.")


def _validation_leak(data: ZeroShotDataset) -> Finding:
    if data.listed_train is None or data.listed_validation is None:
        return Finding("validation-leak", PASS, "no train_loc and val_loc; validation classes are drawn from the training set.")
    test = np.union1d(data.test_seen_rows, data.test_unseen_rows)
    lists = {"train_loc": data.listed_train, "val_loc": data.listed_validation}
    counts = {name: len(np.intersect1d(rows, test)) for name, rows in lists.items()}
    if not any(counts.values()):
        return Finding("validation-leak", PASS, "train_loc and val_loc hold no test image.")
    what = " and ".join(f"{name} holds {count} test images" for name, count in counts.items() if count) + "."
    why = "Hyperparameters would be selected on the test set; the older files of the benchmark have this fault."
    remedy = "Use the 2020 split files, or remove the test images; training does so automatically."
    return Finding("validation-leak", FAIL, what, why, remedy)


def _seen_and_unseen(data: ZeroShotDataset) -> Finding:
    both = np.intersect1d(data.seen, np.unique(data.labels[data.test_unseen_rows]))
    if not len(both):
        return Finding("seen-and-unseen", PASS, f"{len(data.seen)} seen and {len(data.unseen)} unseen classes, none both.")
    what = f"classes with training images that are tested as unseen: {len(both)} ({some(both)})."
    why = "A class with training images is not unseen; the unseen-class accuracies T1 and U would be too high."
    return Finding("seen-and-unseen", FAIL, what, why, "Move their training images out, or test them as seen.")


def _test_seen_classes(data: ZeroShotDataset) -> Finding:
    untrained = np.setdiff1d(data.labels[data.test_seen_rows], data.seen)
    if not len(untrained):
        return Finding("test-seen-classes", PASS, "every class tested as seen has training images.")
    what = f"classes tested as seen without training images: {len(untrained)} ({some(untrained)})."
    return Finding("test-seen-classes", FAIL, what, "The seen-class accuracy S would be too low.", "Move them to test_unseen.")


def _training_images(data: ZeroShotDataset) -> Finding:
    if not len(data.train_rows):
        return Finding("training-images", FAIL, "there are no training images.", "", "Check the split column or trainval_loc.")
    counts = np.unique(data.labels[data.train_rows], return_counts=True)[1]
    what = f"{len(data.train_rows)} training images, {counts.min()} to {counts.max()} per class."
    if counts.min() < 2:
        why = "A class with a single image cannot be split for validation."
        return Finding("training-images", WARN, what, why, "Add images to the smallest classes.")
    return Finding("training-images", PASS, what)
