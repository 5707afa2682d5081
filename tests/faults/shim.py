"""The fault injection library ``shim.c``: compiled, loaded, and the log of operations that it writes."""

import ctypes
import errno
import os
import platform
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
HEADER = struct.Struct("8q")


class Mode(IntEnum):
    """What happens at the operation with the target number."""

    RECORD = 0  # nothing
    KILL = 1  # the process group is killed before the operation
    TORN = 2  # the process group is killed after the first half of a write
    FAIL = 3  # the operation fails with an errno
    SHORT = 4  # half of a write is done
    FULL = 5  # this and all later operations that need space fail


class Kind(IntEnum):
    """Kinds of operations."""

    OPEN = 0
    WRITE = 1
    TRUNCATE = 2
    RENAME = 3
    LINK = 4
    UNLINK = 5
    MKDIR = 6
    RMDIR = 7
    SYNC = 8
    CHMOD = 9
    SYMLINK = 10


# The errors that POSIX allows for each kind of operation, as far as commands can meet them.
ERRORS = {
    errno.ENOSPC: {Kind.OPEN, Kind.WRITE, Kind.TRUNCATE, Kind.RENAME, Kind.LINK, Kind.MKDIR, Kind.SYNC, Kind.SYMLINK},
    errno.EIO: set(Kind),
    errno.EINTR: {Kind.OPEN, Kind.WRITE, Kind.TRUNCATE, Kind.SYNC},
    errno.EACCES: {Kind.OPEN, Kind.RENAME, Kind.LINK, Kind.UNLINK, Kind.MKDIR, Kind.RMDIR, Kind.CHMOD, Kind.SYMLINK},
    errno.EMFILE: {Kind.OPEN},
}


@dataclass(frozen=True)
class Fault:
    """A fault at one operation of a command.

    Parameters
    ----------
    mode : Mode, default=Mode.RECORD
        What happens.
    target : int, default=0
        Number of the operation, from 1.
    error : int, default=0
        The errno of ``Mode.FAIL``.
    """

    mode: Mode = Mode.RECORD
    target: int = 0
    error: int = 0

    def __str__(self) -> str:
        what = errno.errorcode[self.error] if self.mode is Mode.FAIL else self.mode.name.lower()
        return f"{what} at operation {self.target}"


@dataclass(frozen=True)
class Operation:
    """One recorded operation.

    Parameters
    ----------
    number : int
        Its number, from 1.
    kind : Kind
        What it does.
    result : int
        Result of the system call; negative for an error.
    path, other : str
        The file or folder, and the second path of a rename or link.
    offset : int
        Position of a write, or the length after a truncation.
    data : bytes
        The bytes written.
    flags : int
        Flags of ``open`` or ``renameat2``.
    """

    number: int
    kind: Kind
    result: int
    path: str
    other: str
    offset: int
    data: bytes
    flags: int

    def __str__(self) -> str:
        names = " -> ".join(name for name in (self.path, self.other) if name)
        return f"{self.number} {self.kind.name.lower()} {names}"


class Control(ctypes.Structure):
    """``struct control`` of shim.c, in shared memory."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("mode", "error", "log", "fired")),
        *((name, ctypes.c_int64) for name in ("target", "count", "lock")),
        ("root", ctypes.c_char * 4096),
    )


def missing_part() -> str | None:
    """Why faults cannot be injected on this machine; None if they can."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return "faults are injected by seccomp, on Linux on x86_64 and aarch64 only"
    return None if shutil.which("gcc") else "fault injection needs gcc"


def build(folder: Path) -> Path:
    """Compile the library into a folder; returns its path."""
    library = folder / "shim.so"
    command = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True)
    return library


class Shim:
    """The loaded library.

    Parameters
    ----------
    library : Path
        The compiled library.
    """

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.faults_control.restype = ctypes.c_void_p
        self.control = Control.from_address(self._library.faults_control())

    def set(self, root: Path, fault: Fault, log: int = -1) -> None:
        """Choose the fault of the next run, before its process is forked."""
        self.control.root = os.fsencode(root)
        self.control.mode, self.control.target, self.control.error = fault.mode, fault.target, fault.error
        self.control.count = self.control.lock = self.control.fired = 0
        self.control.log = log

    def arm(self) -> None:
        """Trap the file operations of this process from now on."""
        code = self._library.faults_arm()
        if code:
            raise OSError(code, f"no seccomp filter can be installed: {os.strerror(code)}")


def read_log(path: Path) -> Iterator[Operation]:
    """Read the operations of a recorded run."""
    content, start = path.read_bytes(), 0
    while start < len(content):
        number, kind, result, offset, length, flags, first, second = HEADER.unpack_from(content, start)
        start += HEADER.size
        texts = []
        for size in (first, second):
            texts.append(os.fsdecode(content[start : start + size]))
            start += size
        yield Operation(number, Kind(kind), result, *texts, offset, content[start : start + length], flags)
        start += length
