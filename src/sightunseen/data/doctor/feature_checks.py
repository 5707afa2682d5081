"""Checks of the feature values, in a single pass."""

import copy
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.rows import Indices, Rows, block_rows
from sightunseen.data.doctor.finding import FAIL, PASS, WARN, Finding

THREADS = 2
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
    return [_finite(content, data), _empty_images(content, data), _constant_features(content, data), _duplicates(content, data)]


@dataclass(frozen=True)
class _Content:
    """Result of one pass over the features."""

    bad_rows: Indices  # rows with NaN or infinite features
    zero_rows: Indices
    constant_columns: int
    hashes: NDArray[np.uint64]  # one per image


def _scan(data: ZeroShotDataset) -> _Content:
    """Read all features once, in two threads that read a half each."""
    size = block_rows(data.features.shape)
    ends = np.linspace(0, -(-len(data.features) // size), THREADS + 1, dtype=int) * size
    halves = [range(first, min(last, len(data.features)), size) for first, last in pairwise(ends.tolist())]
    with ThreadPoolExecutor(THREADS) as pool:  # rows of files are read by one thread at a time
        found = [*pool.map(lambda starts: _scan_blocks(_reader(data.features), starts), (half for half in halves if half))]
    if not found:
        nothing = np.empty(0, dtype=np.intp)
        return _Content(nothing, nothing, 0, nothing.astype(np.uint64))
    bad, zero, hashes, low, high = zip(*found, strict=True)
    constant = int((np.fmin.reduce(low) == np.fmax.reduce(high)).sum())
    return _Content(np.concatenate(bad), np.concatenate(zero), constant, np.concatenate(hashes))


def _reader(features: Any) -> Any:
    """Features for one thread: files are opened again."""
    return copy.deepcopy(features) if isinstance(features, Rows) else features


def _scan_blocks(features: Any, starts: range) -> tuple[NDArray[Any], ...]:
    """Rows with NaN, rows of zeros, hashes of all rows, and the smallest and largest value of each feature."""
    bad, zero, hashes = [], [], []
    low = np.full(features.shape[1], np.inf)
    high = -low
    for start in starts:
        block = np.ascontiguousarray(features[start : min(start + starts.step, starts.stop)])
        with np.errstate(invalid="ignore", over="ignore"):
            sums = block.sum(axis=1, dtype=np.float64)  # NaN or infinite if a feature is
        bad.append(start + np.flatnonzero(~np.isfinite(sums)))
        balanced = np.flatnonzero(sums == 0)
        zero.append(start + balanced[~block[balanced].any(axis=1)])
        low, high = np.fmin(low, np.fmin.reduce(block)), np.fmax(high, np.fmax.reduce(block))
        hashes.append(np.fromiter(map(xxh3_64_intdigest, block), np.uint64, len(block)))
    return np.concatenate(bad), np.concatenate(zero), np.concatenate(hashes), low, high


def _named(data: ZeroShotDataset, row: int) -> str:
    """Name a row: its file and number there if the features are in files."""
    return data.features.where(row) if isinstance(data.features, Rows) else f"row {row}"


def _finite(content: _Content, data: ZeroShotDataset) -> Finding:
    if not len(content.bad_rows):
        return Finding("finite-features", PASS, "no feature is NaN or infinite.")
    first = _named(data, int(content.bad_rows[0]))
    what = f"images with NaN or infinite features: {len(content.bad_rows)} (first: {first})."
    return Finding("finite-features", FAIL, what, "A single one makes all weights NaN.", "Extract them again, or drop them.")


def _empty_images(content: _Content, data: ZeroShotDataset) -> Finding:
    if not len(content.zero_rows):
        return Finding("empty-images", PASS, "no image has all-zero features.")
    first = _named(data, int(content.zero_rows[0]))
    what = f"images with all-zero features: {len(content.zero_rows)} (first: {first})."
    return Finding("empty-images", WARN, what, "Their extraction probably failed.", "Extract them again.")


def _constant_features(content: _Content, data: ZeroShotDataset) -> Finding:
    size = data.features.shape[1]
    if not content.constant_columns:
        return Finding("constant-features", PASS, f"all {size} features vary.")
    what = f"{content.constant_columns} of {size} features are the same for every image."
    return Finding("constant-features", WARN, what, "They carry no information.", "Harmless; many suggest a faulty extraction.")


def _duplicates(content: _Content, data: ZeroShotDataset) -> Finding:
    test = np.concatenate([data.test_seen_rows, data.test_unseen_rows])
    test = test[~np.isin(test, data.train_rows)]  # an image in both splits is reported by split-overlap
    copies = test[np.isin(content.hashes[test], content.hashes[data.train_rows])]
    if not len(copies):
        return Finding("identical-images", PASS, "no test image has the features of a training image.")
    what = f"test images with exactly the features of a training image: {len(copies)} (first: {_named(data, int(copies[0]))})."
    why = "A copy of a training image is easy to classify, or has two labels."
    level = FAIL if len(copies) > TOLERATED_DUPLICATES * len(test) else WARN
    return Finding("identical-images", level, what, why, "Remove the copies from the training images.")
