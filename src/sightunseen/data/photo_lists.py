"""Which photos there are, of which classes and for what: from folders, a CSV or a single file."""

import csv
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sightunseen.core.dataset import HELD_OUT_PART
from sightunseen.core.errors import DataError
from sightunseen.data.photo_files import ENDINGS

OTHER_ENDINGS = frozenset(  # images of kinds that are not read
    {".heic", ".heif", ".avif", ".jp2", ".jxl", ".psd", ".svg", ".dng", ".raw", ".arw", ".cr2", ".cr3", ".nef", ".orf"}
)
SPLITS = ("train", "test_seen", "test_unseen")


@dataclass(frozen=True)
class PhotoList:
    """Photos in a fixed order, with their labels and what each serves for where that is known.

    ``left_out`` are files that look like images but are of a kind that is not read.
    """

    paths: tuple[Path, ...]
    labels: tuple[str, ...] | None = None
    splits: tuple[str, ...] | None = None
    left_out: tuple[Path, ...] = ()

    def __len__(self) -> int:
        return len(self.paths)

    def fresh_paths(self) -> Iterator[Path]:
        """The paths, each made anew: one that was used keeps its text, which adds up over a million."""
        return (Path(path) for path in self.paths)


def is_photos(source: str | Path) -> bool:
    """Whether a path leads to photos: a photo, a folder with some below it, or a CSV of nothing but their paths and labels."""
    source = Path(source)
    if source.is_dir():
        return any(path.suffix.lower() in ENDINGS for path in _files_below(source, set()))
    if source.suffix.lower() != ".csv" or not source.is_file():
        return source.suffix.lower() in ENDINGS
    with open(source, newline="", encoding="utf-8-sig", errors="replace") as file:
        heads = {name.strip() for name in next(csv.reader(file), [])}
    return "path" in heads and heads <= {"path", "label", "class", "split"}


def list_photos(source: str | Path) -> PhotoList:
    """The photos that a path leads to.

    A folder with a folder for each class; a folder with such folders in ``seen`` and ``unseen``, where the photos of unseen
    classes are ``test_unseen`` and, of each seen class, a fifth chosen by the photos' names is ``test_seen``; a flat folder;
    one photo; or a CSV with a column ``path`` (relative to the CSV) and optionally ``label`` or ``class`` and ``split``.
    """
    source = Path(source)
    if source.is_dir():
        photos = _from_folder(source)
    elif source.suffix.lower() == ".csv":
        photos = _from_csv(source)
    elif source.suffix.lower() in ENDINGS and source.exists():
        photos = PhotoList((source,))
    else:
        found = f"got '{source.name}'" if source.exists() else "there is nothing of that name"
        raise DataError(f"{source} must be a folder of photos, a .csv that lists them or a photo ({_endings()}); {found}.")
    if not photos.paths:
        raise DataError(f"{source} holds no photos ({_endings()}); found {_found(source, photos.left_out)}.")
    return photos


def _from_folder(folder: Path) -> PhotoList:
    if all((folder / part).is_dir() for part in ("seen", "unseen")):
        seen, unseen = _from_class_folders(folder / "seen", folder), _from_class_folders(folder / "unseen", folder)
        both = sorted(set(seen.labels or ()) & set(unseen.labels or ()))
        if both:
            raise DataError(f"{folder}: '{both[0]}' is a class both of seen and of unseen. Keep it in one of them.")
        splits = (*_held_out(seen, folder), *("test_unseen" for _ in unseen.paths))
        labels = (*(seen.labels or ()), *(unseen.labels or ()))
        return PhotoList((*seen.paths, *unseen.paths), labels, splits, (*seen.left_out, *unseen.left_out))
    flat = [path for path in _visible(folder) if not path.is_dir()]
    photos = PhotoList(tuple(_of_kind(flat, ENDINGS)), left_out=tuple(_of_kind(flat, OTHER_ENDINGS)))
    by_class = _from_class_folders(folder, folder)
    if photos.paths and by_class.paths:
        raise DataError(
            f"{folder} holds {len(photos)} photos beside {len(set(by_class.labels or ()))} folders of classes "
            f"('{photos.paths[0].name}' is one). Move them into the folder of their class, or elsewhere."
        )
    return by_class if by_class.paths else photos


