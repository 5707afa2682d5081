"""Checks of who is trained on and who is tested."""

from dataclasses import replace

import numpy as np

from sightunseen.core.dataset import Rows, ZeroShotDataset
from sightunseen.data.doctor.finding import FAIL, PASS, WARN, Finding, some


def check_splits(data: ZeroShotDataset) -> list[Finding]:
    """Overlaps, leaks, and classes on the wrong side."""
    return [_split_overlap(data), _validation_leak(data), _seen_and_unseen(data), _seen_tested(data), _images_labelled(data)]


def without_test_images(data: ZeroShotDataset) -> ZeroShotDataset:
    """The same data with test images taken out of ``train_loc`` and ``val_loc``."""
    test = np.union1d(data.test_seen_rows, data.test_unseen_rows)

    def clean(rows: Rows | None) -> Rows | None:
        return None if rows is None else np.setdiff1d(rows, test)

    return replace(data, listed_train=clean(data.listed_train), listed_validation=clean(data.listed_validation))


def _split_overlap(data: ZeroShotDataset) -> Finding:
    parts = {"train": data.train_rows, "test_seen": data.test_seen_rows, "test_unseen": data.test_unseen_rows}
    names = list(parts)
    shared = {f"{a} and {b}": len(np.intersect1d(parts[a], parts[b])) for k, a in enumerate(names) for b in names[k + 1 :]}
    shared = {pair: count for pair, count in shared.items() if count}
    repeated = {name: len(rows) - len(np.unique(rows)) for name, rows in parts.items()}
    if not shared and any(repeated.values()):
        what = "; ".join(f"images listed twice in {name}: {count}" for name, count in repeated.items() if count) + "."
        return Finding("split-overlap", WARN, what, "They count twice.", "List every image once.")
    if not shared:
        return Finding("split-overlap", PASS, "no image is in two of train, test_seen and test_unseen, or in one twice.")
    what = "; ".join(f"images in both {pair}: {count}" for pair, count in shared.items()) + "."
    why = "Accuracy on images that were trained on says nothing about new ones."
    return Finding("split-overlap", FAIL, what, why, "Use the published split file, or take these images out of one side.")


def _validation_leak(data: ZeroShotDataset) -> Finding:
    if data.listed_train is None or data.listed_validation is None:
        return Finding("validation-leak", PASS, "no train_loc and val_loc; validation classes are drawn from the training set.")
    test = np.union1d(data.test_seen_rows, data.test_unseen_rows)
    counts = {
        "train_loc": len(np.intersect1d(data.listed_train, test)),
        "val_loc": len(np.intersect1d(data.listed_validation, test)),
    }
    if not any(counts.values()):
        return Finding("validation-leak", PASS, "train_loc and val_loc hold no test image.")
    what = " and ".join(f"{name} holds {count} test images" for name, count in counts.items() if count) + "."
    why = "Settings tuned on them are tuned on the test set; the older files of the benchmark have this fault."
    remedy = "Use the 2020 split files, or take the test images out; training here leaves them out by itself."
    return Finding("validation-leak", FAIL, what, why, remedy)


def _seen_and_unseen(data: ZeroShotDataset) -> Finding:
    both = np.intersect1d(data.seen, np.unique(data.labels[data.test_unseen_rows]))
    if not len(both):
        return Finding("seen-and-unseen", PASS, f"{len(data.seen)} seen and {len(data.unseen)} unseen classes, none both.")
    what = f"classes with training images that are tested as unseen: {len(both)} ({some(both)})."
    why = "A class with training images is not unseen; T1 and U come out too high."
    return Finding("seen-and-unseen", FAIL, what, why, "Move their training images out, or test them as seen.")


def _seen_tested(data: ZeroShotDataset) -> Finding:
    strange = np.setdiff1d(data.labels[data.test_seen_rows], data.seen)
    if not len(strange):
        return Finding("test-seen-classes", PASS, "every class tested as seen has training images.")
    what = f"classes tested as seen without training images: {len(strange)} ({some(strange)})."
    return Finding("test-seen-classes", FAIL, what, "S comes out too low.", "Move them to test_unseen.")


def _images_labelled(data: ZeroShotDataset) -> Finding:
    if not len(data.train_rows):
        return Finding("training-images", FAIL, "there are no training images.", "", "Check the split column or trainval_loc.")
    counts = np.unique(data.labels[data.train_rows], return_counts=True)[1]
    what = f"{len(data.train_rows)} training images, {counts.min()} to {counts.max()} a class."
    if counts.min() < 2:
        why = "A class with a single image cannot be validated on."
        return Finding("training-images", WARN, what, why, "Add images to the smallest classes.")
    return Finding("training-images", PASS, what)
