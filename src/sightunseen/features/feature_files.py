"""Features in files, written as they come: Parquet or ``.npz``, with the backbone that they are from."""

import json
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.files import written_atomically
from sightunseen.features.backbones import Backbone
from sightunseen.features.extract import Batch

ENDINGS = (".parquet", ".npz")
KEY = "sightunseen.backbone"
ROWS = 4096  # rows that go to the disk together


def write_features(
    path: Path,
    batches: Iterable[Batch],
    backbone: Backbone,
    labels: Sequence[str] | None = None,
    splits: Sequence[str] | None = None,
) -> int:
    """Write batches of features as they come; returns the number of photos.

    ``labels`` and ``splits`` are those of all photos that were given to be extracted; those of photos that could not be
    used are passed over. Nothing is written where there is no photo that could be.
    """
    check_ending(path)
    with written_atomically(path) as temporary:
        write = _write_parquet if path.suffix == ".parquet" else _write_npz
        rows = write(temporary, batches, backbone, {"label": labels, "split": splits})
        if not rows:
            raise DataError(f"none of the photos could be used; {path} is not written.")
    return rows


def check_ending(path: Path) -> None:
    """Refuse a file name whose format is not known, before any work is done."""
    if path.suffix not in ENDINGS:
        raise SettingsError(f"{path} must end in {' or '.join(ENDINGS)}; got '{path.suffix}'.")


def backbone_of(path: str | Path) -> dict[str, Any] | None:
    """The name, fingerprint and size of the backbone that a file's features are from; None where it does not say."""
    path = Path(path)
    if path.suffix not in ENDINGS:
        return None
    try:
        if path.suffix == ".parquet":
            from pyarrow import parquet

            said = (parquet.read_schema(path).metadata or {}).get(KEY.encode())
        else:
            with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                said = str(file[KEY]) if KEY in file.files else None
        return None if said is None else dict(json.loads(said))
    except Exception as error:  # each format's reader has its own exceptions
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {error}). Write it again.") from error


Columns = dict[str, Sequence[str] | None]


def _write_parquet(path: Path, batches: Iterable[Batch], backbone: Backbone, columns: Columns) -> int:
    import pyarrow
    from pyarrow import parquet

    given = {name: values for name, values in columns.items() if values is not None}
    vectors = pyarrow.list_(pyarrow.float32(), backbone.size)
    fields = [("path", pyarrow.string()), *((name, pyarrow.string()) for name in given), ("features", vectors)]
    schema = pyarrow.schema(fields, metadata={KEY: json.dumps(backbone.describe())})
    waiting: list[Batch] = []
    rows = 0

    def write() -> None:
        places = np.concatenate([batch.rows for batch in waiting]).tolist()
        flat = pyarrow.array(np.concatenate([batch.features for batch in waiting]).ravel())
        table = {
            "path": [_name(path) for batch in waiting for path in batch.paths],
            **{name: [values[place] for place in places] for name, values in given.items()},
            "features": pyarrow.FixedSizeListArray.from_arrays(flat, backbone.size),
        }
        writer.write_table(pyarrow.table(table, schema=schema))
        waiting.clear()

    with parquet.ParquetWriter(str(path), schema) as writer:
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
    places: list[int] = []
    with tempfile.TemporaryFile(dir=path.parent) as features:  # an array's length comes before it, and is not known yet
        for batch in batches:
            features.write(batch.features.astype("<f4").tobytes())
            names += [_name(each) for each in batch.paths]
            places += batch.rows.tolist()
        features.seek(0)
        with zipfile.ZipFile(path, "w") as archive:
            with archive.open("X.npy", "w", force_zip64=True) as file:
                header = {"descr": "<f4", "fortran_order": False, "shape": (len(names), backbone.size)}
                np.lib.format.write_array_header_2_0(file, header)
                while block := features.read(1 << 22):
                    file.write(block)
            given = {name: [values[place] for place in places] for name, values in columns.items() if values is not None}
            others = {"path": names, **given, KEY: json.dumps(backbone.describe())}
            for name, values in others.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, np.array(values, dtype=str), allow_pickle=False)
    return len(names)


def _name(path: Any) -> str:
    """A path as text; what cannot be written in UTF-8 becomes question marks."""
    return str(path).encode("utf-8", "replace").decode()
