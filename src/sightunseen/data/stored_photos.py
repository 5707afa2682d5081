"""Photos that are stored within larger files, such as tar archives: where their content begins, and its size."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

NOT_REGULAR = -1  # size of a member of an archive that is a link or a device


@dataclass(frozen=True, slots=True)
class StoredPhoto:
    """A photo within a larger file.

    Parameters
    ----------
    file : Path
        The larger file.
    start : int
        Position of the photo's first byte.
    size : int
        Number of bytes; negative if the photo has no content.
    name : str
        Name of the photo, such as ``shard-00.tar/000017.jpg``.
    """

    file: Path
    start: int
    size: int
    name: str

    def __str__(self) -> str:
        return self.name


class StoredPhotos(Sequence[StoredPhoto]):
    """Sequence of stored photos that needs few bytes for each.

    Examples
    --------
    >>> photos = StoredPhotos()
    >>> photos.add_file(Path("shard-00.tar"), "shard-00.tar")
    >>> photos.add("a.jpg", 512, 20_000)
    >>> print(photos[0], len(photos))
    shard-00.tar/a.jpg 1
    """

    def __init__(self) -> None:
        self.files: list[tuple[Path, str]] = []
        self.numbers, self.starts, self.sizes = array("l"), array("q"), array("q")
        self.names, self.ends = bytearray(), array("q", [0])

    def add_file(self, path: Path, shown: str) -> None:
        """Begin a larger file, with the text that names it."""
        self.files.append((path, shown))

    def add(self, name: str, start: int, size: int) -> None:
        """Add a photo of the last file."""
        self.numbers.append(len(self.files) - 1)
        self.starts.append(start)
        self.sizes.append(size)
        self.names += name.encode("utf-8", "surrogateescape")
        self.ends.append(len(self.names))

    def __len__(self) -> int:
        return len(self.starts)

    @overload
    def __getitem__(self, index: int) -> StoredPhoto: ...
    @overload
    def __getitem__(self, index: slice) -> list[StoredPhoto]: ...
    def __getitem__(self, index: int | slice) -> StoredPhoto | list[StoredPhoto]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(len(self)))]
        k = range(len(self))[index]
        path, shown = self.files[self.numbers[k]]
        name = self.names[self.ends[k] : self.ends[k + 1]].decode("utf-8", "surrogateescape")
        return StoredPhoto(path, self.starts[k], self.sizes[k], f"{shown}/{name}")

    def __iter__(self) -> Iterator[StoredPhoto]:
        return (self[k] for k in range(len(self)))
