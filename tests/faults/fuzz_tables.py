"""Tables and MATLAB files with odd content, well-formed or damaged, as bytes."""

import csv
import io
import json
import random
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .fuzz_shelf import base_tables, xlsa17_arrays
from .fuzz_values import as_type, damaged, encoded, odd_array, odd_arrays, odd_number, odd_text, similar


@cache
def base_data() -> Any:
    """A small data set."""
    from sightunseen.data.synthetic_features import World, make_world

    return make_world(World(n_seen=4, n_unseen=2, n_attributes=4, n_features=5, images_per_class=5, private=0.3, noise=1.0))


def image_arrays(with_classes: bool = False) -> dict[str, Any]:
    images, classes = base_tables(base_data())
    extra = {"class_labels": classes["labels"], "class_vectors": classes["vectors"]} if with_classes else {}
    return {**images, **extra}


def class_rows() -> list[list[Any]]:
    """Rows of a class table, the first with the names of the columns."""
    classes = base_data().classes
    head = ["class", *(f"a{k}" for k in range(classes.vectors.shape[1]))]
    return [head, *([label, *vector] for label, vector in zip(classes.labels.tolist(), classes.vectors.tolist(), strict=True))]


def image_rows() -> list[list[Any]]:
    arrays = image_arrays()
    head = ["label", "split", *(f"f{k}" for k in range(arrays["X"].shape[1]))]
    rows = zip(arrays["y"].tolist(), arrays["split"].tolist(), arrays["X"].tolist(), strict=True)
    return [head, *([label, split, *vector] for label, split, vector in rows)]


