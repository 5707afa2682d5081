"""Check that arrays fit into memory before they are read."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from sightunseen.core.errors import DataError
from sightunseen.core.limits import EXPANDED_BYTES, EXPANSION

# Folder of control groups, limit, use, and the parts of the use that are cached files, in versions 2 and 1.
CGROUPS = (
    ("", "/sys/fs/cgroup", "memory.max", "memory.current", ("active_file", "inactive_file")),
    (
        *("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
        ("total_active_file", "total_inactive_file"),
    ),
)


def check_memory(needed: int, where: object, stored: int | None = None) -> None:
    """Check that data of a declared size can be loaded.

    Parameters
    ----------
    needed : int
        Size of the data in memory, in bytes.
    where : object
        Where the data come from, for the error message.
    stored : int, default=None
        Size of the file in bytes. A file may expand to 512 MiB, or to 100 times its size if that is more. None: not checked.

    Raises
    ------
    DataError
        If the data are larger than the memory that this process may still use, or expand too much.

    Examples
    --------
    >>> check_memory(10**18, "features.npz")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    sightunseen.core.errors.DataError: features.npz needs 931,322,575 GiB of memory; ... are available. ...
    """
    if stored is not None and needed > max(EXPANDED_BYTES, EXPANSION * stored):
        raise DataError(
            f"{where} has {_shown(stored)} but declares {_shown(needed)} of data, more than {EXPANSION} times its size. If the "
            "file is not damaged, write it again without compression."
        )
    available = free_memory()
    if needed > available:
        raise DataError(
            f"{where} needs {_shown(needed)} of memory; {_shown(available)} are available. If the file is not damaged, use "
            "single precision, fewer rows, or a machine with more memory."
        )


def free_memory() -> int:
    """Return the number of bytes that this process may still allocate: of the machine, its control group and its limits."""
    return max(0, min(_bounds(), default=1 << 62))


def _bounds() -> Iterator[int]:
    with suppress(OSError, ValueError, AttributeError):  # not on every system
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError, IndexError):
        content = Path("/proc/meminfo").read_text("ascii")
        yield 1024 * int(content.partition("MemAvailable:")[2].split()[0])
    yield from _cgroup_bounds()
    with suppress(ImportError, OSError, ValueError):
        import resource

        allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
        if allowed != resource.RLIM_INFINITY:
            yield allowed - resource.getpagesize() * int(Path("/proc/self/statm").read_text("ascii").split()[0])


def _cgroup_bounds() -> Iterator[int]:
    """Free memory of the control groups of this process; cached files do not count as used."""
    own = {}
    with suppress(OSError, ValueError):
        lines = Path("/proc/self/cgroup").read_text("utf-8").splitlines()
        own = {names: path for _, names, path in (line.split(":", 2) for line in lines)}
    for name, root, limit, use, cached in CGROUPS:
        for folder in {Path(root), Path(root + own.get(name, ""))}:  # in a container, the root is its own group
            with suppress(OSError, ValueError):  # no such group, or "max"
                counts = dict(line.split() for line in (folder / "memory.stat").read_text("ascii").splitlines())
                used = int((folder / use).read_text("ascii")) - sum(int(counts.get(kind, 0)) for kind in cached)
                yield int((folder / limit).read_text("ascii")) - used


def _shown(size: int) -> str:
    for unit, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >> unit:
            return f"{size / (1 << unit):,.0f} {name}"
    return f"{size} bytes"
