"""Every supported image file is decoded to upright 8-bit RGB; other files raise an error with the reason."""

import io
import os
import struct
import warnings
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sightunseen.core.errors import DataError, PhotoError
from sightunseen.data.photo_files import read_photo

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def corners() -> Image.Image:
    """Red, green / blue, white: 8 wide, 4 high, so that every rotation or flip is visible."""
    image = Image.new("RGB", (8, 4))
    for corner, colour in zip(((0, 0), (4, 0), (0, 2), (4, 2)), (RED, GREEN, BLUE, WHITE), strict=True):
        image.paste(colour, (*corner, corner[0] + 4, corner[1] + 2))
    return image


def content(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, depth: int, colour: int, rows: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def reason(source: Path | bytes) -> str:
    with pytest.raises(PhotoError) as caught:
        read_photo(source)
    assert isinstance(caught.value, DataError)
    return caught.value.reason


# -- image formats -------------------------------------------------------------------------------------------------------

STORED = {  # orientation -> transposition in the stored image (EXIF 2.3, tag 274)
    1: lambda scene: scene,
    2: lambda scene: scene[:, ::-1],
    3: lambda scene: scene[::-1, ::-1],
    4: lambda scene: scene[::-1],
    5: lambda scene: scene.transpose(1, 0, 2),
    6: lambda scene: np.rot90(scene, 1),
    7: lambda scene: scene.transpose(1, 0, 2)[::-1, ::-1],
    8: lambda scene: np.rot90(scene, -1),
}


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("orientation", STORED)
def test_exif_orientation_is_applied(orientation: int, kind: str) -> None:
    scene = np.asarray(corners())
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](scene)))
    options = {"lossless": True} if kind == "WEBP" else {}
    np.testing.assert_array_equal(np.asarray(read_photo(content(stored, kind, exif=exif, **options))), scene)


def test_damaged_exif_data_are_ignored() -> None:
    damaged = content(corners(), "JPEG", quality=100, exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\xff\xff\x01\x12")
    assert read_photo(damaged).size == (8, 4)


@pytest.mark.parametrize(
    ("image", "kind", "expected"),
    [
        (Image.new("L", (3, 2), 200), "PNG", (200, 200, 200)),
        (Image.new("1", (3, 2), 1), "PNG", WHITE),
        (Image.new("LA", (3, 2), (100, 0)), "PNG", WHITE),  # fully transparent: white
        (Image.new("RGBA", (3, 2), (0, 0, 255, 255)), "PNG", BLUE),
        (Image.new("RGBA", (3, 2), (0, 0, 0, 51)), "PNG", (204, 204, 204)),  # 20 % black on white
        (Image.new("RGBA", (3, 2), (255, 0, 0, 0)), "WEBP", WHITE),
        (Image.new("RGB", (3, 2), RED), "BMP", RED),
    ],
    ids=lambda value: value.mode if isinstance(value, Image.Image) else str(value),
)
def test_grey_and_transparent_images(image: Image.Image, kind: str, expected: tuple[int, ...]) -> None:
    photo = read_photo(content(image, kind))
    assert (photo.mode, photo.size) == ("RGB", (3, 2))
    assert photo.getpixel((1, 1)) == expected


def test_a_transparent_palette_colour_becomes_white() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *BLUE])
    image.putpixel((1, 0), 1)
    photo = read_photo(content(image, "PNG", transparency=0))
    assert [photo.getpixel((x, 0)) for x in (0, 1)] == [WHITE, BLUE]


def test_a_cmyk_jpeg_keeps_its_colours() -> None:
    photo = read_photo(content(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=100))
    assert np.abs(np.asarray(photo).astype(int) - RED).max() < 6  # magenta and yellow give red


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "TIFF"])
def test_the_first_frame_of_an_animation_is_used(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, GREEN, BLUE)]
    options = {"lossless": True} if kind == "WEBP" else {}
    animated = content(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    assert read_photo(animated).getpixel((3, 3)) == RED


def test_sixteen_bits_are_scaled_and_not_clipped() -> None:
    values = np.array([[0, 257, 25700, 65535]], dtype=np.uint16)
    rows = b"\x00" + values.astype(">u2").tobytes()
    for stored in (png(4, 1, 16, 0, rows), content(Image.fromarray(values), "TIFF")):
        assert np.asarray(read_photo(stored))[0, :, 0].tolist() == [0, 1, 100, 255]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.2, 1.0], [0, 51, 255]),  # white is 1
        ([0.0, 51.0, 255.0], [0, 51, 255]),
        ([0.0, 13107.0, 65535.0], [0, 51, 255]),
        ([-1.0, 0.0, 4.0], [0, 51, 255]),  # out of range: from minimum to maximum
        ([np.nan, 0.2, 1.0], [0, 51, 255]),
    ],
)
def test_floating_point_greyscale_is_scaled(values: list[float], expected: list[int]) -> None:
    photo = read_photo(content(Image.fromarray(np.array([values], dtype=np.float32)), "TIFF"))
    assert np.asarray(photo)[0, :, 0].tolist() == expected


# -- unusable photos ------------------------------------------------------------------------------------------------------


def noise() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"])
@pytest.mark.parametrize("part", [0.3, 0.7, 0.95])
def test_a_truncated_photo_raises(kind: str, part: float) -> None:
    whole = content(noise(), kind)
    read_photo(whole)
    message = reason(whole[: int(part * len(whole))])
    assert "truncated" in message or "damaged" in message or "header" in message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_text("not a photo at all"), "not an image"),
        (lambda path: path.mkdir(), "folder"),
        (lambda path: None, "no such file"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.symlink_to(path), "cannot be read"),
    ],
    ids=["empty", "text", "folder", "missing", "pipe", "link to itself"],
)
def test_files_that_are_not_photos_raise(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    path = tmp_path / "photo.jpg"
    make(path)
    assert message in reason(path)
    with pytest.raises(PhotoError, match=r"photo\.jpg: "):
        read_photo(path)


def test_too_many_pixels_are_detected_from_the_header() -> None:
    assert "too many pixels" in reason(png(60_000, 60_000, 8, 2, b""))  # the header announces 10 GB of pixels
    assert "12,000 x 10,000" in reason(png(12_000, 10_000, 8, 0, b""))  # here Pillow itself only warns
    with pytest.raises(PhotoError, match=r"too many pixels \(20 x 10\)"):
        read_photo(content(Image.new("L", (20, 10)), "PNG"), most_pixels=199)
    assert read_photo(content(Image.new("L", (20, 10)), "PNG"), most_pixels=200).size == (20, 10)


def test_a_postscript_file_is_never_executed() -> None:
    assert "not an image" in reason(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n")


def test_pillow_warnings_are_suppressed_and_filters_restored() -> None:
    large = png(10_000, 9_900, 1, 0, bytes(9_900 * 1_251))  # 99 million pixels: Pillow warns from 89 million on
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        assert read_photo(large).size == (10_000, 9_900)
        with ThreadPoolExecutor(4) as pool:
            assert len(list(pool.map(read_photo, [content(noise(), "PNG")] * 40))) == 40
        assert not seen
        assert list(warnings.filters) == before
        Image.open(io.BytesIO(large)).close()
        assert [each.category for each in seen] == [
            Image.DecompressionBombWarning
        ]  # other code still receives Pillow's warnings