def npy(r: random.Random, array: Any = None) -> bytes:
    """One array; the header may declare another shape or type than the data have."""
    array = odd_array(r) if array is None else array
    if r.random() < 0.3:
        shape = r.choice(((10**6, 10**6), (2**40,), (-1, 3), (3, -1), (0,), (2**63,), (1,) * 64, "abc", (1.5,), None))
        descr = r.choice(("<f4", "<f8", "|O", "<U1000000", [("a", "<f4")], "zzz", "<f4, <i8", 5, "|V2000000000"))
        header = repr({"descr": descr, "fortran_order": r.choice((False, True, 1, "x")), "shape": shape})
        header = r.choice((header, header + "#" * 70000, header[:-1], "", "[" * 5000, header.replace("shape", "shap")))
        length = len(header) + 1
        version = r.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"))
        size = (length & 0xFFFF).to_bytes(2, "little") if version[0] == 1 else length.to_bytes(4, "little")
        return b"\x93NUMPY" + version + size + header.encode() + b"\n" + bytes(64)
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def npz(r: random.Random, arrays: dict[str, Any]) -> bytes:
    """Arrays in a zip archive, with the defects of archives."""
    import zipfile

    arrays = odd_arrays(r, arrays) if r.random() < 0.85 else arrays
    buffer = io.BytesIO()
    with (
        warnings.catch_warnings(),
        zipfile.ZipFile(buffer, "w", r.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive,
    ):
        warnings.simplefilter("ignore")  # repeated names are intended
        for name, array in arrays.items():
            content = npy(r, array) if r.random() < 0.1 else _plain_npy(array)
            archive.writestr(_entry(r, name), damaged(r, content) if r.random() < 0.05 else content)
            if r.random() < 0.03:
                archive.writestr(_entry(r, name), content)
    return buffer.getvalue()


def _plain_npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _entry(r: random.Random, name: str) -> str:
    name = name.encode("utf-8", "replace").decode().replace("\x00", "") or "x"
    return f"{name}.npy" if r.random() < 0.97 else r.choice((name, f"{name}.npy/", f"../{name}.npy", f"{name}.txt"))


def csv_text(r: random.Random, rows: list[list[Any]]) -> bytes:
    """A table of text with odd cells, quotes, lines and encodings."""
    rows = [list(row) for row in rows]
    for _ in range(r.choice((0, 1, 1, 2, 4))):
        row = r.choice(rows)
        change = r.randrange(9)
        if change < 3 and row:
            row[r.randrange(len(row))] = r.choice(
                (odd_text(r), odd_number(r), "1e400", "9" * 400, "", None, "x" * 140_000, "1,5")
            )
        elif change == 3 and row:
            del row[r.randrange(len(row))]
        elif change == 4:
            row.append(odd_text(r, 200))
        elif change == 5:
            rows.append(list(row))
        elif change == 6:
            column = r.randrange(len(rows[0])) if rows[0] else 0
            value = r.choice((odd_text(r, 300), odd_number(r), "", None))
            for other in rows[1:]:
                if column < len(other):
                    other[column] = value
        elif change == 7 and rows[0]:
            rows[0][r.randrange(len(rows[0]))] = r.choice(
                ("path", "label", "class", "split", "X", "features", "description", "a0", "f0", "")
            )
        else:
            rows = r.choice((rows[:1], rows[1:], [], [[]], rows[:2], rows * 2))
            rows = rows or [[]]
    buffer = io.StringIO()
    style = {"delimiter": r.choice((",",) * 8 + (";", "\t")), "lineterminator": r.choice(("\n",) * 6 + ("\r\n", "\r"))}
    style["quoting"] = r.choice((csv.QUOTE_MINIMAL,) * 6 + (csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC))
    csv.writer(buffer, **style).writerows(rows)
    text = buffer.getvalue()
    if r.random() < 0.1:
        text = r.choice(
            (text.rstrip(), text + "\n\n", text.replace('"', ""), '"' + text, text + '"', "\ufeff" + text, "#\n" + text)
        )
    content = encoded(r, text, 0.15)
    return damaged(r, content) if r.random() < 0.1 else content


def parquet(r: random.Random, rows: list[list[Any]]) -> bytes:
    """A table with columns of any type, nested ones, nulls, repeated names and metadata."""
    import pyarrow
    from pyarrow import compute
    from pyarrow import parquet as files

    names = [str(name) for name in rows[0]]
    columns: list[Any] = [pyarrow.array([row[k] for row in rows[1:]]) for k in range(len(names))]
    n = len(rows) - 1
    for _ in range(r.choice((0, 1, 1, 2))):
        k = r.randrange(len(names))
        change = r.randrange(5)
        if change == 0:
            columns[k] = _odd_column(r, n)
        elif change == 1:
            names[k] = r.choice(
                (
                    names[r.randrange(len(names))],
                    "features",
                    "X",
                    "path",
                    "label",
                    odd_text(r, 100).encode("utf-8", "replace").decode(),
                )
            )
        elif change == 2:
            kept = pyarrow.array([r.random() < 0.8 for _ in range(n)])
            columns[k] = compute.if_else(kept, columns[k], None)
        elif change == 3:
            names.append(r.choice(("features", "X", "path", "name", "description", "extra")))
            columns.append(_odd_column(r, n))
        else:
            del names[k], columns[k]
            if not names:
                break
    table = pyarrow.Table.from_arrays(columns, names=names) if names else pyarrow.table({})
    if r.random() < 0.3:
        text = r.choice(
            (json.dumps(similar(r, {"name": "a", "fingerprint": "b", "size": 5})), "{", "[]", "1", odd_text(r, 500))
        )
        table = table.replace_schema_metadata(
            {"sightunseen.backbone": text.encode("utf-8", "replace"), "backbone": text.encode("utf-8", "replace")}
        )
    if r.random() < 0.1:
        table = table.slice(0, 0)
    buffer = io.BytesIO()
    files.write_table(table, buffer, compression=r.choice(("none", "snappy", "zstd")), row_group_size=r.choice((1, 7, 10**6)))
    content = buffer.getvalue()
    return damaged(r, content) if r.random() < 0.15 else content


def _odd_column(r: random.Random, n: int) -> Any:
    import pyarrow as pa

    number = float(r.choice((0, 1.5, 1e308, float("nan"), float("inf"))))
    kinds = (
        lambda: pa.array([number] * n),
        lambda: pa.array([None] * n),
        lambda: pa.array([[number] * r.randint(0, 3) for _ in range(n)]),
        lambda: pa.array([[1.0, 2.0]] * n),
        lambda: pa.array([[None, 1.0]] * n),
        lambda: pa.array([None if k % 2 else [1.0, 2.0] for k in range(n)], type=pa.list_(pa.float64())),
        lambda: pa.array([[["a"]]] * n),
        lambda: pa.array([["a", "b"]] * n),
        lambda: pa.array([{"x": 1}] * n),
        lambda: pa.array([b"\xff\xfe"] * n),
        lambda: pa.array([odd_text(r, 1000).encode("utf-8", "replace").decode()] * n),
        lambda: pa.array([True] * n),
        lambda: pa.array([10**30] * n, type=pa.decimal128(38, 0)),
        lambda: pa.array([1] * n, type=pa.timestamp("ns")),
        lambda: pa.array([1] * n, type=pa.date32()),
        lambda: pa.array([1] * n, type=pa.duration("s")),
        lambda: pa.array(["a"] * n).dictionary_encode(),
        lambda: pa.array([[1.0, 2.0]] * n, type=pa.list_(pa.float32(), 2)),
        lambda: pa.array([[]] * n, type=pa.list_(pa.float32(), 0)),
        lambda: pa.array([2**63] * n, type=pa.uint64()),
        lambda: pa.array(np.full(n, 1, dtype="f2")),
    )
    return r.choice(kinds)()


def matlab(r: random.Random, features: bool) -> bytes:
    """A feature or split file of MATLAB up to v7.2, or of v7.3."""
    arrays = xlsa17_arrays(base_data())[0 if features else 1]
    if features and r.random() < 0.3:
        arrays = {**arrays, "image_files": np.array([["a.jpg"]] * len(arrays["labels"]), dtype=object)}
    arrays = odd_arrays(r, arrays) if r.random() < 0.9 else arrays
    if r.random() < 0.15:
        arrays["struct"] = {"a": 1, "b": {"c": [1, 2]}}
    content = _hdf5(r, arrays) if r.random() < 0.5 else _matlab5(r, arrays)
    return damaged(r, content) if r.random() < 0.12 else content


def _matlab5(r: random.Random, arrays: dict[str, Any]) -> bytes:
    from scipy.io import savemat
    from scipy.sparse import csc_matrix

    buffer = io.BytesIO()
    names = {name.encode("ascii", "ignore").decode().replace("\x00", "")[:31] or "x": value for name, value in arrays.items()}
    if names and r.random() < 0.1:
        name = r.choice(list(names))
        names[name] = csc_matrix(np.eye(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            savemat(buffer, names, do_compression=r.random() < 0.5, format=r.choice(("5", "5", "5", "4")))
        except Exception:  # not everything has a form in MATLAB files
            savemat(buffer, {"features": np.eye(2)})
    return buffer.getvalue()


def _hdf5(r: random.Random, arrays: dict[str, Any]) -> bytes:
    import h5py

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.mat")
        with h5py.File(path, "w", userblock_size=512) as file:
            for name, array in arrays.items():
                name = name.replace("\x00", "").replace("/", "") or "x"
                try:
                    _hdf5_variable(r, file, name, array)
                except Exception:  # not everything has a form in HDF5
                    continue
        content = path.read_bytes()
    header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
    return header + content[len(header) :]


def _hdf5_variable(r: random.Random, file: Any, name: str, array: Any) -> None:
    import h5py

    if isinstance(array, dict) or r.random() < 0.03:
        file.create_group(name)
    elif array.dtype == object or r.random() < 0.05:
        cells = [file.create_dataset(f"#refs#/{name}{k}", data=_units(r, cell)) for k, cell in enumerate(np.ravel(array)[:50])]
        references = np.array([cell.ref for cell in cells], dtype=h5py.ref_dtype)
        if r.random() < 0.2:
            references[0] = h5py.Reference()
        file.create_dataset(name, data=references, dtype=h5py.ref_dtype)
    elif r.random() < 0.1:
        shape = r.choice(((10**6, 10**6), (2**33,), (0, 5), ()))
        file.create_dataset(
            name,
            shape=shape,
            dtype=r.choice(("f4", "f8")),
            chunks=(1000,) * len(shape) if shape and min(shape) > 1000 else None,
        )
    elif r.random() < 0.05:
        file[name] = r.choice((h5py.SoftLink("/nowhere"), h5py.ExternalLink("other.h5", "/x")))
    else:
        file.create_dataset(name, data=np.ascontiguousarray(as_type(r, array, "f8") if array.dtype.kind in "MmV" else array.T))


def _units(r: random.Random, cell: Any) -> Any:
    text = str(np.ravel(cell)[0]) if np.size(cell) else ""
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2")
    return units if r.random() < 0.9 else odd_array(r, units, ("f4", "f8", "i8", "?", "u2"))
