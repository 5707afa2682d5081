"""Arrays of ``.npy`` and ``.npz`` files that are read in blocks, compressed or not."""

import struct
import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.core.limits import EXPANDED_BYTES, EXPANSION, FEATURES
from sightunseen.core.memory import check_memory
from sightunseen.data.file_rows import FileRows, open_files
from sightunseen.data.opening import opened, size_of

LOCAL_HEADER = struct.Struct("<4s22sHH")  # of a member of a zip archive: mark, sizes and times, lengths of name and extra field
SKIPPED = 1 << 20  # bytes that are decompressed at a time to reach a row


class StoredRows(FileRows):
    """A table of numbers that is stored uncompressed in a file.

    Parameters
    ----------
    path : Path
        The file.
    shape : tuple of int
        Shape of the table.
    dtype : dtype
        Type of the stored values.
    offset : int
        Position of the first value in the file.
    by_column : bool, default=False
        Whether the values are stored column by column (Fortran order).
    """

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int, by_column: bool = False) -> None:
        super().__init__(path, shape, _native(dtype))
        self.stored, self.offset, self.by_column = dtype, offset, by_column

    def mapped(self) -> NDArray[Any]:
        """Return the table as a memory-mapped array, for random access."""
        order = "F" if self.by_column else "C"
        mapped: NDArray[Any] = np.memmap(self.path, self.stored, "r", self.offset, self.shape, order)  # type: ignore[call-overload]
        return mapped

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        if self.by_column:
            return np.ascontiguousarray(self.mapped()[start:stop]).astype(self.dtype, copy=False)
        row = self.shape[1] * self.stored.itemsize
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.offset + start * row)
            return _filled(file, (stop - start, self.shape[1]), self.stored, self.path).astype(self.dtype, copy=False)


class DeflatedRows(FileRows):
    """A table of numbers in a compressed archive. A block that begins before the last one decompresses it from the beginning.

    Parameters
    ----------
    path : Path
        The ``.npz`` file.
    member : str
        Name of the member of the archive.
    shape : tuple of int
        Shape of the table.
    dtype : dtype
        Type of the stored values.
    offset : int
        Position of the first value in the member.
    """

    def __init__(self, path: Path, member: str, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int) -> None:
        super().__init__(path, shape, _native(dtype))
        self.member, self.stored, self.offset = member, dtype, offset
        self._file: IO[bytes] | None = None
        self._row = 0

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        if self._file is None or start < self._row:
            self._close()
            self._file = zipfile.ZipFile(self.path).open(self.member)  # noqa: SIM115 - stays open for the next block
            open_files.add(self)
            self._skip(self.offset)
        self._skip((start - self._row) * self.shape[1] * self.stored.itemsize)
        block = _filled(self._file, (stop - start, self.shape[1]), self.stored, self.path)
        self._row = stop
        return block.astype(self.dtype, copy=False)

    def _skip(self, size: int) -> None:
        assert self._file is not None
        while size > 0:
            skipped = len(self._file.read(min(size, SKIPPED)))
            if not skipped:
                raise EOFError("the array ends early")
            size -= skipped

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._row = None, 0

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_file": None, "_row": 0}


def open_npy(path: Path) -> StoredRows:
    """Open a table of a ``.npy`` file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    StoredRows of shape (n, d)
        The table.

    Raises
    ------
    DataError
        If the file is truncated, or holds something other than a table of numbers.
    """

    def read() -> StoredRows:
        with open(path, "rb") as file:
            shape, by_column, dtype = read_header(file)
            check_table(shape, dtype, f"{path}, one row per image,")
            _check_size(size_of(path) - file.tell(), shape, dtype, str(path))
            return StoredRows(path, shape, dtype, file.tell(), by_column)

    return opened(path, read)


