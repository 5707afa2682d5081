"""Checks of the feature values, in a single pass."""

import hashlib
from dataclasses import dataclass

import numpy as np

from sightunseen.core.dataset import Rows, ZeroShotDataset
from sightunseen.data.doctor.finding import FAIL, PASS, WARN, Finding

BLOCK = 4096  # rows read at a time
TOLERATED_DUPLICATES = 0.01  # fraction of the test images up to which copies of training images are only a warning


def check_features(data: ZeroShotDataset) -> list[Finding]:
    """Check the features: NaN, all-zero images, constant features, and copies of training images in the test set.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set.

    Returns
    -------
    list of Finding
        One finding per check.
    """
    content = _scan(data)
    return [_finite(content), _empty_images(content), _constant_features(content, data), _duplicates(content, data)]


@dataclass(frozen=True)
class _Content:
    """Result of one pass over the features."""

    bad_rows: Rows  # rows with NaN or infinite features
    zero_rows: Rows
    constant_columns: int
    digests: list[bytes]  # one per image


def _scan(data: ZeroShotDataset) -> _Content:
    bad, zero, digests = [], [], []
    low = np.full(data.features.shape[1], np.inf)
    high = -low
    for start in range(0, len(data.features), BLOCK):
        block = np.asarray(data.features[start : start + BLOCK])
        bad.append(start + np.flatnonzero(~np.isfinite(block).all(axis=1)))
        zero.append(start + np.flatnonzero(~block.any(axis=1)))
        low, high = np.fmin(low, np.fmin.reduce(block)), np.fmax(high, np.fmax.reduce(block))
        digests += [hashlib.blake2b(row, digest_size=12).digest() for row in np.ascontiguousarray(block)]
    empty = np.empty(0, dtype=np.intp)
    return _Content(np.concatenate([*bad, empty]), np.concatenate([*zero, empty]), int((low == high).sum()), digests)


def _finite(content: _Content) -> Finding:
    if not len(content.bad_rows):
        return Finding("finite-features", PASS, "no feature is NaN or infinite.")
    what = f"images with NaN or infinite features: {len(content.bad_rows)} (first: row {content.bad_rows[0]})."
    return Finding("finite-features", FAIL, what, "A single one makes all weights NaN.", "Extract them again, or drop them.")


def _empty_images(content: _Content) -> Finding:
    if not len(content.zero_rows):
        return Finding("empty-images", PASS, "no image has all-zero features.")
    what = f"images with all-zero features: {len(content.zero_rows)} (first: row {content.zero_rows[0]})."
    return Finding("empty-images", WARN, what, "Their extraction probably failed.", "Extract them again.")


def _constant_features(content: _Content, data: ZeroShotDataset) -> Finding:
    size = data.features.shape[1]
    if not content.constant_columns:
        return Finding("constant-features", PASS, f"all {size} features vary.")
    what = f"{content.constant_columns} of {size} features are the same for every image."
    return Finding("constant-features", WARN, what, "They carry no information.", "Harmless; many suggest a faulty extraction.")


def _duplicates(content: _Content, data: ZeroShotDataset) -> Finding:
    train = {content.digests[row] for row in data.train_rows}
    test = np.concatenate([data.test_seen_rows, data.test_unseen_rows])
    training = set(data.train_rows.tolist())  # an image in both splits is reported by split-overlap
    copies = [int(row) for row in test if content.digests[row] in train and int(row) not in training]
    if not copies:
        return Finding("identical-images", PASS, "no test image has the features of a training image.")
    what = f"test images with exactly the features of a training image: {len(copies)} (first: row {copies[0]})."
    why = "A copy of a training image is easy to classify, or has two labels."
    level = FAIL if len(copies) > TOLERATED_DUPLICATES * len(test) else WARN
    return Finding("identical-images", level, what, why, "Remove the copies from the training images.")
