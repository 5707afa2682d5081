"""Reader of the numeric, character and cell arrays of MATLAB files of versions 5 to 7.2.

Every length is compared with the data that are there: scipy's reader crashes the process on some damaged files.
"""

import math
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.errors import DataError
from sightunseen.core.memory import check_memory
from sightunseen.data.opening import size_of

Buffer = bytes | memoryview

HEADER = 128  # bytes before the first variable
COMPRESSED, MATRIX = 15, 14  # types of data elements
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
TEXTS = {1: "ascii", 2: "ascii", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
CELL, STRUCT, OBJECT, CHARACTERS, SPARSE = 1, 2, 3, 4, 5  # classes of arrays; 6 to 15 are numeric
NAMES = {STRUCT: "a struct", OBJECT: "an object", SPARSE: "a sparse matrix"}
COMPLEX = 0x800  # flag of an array
PIECE = 1 << 18  # bytes that are decompressed at a time
HEAD = 4096  # bytes that hold flags, dimensions and name of a variable


@dataclass(frozen=True)
class Variable:
    """A variable in a file.

    Parameters
    ----------
    name : str
        Name.
    size : int
        Size of its content in bytes.
    content : callable
        Function without arguments that reads the content.
    order : {"<", ">"}
        Byte order.
    """

    name: str
    size: int
    content: Callable[[], Buffer]
    order: str


def read_variables(path: Path, wanted: Callable[[str], bool]) -> tuple[list[str], dict[str, NDArray[Any]]]:
    """Read variables of a file.

    Parameters
    ----------
    path : Path
        The ``.mat`` file.
    wanted : callable
        Function from the name of a variable to whether it is read.

    Returns
    -------
    names : list of str
        Names of all variables.
    arrays : dict of str to ndarray
        The wanted variables. Character and cell arrays become string arrays.

    Raises
    ------
    DataError
        If a wanted variable is too large or not an array of numbers or texts.
    ValueError
        If the file is damaged.
    """
    with open(path, "rb") as file:
        found = list(_variables(file, size_of(path)))
        chosen = [variable for variable in found if wanted(variable.name)]
        check_memory(sum(variable.size for variable in chosen), path, size_of(path))
        arrays = {each.name: _array(each.content(), each.order, f"{path}: '{each.name}'") for each in chosen}
    return [variable.name for variable in found], arrays


def _variables(file: BinaryIO, end: int) -> Iterator[Variable]:
    order = "<" if file.read(HEADER)[126:128] == b"IM" else ">"
    start = HEADER
    while start + 8 <= end:
        file.seek(start)
        kind, size = struct.unpack(f"{order}II", file.read(8))
        start += 8
        if start + size > end:
            raise ValueError(f"a variable of {size} bytes is truncated")
        head = file.read(min(size, HEAD))
        if kind == COMPRESSED:
            head = zlib.decompressobj().decompress(head, HEAD)
            kind, inner = struct.unpack_from(f"{order}II", head)
            yield _variable(kind, head[8:], inner, _compressed(file, start, size, inner), order)
        else:
            yield _variable(kind, head, size, _plain(file, start, size), order)
        start += size


def _variable(kind: int, head: bytes, size: int, content: Callable[[], Buffer], order: str) -> Variable:
    if kind != MATRIX:
        raise ValueError(f"expected a variable, found an element of type {kind}")
    name = _elements(head[:HEAD], order, 3)[2][1] if size else b""
    return Variable(bytes(name).decode("latin-1"), size, content, order)


def _plain(file: BinaryIO, start: int, size: int) -> Callable[[], Buffer]:
    def read() -> bytes:
        file.seek(start)
        return file.read(size)

    return read


def _compressed(file: BinaryIO, start: int, size: int, inner: int) -> Callable[[], Buffer]:
    def read() -> memoryview:
        engine, content, filled = zlib.decompressobj(), bytearray(8 + inner), 0
        file.seek(start)
        for done in range(0, size, PIECE):
            piece = engine.decompress(file.read(min(PIECE, size - done)), max(1, len(content) - filled))
            content[filled : filled + len(piece)] = piece
            filled += len(piece)
            if engine.eof or filled >= len(content):
                break
        if filled < len(content):
            raise ValueError(f"a variable of {inner} bytes is truncated")
        return memoryview(content)[8:]

    return read


def _elements(content: Buffer, order: str, most: int) -> list[tuple[int, memoryview]]:
    """Type and data of the first elements of a matrix."""
    view, start = memoryview(content), 0
    found: list[tuple[int, memoryview]] = []
    while len(found) < most and start + 8 <= len(view):
        kind, size = struct.unpack_from(f"{order}II", view, start)
        if kind >> 16:  # a small element: type, size and at most 4 bytes of data
            kind, size, first, following = kind & 0xFFFF, kind >> 16, start + 4, start + 8
            complete = size <= 4
        else:
            first = start + 8
            following = first + size + -size % 8
            complete = first + size <= len(view)
        if not complete:
            raise ValueError(f"an element of {size} bytes is truncated")
        found.append((kind, view[first : first + size]))
        start = following
    if len(found) < min(most, 3):
        raise ValueError("a variable has no flags, dimensions or name")
    return found


def _array(content: Buffer, order: str, where: str, nested: bool = False) -> NDArray[Any]:
    """Numbers, or texts of characters and cells; cells of cells are not read."""
    if not len(content):
        return np.zeros((0, 0))
    (_, flags), (_, sizes), _, *parts = _elements(content, order, 4)
    word = struct.unpack_from(f"{order}I", flags)[0]
    kind, shape = word & 0xFF, struct.unpack_from(f"{order}{len(sizes) // 4}i", sizes)
    count = math.prod(shape)
    if any(size < 0 for size in shape) or not 1 <= len(shape) <= 32:
        raise ValueError(f"found dimensions {shape[:4]}")
    if kind in NAMES or kind > 15 or (kind == CELL and nested) or word & COMPLEX:
        what = "complex" if word & COMPLEX else NAMES.get(kind, "a cell array" if kind == CELL else "an object")
        raise DataError(
            f"{where} must hold real numbers or texts; it is {what}. Write it as a full array or a cell array of texts."
        )
    if kind == CELL:
        if count > len(content) // 8:
            raise ValueError(f"{count} cells are truncated")
        cells = _elements(content, order, 3 + count)[3:]
        if len(cells) < count or any(each != MATRIX for each, _ in cells):
            raise ValueError(f"{count} cells are truncated")
        return np.array([_first(_array(cell, order, where, nested=True)) for _, cell in cells], dtype=np.str_)
    if not count:
        return np.zeros(shape)
    if not parts:
        raise ValueError("a variable has no data")
    stored, data = parts[0]
    if kind == CHARACTERS:
        return _texts(bytes(data), stored, order, shape)
    array = np.frombuffer(data, order + NUMBERS[stored])
    if len(array) < count:
        raise ValueError(f"{count} numbers are truncated")
    return array[:count].reshape(shape, order="F")


def _texts(data: bytes, stored: int, order: str, shape: tuple[int, ...]) -> NDArray[np.str_]:
    """Rows of a character array."""
    codec = TEXTS[stored]
    text = data.decode(codec if codec in ("ascii", "utf-8") else f"{codec}-{'le' if order == '<' else 'be'}")
    if len(text) != math.prod(shape):
        raise ValueError(f"{math.prod(shape)} characters are truncated")
    if len(shape) == 2 and shape[0] == 1:
        return np.array([text], dtype=np.str_)
    letters = np.array(list(text), dtype="U1").reshape(shape, order="F")
    return np.array(["".join(row) for row in letters.reshape(-1, shape[-1])], dtype=np.str_)


def _first(value: NDArray[Any]) -> str:
    return str(value.ravel()[0]) if value.size else ""
