"""Decoder of photos: any supported image file to an upright 8-bit RGB image."""

import io
import re
import stat
import warnings
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.errors import MissingDependencyError, PhotoError
from sightunseen.data.stored_photos import StoredPhoto

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")  # no others: some of Pillow's readers run external programs
MOST_PIXELS = 100_000_000
ROWS = 256  # rows of pixels that are scaled at a time
MOST_BYTES = 1 << 30
SMALLEST_SPAN = 1e-300  # 255 divided by a smaller one is infinite
TURNS = {  # EXIF orientation -> transposition that makes the photo upright
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def read_photo(source: Path | bytes, most_pixels: int = MOST_PIXELS) -> "Image":
    """Decode a photo to an upright 8-bit RGB image.

    The first frame of an animation is used, transparency is composed with white, and greyscale of more than 8 bits is
    scaled to 8 bits.

    Parameters
    ----------
    source : Path or bytes
        The file, or its content.
    most_pixels : int, default=100_000_000
        Largest number of pixels. It is compared with the header, before the photo is decoded.

    Returns
    -------
    PIL.Image.Image
        The photo.

    Raises
    ------
    PhotoError
        If the photo is missing, damaged, too large or of an unsupported format.
    MissingDependencyError
        If Pillow is not installed.
    """
    path = None if isinstance(source, bytes) else Path(source)
    content = source if isinstance(source, bytes) else content_of(Path(source))
    try:
        with _silent_pillow:
            return _decoded(content, most_pixels)
    except MissingDependencyError:
        raise
    except PhotoError as error:
        raise PhotoError(error.reason, path) from error
    except Exception as error:  # every format's decoder has its own exceptions
        reason = "the file is truncated" if "truncated" in str(error).lower() else f"the file is damaged ({error})"
        raise PhotoError(reason, path) from error


def content_of(path: Path | StoredPhoto) -> bytes:
    """Read the content of a photo.

    Parameters
    ----------
    path : Path or StoredPhoto
        The file, or the part of a larger file.

    Returns
    -------
    bytes
        The content.

    Raises
    ------
    PhotoError
        If the file is missing, not a regular file, larger than 1 GiB, or cannot be read.
    """
    try:
        if isinstance(path, StoredPhoto):
            return _stored_content(path)
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise PhotoError("it is a folder, not a file", path)
        if not stat.S_ISREG(status.st_mode):  # reading from a pipe would block
            raise PhotoError("it is not a regular file", path)
        if status.st_size > MOST_BYTES:
            raise PhotoError(f"the file has more than {MOST_BYTES >> 30} GiB", path)
        return path.read_bytes()
    except PhotoError:
        raise
    except FileNotFoundError as error:
        raise PhotoError("there is no such file", path) from error
    except (OSError, ValueError) as error:
        raise PhotoError(f"the file cannot be read ({getattr(error, 'strerror', None) or error})", path) from error


def _stored_content(photo: StoredPhoto) -> bytes:
    if photo.size < 0:
        raise PhotoError("it is not a regular file", photo)
    if photo.size > MOST_BYTES:
        raise PhotoError(f"the file has more than {MOST_BYTES >> 30} GiB", photo)
    with open(photo.file, "rb") as file:
        file.seek(photo.start)
        return file.read(photo.size)


def _decoded(content: bytes, most_pixels: int) -> "Image":
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingDependencyError("photos need Pillow: pip install 'sightunseen[photos]'") from error
    if not content:
        raise PhotoError("the file is empty")
    try:
        opened = Image.open(io.BytesIO(content), formats=FORMATS)
    except UnidentifiedImageError as error:
        raise PhotoError("it is not an image of a supported format, or its header is incomplete") from error
    except Image.DecompressionBombError as error:
        raise PhotoError(f"it has too many pixels; at most {most_pixels:,} are read") from error
    with opened:
        if opened.width * opened.height > most_pixels:
            size = f"{opened.width:,} x {opened.height:,}"
            raise PhotoError(f"it has too many pixels ({size}); at most {most_pixels:,} are read")
        opened.load()
        turn = TURNS.get(_orientation(opened))
        upright = _as_rgb(opened)
    return upright if turn is None else upright.transpose(getattr(Image.Transpose, turn))


def _orientation(image: "Image") -> int:
    try:
        return int(image.getexif().get(0x0112, 1))
    except Exception:  # a photo with damaged EXIF data is still usable
        return 1


def _as_rgb(image: "Image") -> "Image":
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        return _eight_bits(image).convert("RGB")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: "Image") -> "Image":
    """Scale greyscale of more than 8 bits to 8 bits.

    White is 65535 for integers, and the smallest of 1, 255 and 65535 that covers all values for floats. Values out of that
    range are scaled from their minimum to their maximum.
    """
    from PIL import Image

    pixels = np.asarray(image)
    rows = [slice(start, start + ROWS) for start in range(0, len(pixels), ROWS)]  # doubles of all pixels take much memory

    def values(part: slice) -> NDArray[np.float64]:
        with np.errstate(invalid="ignore"):  # of signalling NaN
            return np.nan_to_num(pixels[part].astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)

    darkest, brightest = min(float(values(part).min()) for part in rows), max(float(values(part).max()) for part in rows)
    scales = (1.0, 255.0, 65535.0) if image.mode.startswith("F") else (65535.0,)
    shift, full = 0.0, next((scale for scale in scales if brightest <= scale), None)
    if darkest < 0 or full is None:
        span = brightest - darkest
        shift, full = darkest, span if span > SMALLEST_SPAN else 1.0
    scaled = np.empty(pixels.shape, dtype=np.uint8)
    for part in rows:
        scaled[part] = np.rint((values(part) - shift) * (255.0 / full))
    return Image.fromarray(scaled)


class _SilentPillow:
    """Context manager that ignores Pillow's warnings while any thread decodes a photo.

    ``warnings.catch_warnings`` is not thread-safe: overlapping threads restore each other's filters.
    """

    rule = ("ignore", None, Warning, re.compile(r"PIL\."), 0)  # the entry in warnings.filters

    def __init__(self) -> None:
        self.lock = Lock()
        self.readers = 0

    def __enter__(self) -> None:
        with self.lock:
            self.readers += 1
            if self.readers == 1:
                warnings.filterwarnings("ignore", module=r"PIL\.")

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.readers -= 1
            if self.readers == 0 and self.rule in warnings.filters:
                warnings.filters.remove(self.rule)  # type: ignore[attr-defined]


_silent_pillow = _SilentPillow()
