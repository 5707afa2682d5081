"""Benchmark folders ``xlsa17/data/<DATASET>`` (Xian et al., "Zero-shot learning: the good, the bad and the ugly")."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.conversion import as_indices, as_labels, as_matrix
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.core.limits import PATH_LENGTH
from sightunseen.core.rows import Indices
from sightunseen.data.content_cache import cached_arrays
from sightunseen.data.matfiles import read_mat
from sightunseen.data.opening import read_lines
from sightunseen.semantics.class_vectors import join_vectors

FEATURES, SPLITS, SEMANTICS = "res101", "att_splits", "att"  # names of the published files and vectors
PARTS = ("trainval_loc", "test_seen_loc", "test_unseen_loc")
VECTORS = ("att", "original_att")  # class vectors of a split file
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class GBUFiles:
    """Content of a benchmark folder as stored, before validation. Indices count from one.

    Parameters
    ----------
    folder : Path
        The folder.
    features_name, splits_name : str
        Names of the feature and split files, without ``.mat``.
    semantics : str
        Name of the class vectors to use, a key of ``vectors``.
    features : ndarray of shape (n, d)
        Features of the images.
    labels : ndarray of shape (m,)
        Indices of the class list, from one.
    splits : dict of str to ndarray
        Arrays of the split file.
    vectors : dict of str to ndarray of shape (c, a)
        Class vectors by name.
    class_names : tuple of str
        Labels in the order of the class list.
    listed_classes : tuple of str or None
        Lines of ``allclasses.txt``.
    sources : dict of str to str
        SHA-256 of each file that was read.
    image_names : ndarray of shape (n,), optional
        Paths of the images.
    """

    folder: Path
    features_name: str
    splits_name: str
    semantics: str
    features: NDArray[Any]
    labels: NDArray[Any]
    splits: Arrays
    vectors: Mapping[str, NDArray[np.float64]]
    class_names: tuple[str, ...]
    listed_classes: tuple[str, ...] | None
    sources: Mapping[str, str]
    image_names: NDArray[Any] | None = None


def load_gbu(folder: str | Path, features: str = FEATURES, splits: str = SPLITS, semantics: str = SEMANTICS) -> ZeroShotDataset:
    """Load a benchmark folder.

    Parameters
    ----------
    folder : str or Path
        The folder, such as ``xlsa17/data/CUB``.
    features : str, default="res101"
        Name of the feature file, without ``.mat``.
    splits : str, default="att_splits"
        Name of the split file, without ``.mat``.
    semantics : str, default="att"
        Class vectors to use: ``att``, ``original_att``, or ``FILE:KEY`` for those of another file, such as
        ``sent_splits:att``. Several kinds are concatenated with ``+`` and weighted with ``*``: in
        ``att*0.5+sent_splits:att`` the attributes have half the spread of the sentence vectors.

    Returns
    -------
    ZeroShotDataset
        The data set, with features in single precision.

    Raises
    ------
    DataError
        If a file is missing, damaged, or inconsistent with the others.

    Examples
    --------
    >>> data = load_gbu("xlsa17/data/CUB", semantics="sent_splits:att")  # doctest: +SKIP
    >>> len(data.seen), len(data.unseen)  # doctest: +SKIP
    (150, 50)
    """
    return as_dataset(read_gbu(folder, features, splits, semantics))


def is_gbu_folder(folder: Path) -> bool:
    """Return whether a folder holds a split file of the benchmark."""
    return folder.is_dir() and any(folder.glob("*splits*.mat"))


def read_gbu(folder: str | Path, features: str = FEATURES, splits: str = SPLITS, semantics: str = SEMANTICS) -> GBUFiles:
    """Read the files of a benchmark folder without validating their content.

    Parameters
    ----------
    folder, features, splits, semantics
        See :func:`load_gbu`.

    Returns
    -------
    GBUFiles
        The content of the files.

    Raises
    ------
    DataError
        If a file, or the class vectors that ``semantics`` names, is missing.
    """
    folder, features, splits = Path(folder), features.removesuffix(".mat"), splits.removesuffix(".mat")
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}. Download xlsa17.zip and give the path to one of xlsa17/data/*.")
    split_path = _existing(folder, splits, "split", "*splits*.mat")
    feature_path = _existing(folder, features, "feature", "*.mat", leave_out="splits")
    split_arrays, split_print = cached_arrays(split_path, split_file)
    images, feature_print = cached_arrays(feature_path, feature_file)
    names = _class_names(folder, split_arrays)
    sources = {feature_path.name: feature_print, split_path.name: split_print}
    vectors = {key: split_arrays[key] for key in VECTORS if key in split_arrays}
    parts = _parts_of(semantics)
    for part, _ in parts:
        if ":" in part:
            other, key = part.split(":", 1)
            other = other.removesuffix(".mat")
            path = _existing(folder, other, "semantics", "*splits*.mat")
            arrays, sources[path.name] = cached_arrays(path, split_file)
            vectors[part] = _in_order_of(names, arrays, key, path)
        if part not in vectors:
            raise DataError(
                f"{split_path.name} has no class vectors called '{quoted(part)}'; it has {', '.join(vectors) or 'none'}. "
                "Choose one of these, FILE:KEY for another file (such as sent_splits:att), or several with + between them."
            )
    if semantics not in vectors:
        vectors[semantics] = join_vectors([(vectors[part], weight) for part, weight in parts])
    return GBUFiles(
        folder,
        features,
        splits,
        semantics,
        splits=split_arrays,
        vectors=vectors,
        class_names=names,
        listed_classes=_lines(folder / "allclasses.txt"),
        sources=sources,
        **images,
    )


def as_dataset(files: GBUFiles) -> ZeroShotDataset:
    """Build the data set from the files of a benchmark folder.

    Parameters
    ----------
    files : GBUFiles
        Result of :func:`read_gbu`.

    Returns
    -------
    ZeroShotDataset
        The data set.

    Raises
    ------
    DataError
        If labels or split indices are out of range.
    """
    labels = as_indices(files.labels, f"{files.features_name}.mat: labels, rows of the class list from one,")
    n_classes = len(files.class_names)
    if labels.size and not (labels.min() >= 1 and labels.max() <= n_classes):
        raise DataError(
            f"{files.features_name}.mat: labels must run from 1 to {n_classes} (rows of the class list); found {labels.min()} "
            f"to {labels.max()}. If they count from zero, add one; if the file belongs to another data set, replace it."
        )
    rows = {part: _rows(files, part) for part in PARTS}
    listed = {part: _rows(files, part) if part in files.splits else None for part in ("train_loc", "val_loc")}
    names = np.array(files.class_names)
    classes = ClassTable(names, files.vectors, _attribute_names(files), use=files.semantics)

    def classes_of(images: Indices) -> Labels:
        return np.unique(names[np.unique(labels[images]) - 1])  # far fewer texts to compare than images

    return ZeroShotDataset(
        files.folder.name,
        files.features,
        names[labels - 1],
        classes,
        train_rows=rows["trainval_loc"],
        test_seen_rows=rows["test_seen_loc"],
        test_unseen_rows=rows["test_unseen_loc"],
        listed_train=listed["train_loc"],
        listed_validation=listed["val_loc"],
        validation=_validation_pairs(files, classes_of, listed, classes_of(rows["trainval_loc"])),
        image_names=files.image_names,
        sources=files.sources,
        options={"features": files.features_name, "splits": files.splits_name, "semantics": files.semantics},
        listed_classes=files.listed_classes,
    )


def feature_file(path: Path) -> dict[str, NDArray[Any]]:
    """Read a feature file.

    Parameters
    ----------
    path : Path
        The ``.mat`` file.

    Returns
    -------
    dict of str to ndarray
        ``features`` of shape (n, d) in single precision, ``labels`` of shape (n,) and, if present, ``image_names`` of
        shape (n,).

    Raises
    ------
    DataError
        If features or labels are missing or not numeric, or names of images are not texts.
    """
    content = read_mat(path, ("features", "labels"), ("image_files",))
    features, labels = as_matrix(content["features"].T, f"{path}: 'features'"), content["labels"].ravel()
    if labels.dtype.kind not in "iuf":
        raise DataError(f"{path}: 'labels' must be numbers; got {labels.dtype}. Write the file again.")
    # Images are columns in the files and rows everywhere else.
    with np.errstate(invalid="ignore"):  # of signalling NaN
        arrays = {"features": features.astype(np.float32), "labels": labels}
    if "image_files" in content:
        arrays["image_names"] = as_labels(content["image_files"].ravel(), f"{path}: 'image_files'", PATH_LENGTH)
    return arrays


def split_file(path: Path) -> dict[str, NDArray[Any]]:
    """Read a split file.

    Parameters
    ----------
    path : Path
        The ``.mat`` file.

    Returns
    -------
    dict of str to ndarray
        Indices ``*_loc``, which count from one, class vectors ``att`` and ``original_att`` of shape (c, a) and, if
        present, ``class_names`` of shape (c,).

    Raises
    ------
    DataError
        If the file has no class vectors, or if indices or class vectors are not numeric.
    """
    content = read_mat(path, ("att",), ("original_att", "allclasses_names", "*_loc"))
    arrays: dict[str, NDArray[Any]] = {}
    for key, value in content.items():
        if key.endswith("_loc"):
            arrays[key] = as_indices(value, f"{path}: '{key}'")
        elif key in VECTORS:
            arrays[key] = as_matrix(value.T, f"{path}: '{key}'").astype(np.float64)
        else:
            arrays["class_names"] = as_labels(value.ravel(), f"{path}: '{key}'")
    return arrays


def _existing(folder: Path, name: str, role: str, pattern: str, leave_out: str = "\0") -> Path:
    path = folder / f"{name}.mat"
    if path.is_file():
        return path
    there = sorted(file.stem for file in folder.glob(pattern) if leave_out not in file.name)
    if there:
        remedy = f"It has {', '.join(there)}: choose with --{role.removesuffix('s')}s."
    else:
        remedy = "It has none of that kind: use the one in xlsa17.zip, or extract your own features."
    raise DataError(f"the {role} file {path.name} is missing in {folder}. {remedy}")


def _parts_of(semantics: str) -> list[tuple[str, float]]:
    """Parse ``att*0.5+sent_splits:att`` into the names of class vectors and their weights."""
    parts = []
    for text in semantics.split("+"):
        name, sign, weight = text.strip().partition("*")
        try:
            parts.append((name.strip(), float(weight) if sign else 1.0))
        except ValueError as error:
            raise DataError(
                f"'{quoted(text)}' in --semantics {quoted(semantics)} must be NAME or NAME*WEIGHT, such as att*0.5."
            ) from error
    return parts


def _rows(files: GBUFiles, part: str) -> Indices:
    if part not in files.splits:
        raise DataError(f"{files.splits_name}.mat has no '{part}'; it has {', '.join(sorted(files.splits))}.")
    rows = np.asarray(files.splits[part], dtype=np.intp) - 1  # the .mat indices count from one
    if rows.size and not (rows.min() >= 0 and rows.max() < len(files.labels)):
        raise DataError(
            f"{files.splits_name}.mat: {part} must hold indices from 1 to {len(files.labels)}; found {rows.min() + 1} to "
            f"{rows.max() + 1}. The split file and {files.features_name}.mat belong to different data sets."
        )
    return rows


def _class_names(folder: Path, splits: Arrays) -> tuple[str, ...]:
    if "class_names" in splits:
        return tuple(str(name) for name in splits["class_names"])
    listed = _lines(folder / "allclasses.txt")
    n_classes = len(splits["att"])
    if listed is not None and len(listed) == n_classes:
        return listed
    return tuple(f"class {number}" for number in range(1, n_classes + 1))


def _in_order_of(names: tuple[str, ...], arrays: Arrays, key: str, path: Path) -> NDArray[np.float64]:
    """Class vectors of another file in the order of ``names``: matched by label if the file has labels."""
    if key not in arrays or key not in VECTORS:
        raise DataError(
            f"{path} has no class vectors called '{quoted(key)}'; it has att{', original_att' * ('original_att' in arrays)}."
        )
    listed = arrays.get("class_names", names)
    if len(listed) != len(arrays[key]):
        raise DataError(f"{path} has {len(arrays[key])} vectors for {len(listed)} classes. Use a file of this data set.")
    if "class_names" not in arrays:
        return np.asarray(arrays[key])
    row = {str(name): k for k, name in enumerate(arrays["class_names"])}
    missing = [name for name in names if name not in row]
    if missing:
        raise DataError(
            f"{path} has no vector for {len(missing)} classes (first: '{missing[0]}'). Use a file of this data set."
        )
    return np.asarray(arrays[key][[row[name] for name in names]])


def _attribute_names(files: GBUFiles) -> dict[str, list[str]]:
    lines = _lines(files.folder / "attributes.txt") or _lines(files.folder / "predicates.txt") or ()
    names = [re.sub(r"^\s*\d+\s+", "", line) for line in lines]  # the lines are numbered: "1 has_bill_shape::dagger"
    fitting = {kind for kind, vectors in files.vectors.items() if vectors.shape[1] == len(names)}
    return {kind: names for kind in VECTORS if kind in fitting}


def _validation_pairs(
    files: GBUFiles, classes_of: Callable[[Indices], Labels], listed: Mapping[str, Indices | None], seen: Labels
) -> tuple[tuple[Labels, Labels], ...]:
    """Pairs of training and validation classes, from ``train_loc``/``val_loc`` and from the class lists 1 to 3."""
    pairs = []
    if listed["train_loc"] is not None and listed["val_loc"] is not None:
        pairs.append((classes_of(listed["train_loc"]), classes_of(listed["val_loc"])))
    for k in (1, 2, 3):
        train, held = _lines(files.folder / f"trainclasses{k}.txt"), _lines(files.folder / f"valclasses{k}.txt")
        if train and held:
            pairs.append((np.unique(train), np.unique(held)))
    found: dict[tuple[str, ...], tuple[Labels, Labels]] = {}
    for train_classes, held_classes in pairs:
        usable = np.isin(train_classes, seen).all() and np.isin(held_classes, seen).all()
        if usable and not np.intersect1d(train_classes, held_classes).size:
            found.setdefault(tuple(held_classes.tolist()), (train_classes, held_classes))
    return tuple(found.values())


def _lines(path: Path) -> tuple[str, ...] | None:
    """Lines of a text file; None if it is missing or empty."""
    return read_lines(path) if path.is_file() and path.stat().st_size else None
