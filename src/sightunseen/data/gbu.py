"""The benchmark's folder (Xian et al., "The good, the bad and the ugly"; ``xlsa17/data/<DATASET>``)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.dataset import Rows, ZeroShotDataset
from sightunseen.core.errors import DataError
from sightunseen.data.content_cache import cached_arrays
from sightunseen.data.matfiles import read_mat
from sightunseen.semantics.class_vectors import join_vectors

FEATURES, SPLITS, SEMANTICS = "res101", "att_splits", "att"  # as the benchmark calls its own
PARTS = ("trainval_loc", "test_seen_loc", "test_unseen_loc")
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class GBUFiles:
    """The content of the files as it is, before anything is taken for granted. Indices count from one."""

    folder: Path
    features_name: str
    splits_name: str
    semantics: str
    features: NDArray[Any]  # (n, d)
    labels: NDArray[Any]  # (m,) rows of the class list, from one
    image_names: NDArray[Any] | None
    splits: Arrays
    vectors: Mapping[str, NDArray[np.float64]]  # semantics' name -> (c, a)
    class_names: tuple[str, ...]
    listed_classes: tuple[str, ...] | None
    sources: Mapping[str, str]


def load_gbu(folder: str | Path, features: str = FEATURES, splits: str = SPLITS, semantics: str = SEMANTICS) -> ZeroShotDataset:
    """Load a benchmark folder.

    Parameters
    ----------
    folder : such as ``xlsa17/data/CUB``.
    features : the feature file's name, without ``.mat``.
    splits : the split file's name, without ``.mat``.
    semantics : ``att``, ``original_att``, or ``FILE:KEY`` for the class vectors in another file, such as ``sent_splits:att``;
        several side by side as in ``att*0.5+sent_splits:att``, where attributes vary half as much as sentences.
    """
    return as_dataset(read_gbu(folder, features, splits, semantics))


def is_gbu_folder(folder: Path) -> bool:
    """Whether a folder looks like the benchmark's."""
    return folder.is_dir() and any(folder.glob("*splits*.mat"))


def read_gbu(folder: str | Path, features: str = FEATURES, splits: str = SPLITS, semantics: str = SEMANTICS) -> GBUFiles:
    """Read the files without judging them; what is missing is said."""
    folder, features, splits = Path(folder), features.removesuffix(".mat"), splits.removesuffix(".mat")
    if not folder.is_dir():
        raise DataError(f"there is no folder {folder}. Download xlsa17.zip and give the path to one of xlsa17/data/*.")
    split_path = _existing(folder, splits, "split", "*splits*.mat")
    feature_path = _existing(folder, features, "feature", "*.mat", leave_out="splits")
    split_arrays, split_print = cached_arrays(split_path, split_file)
    feature_arrays, feature_print = cached_arrays(feature_path, feature_file)
    names = _class_names(folder, split_arrays)
    sources = {feature_path.name: feature_print, split_path.name: split_print}
    vectors = {key: split_arrays[key] for key in ("att", "original_att") if key in split_arrays}
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
                f"{split_path.name} has no class vectors called '{part}'; it has {', '.join(vectors) or 'none'}. "
                "Choose one of these, FILE:KEY for another file (such as sent_splits:att), or several with + between them."
            )
    if semantics not in vectors:
        vectors[semantics] = join_vectors([(vectors[part], weight) for part, weight in parts])
    return GBUFiles(
        folder,
        features,
        splits,
        semantics,
        feature_arrays["features"],
        feature_arrays["labels"],
        feature_arrays.get("image_names"),
        split_arrays,
        vectors,
        names,
        _lines(folder / "allclasses.txt"),
        sources,
    )


def as_dataset(files: GBUFiles) -> ZeroShotDataset:
    """The data set that the files describe; content that cannot be one is an error."""
    given = np.asarray(files.labels)
    if not (np.isfinite(given).all() and (given == np.round(given)).all()):
        raise DataError(f"{files.features_name}.mat: labels must be whole numbers, rows of the class list from one.")
    labels = given.astype(np.int64)
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
    label_names = names[labels - 1]
    train = np.unique(label_names[rows["trainval_loc"]])
    return ZeroShotDataset(
        files.folder.name,
        files.features,
        label_names,
        classes,
        train_rows=rows["trainval_loc"],
        test_seen_rows=rows["test_seen_loc"],
        test_unseen_rows=rows["test_unseen_loc"],
        listed_train=listed["train_loc"],
        listed_validation=listed["val_loc"],
        validation=_validation_pairs(files, label_names, listed, train),
        image_names=files.image_names,
        sources=files.sources,
        options={"features": files.features_name, "splits": files.splits_name, "semantics": files.semantics},
        listed_classes=files.listed_classes,
    )


