"""Checks of benchmark files, before a data set is built from them."""

import numpy as np

from sightunseen.data.doctor.finding import FAIL, PASS, WARN, Finding
from sightunseen.data.gbu import PARTS, GBUFiles


def check_files(files: GBUFiles) -> list[Finding]:
    """Check the files of a benchmark folder: sizes, labels and split indices.

    Parameters
    ----------
    files : GBUFiles
        Result of :func:`~sightunseen.data.gbu.read_gbu`.

    Returns
    -------
    list of Finding
        One finding per check.
    """
    return [_sizes(files), _labels_in_range(files), _indices_in_range(files)]


def _sizes(files: GBUFiles) -> Finding:
    n, m = len(files.features), len(files.labels)
    largest = max((int(files.splits[part].max()) for part in PARTS if len(files.splits.get(part, ()))), default=0)
    listed = sum(len(files.splits.get(part, ())) for part in PARTS)
    if n != m or largest > n:
        what = f"{n} feature columns, {m} labels, {listed} images in the splits with indices up to {largest}."
        why = "With files of different data sets, images get wrong labels."
        return Finding("sizes", FAIL, what, why, "Use feature and split files of the same data set and version.")
    unused = n - listed
    what = f"{n} images with {files.features.shape[1]} features; {listed} are in the splits."
    if unused > 0:
        return Finding("sizes", WARN, what, f"{unused} images are in no split.", "Check that no split is incomplete.")
    return Finding("sizes", PASS, what)


def _labels_in_range(files: GBUFiles) -> Finding:
    labels, n = np.asarray(files.labels), len(files.class_names)
    wrong = ~np.isfinite(labels) | (labels != np.round(labels))
    if wrong.any():
        what = f"{int(wrong.sum())} labels are not whole numbers."
        return Finding("labels-in-range", FAIL, what, "A label is a row of the class list.", "Write the labels again.")
    low, high = (int(labels.min()), int(labels.max())) if labels.size else (1, n)
    if low >= 1 and high <= n:
        return Finding("labels-in-range", PASS, f"labels run from {low} to {high}; there are {n} classes.")
    outside = int(((labels < 1) | (labels > n)).sum())
    what = f"{outside} labels lie outside 1 to {n}: they run from {low} to {high}."
    off_by_one = low == 0 and high == n - 1
    remedy = "They count from zero: add one to every label." if off_by_one else "Use the feature file of this data set."
    return Finding("labels-in-range", FAIL, what, "A label is a row of the class list, counted from one.", remedy)


def _indices_in_range(files: GBUFiles) -> Finding:
    n = len(files.labels)
    bad = {part: int(((rows < 1) | (rows > n)).sum()) for part, rows in files.splits.items() if part.endswith("_loc")}
    bad = {part: count for part, count in bad.items() if count}
    if not bad:
        return Finding("indices-in-range", PASS, f"all split indices lie within 1 to {n}.")
    what = "; ".join(f"{part}: {count} indices outside 1 to {n}" for part, count in bad.items()) + "."
    remedy = "If the indices count from zero, add one; else use the split file of this data set."
    return Finding("indices-in-range", FAIL, what, "They refer to no image.", remedy)
