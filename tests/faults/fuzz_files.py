"""Documents, photos and ONNX models with odd content, well-formed or damaged, as bytes."""

import io
import json
import random
from typing import Any

from .fuzz_case import edited
from .fuzz_shelf import mean_colour
from .fuzz_tables import class_rows
from .fuzz_values import damaged, encoded, odd_number, odd_value, random_edits


def class_json(r: random.Random) -> bytes:
    """Class tables in JSON of every form, with odd nodes."""
    rows = class_rows()
    forms: tuple[Any, ...] = (
        {row[0]: row[1:] for row in rows[1:]},
        {row[0]: f"a {row[0]} with legs" for row in rows[1:]},
        {row[0]: {**dict(zip(rows[0][1:], row[1:], strict=True)), "description": "it"} for row in rows[1:]},
        [dict(zip(rows[0], row, strict=True)) for row in rows[1:]],
    )
    return document(r, r.choice(forms))


def document(r: random.Random, content: Any) -> bytes:
    """JSON of a document with edits, or malformed JSON."""
    content = edited(json.loads(json.dumps(content)), random_edits(r, content)) if r.random() < 0.85 else content
    text = json.dumps(content, ensure_ascii=r.random() < 0.8)
    if r.random() < 0.1:
        text = r.choice(
            (text[:-1], "[" * 100_000, '{"a":' * 5_000, text + text, "", "nul", "9" * 5000, '"\\ud800"', text.replace(":", "="))
        )
    made = encoded(r, text, 0.1)
    return damaged(r, made) if r.random() < 0.08 else made


def plan_text(r: random.Random, content: Any) -> bytes:
    """TOML of a plan with edits, or malformed TOML."""
    content = json.loads(json.dumps(content))
    if r.random() < 0.5:
        content = edited(content, random_edits(r, content))
    if isinstance(content, dict) and r.random() < 0.4:
        key = r.choice(("seeds", "folds", "seen_classes", "unequal", "methods", "selection", "title", "data", "method"))
        odd = (
            odd_value(r),
            odd_number(r),
            [odd_number(r)],
            r.choice(("quick", "transductive")),
            ["ESZSL"] * 2,
            "validation",
            ["oracle"],
            [2, "all"],
            20,
        )
        content[key] = r.choice(odd)
    content = content if isinstance(content, dict) else {"plan": content}
    text = "\n".join(f"{_toml(str(key))} = {_toml(value)}" for key, value in content.items()) + "\n"
    if r.random() < 0.08:
        text = r.choice(
            (
                text + "[[data]]\n",
                text[:-3],
                "a = " + "[" * 100_000,
                "= 1",
                text + text,
                '"',
                "[a]\n[a]\n",
                "x = 1979-05-27T07:32:00Z\n" + text,
            )
        )
    made = encoded(r, text, 0.08)
    return damaged(r, made) if r.random() < 0.06 else made


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return '""'
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return "{" + ", ".join(f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"


def photo(r: random.Random) -> bytes:
    """A photo of any mode and size in any format, often damaged."""
    from PIL import Image

    mode = r.choice(("RGB", "RGBA", "L", "LA", "1", "P", "CMYK", "I", "F", "I;16", "YCbCr", "HSV", "LAB"))
    size = r.choice(((1, 1), (1, 500), (500, 1), (8, 8), (3, 7), (64, 64)))
    form = r.choice(("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "ICO", "PPM", "PCX"))
    buffer = io.BytesIO()
    try:
        image = Image.new(mode, size)
        extra: dict[str, Any] = (
            {"exif": b"Exif\x00\x00" + r.randbytes(30)} if r.random() < 0.1 and form in ("JPEG", "PNG", "WEBP") else {}
        )
        if r.random() < 0.1 and form in ("GIF", "TIFF", "WEBP", "PNG"):
            extra |= {"save_all": True, "append_images": [Image.new(mode, size)] * 2}
        image.save(buffer, form, **extra)
    except Exception:  # not every format has every mode
        Image.new("RGB", (4, 4)).save(buffer, "PNG")
    content = buffer.getvalue()
    if r.random() < 0.08:
        content = r.choice(
            (
                _bomb(60000, 60000),
                _bomb(2**31 - 1, 1),
                _bomb(0, 0),
                b"",
                b"GIF89a",
                b"\x89PNG\r\n\x1a\n",
                b"II*\x00" + bytes(200),
            )
        )
    return damaged(r, content) if r.random() < 0.6 else content


def _bomb(width: int, height: int) -> bytes:
    """A PNG whose header declares many pixels."""
    import struct
    import zlib

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def onnx(r: random.Random) -> bytes:
    """An ONNX model of one operator with odd shapes and types, or a damaged one."""
    shape = (
        ("n", 3, "h", "w")
        if r.random() < 0.5
        else r.choice(
            (
                (1, 3, 8, 8),
                ("n", 3),
                (),
                None,
                ("n", "c", "h", "w"),
                (0, 3, 8, 8),
                (2**40, 3, 8, 8),
                ("n", 3, 10**6, 10**6),
                (-1, 3, -1, -1),
            )
        )
    )
    operator = r.choice(
        (
            "GlobalAveragePool",
            "Identity",
            "Shape",
            "ReduceSum",
            "Flatten",
            "Size",
            "Softmax",
            "Sign",
            "Nonsense",
            "Log",
            "IsNaN",
        )
    )
    content = mean_colour(shape, operator, 1 if r.random() < 0.7 else r.choice((10, 11, 7, 8, 2)))
    return damaged(r, content) if r.random() < 0.3 else content
