"""Parquet and Arrow files: schema, number of rows and blocks of columns, without loading the file."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from sightunseen.core.errors import DataError
from sightunseen.data.columns import check_parquet, check_repeated
from sightunseen.data.opening import opened, size_of

BUFFERS = 32 << 20  # bytes of all read buffers of a Parquet file
LEAST_BUFFER = 16 << 10
MOST_BUFFER = 4 << 20
ROWS = 4096  # rows of a block for which the declared size of a Parquet file must fit into memory
STREAM_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
STREAM_START = b"\xff\xff\xff\xff"
FILE_MARK = b"ARROW1"
ARROW_ENDINGS = (".arrow", ".feather", ".ipc")

Block = tuple[int, Any]  # index of the first row, and a pyarrow.RecordBatch


class ArrowFile(ABC):
    """A table file that is read in blocks of columns.

    Parameters
    ----------
    path : Path
        The file.
    schema : pyarrow.Schema
        Its columns.
    starts : sequence of int
        Index of the first row of each group of rows (Parquet) or record batch (Arrow), and the number of rows.
    """

    def __init__(self, path: Path, schema: Any, starts: Sequence[int]) -> None:
        self.path, self.schema, self.starts = path, schema, list(starts)
        self.rows = self.starts[-1]
        check_repeated(list(schema.names), path)

    @abstractmethod
    def blocks(self, columns: Sequence[str], start: int, size: int) -> Iterator[Block]:
        """Read columns in blocks, from the group that holds a row on.

        Parameters
        ----------
        columns : sequence of str
            The columns.
        start : int
            Index of the row.
        size : int
            Most rows of a block.

        Yields
        ------
        first : int
            Index of the first row of the block.
        batch : pyarrow.RecordBatch
            The columns, in the order of the file.
        """

    def group_start(self, row: int) -> int:
        """Return the index of the first row of the group that holds a row; reading can begin there."""
        return self.starts[self._group(row)]

    def _group(self, row: int) -> int:
        return max(0, min(bisect_right(self.starts, row) - 1, len(self.starts) - 2))


class ParquetTable(ArrowFile):
    """A Parquet file. Its footer is read when it is opened, which finds a truncated file.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        found = parquet.read_metadata(path)
        starts = [0]
        for group in range(found.num_row_groups):
            starts.append(starts[-1] + found.row_group(group).num_rows)
        super().__init__(path, found.schema.to_arrow_schema(), starts)
        check_parquet(path, ROWS)

    def blocks(self, columns: Sequence[str], start: int, size: int) -> Iterator[Block]:
        """Read columns in blocks; see :meth:`ArrowFile.blocks`."""
        from pyarrow import parquet

        groups = list(range(self._group(start), len(self.starts) - 1))
        first = self.group_start(start)
        # Read buffers keep the size of a block independent of the size of a row group; pre-buffering would load the groups.
        buffer = max(LEAST_BUFFER, min(BUFFERS // max(len(columns), 1), MOST_BUFFER))
        with parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=buffer) as file:
            for batch in file.iter_batches(size, row_groups=groups, columns=list(columns)):
                yield first, batch
                first += len(batch)


class ArrowTable(ArrowFile):
    """An Arrow file in the IPC file format (``.feather``) or stream format (Hugging Face), memory-mapped while it is read.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            head = file.read(len(FILE_MARK))
            file.seek(max(0, size_of(path) - len(STREAM_END)))
            tail = file.read()
        self.is_stream = head.startswith(STREAM_START)
        if not self.is_stream and head != FILE_MARK:
            raise DataError(
                f"{path} must be an Arrow file in the IPC file or stream format; it begins with {head!r}. Write it again."
            )
        if not (tail == STREAM_END if self.is_stream else tail.endswith(FILE_MARK)):
            raise DataError(f"{path} is truncated: the mark at the end of an Arrow file is missing. Copy or write it again.")
        starts = [0]
        with self._opened(path) as (schema, batches):
            for batch in batches:
                starts.append(starts[-1] + len(batch))
        super().__init__(path, schema, starts if len(starts) > 1 else [0, 0])

    def blocks(self, columns: Sequence[str], start: int, size: int) -> Iterator[Block]:
        """Read columns in blocks; see :meth:`ArrowFile.blocks`."""
        group = self._group(start)
        with self._opened(self.path, group) as (_, batches):
            for first, batch in zip(self.starts[group:], batches, strict=False):
                wanted = batch.select(list(columns))
                wanted.validate(full=True)  # offsets of a damaged file would point anywhere
                for row in range(0, len(wanted), size):
                    yield first + row, wanted.slice(row, size)

    @contextmanager
    def mapped(self) -> Iterator[tuple[Any, Iterator[Any]]]:
        """Map the file into memory: a buffer of its whole content, and the record batches, which are parts of it."""
        import pyarrow

        with pyarrow.memory_map(str(self.path)) as source:
            content = source.read_buffer()
            yield content, self._batches(pyarrow.BufferReader(content), 0)[1]

    @contextmanager
    def _opened(self, path: Path, group: int = 0) -> Iterator[tuple[Any, Iterator[Any]]]:
        """Open the file; the schema, and the record batches from one on."""
        import pyarrow

        with pyarrow.memory_map(str(path)) as source:
            yield self._batches(source, group)

    def _batches(self, source: Any, group: int) -> tuple[Any, Iterator[Any]]:
        """The schema, and the record batches from one on."""
        import pyarrow

        if self.is_stream:
            stream = pyarrow.ipc.open_stream(source)
            return stream.schema, islice(stream, group, None)
        file = pyarrow.ipc.open_file(source)
        return file.schema, (file.get_batch(k) for k in range(group, file.num_record_batches))


def open_arrow_file(path: Path) -> ArrowFile:
    """Open a Parquet or Arrow file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    ArrowFile
        The file; its schema and number of rows are read.

    Raises
    ------
    DataError
        If the file is missing, truncated or of another format.
    """
    return opened(path, lambda: ParquetTable(path) if path.suffix == ".parquet" else ArrowTable(path))
