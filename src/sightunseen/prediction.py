"""Ranked answers: the best classes of each image with their confidence, or none of them, streamed to a file."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.blocks import Named
from sightunseen.core.calibration import NONE, probabilities
from sightunseen.core.errors import SettingsError
from sightunseen.core.files import written_atomically
from sightunseen.methods import ZeroShotClassifier

ENDINGS = (".csv", ".json", ".jsonl", ".parquet")
COLUMNS = ("path", "rank", "class", "confidence", "seen")
REASONS = ("speaks_for", "speaks_against")  # columns that ``ranked`` adds where it is told how to explain

Batch = dict[str, NDArray[Any]]  # the columns, one row an image and rank


def ranked(
    model: ZeroShotClassifier,
    blocks: Iterable[Named],
    top: int = 1,
    candidates: ArrayLike | str | None = None,
    none: bool = True,
    explain: Callable[[Any, NDArray[Any]], Batch] | None = None,
) -> Iterator[Batch]:
    """The ``top`` best classes of each image, best first, block by block.

    ``blocks`` are features with the names of their images, see :mod:`~sightunseen.core.blocks`. Where the model is calibrated
    and even the best class fits badly, the first answer is ``NONE``, as likely as that class is not, and the classes follow
    it as guesses; unless ``none`` is False. ``explain`` makes more columns, of text (n,), of a block of images (n, d) and
    their best classes (n,): they stand in the rows of those and are empty in others.
    """
    if top < 1:
        raise SettingsError(f"top must be at least 1; got {top}.")
    labels = model.candidates(candidates)
    answers = np.append(labels.astype(object), NONE)
    seen = np.append(np.isin(labels, model.seen_classes_), False)
    score = model.scorer(labels)
    for block, names in blocks:
        scores = score(block)
        is_none = model.is_none(scores, labels) & none
        best = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        places = np.column_stack([np.full(len(best), len(labels)), best])  # (n, 1 + k): NONE, then the classes
        given = np.ones(places.shape, dtype=bool)
        given[:, 0], given[is_none, top:] = is_none, False
        confidence = probabilities(scores, model.temperature_)
        confidence = np.column_stack([confidence, 1 - confidence.max(axis=1)])
        batch = {
            "path": np.repeat(names, given.sum(axis=1)),
            "rank": given.cumsum(axis=1)[given],
            "class": answers[places[given]],
            "confidence": np.take_along_axis(confidence, places, axis=1)[given],
            "seen": seen[places[given]],
        }
        if explain is not None:
            batch |= {name: _beside_best(texts, given) for name, texts in explain(block, labels[best[:, 0]]).items()}
        yield batch


def _beside_best(texts: NDArray[Any], given: NDArray[np.bool_]) -> NDArray[Any]:
    """The column that holds the text of each image (n,) in the row of its best class; (n, 1 + k) are the rows given."""
    cells = np.full(given.shape, "", dtype=object)
    cells[:, 1] = texts
    return cells[given]


def write_predictions(path: Path, batches: Iterator[Batch], columns: Sequence[str] = COLUMNS) -> int:
    """Write rows of ranked answers as ``.csv``, ``.json``, ``.jsonl`` (JSON Lines) or ``.parquet``; returns their number."""
    check_ending(path)
    write = _write_json if path.suffix in (".json", ".jsonl") else _write_table
    with written_atomically(path) as temporary:
        return write(temporary, path.suffix, batches, columns)


def check_ending(path: Path) -> None:
    """Refuse a file name whose format is not known, before any work is done."""
    if path.suffix not in ENDINGS:
        raise SettingsError(f"{path} must end in {', '.join(ENDINGS)}; got '{path.suffix}'.")


def _write_table(path: Path, ending: str, batches: Iterator[Batch], columns: Sequence[str]) -> int:
    import pyarrow
    from pyarrow import csv, parquet

    kinds = {"rank": pyarrow.int64(), "confidence": pyarrow.float32(), "seen": pyarrow.bool_()}
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in columns])
    make = csv.CSVWriter if ending == ".csv" else parquet.ParquetWriter
    rows = 0
    with make(str(path), schema) as writer:
        for batch in batches:
            table = pyarrow.table(_as_text(batch, columns), schema=schema)
            writer.write_table(table)
            rows += len(table)
    return rows


def _as_text(batch: Batch, columns: Sequence[str]) -> Batch:
    """Names and labels as text, whatever they were: the same answer in every format."""
    return {name: batch[name].astype(str) if name in ("path", "class") else batch[name] for name in columns}


def _write_json(path: Path, ending: str, batches: Iterator[Batch], columns: Sequence[str]) -> int:
    """One object a row: a list of them, or a line each."""
    listed, rows = ending == ".json", 0
    with open(path, "w", encoding="utf-8") as file:
        file.write("[" if listed else "")
        for batch in batches:
            texts = _as_text(batch, columns)
            for values in zip(*(texts[name].tolist() for name in columns), strict=True):
                row = json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False)
                file.write(f"{',' if rows else ''}\n{row}" if listed else f"{row}\n")
                rows += 1
        file.write("\n]\n" if listed else "")
    return rows
