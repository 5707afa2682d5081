"""Ranked predictions: the best classes of each image with their confidence, or "none of these", streamed to a file."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.blocks import Named
from sightunseen.core.calibration import NONE
from sightunseen.core.errors import SettingsError
from sightunseen.core.files import written_atomically
from sightunseen.methods import ZeroShotClassifier
from sightunseen.methods.base.top_classes import ClassRanking

ENDINGS = (".csv", ".json", ".jsonl", ".parquet")
COLUMNS = ("path", "rank", "class", "confidence", "seen")
REASONS = ("runner_up", "speaks_for", "speaks_against")  # further columns if predictions are explained

Batch = dict[str, NDArray[Any]]  # the columns; one row per image and rank
Explain = Callable[[Any, NDArray[Any], NDArray[Any]], Batch]


def ranked(
    model: ZeroShotClassifier,
    blocks: Iterable[Named],
    top: int = 1,
    candidates: ArrayLike | str | None = None,
    none: bool = True,
    explain: Explain | None = None,
) -> Iterator[Batch]:
    """Predict the best classes of each image, best first, block by block.

    If a calibrated model rejects an image (open-set rejection), rank 1 is ``NONE``, "none of these", with the confidence one
    minus that of the best class; the best classes follow it.

    Parameters
    ----------
    model : ZeroShotClassifier
        A fitted model.
    blocks : iterable of (features, names)
        Features of shape (n, d) with the names (n,) of their images; see :mod:`~sightunseen.core.blocks`.
    top : int, default=1
        Number of rows per image.
    candidates : array-like of labels, "seen", "unseen", "all" or None, default=None
        The classes to choose among. None: all classes.
    none : bool, default=True
        Whether images may be rejected.
    explain : callable, default=None
        Called with the features (n, d) of a block, the two best classes (n, 2) of each image, and the score of the best minus
        that of the second-best class (n,); returns further columns (n,). Their values are in the row of the best class, and
        empty texts in all others. It is not called if there is only one candidate; the columns are empty then.

    Yields
    ------
    dict of str to ndarray
        The columns ``path``, ``rank``, ``class``, ``confidence`` and ``seen``, and those of ``explain``, of one block.

    Raises
    ------
    SettingsError
        If ``top`` is less than 1.
    DataError
        If a candidate is unknown, or if the features do not fit the model.

    Examples
    --------
    >>> from sightunseen.core.blocks import named_blocks
    >>> from sightunseen.methods import ESZSL
    >>> vectors = {"cat": [1.0, 0.0], "dog": [0.0, 1.0], "okapi": [1.0, 1.0]}
    >>> model = ESZSL().fit([[1.0, 0.1], [0.1, 1.0]] * 5, ["cat", "dog"] * 5, vectors)
    >>> (batch,) = ranked(model, named_blocks([[1.0, 0.0]]), top=2, candidates=["cat", "dog"])
    >>> batch["class"].tolist(), batch["rank"].tolist(), batch["seen"].tolist()
    (['cat', 'dog'], [1, 2], [True, True])
    """
    if top < 1:
        raise SettingsError(f"top must be at least 1; got {top}.")
    labels = model.candidates(candidates)
    ranking = ClassRanking(model, labels)
    answers, seen = np.append(labels.astype(object), NONE), np.append(ranking.seen, False)
    explained = explain is not None and len(labels) > 1
    for block, names, best in ranking.over(blocks, max(top, 2) if explained else top, ranking.temperature):
        is_none = ranking.is_none(best) & none
        # (n, 1 + k): NONE, then the best classes
        columns = np.column_stack([np.full(len(is_none), len(labels)), best.columns[:, :top]])
        given = np.ones(columns.shape, dtype=bool)  # the answers that become rows
        given[:, 0], given[is_none, top:] = is_none, False
        shares = best.confidences(ranking.temperature)[:, :top]
        confidence = np.column_stack([1 - shares[:, 0], shares])
        batch = {
            "path": np.repeat(names, given.sum(axis=1)),
            "rank": given.cumsum(axis=1)[given],
            "class": answers[columns[given]],
            "confidence": confidence[given],
            "seen": seen[columns[given]],
        }
        if explain is not None:
            found = explain(block, labels[best.columns[:, :2]], best.scores[:, 0] - best.scores[:, 1]) if explained else {}
            batch |= {name: _beside_best(found.get(name, ""), given) for name in found or REASONS}
        yield batch


def _beside_best(values: Any, given: NDArray[np.bool_]) -> NDArray[Any]:
    """Make a column with the value of each image (n,) in the row of its best class; ``given`` (n, 1 + k) marks the rows."""
    cells = np.full(given.shape, "", dtype=object)
    cells[:, 1] = values
    return cells[given]


def write_predictions(path: Path, batches: Iterator[Batch], columns: Sequence[str] = COLUMNS) -> int:
    """Write ranked predictions to a file, atomically and block by block.

    Parameters
    ----------
    path : Path
        The file; its ending determines the format: ``.csv``, ``.json``, ``.jsonl`` (JSON Lines) or ``.parquet``.
    batches : iterator of dict of str to ndarray
        What :func:`ranked` yields.
    columns : sequence of str, default=COLUMNS
        The columns to write.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    SettingsError
        If the file has another ending.
    StorageError
        If the file cannot be written.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from sightunseen.core.blocks import named_blocks
    >>> from sightunseen.methods import ESZSL
    >>> vectors = {"cat": [1.0, 0.0], "dog": [0.0, 1.0]}
    >>> model = ESZSL().fit([[1.0, 0.1], [0.1, 1.0]] * 5, ["cat", "dog"] * 5, vectors)
    >>> write_predictions(Path(mkdtemp()) / "predictions.csv", ranked(model, named_blocks([[1.0, 0.0], [0.0, 1.0]])))
    2
    """
    check_ending(path)
    write = _write_json if path.suffix in (".json", ".jsonl") else _write_table
    with written_atomically(path) as temporary:
        return write(temporary, path.suffix, batches, columns)


def check_ending(path: Path) -> None:
    """Check the ending of a file of predictions, before any prediction is made.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    SettingsError
        If the ending is not one of ``ENDINGS``.
    """
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
    """Convert image names and labels to text, so that all formats have the same content."""
    return {name: batch[name].astype(str) if name in ("path", "class") else batch[name] for name in columns}


def _write_json(path: Path, ending: str, batches: Iterator[Batch], columns: Sequence[str]) -> int:
    """Write one JSON object per row: a list (``.json``) or one line each (``.jsonl``)."""
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
