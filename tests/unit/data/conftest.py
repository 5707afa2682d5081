"""A small, complete, synthetic benchmark folder that tests can modify."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.io import savemat

# Like the real files: not sorted, numbered, with a plus sign; the umlaut tests the text encodings.
NAMES = ("005.Owl", "002.Auk", "009.Wren+tit", "001.Crow", "004.Gull", "007.Kite", "003.Würger", "008.Swift")
TRAIN_CLASSES = ("001.Crow", "005.Owl", "007.Kite", "009.Wren+tit")
VALIDATION_CLASSES = ("002.Auk", "004.Gull")
UNSEEN_CLASSES = ("003.Würger", "008.Swift")
IMAGES_PER_CLASS = 6
V7_3_HEADER = b"MATLAB 7.3 MAT-file, Platform: GLNXA64 HDF5 schema 1.00 .".ljust(124) + b"\x00\x02IM"

Variables = dict[str, NDArray[Any]]


@dataclass
class FakeBenchmark:
    """Content of a benchmark folder as MATLAB stores it: images and classes are columns, indices count from one.

    ``X``, ``labels``, ``vectors`` and ``parts`` are the expected result: rows, names, and indices from zero.
    """

    X: NDArray[np.float32]
    labels: list[str]
    vectors: dict[str, NDArray[np.float64]]
    parts: dict[str, list[int]]
    mats: dict[str, Variables]
    texts: dict[str, list[str]]
    v7_3: set[str] = field(default_factory=set)  # files to write as HDF5

    @property
    def features(self) -> Variables:
        return self.mats["res101"]

    @property
    def splits(self) -> Variables:
        return self.mats["att_splits"]

    def write(self, folder: Path) -> Path:
        folder.mkdir(exist_ok=True)
        for name, variables in self.mats.items():
            write = write_v7_3 if name in self.v7_3 else savemat
            write(folder / f"{name}.mat", variables)
        for name, lines in self.texts.items():
            (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return folder


@pytest.fixture
def birds() -> FakeBenchmark:
    """A valid benchmark."""
    rng = np.random.default_rng(7)
    n = len(NAMES) * IMAGES_PER_CLASS
    y = rng.permutation(np.repeat(np.arange(len(NAMES)), IMAGES_PER_CLASS))
    labels = [NAMES[k] for k in y]
    X = rng.random((n, 5)).astype(np.float32)
    original = rng.integers(1, 99, (len(NAMES), 4)).astype(float)
    vectors = {"att": original / np.linalg.norm(original, axis=1, keepdims=True), "original_att": original}
    parts: dict[str, list[int]] = {"trainval": [], "test_seen": [], "test_unseen": [], "train": [], "val": []}
    for name in NAMES:
        images = [row for row in range(n) if labels[row] == name]
        if name in UNSEEN_CLASSES:
            parts["test_unseen"] += images
            continue
        parts["test_seen"] += images[:2]
        parts["trainval"] += images[2:]
        parts["train" if name in TRAIN_CLASSES else "val"] += images[2:]
    mats = {
        "res101": {
            "features": X.T,
            "labels": (y + 1.0)[:, None],
            "image_files": cells(f"{label}/{row}.jpg" for row, label in enumerate(labels)),
        },
        "att_splits": {
            **{name: array.T for name, array in vectors.items()},
            **{f"{part}_loc": column_of_indices(rows) for part, rows in parts.items()},
            "allclasses_names": cells(NAMES),
        },
    }
    texts = {
        "allclasses": list(NAMES),
        "attributes": ["1 has_bill::long", "2 has_wing::broad", "3 eats::fish", "4 is::loud"],
        "trainclasses1": list(TRAIN_CLASSES),
        "valclasses1": list(VALIDATION_CLASSES),
        "trainclasses2": ["002.Auk", "004.Gull", "005.Owl", "007.Kite"],
        "valclasses2": ["009.Wren+tit", "001.Crow"],
    }
    return FakeBenchmark(X, labels, vectors, parts, mats, texts)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("SIGHTUNSEEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def indices() -> Callable[[list[int]], NDArray[np.uint16]]:
    """Converts rows to the indices of a split file."""
    return column_of_indices


@pytest.fixture
def cell_array() -> Callable[..., NDArray[Any]]:
    """Converts strings to a cell array."""
    return cells


def column_of_indices(rows: list[int]) -> NDArray[np.uint16]:
    return np.array(rows, dtype=np.uint16)[:, None] + np.uint16(1)


def cells(texts: Any) -> NDArray[Any]:
    return np.array(list(texts), dtype=object)[:, None]


def write_v7_3(path: Path, variables: Variables) -> None:
    """Write HDF5 as MATLAB does: after a 512-byte header, arrays transposed, strings as references to UTF-16."""
    with h5py.File(path, "w", userblock_size=512) as file:
        references = file.create_group("#refs#")
        for name, value in variables.items():
            if value.dtype == object:
                content = np.empty(value.T.shape, dtype=h5py.ref_dtype)
                for index, text in np.ndenumerate(value.T):
                    units = np.frombuffer(text.encode("utf-16-le"), dtype=np.uint16)
                    content[index] = references.create_dataset(f"{name}{index}", data=units[:, None]).ref
                node = file.create_dataset(name, data=content, dtype=h5py.ref_dtype)
                node.attrs["MATLAB_class"] = np.bytes_("cell")
            else:
                node = file.create_dataset(name, data=value.T, compression="gzip")
                node.attrs["MATLAB_class"] = np.bytes_("single" if value.dtype == np.float32 else value.dtype.name)
    with open(path, "r+b") as raw:
        raw.write(V7_3_HEADER)
