"""Photos in tar archives, as webdataset and img2dataset write them: members of one key are a photo and its label."""

import math
import re
import tarfile
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path, PurePosixPath
from typing import IO

from sightunseen.core.conversion import as_text
from sightunseen.core.documents import DocumentError, parse_document, quoted
from sightunseen.core.errors import DataError
from sightunseen.core.limits import COUNT, PATH_LENGTH, SIDECAR_BYTES
from sightunseen.data.folders import files_below, in_natural_order
from sightunseen.data.opening import opened
from sightunseen.data.stored_photos import NOT_REGULAR, StoredPhotos

ENDING = ".tar"
PHOTOS = frozenset({"jpg", "jpeg", "png", "webp"})
RANGE = re.compile(r"\{([0-9]{1,9})\.\.([0-9]{1,9})\}")
LABEL_KEYS = ("label", "class")  # of a .json member


@dataclass
class _Sample:
    """What the members of a key say about the label of its photo."""

    cls: str | None = None
    json: str | None = None
    text: str | None = None
    has_json: bool = False

    @property
    def label(self) -> str | None:
        if self.cls is not None or self.json is not None:
            return self.cls if self.cls is not None else self.json
        return None if self.has_json else self.text  # beside a .json, a .txt is the caption that img2dataset writes


class _Headers:
    """File from which only headers are read: a damaged archive may declare one of any size."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.seek, self.tell = file, file.seek, file.tell

    def read(self, size: int) -> bytes:
        if size > SIDECAR_BYTES:
            raise tarfile.ReadError(f"a header declares {size:,} bytes")
        return self.file.read(size)


def is_tar(source: Path) -> bool:
    """Return whether a path is a tar archive, or a range of them such as ``shard-{000..127}.tar``."""
    return source.suffix.lower() == ENDING and not source.is_dir()


def shards_of(source: Path) -> list[Path]:
    """List the tar archives of a folder, a range or a single path, in natural order.

    Parameters
    ----------
    source : Path
        A folder, a tar archive, or a range such as ``shard-{000..127}.tar``; both ends of a range are included.

    Returns
    -------
    list of Path
        The archives; empty if a folder has none.

    Raises
    ------
    DataError
        If a range is not valid.

    Examples
    --------
    >>> [path.name for path in shards_of(Path("shard-{008..010}.tar"))]
    ['shard-008.tar', 'shard-009.tar', 'shard-010.tar']
    """
    if source.is_dir():
        return in_natural_order([file for file in files_below(source) if file.suffix.lower() == ENDING])
    pieces = RANGE.split(str(source))
    if source.exists() or len(pieces) == 1:
        return [source]
    texts, ranges = pieces[::3], [_numbers(source, *ends) for ends in zip(pieces[1::3], pieces[2::3], strict=True)]
    if math.prod(map(len, ranges)) > COUNT:
        raise DataError(f"{source} stands for more than {COUNT:,} files, the limit.")
    chosen = [(*numbers, "") for numbers in product(*ranges)]
    return [Path("".join(text + number for text, number in zip(texts, numbers, strict=True))) for numbers in chosen]


def read_shards(source: Path) -> tuple[StoredPhotos, tuple[str, ...] | None]:
    """List the photos of tar archives by one pass over their headers; nothing is extracted.

    The key of a member is its name up to the first dot of its base name. The label of a photo is the content of the ``.cls``
    member of its key, ``label`` or ``class`` of its ``.json`` member, or, without a ``.json``, its ``.txt`` member.

    Parameters
    ----------
    source : Path
        See :func:`shards_of`.

    Returns
    -------
    photos : StoredPhotos
        The photos, in the order of the archives.
    labels : tuple of str or None
        Class of each photo; None if no photo has one.

    Raises
    ------
    DataError
        If an archive is missing, damaged or truncated, or if only some photos have labels.
    """
    photos, labels = StoredPhotos(), list[str | None]()
    known: dict[str, str] = {}  # one object for each label, however many photos have it
    for path in shards_of(source):
        photos.add_file(path, path.relative_to(source).as_posix() if source.is_dir() else path.name)
        found = opened(path, partial(_scan, path, photos), "an uncompressed tar archive")
        labels += [None if label is None else known.setdefault(label, label) for label in found]
    if known and None in labels:
        raise DataError(
            f"{photos[labels.index(None)]} has no label, but other photos of {source} have one. Add a member that ends in "
            ".cls, or remove the photo."
        )
    return photos, tuple(label for label in labels if label is not None) or None


def _scan(path: Path, photos: StoredPhotos) -> list[str | None]:
    """Add the photos of an archive; their labels."""
    samples: dict[str, _Sample] = {}
    keys: list[str] = []
    with open(path, "rb") as file, tarfile.open(fileobj=_Headers(file), mode="r:") as archive:  # type: ignore[call-overload]
        while (member := archive.next()) is not None:
            archive.members.clear()  # it would keep all
            if len(member.name) > PATH_LENGTH or "\0" in member.name:
                raise DataError(f"{path}: the name of a member, {quoted(member.name)}, is too long or has a NUL character.")
            base = PurePosixPath(member.name).name
            stem, _, endings = base.partition(".")
            key, ending = f"{member.name[: -len(base) or None]}{stem}", endings.rpartition(".")[2].lower()
            regular = member.isreg() and not member.issparse()
            if ending in PHOTOS:
                photos.add(member.name, member.offset_data, member.size if regular else NOT_REGULAR)
                keys.append(key)
            elif ending in ("cls", "txt", "json") and regular:
                if member.size > SIDECAR_BYTES:
                    raise DataError(f"{path}: {quoted(member.name)} has more than {SIDECAR_BYTES:,} bytes, the limit.")
                file.seek(member.offset_data)
                _note(samples.setdefault(key, _Sample()), ending, file.read(member.size), f"{path}: {quoted(member.name)}")
        file.seek(archive.offset)
        _check_end(file.read(tarfile.BLOCKSIZE), path, archive.offset)
    labels = [samples[key].label if key in samples else None for key in keys]
    return [label if label is None else as_text(label, f"{path}: a label") for label in labels]


def _note(sample: _Sample, ending: str, content: bytes, where: str) -> None:
    """Note the label in a member."""
    if ending != "json":
        text = content.decode("utf-8", "replace").strip() or None
        if ending == "cls":
            sample.cls = text
        else:
            sample.text = text
        return
    sample.has_json = True
    try:
        found = parse_document(content)
    except DocumentError as error:
        raise DataError(f"{where} is {error}. Write the archive again.") from error
    values = [found[key] for key in LABEL_KEYS if found.get(key) is not None] if isinstance(found, dict) else []
    if values:
        sample.json = as_text(values[0], f"{where}: the label")


def _check_end(block: bytes, path: Path, position: int) -> None:
    """Raise ``DataError`` unless the archive ends with its mark: tarfile takes any other block for the end, too."""
    if block and (len(block) < tarfile.BLOCKSIZE or any(block)):
        raise DataError(f"{path} has a damaged header at byte {position:,}; photos after it would be lost. Write it again.")
    if not block:
        raise DataError(f"{path} is truncated: the mark at the end of a tar archive is missing. Copy or write it again.")


def _numbers(source: Path, first: str, last: str) -> list[str]:
    """Numbers of a range as texts of the width of the first one."""
    if not 0 <= int(last) - int(first) < COUNT:
        raise DataError(f"{source}: the range {first}..{last} must go up, by at most {COUNT:,}.")
    return [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
