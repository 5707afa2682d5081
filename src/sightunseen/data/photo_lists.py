"""Lists of photos with their labels and splits: from folders, a CSV, a single file, tar archives or Hugging Face folders."""

import csv
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sightunseen.core.conversion import as_labels
from sightunseen.core.dataset import HELD_OUT_PART
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError
from sightunseen.core.memory import check_memory
from sightunseen.data.columns import check_repeated, few
from sightunseen.data.folders import files_below, identity_of, visible
from sightunseen.data.hugging_face import SPLIT_WORDS, is_hugging_face
from sightunseen.data.hugging_face_photos import has_photos, read_photos
from sightunseen.data.opening import opened, size_of
from sightunseen.data.photo_files import ENDINGS
from sightunseen.data.stored_photos import StoredPhoto
from sightunseen.data.table_layouts import is_table
from sightunseen.data.tar_shards import ENDING as TAR
from sightunseen.data.tar_shards import is_tar, read_shards, shards_of

OTHER_ENDINGS = frozenset(  # image formats that are not supported
    {".heic", ".heif", ".avif", ".jp2", ".jxl", ".psd", ".svg", ".dng", ".raw", ".arw", ".cr2", ".cr3", ".nef", ".orf"}
)
SUPPORTED = ", ".join(sorted(ENDINGS))
Photo = Path | StoredPhoto
LONGEST_HEADER = 1 << 16  # bytes of the first line of a CSV of photos, which has at most four names


