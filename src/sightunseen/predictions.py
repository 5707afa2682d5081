"""Ranked answers: the best classes of each image with their confidence, streamed to a file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.errors import SettingsError
from sightunseen.files import written_atomically
from sightunseen.methods import ZeroShotClassifier

ENDINGS = (".csv", ".json", ".parquet")
BLOCK = 4096  # images answered at a time
COLUMNS = ("path", "rank", "class", "confidence", "seen")

Batch = dict[str, NDArray[Any]]  # the columns, one row an image and rank


def ranked(
    model: ZeroShotClassifier,
    X: Any,
    names: NDArray[Any] | None = None,
    top: int = 1,
    candidates: ArrayLike | str | None = None,
) -> Iterator[Batch]:
    """The ``top`` best classes of each image, best first, a block of images at a time.

    ``X`` is (n, d), in memory or mapped from a file; images without ``names`` are called by the number of their row.
    """
    if top < 1:
        raise SettingsError(f"top must be at least 1; got {top}.")
    labels = model.candidates(candidates)
    k = min(top, len(labels))
    seen = np.isin(labels, model.seen_classes_)
    for start in range(0, max(len(X), 1), BLOCK):
        confidence = model.predict_proba(X[start : start + BLOCK], labels)
        best = np.argsort(-confidence, axis=1, kind="stable")[:, :k]  # (n, k)
        called = np.arange(start, start + len(best)).astype(str) if names is None else names[start : start + BLOCK]
        yield {
            "path": np.repeat(called, k),
            "rank": np.tile(np.arange(1, k + 1), len(best)),
            "class": labels[best].ravel(),
            "confidence": np.take_along_axis(confidence, best, axis=1).ravel(),
            "seen": seen[best].ravel(),
        }


def write_predictions(path: Path, batches: Iterator[Batch]) -> int:
    """Write ranked answers as ``.csv``, ``.json`` or ``.parquet``; returns the number of rows."""
    check_ending(path)
    with written_atomically(path) as temporary:
        return _write_json(temporary, batches) if path.suffix == ".json" else _write_table(temporary, path.suffix, batches)


def check_ending(path: Path) -> None:
    """Refuse a file name whose format is not known, before any work is done."""
    if path.suffix not in ENDINGS:
        raise SettingsError(f"{path} must end in {', '.join(ENDINGS)}; got '{path.suffix}'.")


def _write_table(path: Path, ending: str, batches: Iterator[Batch]) -> int:
    import pyarrow
    from pyarrow import csv, parquet

    kinds = (pyarrow.string(), pyarrow.int64(), pyarrow.string(), pyarrow.float32(), pyarrow.bool_())
    schema = pyarrow.schema(list(zip(COLUMNS, kinds, strict=True)))
    make = csv.CSVWriter if ending == ".csv" else parquet.ParquetWriter
    rows = 0
    with make(str(path), schema) as writer:
        for batch in batches:
            table = pyarrow.table(_as_text(batch), schema=schema)
            writer.write_table(table)
            rows += len(table)
    return rows


def _as_text(batch: Batch) -> Batch:
    """Names and labels as text, whatever they were: the same answer in every format."""
    return {name: batch[name].astype(str) if name in ("path", "class") else batch[name] for name in COLUMNS}


def _write_json(path: Path, batches: Iterator[Batch]) -> int:
    rows = 0
    with open(path, "w", encoding="utf-8") as file:
        file.write("[")
        for batch in batches:
            columns = _as_text(batch)
            for values in zip(*(columns[name].tolist() for name in COLUMNS), strict=True):
                file.write(",\n" if rows else "\n")
                json.dump(dict(zip(COLUMNS, values, strict=True)), file, ensure_ascii=False)
                rows += 1
        file.write("\n]\n")
    return rows
