"""Writers of tables in the layouts that other tools use."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import feather, parquet

Matrix = NDArray[Any]


def fixed_lists(X: Matrix) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(X).ravel()), X.shape[1])


def lists(X: Matrix) -> pa.Array:
    return pa.ListArray.from_arrays(np.arange(0, X.size + 1, X.shape[1], dtype=np.int32), pa.array(X.ravel()))


def one_column_each(X: Matrix) -> dict[str, Any]:
    return {f"f{k}": X[:, k] for k in range(X.shape[1])}


def write_stream(path: Path, table: pa.Table, rows: int = 100) -> Path:
    """Write the stream format of Arrow, in batches of ``rows``."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return path


def write_hugging_face(folder: Path, parts: list[dict[str, Any]], features: dict[str, Any] | None = None) -> Path:
    """Write what ``Dataset.save_to_disk`` of Hugging Face writes."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"data-{k:05}-of-{len(parts):05}.arrow" for k in range(len(parts))]
    for name, columns in zip(names, parts, strict=True):
        write_stream(folder / name, pa.table(columns))
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "0", "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features or {}}))
    return folder


WRITERS: dict[str, Callable[[Path, Matrix], Path]] = {}


def writer(function: Callable[[Path, Matrix], Path]) -> Callable[[Path, Matrix], Path]:
    WRITERS[function.__name__] = function
    return function


@writer
def parquet_lists(folder: Path, X: Matrix) -> Path:
    parquet.write_table(pa.table({"features": lists(X)}), folder / "t.parquet", row_group_size=300)
    return folder / "t.parquet"


@writer
def parquet_fixed_lists(folder: Path, X: Matrix) -> Path:
    parquet.write_table(pa.table({"embedding": fixed_lists(X)}), folder / "t.parquet", row_group_size=300)
    return folder / "t.parquet"


@writer
def parquet_columns(folder: Path, X: Matrix) -> Path:
    parquet.write_table(pa.table(one_column_each(X)), folder / "t.parquet", row_group_size=300)
    return folder / "t.parquet"


@writer
def arrow_stream(folder: Path, X: Matrix) -> Path:
    return write_stream(folder / "t.arrow", pa.table({"anything": fixed_lists(X)}))


@writer
def feather_file(folder: Path, X: Matrix) -> Path:
    feather.write_feather(pa.table({"X": lists(X)}), str(folder / "t.feather"), chunksize=170)
    return folder / "t.feather"


@writer
def npy(folder: Path, X: Matrix) -> Path:
    np.save(folder / "t.npy", X)
    return folder / "t.npy"


@writer
def npy_by_column(folder: Path, X: Matrix) -> Path:
    np.save(folder / "t.npy", np.asfortranarray(X))
    return folder / "t.npy"


@writer
def npy_of_other_byte_order(folder: Path, X: Matrix) -> Path:
    np.save(folder / "t.npy", X.astype(X.dtype.newbyteorder(">")))
    return folder / "t.npy"


@writer
def npz(folder: Path, X: Matrix) -> Path:
    np.savez(folder / "t.npz", y=np.arange(len(X)), X=X)
    return folder / "t.npz"


@writer
def npz_compressed(folder: Path, X: Matrix) -> Path:
    np.savez_compressed(folder / "t.npz", y=np.arange(len(X)), X=X)
    return folder / "t.npz"


@writer
def parquet_folder(folder: Path, X: Matrix) -> Path:
    for k, start in enumerate(range(0, len(X), 90)):
        part = folder / "parts" / f"{k // 4}" / f"part-{k}.parquet"
        part.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pa.table({"features": fixed_lists(X[start : start + 90])}), part)
    return folder / "parts"


@writer
def npy_folder(folder: Path, X: Matrix) -> Path:
    (folder / "parts" / "img_emb").mkdir(parents=True)
    for k, start in enumerate(range(0, len(X), 90)):
        np.save(folder / "parts" / "img_emb" / f"img_emb_{k}.npy", X[start : start + 90])
    return folder / "parts"


@writer
def hugging_face(folder: Path, X: Matrix) -> Path:
    return write_hugging_face(folder / "hf", [{"features": fixed_lists(X[start : start + 450])} for start in (0, 450, 900)])
