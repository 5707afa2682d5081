"""Feature files, Parquet or ``.npz``, written batch by batch, with a description of the backbone."""

import json
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sightunseen.core.documents import STRICT, DocumentError, parse_document, validated
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.files import written_atomically
from sightunseen.core.memory import check_memory
from sightunseen.data.arrow_files import ARROW_ENDINGS, open_arrow_file
from sightunseen.data.opening import opened, size_of
from sightunseen.data.table_layouts import first_file
from sightunseen.features.backbones import Backbone
from sightunseen.features.extract import Batch

ENDINGS = (".parquet", ".npz")
DESCRIBED = (*ENDINGS, *ARROW_ENDINGS)  # formats that have room for the description of the backbone
KEY = "sightunseen.backbone"
ROWS = 4096  # minimum number of rows per row group


@dataclass(frozen=True)
class _Described:
    """What is stored of a backbone, see :meth:`~sightunseen.features.backbones.Backbone.describe`."""

    __pydantic_config__: ClassVar[Any] = STRICT

    name: str
    fingerprint: str
    size: int
    text_encoder: str | None = None


def write_features(
    path: Path,
    batches: Iterable[Batch],
    backbone: Backbone,
    labels: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
) -> int:
    """Write batches of features to a file.

    Parameters
    ----------
    path : Path
        File that ends in ``.parquet`` or ``.npz``.
    batches : iterable of Batch
        Result of :func:`~sightunseen.features.extract.extract`.
    backbone : Backbone
        The backbone of the features; its description is stored in the file.
    labels, splits : sequence of str, optional
        Label and split of every photo given to ``extract``, including those that could not be used.

    Returns
    -------
    int
        Number of photos written.

    Raises
    ------
    SettingsError
        If the path has another ending.
    DataError
        If no photo could be used; then no file is written.
    """
    check_ending(path)
    with written_atomically(path) as temporary:
        write = _write_parquet if path.suffix == ".parquet" else _write_npz
        columns = {"label": labels, "split": splits}
        rows = write(temporary, batches, backbone, {key: texts for key, texts in columns.items() if texts is not None})
        if not rows:
            raise DataError(f"none of the photos could be used; {path} is not written.")
    return rows


def check_ending(path: Path) -> None:
    """Raise ``SettingsError`` unless a path ends in ``.parquet`` or ``.npz``."""
    if path.suffix not in ENDINGS:
        raise SettingsError(f"{path} must end in {' or '.join(ENDINGS)}; got '{path.suffix}'.")


def backbone_of(path: str | Path) -> dict[str, Any] | None:
    """Read the description of the backbone from a feature file.

    Parameters
    ----------
    path : str or Path
        The file, or a folder of feature files, whose first file is read.

    Returns
    -------
    dict or None
        Name, fingerprint and size of the backbone, with the text encoder of a dual encoder; None if the file does not store
        them.

    Raises
    ------
    DataError
        If the file cannot be read.
    """
    file = first_file(Path(path))
    return None if file is None or file.suffix not in DESCRIBED else opened(file, lambda: _read_backbone(file))


def _read_backbone(path: Path) -> dict[str, Any] | None:
    stored = _member_of(path) if path.suffix == ".npz" else (open_arrow_file(path).schema.metadata or {}).get(KEY.encode())
    if stored is None:
        return None
    try:
        found = asdict(validated(_Described, parse_document(stored)))
        return {key: value for key, value in found.items() if value is not None}
    except DocumentError as error:
        raise DataError(f"{path}: the description of the backbone, '{KEY}', is damaged: {error}. Write it again.") from error


def _member_of(path: Path) -> bytes | None:
    """Description in a ``.npz``; None if there is none."""
    with zipfile.ZipFile(path) as archive:
        if f"{KEY}.npy" not in archive.namelist():
            return None
        check_memory(archive.getinfo(f"{KEY}.npy").file_size, path, size_of(path))
    with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
        return str(file[KEY]).encode()


Columns = dict[str, Sequence[str]]


def _write_parquet(path: Path, batches: Iterable[Batch], backbone: Backbone, columns: Columns) -> int:
    import pyarrow
    from pyarrow import parquet

    vectors = pyarrow.list_(pyarrow.float32(), backbone.size)
    fields = [("path", pyarrow.string()), *((name, pyarrow.string()) for name in columns), ("features", vectors)]
    schema = pyarrow.schema(fields, metadata={KEY: json.dumps(backbone.describe())})
    waiting: list[Batch] = []
    rows = 0

    def write() -> None:
        indices = np.concatenate([batch.rows for batch in waiting]).tolist()
        flat = pyarrow.array(np.concatenate([batch.features for batch in waiting]).ravel())
        table = {
            "path": [_name(path) for batch in waiting for path in batch.paths],
            **{name: [values[index] for index in indices] for name, values in columns.items()},
            "features": pyarrow.FixedSizeListArray.from_arrays(flat, backbone.size),
        }
        writer.write_table(pyarrow.table(table, schema=schema))
        waiting.clear()

    # A dictionary of the values would only slow down reading: hardly any feature is repeated.
    with parquet.ParquetWriter(str(path), schema, use_dictionary=["path", *columns]) as writer:
        for batch in batches:
            waiting.append(batch)
            rows += len(batch.paths)
            if sum(len(each.paths) for each in waiting) >= ROWS:
                write()
        if waiting:
            write()
    return rows


def _write_npz(path: Path, batches: Iterable[Batch], backbone: Backbone, columns: Columns) -> int:
    names: list[str] = []
    indices: list[int] = []
    with tempfile.TemporaryFile(dir=path.parent) as features:  # the header of an array needs its length, which is not known yet
        for batch in batches:
            features.write(batch.features.astype("<f4").tobytes())
            names += [_name(each) for each in batch.paths]
            indices += batch.rows.tolist()
        features.seek(0)
        with zipfile.ZipFile(path, "w") as archive:
            with archive.open("X.npy", "w", force_zip64=True) as file:
                header = {"descr": "<f4", "fortran_order": False, "shape": (len(names), backbone.size)}
                np.lib.format.write_array_header_2_0(file, header)
                while block := features.read(1 << 22):
                    file.write(block)
            given = {name: [values[index] for index in indices] for name, values in columns.items()}
            others = {"path": names, **given, KEY: json.dumps(backbone.describe())}
            for name, values in others.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.array(values, dtype=str), allow_pickle=False)
    return len(names)


def _name(path: Any) -> str:
    """A path as text; characters that cannot be encoded in UTF-8 become question marks."""
    return str(path).encode("utf-8", "replace").decode()