def open_npz(path: Path, name: str) -> FileRows | None:
    """Open a table of a ``.npz`` file without reading it.

    Parameters
    ----------
    path : Path
        The file.
    name : str
        Name of the array.

    Returns
    -------
    FileRows of shape (n, d) or None
        The table; None if it is stored in a way that can only be read whole.

    Raises
    ------
    DataError
        If the array is truncated, or not a table of numbers.
    """

    def read() -> FileRows | None:
        with open(path, "rb") as raw, zipfile.ZipFile(raw) as archive:
            member = archive.getinfo(f"{name}.npy")
            with archive.open(member) as file:
                shape, by_column, dtype = read_header(file)
                header = file.tell()
            check_table(shape, dtype, f"{path}: '{name}'")
            _check_size(member.file_size - header, shape, dtype, f"{path}: '{name}'")
            if member.compress_type == zipfile.ZIP_STORED:
                raw.seek(member.header_offset)
                lengths = LOCAL_HEADER.unpack(raw.read(LOCAL_HEADER.size))[2:]
                start = member.header_offset + LOCAL_HEADER.size + sum(lengths) + header
                return StoredRows(path, shape, dtype, start, by_column)
            return None if by_column else DeflatedRows(path, f"{name}.npy", shape, dtype, header)

    return opened(path, read)


def declared_size(path: Path) -> int:
    """Return the size of all arrays of a ``.npz``; raises ``DataError`` if the archive expands too much."""

    def read() -> int:
        with zipfile.ZipFile(path) as archive:
            declared = sum(member.file_size for member in archive.infolist())
        if declared > max(EXPANDED_BYTES, EXPANSION * size_of(path)):
            check_memory(declared, path, size_of(path))
        return declared

    return opened(path, read)


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array.

    Parameters
    ----------
    file : file-like
        File, at the beginning of the array; afterwards it is at the first value.

    Returns
    -------
    shape : tuple of int
        Shape of the array.
    by_column : bool
        Whether the values are in Fortran order.
    dtype : dtype
        Type of the values.

    Raises
    ------
    ValueError
        If the header is damaged, or the array holds Python objects.
    """
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, by_column, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, by_column, dtype = np.lib.format.read_array_header_2_0(file)
    else:
        raise ValueError(f"format {version} is not one of plain arrays")
    if dtype.hasobject:
        raise ValueError("arrays of Python objects are not read")
    return shape, by_column, dtype


def check_table(shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> None:
    """Check that an array is a table of real numbers, by its header.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array.
    dtype : dtype
        Type of its values.
    where : str
        What it is, for the error message.

    Raises
    ------
    DataError
        If it is not.
    """
    if len(shape) != 2 or dtype.kind not in "iuf":
        raise DataError(f"{where} must be a table of numbers; got {quoted(dtype)} of shape {shape}.")
    if not 1 <= shape[1] <= FEATURES:
        raise DataError(f"{where} must have 1 to {FEATURES:,} columns; got shape {shape}.")


def _check_size(found: int, shape: tuple[int, ...], dtype: np.dtype[Any], where: str) -> None:
    expected = shape[0] * shape[1] * dtype.itemsize
    if found < expected:
        raise DataError(
            f"{where} is truncated: {shape[0]:,} rows of {shape[1]:,} numbers need {expected:,} bytes; it has {found:,}. "
            "Copy or write it again."
        )


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Type in memory: of the byte order of this machine, of at most 8 bytes."""
    return np.dtype(np.float64) if dtype.itemsize > 8 else dtype.newbyteorder("=")


def _filled(file: Any, shape: tuple[int, int], dtype: np.dtype[Any], path: Path) -> NDArray[Any]:
    """Read an array; a file that became shorter is an error."""
    block = np.empty(shape, dtype=dtype)
    view, filled = block.reshape(-1).view(np.uint8).data, 0
    while filled < len(view):
        count = file.readinto(view[filled:])
        if not count:
            raise DataError(f"{path} ends early. Copy or write it again.")
        filled += count
    return block