def feature_file(path: Path) -> dict[str, NDArray[Any]]:
    """A feature file as arrays: features (n, d) in single precision, labels (n,), image names (n,) where there are any."""
    content = read_mat(path)
    for key in ("features", "labels"):
        if key not in content:
            raise DataError(f"{path} has no '{key}'; it has {', '.join(content) or 'nothing'}. Is it the feature file?")
        if not np.issubdtype(content[key].dtype, np.number):
            raise DataError(f"{path}: '{key}' must be numbers; got {content[key].dtype}. Write the file again.")
    # Images are columns in the files, rows everywhere else.
    arrays = {"features": content["features"].T.astype(np.float32), "labels": content["labels"].ravel()}
    if "image_files" in content:
        arrays["image_names"] = content["image_files"].ravel()
    return arrays


def split_file(path: Path) -> dict[str, NDArray[Any]]:
    """A split file as arrays: indices (n,) as they are, class vectors (c, a), class names (c,) where there are any."""
    content = read_mat(path)
    if "att" not in content:
        raise DataError(f"{path} has no 'att'; it has {', '.join(content) or 'nothing'}. Is it a split file?")
    arrays = {key: value.ravel().astype(np.int64) for key, value in content.items() if key.endswith("_loc")}
    arrays |= {key: content[key].T.astype(np.float64) for key in ("att", "original_att") if key in content}
    if "allclasses_names" in content:
        arrays["class_names"] = content["allclasses_names"].ravel()
    return arrays


def _existing(folder: Path, name: str, role: str, pattern: str, leave_out: str = "\0") -> Path:
    path = folder / f"{name}.mat"
    if path.is_file():
        return path
    there = sorted(file.stem for file in folder.glob(pattern) if leave_out not in file.name)
    if there:
        option = {"feature": "--features", "split": "--splits"}.get(role, f"--{role}")
        remedy = f"It has {', '.join(there)}: choose with {option}."
    else:
        remedy = "It has none of that kind: it comes with xlsa17.zip, or from your own extraction."
    raise DataError(f"the {role} file {path.name} is missing in {folder}. {remedy}")


def _parts_of(semantics: str) -> list[tuple[str, float]]:
    """The kinds of class vectors asked for, each with its weight: ``att*0.5+sent_splits:att``."""
    parts = []
    for text in semantics.split("+"):
        name, sign, weight = text.strip().partition("*")
        try:
            parts.append((name.strip(), float(weight) if sign else 1.0))
        except ValueError as error:
            raise DataError(f"'{text}' in --semantics {semantics} must be NAME or NAME*WEIGHT, such as att*0.5.") from error
    return parts


def _rows(files: GBUFiles, part: str) -> Rows:
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
    """Class vectors of another file in the order of ``names``: by label where it has labels."""
    if key not in arrays:
        raise DataError(
            f"{path} has no class vectors called '{key}'; it has att{', original_att' * ('original_att' in arrays)}."
        )
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
    for file in ("attributes.txt", "predicates.txt"):
        lines = _lines(files.folder / file)
        if lines is None:
            continue
        # The lines are numbered: "1 has_bill_shape::dagger".
        names = [re.sub(r"^\s*\d+\s+", "", line) for line in lines]
        return {
            kind: names
            for kind in ("att", "original_att")
            if kind in files.vectors and files.vectors[kind].shape[1] == len(names)
        }
    return {}


def _validation_pairs(
    files: GBUFiles, labels: Labels, listed: Mapping[str, Rows | None], seen: Labels
) -> tuple[tuple[Labels, Labels], ...]:
    """Pairs of training and validation classes: of ``train_loc``/``val_loc`` first, then of the class lists 1 to 3."""
    pairs = []
    if listed["train_loc"] is not None and listed["val_loc"] is not None:
        pairs.append((np.unique(labels[listed["train_loc"]]), np.unique(labels[listed["val_loc"]])))
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
    if not path.is_file():
        return None
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} must be text in UTF-8: {error}. Save it again as UTF-8.") from error
    return tuple(line.strip() for line in text.splitlines() if line.strip())