def _from_class_folders(folder: Path, top: Path) -> PhotoList:
    paths, labels, left_out = [], [], []
    for class_folder in _visible(folder):
        if class_folder.is_dir():
            files = list(_files_below(class_folder, {_identity(top), _identity(folder)}))
            found = _of_kind(files, ENDINGS)
            paths += found
            labels += [class_folder.name] * len(found)
            left_out += _of_kind(files, OTHER_ENDINGS)
    return PhotoList(tuple(paths), tuple(labels), left_out=tuple(left_out))


def _held_out(photos: PhotoList, top: Path) -> Iterator[str]:
    """``test_seen`` for a fifth of each class, ``train`` for the rest; a name decides alike on every machine."""
    by_class: dict[str, list[Path]] = {}
    for path, label in zip(photos.paths, photos.labels or (), strict=True):
        by_class.setdefault(label, []).append(path)
    held = set()
    for paths in by_class.values():
        mixed = sorted(paths, key=lambda path: hashlib.sha256(os.fsencode(path.relative_to(top).as_posix())).digest())
        held.update(mixed[: max(1, round(HELD_OUT_PART * len(mixed))) if len(mixed) > 1 else 0])
    return ("test_seen" if path in held else "train" for path in photos.paths)


def _from_csv(path: Path) -> PhotoList:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            rows = [{name: str(value or "").strip() for name, value in row.items()} for row in reader]
            columns = [str(name) for name in reader.fieldnames or ()]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a CSV in UTF-8 ({error}).") from error
    if "path" not in columns:
        raise DataError(f"{path} has no column 'path' with the photos' files; it has {', '.join(columns) or 'none'}.")
    label = next((name for name in ("label", "class") if name in columns), None)
    for name in ("path", label, "split"):
        empty = [number for number, row in enumerate(rows, 2) if name in columns and not row.get(str(name))]
        if empty:
            raise DataError(f"{path}, line {empty[0]}: '{name}' is empty. Fill it in, or remove the line.")
    splits = tuple(row["split"] for row in rows) if "split" in columns else None
    strange = sorted(set(splits or ()) - set(SPLITS))
    if strange:
        raise DataError(f"{path}: split must be {', '.join(SPLITS)}; found '{strange[0]}'.")
    photos = tuple(path.parent / row["path"] for row in rows)
    return PhotoList(photos, None if label is None else tuple(row[label] for row in rows), splits)


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise DataError(f"the folder {folder} cannot be read ({error.strerror}).") from error


def _files_below(folder: Path, visited: set[tuple[int, int]]) -> Iterator[Path]:
    """All visible files at any depth, each folder once: links may go round in circles."""
    identity = _identity(folder)
    if identity in visited:
        return
    visited.add(identity)
    for path in _visible(folder):
        if path.is_dir():
            yield from _files_below(path, visited)
        else:
            yield path


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _of_kind(files: list[Path], endings: frozenset[str]) -> list[Path]:
    return [path for path in files if path.suffix.lower() in endings]


def _endings() -> str:
    return ", ".join(sorted(ENDINGS))


def _found(source: Path, left_out: tuple[Path, ...]) -> str:
    if left_out:
        kinds = ", ".join(sorted({path.suffix.lower() for path in left_out}))
        return f"{len(left_out)} images of kinds that are not read ({kinds}); convert them to JPEG or PNG"
    if not source.is_dir():
        return "nothing below its heading"
    names = [path.name for path in _visible(source)]
    return f"{len(names)} other files and folders ({', '.join(names[:3])}, ...)" if names else "nothing"
