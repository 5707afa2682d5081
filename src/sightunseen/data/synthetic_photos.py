"""Synthetic photos of classes with named attributes, for the demo and the tests."""

import csv
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightunseen.core.class_table import ClassTable
from sightunseen.core.errors import SettingsError, StorageError
from sightunseen.core.randomness import as_generator, derive_seed
from sightunseen.data.painting import BACKGROUNDS, COLOURS, NUMBERS, PATTERNS, SHAPES, SIZES, Thing, paint

# In the order of Thing's fields.
VALUES = tuple(tuple[str, ...](kind) for kind in (SHAPES, COLOURS, PATTERNS, NUMBERS, SIZES, BACKGROUNDS))
NAMING = 3  # leading attributes that make up the unique name: shape, colour and pattern
MOST_CLASSES = len(SHAPES) * len(COLOURS) * len(PATTERNS)
FEWEST_CLASSES = 24  # with fewer, some attribute values would be too rare
THREADS = min(4, os.cpu_count() or 1)
NOTE_FILE, NOTE = "README.txt", "Synthetic photos, drawn by sightunseen: no camera took them.\n"

Watch = Callable[[Iterable[Thing], int], Iterable[Thing]]


@dataclass(frozen=True)
class DrawnWorld:
    """Classes of a synthetic data set of photos.

    Parameters
    ----------
    seen : tuple of Thing
        Classes with training photos.
    unseen : tuple of Thing
        Classes that are known by their attributes only.
    """

    seen: tuple[Thing, ...]
    unseen: tuple[Thing, ...]

    @property
    def table(self) -> ClassTable:
        """Class table of all classes."""
        return table_of([*self.seen, *self.unseen])


def draw_world(
    folder: str | Path,
    n_classes: int = 72,
    photos_per_class: int = 20,
    size: int = 160,
    seed: int = 0,
    watch: Watch = lambda things, _: things,
) -> DrawnWorld:
    """Draw synthetic photos into a new folder: ``seen/CLASS/*.jpg``, ``unseen/CLASS/*.jpg`` and ``classes.csv``.

    A sixth of the classes are unseen. The same seed gives the same files, byte for byte.

    Parameters
    ----------
    folder : str or Path
        Folder to create.
    n_classes : int, default=72
        Number of classes, from 24 to 168.
    photos_per_class : int, default=20
        Number of photos per class.
    size : int, default=160
        Width and height of the photos in pixels.
    seed : int, default=0
        Random seed.
    watch : callable, optional
        Function of an iterable of the classes, as they are finished, and their number. It returns an iterable of the
        same classes and may show progress.

    Returns
    -------
    DrawnWorld
        The seen and unseen classes.

    Raises
    ------
    SettingsError
        If ``n_classes`` is out of range.
    StorageError
        If the folder exists.
    """
    things = choose_things(n_classes, seed)
    n_seen = n_classes - n_classes // 6
    world = DrawnWorld(things[:n_seen], things[n_seen:])
    folder = Path(folder)
    if folder.exists():
        raise StorageError(f"{folder} exists. Choose another folder to draw photos into.")
    folder.mkdir(parents=True)
    (folder / NOTE_FILE).write_text(NOTE, "utf-8")  # first, to identify the folder after an interruption
    write_classes(folder / "classes.csv", things)

    def draw(thing: Thing) -> Thing:
        part = "seen" if thing in world.seen else "unseen"
        draw_photos(folder / part / thing.name, thing, range(photos_per_class), size, seed)
        return thing

    with ThreadPoolExecutor(THREADS) as pool:
        for _ in watch(pool.map(draw, things), len(things)):
            pass
    return world


def draw_photos(folder: Path, thing: Thing, numbers: Iterable[int], size: int = 160, seed: int = 0) -> None:
    """Draw photos of one class into a folder.

    Parameters
    ----------
    folder : Path
        Folder, created if necessary.
    thing : Thing
        The class.
    numbers : iterable of int
        Numbers of the photos; each number seeds its own photo.
    size : int, default=160
        Width and height of the photos in pixels.
    seed : int, default=0
        Random seed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        rng = as_generator(derive_seed(seed, "photo", thing.name, number))
        paint(thing, rng, size).save(folder / f"{thing.name}-{number:03d}.jpg", quality=90)


def choose_things(n_classes: int, seed: int = 0) -> tuple[Thing, ...]:
    """Choose classes with unique names, greedily, such that all attribute values are about equally frequent.

    Parameters
    ----------
    n_classes : int
        Number of classes, from 24 to 168.
    seed : int, default=0
        Random seed.

    Returns
    -------
    tuple of Thing
        The classes. Every prefix of the tuple is balanced, too.

    Raises
    ------
    SettingsError
        If ``n_classes`` is out of range.

    Examples
    --------
    >>> len({thing.name for thing in choose_things(24)})
    24
    """
    if not FEWEST_CLASSES <= n_classes <= MOST_CLASSES:
        raise SettingsError(f"n_classes must be from {FEWEST_CLASSES} to {MOST_CLASSES}; got {n_classes}.")
    every = np.array(list(itertools.product(*(range(len(values)) for values in VALUES))))  # (combinations, attributes)
    as_generator(derive_seed(seed, "things")).shuffle(every)
    used = [np.zeros(len(values)) for values in VALUES]
    chosen: list[Thing] = []
    while len(chosen) < n_classes:
        best = every[sum(count[every[:, k]] for k, count in enumerate(used)).argmin()]
        for count, value in zip(used, best, strict=True):
            count[value] += 1
        chosen.append(Thing(*(values[value] for values, value in zip(VALUES, best, strict=True))))
        every = every[(every[:, :NAMING] != best[:NAMING]).any(axis=1)]
    return tuple(chosen)


def table_of(things: Sequence[Thing]) -> ClassTable:
    """Build the class table of synthetic classes, with binary attributes.

    Parameters
    ----------
    things : sequence of Thing
        The classes.

    Returns
    -------
    ClassTable
        One column per attribute value: 1 if the class has it, else 0.
    """
    columns = [f"{name}: {value}" for name, values in zip(Thing.__annotations__, VALUES, strict=True) for value in values]
    vectors = [[float(column in thing.attributes) for column in columns] for thing in things]
    return ClassTable([thing.name for thing in things], vectors, columns)


def write_classes(path: Path, things: Sequence[Thing], descriptions: bool = True) -> None:
    """Write a table of classes as CSV.

    Parameters
    ----------
    path : Path
        File to write.
    things : sequence of Thing
        The classes.
    descriptions : bool, default=True
        Whether to add a column with a description of each class.
    """
    table = table_of(things)
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["class", *(table.attribute_names or ()), *(["description"] if descriptions else [])])
        for thing, vector in zip(things, table.vectors.astype(int).tolist(), strict=True):
            rows.writerow([thing.name, *vector, *([thing.description] if descriptions else [])])


def was_drawn_here(folder: Path) -> bool:
    """Return whether :func:`draw_world` created this folder, even if it was interrupted."""
    note = folder / NOTE_FILE
    return note.is_file() and note.read_text("utf-8", errors="replace") == NOTE
