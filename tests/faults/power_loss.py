"""Loss of power, simulated: what a disk may hold after each operation of a recorded run.

The model of the disk: a write is durable after fsync of its file. A directory entry (create, rename, unlink, mkdir) is durable
after fsync of its directory. Of all that is not durable, any part may survive; a rename survives completely or not at all.
"""

import hashlib
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .shim import Kind, Operation

EXCHANGE = 2  # RENAME_EXCHANGE of renameat2
RANDOM_STATES = 3  # random subsets of what is not durable, after each operation


@dataclass(eq=False)
class File:
    """A file: what programs see, and what is durable."""

    content: bytes = b""
    durable: bytes = b""
    source: Path | None = None  # where an unchanged file is copied from, with its time stamp


@dataclass(eq=False)
class Folder:
    """A folder: what programs see, and what is durable."""

    entries: dict[str, "File | Folder"] = field(default_factory=dict)
    durable: dict[str, "File | Folder"] = field(default_factory=dict)


@dataclass(eq=False)
class Pending:
    """A change of one or two folders that is not durable yet."""

    changes: list[tuple[Folder, str, File | Folder | None]]
    unsynced: set[int]  # ids of folders to be synced before it is durable


class Disk:
    """A disk with the files of a folder, all durable.

    Parameters
    ----------
    template : Path
        The folder.
    root : Path
        What recorded paths call it.
    """

    def __init__(self, template: Path, root: Path) -> None:
        self.root = root
        self.top = self._loaded(template)
        self.pending: list[Pending] = []

    def _loaded(self, path: Path) -> Folder:
        folder = Folder()
        for one in path.iterdir():
            if one.is_dir() and not one.is_symlink():
                folder.entries[one.name] = self._loaded(one)
            else:
                content = b"" if one.is_symlink() else one.read_bytes()
                folder.entries[one.name] = File(content, content, one)
        folder.durable = dict(folder.entries)
        return folder

    def apply(self, one: Operation) -> None:
        """Perform a recorded operation."""
        if one.result < 0 or one.path.endswith(" (deleted)"):
            return
        folder, name = self._place(one.path)
        found = folder.entries.get(name) if name else folder
        if one.kind is Kind.OPEN:
            if found is None:
                self._change([(folder, name, File())])
            elif one.flags & os.O_TRUNC and isinstance(found, File):
                found.content, found.source = b"", None
        elif one.kind is Kind.WRITE and isinstance(found, File):
            before = found.content.ljust(one.offset, b"\0")
            found.content = before[: one.offset] + one.data + before[one.offset + len(one.data) :]
            found.source = None
        elif one.kind is Kind.TRUNCATE and isinstance(found, File):
            found.content, found.source = found.content[: one.offset].ljust(one.offset, b"\0"), None
        elif one.kind is Kind.MKDIR:
            self._change([(folder, name, Folder())])
        elif one.kind in (Kind.UNLINK, Kind.RMDIR):
            self._change([(folder, name, None)])
        elif one.kind is Kind.LINK:
            self._change([(*self._place(one.other), found)])
        elif one.kind is Kind.RENAME:
            target, other = self._place(one.other)
            left = target.entries.get(other) if one.flags & EXCHANGE else None
            self._change([(folder, name, left), (target, other, found)])
        elif one.kind is Kind.SYNC:
            self._sync(found)

    def _place(self, path: str) -> tuple[Folder, str]:
        """The folder of a path, and the name in it; the root has no name."""
        *parents, name = Path(path).relative_to(self.root).parts or ("",)
        folder: Folder = self.top
        for part in parents:
            inner = folder.entries[part]
            assert isinstance(inner, Folder)
            folder = inner
        return folder, name

    def _change(self, changes: list[tuple[Folder, str, File | Folder | None]]) -> None:
        for folder, name, entry in changes:
            _set(folder.entries, name, entry)
        self.pending.append(Pending(changes, {id(folder) for folder, _, _ in changes}))

    def _sync(self, found: File | Folder | None) -> None:
        if isinstance(found, File):
            found.durable = found.content
        for one in [one for one in self.pending if id(found) in one.unsynced]:
            one.unsynced.discard(id(found))
            if not one.unsynced:
                self.pending.remove(one)
                for folder, name, entry in one.changes:
                    _set(folder.durable, name, entry)

    def after_loss(self, surviving: Iterable[Pending], content_of: Callable[[File], bytes]) -> "Tree":
        """What the disk holds if some of the pending changes survive.

        Parameters
        ----------
        surviving : iterable of Pending
            The pending changes that survive, in their order.
        content_of : callable
            Function from a file to the content that survives.

        Returns
        -------
        dict of str to (bytes, Path or None) or None
            Content and source of files by path; None for folders.
        """
        entries = {}
        for one in surviving:
            for folder, name, entry in one.changes:
                _set(entries.setdefault(id(folder), dict(folder.durable)), name, entry)
        tree: Tree = {}

        def walk(folder: Folder, path: str) -> None:
            for name, entry in entries.get(id(folder), folder.durable).items():
                if isinstance(entry, Folder):
                    tree[f"{path}{name}"] = None
                    walk(entry, f"{path}{name}/")
                else:
                    tree[f"{path}{name}"] = content_of(entry), entry.source

        walk(self.top, "")
        return tree


Tree = dict[str, tuple[bytes, Path | None] | None]


def _set(entries: dict[str, File | Folder], name: str, entry: File | Folder | None) -> None:
    if entry is None:
        entries.pop(name, None)
    else:
        entries[name] = entry


def states_after_loss(
    template: Path, root: Path, operations: list[Operation], seed: int = 0
) -> Iterator[tuple[int, str, Tree]]:
    """Yield the different states that a disk may have after each operation.

    Parameters
    ----------
    template : Path
        Folder with the files before the first operation.
    root : Path
        What the paths of the operations call it.
    operations : list of Operation
        The recorded operations.
    seed : int, default=0
        Random seed of random states.

    Yields
    ------
    number : int
        Number of the last operation before the loss.
    what : str
        What survived of what was not durable.
    tree : Tree
        What the disk holds.
    """
    disk, rng, known = Disk(template, root), random.Random(seed), set()

    def durable(file: File) -> bytes:
        return file.durable

    def torn(file: File) -> bytes:
        if file.content == file.durable:
            return file.durable
        return rng.choice([file.durable, file.content, file.content[: len(file.content) // 2]])

    for one in operations:
        disk.apply(one)
        random_parts = [[each for each in disk.pending if rng.random() < 0.5] for _ in range(RANDOM_STATES)]
        chosen = [
            ("nothing", [], durable),
            ("all entries", disk.pending, durable),
            ("every second entry", disk.pending[::2], durable),
            ("every other second entry", disk.pending[1::2], durable),
            *((f"random {k}", part, torn) for k, part in enumerate(random_parts)),
        ]
        last = one is operations[-1]
        for what, surviving, content_of in chosen:
            tree = disk.after_loss(surviving, content_of)
            key = _digest(tree)
            if key not in known or last:
                known.add(key)
                yield one.number, what, tree


def _digest(tree: Tree) -> bytes:
    parts = (f"{path}:".encode() + (b"/" if entry is None else entry[0]) for path, entry in sorted(tree.items()))
    return hashlib.sha256(b"\0".join(parts)).digest()


def write_tree(tree: Tree, root: Path) -> None:
    """Make a folder hold what a disk holds."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for path, entry in tree.items():
        if entry is None:
            (root / path).mkdir()
        elif entry[1] is not None:
            shutil.copy2(entry[1], root / path, follow_symlinks=False)
        else:
            (root / path).write_bytes(entry[0])
