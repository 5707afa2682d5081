"""Tables of features of any format, in one file or many, opened without loading them."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.errors import DataError
from sightunseen.core.rows import JoinedRows, Rows
from sightunseen.data.columns import few
from sightunseen.data.content_cache import content_fingerprint
from sightunseen.data.table_layouts import layout_of
from sightunseen.data.table_parts import Part, open_part
from sightunseen.data.text_codes import TextCodes

LOADED_BYTES = 256 << 20  # tables up to this size are loaded, which makes many passes fast
LOADED_ROWS = 1_000_000
THREADS = 2  # files that are hashed at the same time


@dataclass(frozen=True)
class Table:
    """Features of images with what else their files hold.

    Parameters
    ----------
    path : Path
        File or folder.
    files : tuple of Path
        The files, in order.
    features : ndarray or Rows of shape (n, d)
        Features of the images.
    names : ndarray or Rows of shape (n,), or None
        Names of the images.
    label_codes, split_codes : TextCodes or None
        Labels and splits of the images.
    columns : mapping of str to ndarray
        Other arrays of a ``.npz``, such as class vectors.
    found : tuple of str
        Names of the columns of the first file, for error messages.
    """

    path: Path
    files: tuple[Path, ...]
    features: Any = field(repr=False)
    names: Any = field(default=None, repr=False)
    label_codes: TextCodes | None = field(default=None, repr=False)
    split_codes: TextCodes | None = field(default=None, repr=False)
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    found: tuple[str, ...] = ()

    @cached_property
    def labels(self) -> NDArray[np.str_] | None:
        """Labels of the images, shape (n,); None if the files have none."""
        return None if self.label_codes is None else self.label_codes.texts()

    @cached_property
    def split(self) -> NDArray[np.str_] | None:
        """Splits of the images, shape (n,); None if the files have none."""
        return None if self.split_codes is None else self.split_codes.texts()

    def loaded(self) -> "Table":
        """Return the table with features and names in memory if it is small, else the same table."""
        if self.features.nbytes > LOADED_BYTES or len(self.features) > LOADED_ROWS:
            return self
        names = self.names if self.names is None else np.asarray(self.names).astype(np.str_)
        return replace(self, features=_loaded(self.features), names=names)

    def fingerprint(self) -> str:
        """Return the SHA-256 of the file; of a folder, that of the names and digests of its files."""
        return fingerprint_of(self.path, self.files)


def open_table(path: str | Path) -> Table:
    """Open a table of features. Only labels and splits are read.

    Parameters
    ----------
    path : str or Path
        A file (``.parquet``, ``.arrow``, ``.feather``, ``.npy``, ``.npz``, ``.csv``), or a folder: of such files of one kind,
        of a Hugging Face data set, or of ``.npy`` shards with Parquet metadata.

    Returns
    -------
    Table
        The table.

    Raises
    ------
    DataError
        If a file is missing, truncated or holds no features, or if the files do not fit together.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in range(3):
    ...         np.savez(f"{folder}/part-{part}.npz", X=np.full((2, 4), part / 2), y=["owl", "bat"])
    ...     table = open_table(folder)
    ...     last = table.features[5:6]
    >>> table.features.shape, table.labels.tolist(), last.tolist()
    ((6, 4), ['owl', 'bat', 'owl', 'bat', 'owl', 'bat'], [[1.0, 1.0, 1.0, 1.0]])
    """
    path = Path(path)
    layouts = layout_of(path)
    parts = [open_part(layout) for layout in layouts]
    filled = [part for part in parts if part.rows] or parts[:1]
    _check_parts(path, filled)
    first = filled[0]
    files = tuple(file for layout in layouts for file in layout.files)
    return Table(
        path,
        files,
        _joined([part.features for part in filled], filled),
        label_codes=_codes("label", [part.label for part in filled], filled),
        split_codes=_codes("split", [part.split for part in filled], filled),
        names=_names(filled),
        columns=first.columns if len(filled) == 1 else {},
        found=first.found,
    )


def fingerprint_of(path: str | Path, files: Sequence[Path] | None = None) -> str:
    """Compute the fingerprint of a file, or of the files of a folder.

    Parameters
    ----------
    path : str or Path
        File or folder.
    files : sequence of Path, default=None
        The files of the folder that count. None: those of the table in it.

    Returns
    -------
    str
        SHA-256 of a file; of a folder, SHA-256 of the sorted names and digests of its files.
    """
    path = Path(path)
    if not path.is_dir():
        return content_fingerprint(path)
    if files is None:
        files = [file for layout in layout_of(path) for file in layout.files]
    with ThreadPoolExecutor(THREADS) as pool:
        digests = list(pool.map(content_fingerprint, files))
    pairs = sorted((file.relative_to(path).as_posix(), digest) for file, digest in zip(files, digests, strict=True))
    lines = (f"{digest}  {name}\n".encode("utf-8", "surrogateescape") for name, digest in pairs)
    return hashlib.sha256(b"".join(lines)).hexdigest()


def _check_parts(path: Path, parts: Sequence[Part]) -> None:
    """Raise ``DataError`` unless all files have the same width, and labels and splits are in all of them or in none."""
    first = parts[0]
    if first.features is None:
        raise DataError(f"{path} has no images; expected at least one.")
    for part in parts[1:]:
        width, other = first.features.shape[1], part.features.shape[1]
        if width != other:
            raise DataError(
                f"all files of {path} must have features of one backbone; {first.path.name} has {width:,} features per image, "
                f"{part.path.name} has {other:,}. Extract the features again, or remove the file."
            )
    for what, found in (("label", [part.label for part in parts]), ("split", [part.split for part in parts])):
        have = [part for part, add in zip(parts, found, strict=True) if add is not None]
        lack = [part for part, add in zip(parts, found, strict=True) if add is None]
        if have and lack:
            raise DataError(
                f"{len(lack)} of the {len(parts)} files of {path} have no column '{what}', such as {lack[0].path.name}, which "
                f"has {few(lack[0].found, 4)}; {have[0].path.name} has one. Add it, or remove it from all files."
            )


def _joined(tables: Sequence[Any], parts: Sequence[Part]) -> Any:
    return tables[0] if len(tables) == 1 else JoinedRows(tables, [str(part.path) for part in parts])


def _codes(what: str, columns: Sequence[Callable[[TextCodes], None] | None], parts: Sequence[Part]) -> TextCodes | None:
    """Read the labels or splits of all files; None if they have none."""
    codes = TextCodes(what)
    for add, part in zip(columns, parts, strict=True):
        if add is None:
            return None
        before = len(codes)
        add(codes)
        added = len(codes) - before
        if added != part.rows:
            images, entries = ("feature rows", "labels") if what == "label" else ("labels", "entries in split")
            raise DataError(f"{part.path} has {part.rows} {images} but {added} {entries}; give one entry per image.")
    return codes


def _names(parts: Sequence[Part]) -> Any:
    """Names of the images of all files; None if a file has none."""
    for part in parts:
        if part.names is None:
            return None
        if len(part.names) != part.rows:
            raise DataError(f"{part.path} has {part.rows} images but {len(part.names)} names; the numbers must be equal.")
    return _joined([part.names for part in parts], parts)


def _loaded(features: Any) -> Any:
    if isinstance(features, JoinedRows):  # stays joined, so that errors name the file of a row
        return JoinedRows([np.asarray(part) for part in features.parts], features.names)
    return np.asarray(features) if isinstance(features, Rows) else features
