"""A world of photos with named attributes, drawn here for the demo and the tests. Synthetic, and called so on the spot."""

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

VALUES = tuple(tuple[str, ...](kind) for kind in (SHAPES, COLOURS, PATTERNS, NUMBERS, SIZES, BACKGROUNDS))  # a thing's order
NAMING = 3  # the attributes that make a name, which no two classes share: shape, colour and pattern
MOST_CLASSES = len(SHAPES) * len(COLOURS) * len(PATTERNS)
FEWEST_CLASSES = 24  # fewer do not show every value several times
THREADS = min(4, os.cpu_count() or 1)
NOTE_FILE, NOTE = "README.txt", "Synthetic photos, drawn by sightunseen: no camera took them.\n"

Watch = Callable[[Iterable[Thing], int], Iterable[Thing]]


@dataclass(frozen=True)
class DrawnWorld:
    """The classes of a world: those with training photos, and those known by their attributes alone."""

    seen: tuple[Thing, ...]
    unseen: tuple[Thing, ...]

    @property
    def table(self) -> ClassTable:
        """All classes with their attributes."""
        return table_of([*self.seen, *self.unseen])


def draw_world(
    folder: str | Path,
    n_classes: int = 72,
    photos_per_class: int = 20,
    size: int = 160,
    seed: int = 0,
    watch: Watch = lambda things, _: things,
) -> DrawnWorld:
    """Draw a world into a new folder: ``seen/CLASS/*.jpg``, ``unseen/CLASS/*.jpg`` and ``classes.csv``.

    A sixth of the classes are unseen. The same seed draws the same bytes. ``watch`` is given the classes as they are
    drawn and their number, and gives them back, to show progress.
    """
    things = choose_things(n_classes, seed)
    n_seen = n_classes - n_classes // 6
    world = DrawnWorld(things[:n_seen], things[n_seen:])
    folder = Path(folder)
    if folder.exists():
        raise StorageError(f"{folder} exists. Choose another folder to draw photos into.")
    folder.mkdir(parents=True)
    (folder / NOTE_FILE).write_text(NOTE, "utf-8")  # first, so that what an interruption leaves says what it is
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
    """Draw the photos of a class that have these numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        rng = as_generator(derive_seed(seed, "photo", thing.name, number))
        paint(thing, rng, size).save(folder / f"{thing.name}-{number:03d}.jpg", quality=90)


def choose_things(n_classes: int, seed: int = 0) -> tuple[Thing, ...]:
    """Classes with names of their own, chosen one by one so that every value is used about equally often at any time."""
    if not FEWEST_CLASSES <= n_classes <= MOST_CLASSES:
        raise SettingsError(f"a drawn world has {FEWEST_CLASSES} to {MOST_CLASSES} classes; got {n_classes}.")
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
    """The class table of things: a column for each value of each attribute, 1 where a class has it and 0 elsewhere."""
    columns = [f"{name}: {value}" for name, values in zip(Thing.__annotations__, VALUES, strict=True) for value in values]
    vectors = [[float(column in thing.attributes) for column in columns] for thing in things]
    return ClassTable([thing.name for thing in things], vectors, columns)


def write_classes(path: Path, things: Sequence[Thing], descriptions: bool = True) -> None:
    """Write things as a table of classes: name, attributes and, if asked for, a sentence that says the same."""
    table = table_of(things)
    with open(path, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["class", *(table.attribute_names or ()), *(["description"] if descriptions else [])])
        for thing, vector in zip(things, table.vectors.astype(int).tolist(), strict=True):
            rows.writerow([thing.name, *vector, *([thing.description] if descriptions else [])])


def was_drawn_here(folder: Path) -> bool:
    """Whether this folder holds a drawn world, whole or not."""
    note = folder / NOTE_FILE
    return note.is_file() and note.read_text("utf-8", errors="replace") == NOTE
