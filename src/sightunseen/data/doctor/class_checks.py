"""Checks of the class table."""

import numpy as np

from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.data.doctor.finding import FAIL, PASS, WARN, Finding, some
from sightunseen.semantics.class_vectors import AttributeScaling, attribute_count

RARE = 0.05  # of all attribute values


def check_classes(data: ZeroShotDataset) -> list[Finding]:
    """Missing, broken and repeated vectors; units of attributes; classes without images; the order of the class list."""
    return [
        _class_vectors(data),
        _missing_attributes(data),
        _attribute_units(data),
        _distinct_vectors(data),
        _classes_without_images(data),
        _class_order(data),
    ]


def _class_vectors(data: ZeroShotDataset) -> Finding:
    present = np.unique(data.labels[np.concatenate([data.train_rows, data.test_seen_rows, data.test_unseen_rows])])
    missing = [label for label in present.tolist() if label not in data.classes]
    broken = data.classes.labels[~np.isfinite(data.classes.vectors).all(axis=1)].tolist()
    remedy = "Add or fill their vectors in the class table, or drop their images."
    if missing:
        what = f"classes with images but no semantic vector: {len(missing)} ({some(missing)})."
        return Finding("class-vectors", FAIL, what, "They can be neither learned from nor predicted.", remedy)
    if broken:
        what = f"classes with NaN or infinite values in their vectors: {len(broken)} ({some(broken)})."
        return Finding("class-vectors", FAIL, what, "A generator cannot read them.", remedy)
    size = data.classes.vectors.shape[1]
    what = f"all {len(present)} classes with images have a vector of {size} numbers ('{data.classes.use}')."
    return Finding("class-vectors", PASS, what)


def _missing_attributes(data: ZeroShotDataset) -> Finding:
    vectors = data.classes.vectors
    marked = int((vectors == -1).sum())
    # -1 means "not known" only where it is rare and all other values are nonnegative.
    if not marked or marked > RARE * vectors.size or (vectors[vectors != -1] < 0).any():
        return Finding("missing-attributes", PASS, "no attribute is marked as missing.")
    rows = np.flatnonzero((vectors == -1).any(axis=1))
    what = f"{marked} attribute values are -1, which marks missing ones, in {some(data.classes.labels[rows])}."
    return Finding(
        "missing-attributes", WARN, what, "They are read as numbers.", "Harmless when few; fill them if you know them."
    )


def _attribute_units(data: ZeroShotDataset) -> Finding:
    table, count = data.classes, attribute_count(data.classes)
    if AttributeScaling.learned(table).factor is None:
        return Finding(
            "attribute-units", PASS, "the columns of the class vectors are not in different units, as far as one can see."
        )
    known = table.vectors[np.isfinite(table.vectors).all(axis=1), :count]
    sizes = np.abs(known).max(axis=0)
    names = table.attribute_names or tuple(f"attribute {number + 1}" for number in range(count))
    large, small = int(sizes.argmax()), int(np.where(sizes > 0, sizes, np.inf).argmin())
    what = f"attributes are in different units: '{names[large]}' reaches {sizes[large]:g}, '{names[small]}' {sizes[small]:g}."
    why = "As they stand, the large ones would drown the small ones."
    remedy = "Methods scale each by its largest value; the class table stays in your units."
    return Finding("attribute-units", WARN, what, why, remedy)


def _distinct_vectors(data: ZeroShotDataset) -> Finding:
    vectors = data.classes.vectors
    zero = data.classes.labels[~vectors.any(axis=1)]
    if len(zero):
        what = f"classes with an all-zero vector: {len(zero)} ({some(zero)})."
        return Finding("distinct-vectors", FAIL, what, "It describes nothing.", "Describe these classes or drop them.")
    distinct = len(np.unique(vectors, axis=0))
    if distinct < len(vectors):
        what = f"{len(vectors)} classes share {distinct} different vectors."
        return Finding(
            "distinct-vectors", WARN, what, "Classes of one vector cannot be told apart.", "Describe what sets them apart."
        )
    return Finding("distinct-vectors", PASS, "every class has a vector of its own.")


def _classes_without_images(data: ZeroShotDataset) -> Finding:
    idle = np.setdiff1d(data.classes.labels, data.labels)
    if not len(idle) or not len(data.test_unseen_rows):
        return Finding("classes-without-images", PASS, f"{len(data.classes.labels)} classes in the table.")
    what = f"classes of the table without any image: {len(idle)} ({some(idle)})."
    return Finding(
        "classes-without-images", WARN, what, "They can be predicted but not tested.", "Drop them if that is not meant."
    )


def _class_order(data: ZeroShotDataset) -> Finding:
    listed, names = data.listed_classes, tuple(data.classes.labels.tolist())
    if listed is None:
        return Finding("class-order", PASS, "there is no allclasses.txt to compare the class names with.")
    if listed == names:
        return Finding("class-order", PASS, f"the {len(names)} class names stand in the order of allclasses.txt.")
    differing = sum(a != b for a, b in zip(listed, names, strict=False)) + abs(len(listed) - len(names))
    what = f"{differing} class names differ from allclasses.txt ({len(listed)} names there, {len(names)} in the split file)."
    same_names = sorted(listed) == sorted(names)
    why = "Labels are rows of the class list: in another order every label names another class."
    remedy = "Use the class list that came with the feature file." if same_names else "Use files of one data set."
    return Finding("class-order", FAIL, what, why, remedy)