@dataclass(frozen=True)
class PhotoList:
    """Photos in a fixed order, with their labels and splits if known.

    Parameters
    ----------
    paths : sequence of Path or StoredPhoto
        The photos: files, or parts of larger files such as tar archives.
    labels : tuple of str, optional
        Class of each photo.
    splits : tuple of str, optional
        ``train``, ``test_seen`` or ``test_unseen`` for each photo.
    left_out : tuple of Path, default=()
        Image files of unsupported formats.
    """

    paths: Sequence[Photo]
    labels: tuple[str, ...] | None = None
    splits: tuple[str, ...] | None = None
    left_out: tuple[Path, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def remark(self) -> str:
        """Sentence about the images that were left out; empty if there are none."""
        return f"note: left out {_of_other_formats(self.left_out)}" if self.left_out else ""

    def fresh_paths(self) -> Iterator[Photo]:
        """Yield a copy of each path: a ``Path`` caches its text when used, which adds up over a million photos."""
        return (Path(path) if isinstance(path, Path) else path for path in self.paths)


def is_photos(source: str | Path) -> bool:
    """Return whether a path holds photos, also of unsupported formats: see :func:`list_photos`.

    A ``.csv`` of photos has paths, labels and splits only.
    """
    source = Path(source)
    if source.is_dir():
        return has_photos(source) or _has_photos_or_shards(source)
    if is_tar(source):
        return True
    if source.suffix.lower() != ".csv" or not source.is_file():
        return source.suffix.lower() in ENDINGS | OTHER_ENDINGS
    if not source.stat().st_size:  # files of /proc, which may block, have no size either
        return False
    with open(source, newline="", encoding="utf-8-sig", errors="replace") as file:
        header = {name.strip() for name in file.readline(LONGEST_HEADER).replace('"', "").split(",")}
    return "path" in header and header <= {"path", "label", "class", "split"}


def _has_photos_or_shards(folder: Path) -> bool:
    """Whether a folder contains photos; or tar archives or images of other formats, and no table of features."""
    shards = others = features = table = False
    for path in files_below(folder):
        if path.suffix.lower() in ENDINGS:
            return True
        shards = shards or path.suffix.lower() == TAR
        others = others or path.suffix.lower() in OTHER_ENDINGS
        features = features or path.stem == "features" or path.suffix == ".mat"
        table = table or is_table(path)
    return not features and (shards or (others and not table))  # shards may have a table of their metadata


def list_photos(source: str | Path, labelled: bool = True) -> PhotoList:
    """List the photos of a folder, a CSV or a single file.

    Parameters
    ----------
    source : str or Path
        One of

        - a folder with one folder per class;
        - a folder with such folders in ``seen`` and ``unseen``: photos of unseen classes are ``test_unseen``, a fifth of
          the photos of each seen class, selected by a hash of their paths, are ``test_seen``, the others ``train``;
        - a folder of photos without labels;
        - a photo;
        - a tar archive, a folder of tar archives, or a range of them such as ``shard-{000..127}.tar``
          (see :func:`~sightunseen.data.tar_shards.read_shards`);
        - a Hugging Face folder with a column of images (see :func:`~sightunseen.data.hugging_face_photos.read_photos`);
        - a CSV with a column ``path`` (relative to the CSV) and optionally ``label`` or ``class``, and ``split``.
    labelled : bool, default=True
        Whether labels matter. If not, a folder may have photos beside folders of photos, or beside ``seen`` and ``unseen``.

    Returns
    -------
    PhotoList
        The photos.

    Raises
    ------
    DataError
        If there are no photos, or if their classes or splits are ambiguous.
    """
    source = Path(source)
    if source.is_dir():
        photos = _from_folder(source, labelled)
    elif is_tar(source):
        photos = PhotoList(*read_shards(source))
    elif source.suffix.lower() == ".csv":
        photos = _from_csv(source)
    elif source.suffix.lower() in ENDINGS and source.exists():
        photos = PhotoList((source,))
    else:
        found = f"got '{source.name}'" if source.exists() else "there is no such file or folder"
        raise DataError(f"{source} must be a folder of photos, a .csv that lists them or a photo ({SUPPORTED}); {found}.")
    if not photos.paths:
        raise DataError(f"{source} holds no photos ({SUPPORTED}); found {_found(source, photos.left_out)}.")
    if photos.labels is not None:
        as_labels(sorted(set(photos.labels)), f"{source}: the classes of the photos")  # raises if one is not a label
    return photos


def _from_folder(folder: Path, labelled: bool) -> PhotoList:
    if is_hugging_face(folder):
        return PhotoList(*read_photos(folder))
    photos = _from_folders(folder, labelled)
    return photos if photos.paths or not shards_of(folder) else PhotoList(*read_shards(folder))


def _from_folders(folder: Path, labelled: bool) -> PhotoList:
    if all((folder / part).is_dir() for part in ("seen", "unseen")):
        return _from_seen_and_unseen(folder, labelled)
    photos, by_class = _of_files([path for path in visible(folder) if not path.is_dir()]), _from_class_folders(folder, folder)
    left_out = (*photos.left_out, *by_class.left_out)
    if photos.paths and by_class.paths:
        if not labelled:
            return PhotoList((*photos.paths, *by_class.paths), left_out=left_out)
        raise DataError(
            f"{folder} holds photos (such as '{photos.paths[0].name}') beside folders of classes (such as "
            f"'{(by_class.labels or [''])[0]}'). Move them into the folders of their classes, or elsewhere."
        )
    return replace(by_class if by_class.paths else photos, left_out=left_out)


def _from_seen_and_unseen(folder: Path, labelled: bool) -> PhotoList:
    seen, unseen = _from_class_folders(folder / "seen", folder), _from_class_folders(folder / "unseen", folder)
    both = sorted(set(seen.labels or ()) & set(unseen.labels or ()))
    if both:
        raise DataError(f"{folder}: '{both[0]}' is in both seen and unseen. Keep it in one of them.")
    visited = {identity_of(path) for path in (folder, folder / "seen", folder / "unseen")}
    beside = _of_files([file for path in visible(folder) for file in files_below(path, visited)])
    left_out = (*seen.left_out, *unseen.left_out, *beside.left_out)
    if not labelled:
        return PhotoList((*seen.paths, *unseen.paths, *beside.paths), left_out=left_out)
    if beside.paths:
        first = Path(str(beside.paths[0])).relative_to(folder)
        raise DataError(f"{folder}: the photo '{first}' is beside seen and unseen. Move it into one of them, or elsewhere.")
    splits = (*_held_out(seen, folder), *("test_unseen" for _ in unseen.paths))
    return PhotoList((*seen.paths, *unseen.paths), (*(seen.labels or ()), *(unseen.labels or ())), splits, left_out)


def _of_files(files: list[Path]) -> PhotoList:
    return PhotoList(tuple(_of_kind(files, ENDINGS)), left_out=tuple(_of_kind(files, OTHER_ENDINGS)))


def _from_class_folders(folder: Path, top: Path) -> PhotoList:
    paths, labels, left_out = [], [], []
    for class_folder in visible(folder):
        if class_folder.is_dir():
            files = list(files_below(class_folder, {identity_of(top), identity_of(folder)}))
            found = _of_kind(files, ENDINGS)
            paths += found
            labels += [class_folder.name] * len(found)
            left_out += _of_kind(files, OTHER_ENDINGS)
    return PhotoList(tuple(paths), tuple(labels), left_out=tuple(left_out))


def _held_out(photos: PhotoList, top: Path) -> Iterator[str]:
    """``test_seen`` for a fifth of each class, ``train`` for the others; reproducible, because a hash of the path decides."""
    by_class: dict[str, list[Path]] = {}
    for path, label in zip(photos.paths, photos.labels or (), strict=True):
        by_class.setdefault(label, []).append(Path(str(path)))
    held = set()
    for paths in by_class.values():
        shuffled = sorted(paths, key=lambda path: hashlib.sha256(os.fsencode(path.relative_to(top).as_posix())).digest())
        held.update(shuffled[: max(1, round(HELD_OUT_PART * len(paths))) if len(paths) > 1 else 0])
    return ("test_seen" if path in held else "train" for path in photos.paths)


def _from_csv(path: Path) -> PhotoList:
    columns, rows = opened(path, lambda: _read_csv(path), "a CSV in UTF-8", "Save it again as UTF-8.")
    if "path" not in columns:
        raise DataError(f"{path} has no column 'path' with the files of the photos; it has {few(columns) or 'none'}.")
    label = next((name for name in ("label", "class") if name in columns), None)
    for name in ("path", label, "split"):
        empty = [number for number, row in enumerate(rows, 2) if name in columns and not row.get(str(name))]
        if empty:
            raise DataError(f"{path}, line {empty[0]}: '{name}' is empty. Fill it in, or remove the line.")
    splits = tuple(row["split"] for row in rows) if "split" in columns else None
    unknown = sorted(set(splits or ()) - set(SPLIT_WORDS))
    if unknown:
        raise DataError(f"{path}: split must be {', '.join(SPLIT_WORDS)}; found '{quoted(unknown[0])}'.")
    photos = tuple(path.parent / row["path"] for row in rows)
    return PhotoList(photos, None if label is None else tuple(row[label] for row in rows), splits)


def _read_csv(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Names of the columns, and the rows without other columns."""
    check_memory(size_of(path), path)
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        columns = [str(name) for name in reader.fieldnames or ()]
        check_repeated(columns, path)
        used = [name for name in columns if name in ("path", "label", "class", "split")]
        return columns, [{name: str(row[name] or "").strip() for name in used} for row in reader]


def _of_kind(files: list[Path], endings: frozenset[str]) -> list[Path]:
    return [path for path in files if path.suffix.lower() in endings]


def _of_other_formats(left_out: Sequence[Path]) -> str:
    kinds = ", ".join(sorted({path.suffix.lower() for path in left_out}))
    images = "1 image" if len(left_out) == 1 else f"{len(left_out)} images"
    return f"{images} of formats that cannot be read ({kinds}; convert to JPEG or PNG)"


def _found(source: Path, left_out: tuple[Path, ...]) -> str:
    if left_out:
        return _of_other_formats(left_out)
    if not source.is_dir():
        return "no rows below the header"
    names = [path.name for path in visible(source)]
    return f"{len(names)} other files and folders ({few(names[:3])}, ...)" if names else "nothing"
