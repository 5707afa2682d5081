"""Odd values: numbers, texts, nested values and arrays, and edits that put them into valid documents and arrays."""

import random
from typing import Any

import numpy as np

HOSTILE_TEXTS = (
    *(
        "",
        " ",
        "\t",
        "0",
        "-1",
        "nan",
        "inf",
        "null",
        "None",
        "True",
        "~",
        ".",
        "..",
        "/",
        "//",
        "-",
        "--",
        "=",
        "a=b",
        ",",
        ";",
    ),
    *(
        "\x00",
        "a\x00b",
        "\r\n",
        "\n",
        "\x1b[31m",
        "\u202e",
        "\ufeff",
        "\ud800",
        "é" * 3,
        "日本語",
        "\U0001d54f",
        "a" * 300,
        "x" * 100_000,
    ),
    *(
        "../../etc/passwd",
        "/dev/null",
        "/proc/self/mem",
        "con",
        "%s%n",
        "{}",
        "{shelf}",
        "{0}",
        "$HOME",
        "`id`",
        "<b>",
        "'",
        '"',
    ),
    *("text:sentence-transformers:a/b", "text:", "both:x", "att*1e400", "att+att", ":", "*", "+", "1e400", "-0.0", "0x10", "१"),
)
HOSTILE_NUMBERS = (
    *(0, -1, 1, 2, -(2**31), 2**31, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**8, 10**12, 10**30, 10**309, 10**400),
    *(0.0, -0.0, 0.5, 1e-320, 1e30, 1e38, 1e39, 1e300, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
)
DTYPES = (
    *("f2", "f4", "f8", "g", "c8", "c16", "?", "i1", "u1", "i2", "i4", "i8", "u8", ">f8", ">i4"),
    *("S3", "U5", "M8[s]", "m8[D]", "V4", "O"),
)
ENCODINGS = ("utf-8-sig", "utf-16", "latin-1", "cp1252", "utf-32")
SAFE_DTYPES = ("f2", "f4", "f8", "i1", "u1", "i2", "i4", "i8", "u8", "?")  # those of safetensors


def odd_number(r: random.Random) -> Any:
    return r.choice(HOSTILE_NUMBERS) if r.random() < 0.8 else r.choice((r.randint(-5, 300), r.uniform(-2, 2)))


def odd_text(r: random.Random, longest: int = 10**6) -> str:
    found = (
        r.choice(HOSTILE_TEXTS) if r.random() < 0.8 else "".join(chr(r.randrange(1, 0x2FFF)) for _ in range(r.randint(1, 20)))
    )
    return found[:longest]


def odd_value(r: random.Random, depth: int = 0) -> Any:
    """A value of any JSON type."""
    kind = r.randrange(9)
    if kind < 2 or depth > 3:
        return odd_number(r)
    if kind < 4:
        return odd_text(r)
    if kind == 4:
        return r.choice((None, True, False))
    if kind == 5:
        return [odd_value(r, depth + 1) for _ in range(r.randint(0, 4))]
    if kind == 6:
        return {odd_text(r, 300): odd_value(r, depth + 1) for _ in range(r.randint(0, 3))}
    if kind == 7:
        return nested(r.choice((3, 63, 65, 300)), r.random() < 0.5)
    return r.choice(([], {}, [[]], [None], {"": None}, [0] * 1000))


def nested(depth: int, tables: bool = False) -> Any:
    """Lists or tables inside each other."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value} if tables else [value]
    return value


def random_path(r: random.Random, document: Any) -> list[Any]:
    """Path to a node, by a random walk from the root."""
    path: list[Any] = []
    while isinstance(document, (dict, list)) and document and (not path or r.random() < 0.75):
        step = r.choice(list(document)) if isinstance(document, dict) else r.randrange(len(document))
        path.append(step)
        document = document[step]
    return path


def node_at(document: Any, path: list[Any]) -> Any:
    for step in path:
        document = document[step]
    return document


def random_edits(r: random.Random, document: Any, most: int = 3) -> list[Any]:
    """Edits of a document, see :func:`fuzz_case.edited`; most documents get one."""
    edits: list[Any] = []
    for _ in range(1 if r.random() < 0.7 else r.randint(2, most)):
        path = random_path(r, document)
        if any(path[: len(other)] == other or other[: len(path)] == path for other, _, _ in edits):
            continue
        operation = r.choice(("set", "set", "set", "set", "delete", "rename", "double", "extend"))
        if operation == "extend":  # a key or an item that is not there
            node = node_at(document, path)
            key = odd_text(r, 300) if isinstance(node, dict) else None
            if key is None or key in node:
                continue
            edits.append([[*path, key], "set", odd_value(r)])
            continue
        if operation in ("delete", "rename", "double") and not path:
            continue
        if operation == "rename" and not isinstance(path[-1], str):
            continue
        if operation in ("delete", "double") and isinstance(path[-1], int):
            return edits or [[path, operation, None]]  # moves the items that other edits name
        value = odd_text(r, 300) if operation == "rename" else similar(r, node_at(document, path))
        edits.append([path, operation, value])
    return edits


def similar(r: random.Random, value: Any) -> Any:
    """An odd value, often of the type of the given one."""
    if r.random() < 0.5:
        if isinstance(value, bool):
            return not value
        if isinstance(value, (int, float)):
            return odd_number(r)
        if isinstance(value, str):
            return odd_text(r)
        if isinstance(value, list) and value:
            return r.choice(([*value, odd_value(r)], value[:-1], value * 2, value[::-1], [odd_value(r)] * len(value)))
    return odd_value(r)


def odd_array(r: random.Random, like: Any = None, dtypes: tuple[str, ...] = DTYPES) -> Any:
    """An array of any shape and type; often of the shape of the given one."""
    shape = (
        np.shape(like)
        if like is not None and r.random() < 0.7
        else r.choice(((), (0,), (1,), (3,), (0, 5), (4, 0), (2, 3), (2, 2, 2)))
    )
    numbers = [odd_number(r) for _ in range(4)] if r.random() < 0.5 else [r.uniform(-3, 3) for _ in range(4)]
    flat = np.resize(np.array([float(n) if abs(n) < 1e308 or n != n else 1e308 for n in numbers]), shape)
    return as_type(r, flat, r.choice(dtypes))


def as_type(r: random.Random, array: Any, dtype: str) -> Any:
    """Convert an array to any type, without warnings."""
    if array.dtype.kind not in "fiub":
        array = np.arange(array.size, dtype="f8").reshape(array.shape)
    with np.errstate(all="ignore"):
        if dtype == "O":
            found = np.empty(array.shape, dtype=object)
            found.fill(r.choice((None, 1, "a", b"a", [1, 2], 10**400)))
            return found
        if dtype == "V4":
            return np.zeros(array.shape, dtype="V4")
        if dtype[0] == "S":
            return np.full(array.shape, b"\xff\xfe")
        if dtype[0] == "U":
            return np.resize(np.array([odd_text(r, 40).replace("\x00", "") or "x" for _ in range(3)]), array.shape)
        if dtype[0] in "Mm":
            return np.nan_to_num(array, nan=0, posinf=9, neginf=-9).clip(-1e9, 1e9).astype("i8").astype(dtype)
        return array.astype(dtype)


def odd_arrays(r: random.Random, arrays: dict[str, Any], dtypes: tuple[str, ...] = DTYPES) -> dict[str, Any]:
    """Arrays by name with one or two of them changed: type, shape, values, name, or left out."""
    arrays = dict(arrays)
    for _ in range(1 if r.random() < 0.7 else 2):
        name = r.choice(list(arrays))
        array = arrays[name]
        change = r.randrange(8)
        if change == 0:
            del arrays[name]
            if not arrays:
                break
        elif change == 1:
            arrays[
                r.choice(("X", "y", "path", "split", "class_labels", "class_vectors", "attribute_names", odd_text(r, 50)))
            ] = arrays.pop(name)
        elif change == 2:
            arrays[name] = odd_array(r, array, dtypes)
        elif change == 3:
            arrays[name] = as_type(r, array, r.choice(dtypes))
        elif change == 4 and array.size and array.ndim:
            shape = r.choice(
                (
                    (),
                    (1,),
                    (2, 3),
                    (0, *array.shape[1:]),
                    (array.shape[0] + 1, *array.shape[1:]),
                    (*array.shape, 1),
                    array.shape[::-1],
                )
            )
            arrays[name] = np.resize(array, shape)
        elif change == 5 and array.size and array.dtype.kind in "fiu":
            changed = array.astype("f8")
            for _ in range(r.randint(1, 4)):
                number = odd_number(r)
                changed.flat[r.randrange(changed.size)] = number if abs(number) < 1e308 or number != number else 1e308
            arrays[name] = changed
        elif change == 6 and array.size and array.dtype.kind in "UO":
            texts = array.astype(object)
            for _ in range(r.randint(1, 4)):
                texts.flat[r.randrange(texts.size)] = odd_text(r, 2000).replace("\x00", "")
            arrays[name] = texts.astype(str) if array.dtype.kind == "U" else texts
        else:
            arrays[odd_text(r, 50) or "extra"] = odd_array(r, array, dtypes)
    return arrays


def damaged(r: random.Random, content: bytes) -> bytes:
    """Change bytes: flip, truncate, duplicate, remove, splice or overwrite."""
    data = bytearray(content)
    for _ in range(r.choice((1, 1, 1, 2, 5))):
        if not data:
            break
        at, length = r.randrange(len(data)), r.choice((1, 2, 4, 8, 32, 200))
        change = r.randrange(7)
        if change == 0:
            data[at] ^= 1 << r.randrange(8)
        elif change == 1:
            del data[at:]
        elif change == 2:
            data[at:at] = data[at : at + length]
        elif change == 3:
            del data[at : at + length]
        elif change == 4:
            data[at : at + length] = r.choice((b"\xff", b"\x00", b"\x7f", b"[", b"9", b'"')) * length
        elif change == 5:
            other = r.randrange(len(data))
            data[at : at + length] = data[other : other + length]
        else:
            data[at : at + length] = r.randbytes(length)
    return bytes(data)


def encoded(r: random.Random, text: str, odd: float = 0.1) -> bytes:
    """Encode a text, with the probability ``odd`` in another encoding than UTF-8."""
    encoding = r.choice(ENCODINGS) if r.random() < odd else "utf-8"
    return text.encode(encoding, "surrogatepass" if encoding.startswith("utf") else "replace")


class ByteRandom(random.Random):
    """Random numbers that are read from bytes, so that a coverage-guided engine controls every choice."""

    def __init__(self, content: bytes) -> None:
        super().__init__(0)
        self.content, self.at = content, 0

    def getrandbits(self, k: int) -> int:
        size = (k + 7) // 8
        taken = self.content[self.at : self.at + size]
        self.at += size
        return int.from_bytes(taken.ljust(size, b"\0"), "little") & ((1 << k) - 1)

    def random(self) -> float:
        return self.getrandbits(16) / 65536
