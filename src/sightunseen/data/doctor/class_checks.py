"""Checks of the class table."""

from typing import Any

import numpy as np

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.data.doctor.finding import FAIL, PASS, WARN, Finding, some
from sightunseen.semantics.class_vectors import AttributeScaling, attribute_count, missing_values


def check_classes(data: ZeroShotDataset) -> list[Finding]:
    """Check the class table: missing, invalid and repeated vectors, units of attributes, unused classes and class order.

    Parameters
    ----------
    data : ZeroShotDataset
        The data set.

    Returns
    -------
    list of Finding
        One finding per check.
    """
    checks = (_class_vectors, _missing_attributes, _attribute_units, _distinct_vectors, _classes_without_images, _class_order)
    return [check(data) for check in checks]


def _class_vectors(data: ZeroShotDataset) -> Finding:
    present = np.unique(data.labels[np.concatenate([data.train_rows, data.test_seen_rows, data.test_unseen_rows])])
    missing = [label for label in present.tolist() if label not in data.classes]
    invalid = data.classes.labels[~np.isfinite(data.classes.vectors).all(axis=1)].tolist()
    remedy = "Add or fill their vectors in the class table, or drop their images."
    if missing:
        folded = {_folded(label): label for label in data.classes.labels.tolist()}
        alike = [(label, folded[_folded(label)]) for label in missing if _folded(label) in folded]
        if alike:
            label, other = alike[0]
            remedy = f"The table has '{other}' for '{label}': give a class the same name in both, case and spaces included."
        what = f"classes with images but no semantic vector: {len(missing)} ({some(missing)})."
        return Finding("class-vectors", FAIL, what, "They can be neither trained on nor predicted.", remedy)
    if invalid:
        what = f"classes with NaN or infinite values in their vectors: {len(invalid)} ({some(invalid)})."
        return Finding("class-vectors", FAIL, what, "No method can use them.", remedy)
    size = data.classes.vectors.shape[1]
    what = f"all {len(present)} classes with images have a vector of {size} numbers ('{data.classes.use}')."
    return Finding("class-vectors", PASS, what)


def _folded(label: Any) -> str:
    """Label without differences in case and surrounding spaces."""
    return str(label).strip().casefold()


def _missing_attributes(data: ZeroShotDataset) -> Finding:
    table = data.classes
    missing = missing_values(table.vectors[:, : attribute_count(table)])
    if not missing.any():
        return Finding("missing-attributes", PASS, "no attribute is marked as missing.")
    classes = table.labels[missing.any(axis=1)]
    what = f"{missing.sum()} attribute values are -1, which marks missing ones; classes: {len(classes)} ({some(classes)})."
    why = "Methods cannot use a missing value."
    remedy = "Imputed: methods use the mean over the classes with a known value. Fill them in if you can."
    return Finding("missing-attributes", WARN, what, why, remedy)


def _attribute_units(data: ZeroShotDataset) -> Finding:
    table, count = data.classes, attribute_count(data.classes)
    scaling = AttributeScaling.learned(table)
    if scaling.factor is None:
        return Finding("attribute-units", PASS, "the class vectors show no sign of different units.")
    known = scaling.imputed(table.vectors)[np.isfinite(table.vectors).all(axis=1), :count]
    sizes = np.abs(known).max(axis=0)
    names = table.attribute_names or tuple(f"attribute {number + 1}" for number in range(count))
    large, small = int(sizes.argmax()), int(np.where(sizes > 0, sizes, np.inf).argmin())
    what = f"attributes are in different units: '{names[large]}' reaches {sizes[large]:g}, '{names[small]}' {sizes[small]:g}."
    why = "Unscaled, the large ones would dominate the small ones."
    remedy = "None needed: methods divide each by its largest value; the class table keeps your units."
    return Finding("attribute-units", WARN, what, why, remedy)


def _distinct_vectors(data: ZeroShotDataset) -> Finding:
    vectors = AttributeScaling.learned(data.classes).imputed(data.classes.vectors)
    zero = data.classes.labels[~vectors.any(axis=1)]
    if len(zero):
        what = f"classes with an all-zero vector: {len(zero)} ({some(zero)})."
        return Finding("distinct-vectors", FAIL, what, "It carries no information.", "Describe these classes or drop them.")
    _, groups, counts = np.unique(vectors, axis=0, return_inverse=True, return_counts=True)
    if len(counts) < len(vectors):
        repeated = data.classes.labels[counts[groups.ravel()] > 1]
        what = f"{len(vectors)} classes share {len(counts)} different vectors ({some(repeated)})."
        return Finding("distinct-vectors", WARN, what, "They cannot be distinguished.", "Describe their differences.")
    return Finding("distinct-vectors", PASS, "every class has a vector of its own.")


def _classes_without_images(data: ZeroShotDataset) -> Finding:
    idle = np.setdiff1d(data.classes.labels, data.labels)
    if not len(idle) or not len(data.test_unseen_rows):
        return Finding("classes-without-images", PASS, f"{len(data.classes.labels)} classes in the table.")
    what = f"classes of the table without any image: {len(idle)} ({some(idle)})."
    return Finding("classes-without-images", WARN, what, "They cannot be tested.", "Drop them if that is not intended.")


def _class_order(data: ZeroShotDataset) -> Finding:
    listed, names = data.listed_classes, tuple(data.classes.labels.tolist())
    if listed is None:
        return Finding("class-order", PASS, "there is no allclasses.txt to compare the class names with.")
    if listed == names:
        return Finding("class-order", PASS, f"the {len(names)} class names are in the order of allclasses.txt.")
    differing = sum(a != b for a, b in zip(listed, names, strict=False)) + abs(len(listed) - len(names))
    what = f"{differing} class names differ from allclasses.txt ({len(listed)} names there, {len(names)} in the split file)."
    same_names = sorted(listed) == sorted(names)
    why = "Labels are rows of the class list: in another order, they stand for other classes."
    remedy = "Use the class list that came with the feature file." if same_names else "Use files of one data set."
    return Finding("class-order", FAIL, what, why, remedy)
