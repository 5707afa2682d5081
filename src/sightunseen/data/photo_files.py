"""Photos: one as upright 8-bit RGB, whatever kind of image file it is, or the reason why it cannot be used."""

import io
import re
import stat
import warnings
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from sightunseen.core.errors import MissingDependencyError, PhotoError

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff"})
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")  # no others are tried: some of Pillow's readers run programs
MOST_PIXELS = 100_000_000
MOST_BYTES = 1 << 30
TURNS = {  # EXIF orientation -> what brings the photo upright
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def read_photo(source: Path | bytes, most_pixels: int = MOST_PIXELS) -> "Image":
    """A photo, upright and in 8-bit RGB, from a file or its content; a :class:`PhotoError` says why it cannot be used.

    Of an animation it is the first frame; what is transparent is laid on white; deeper greyscale is scaled to 8 bits. The
    number of pixels is read from the header, before anything is decoded.
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
    except Exception as error:  # each format's reader has its own exceptions
        reason = "the file is truncated" if "truncated" in str(error).lower() else f"the file is damaged ({error})"
        raise PhotoError(reason, path) from error


def content_of(path: Path) -> bytes:
    """The content of a photo's file; a :class:`PhotoError` where there is none to be had."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise PhotoError("it is a folder, not a file", path)
        if not stat.S_ISREG(status.st_mode):  # a pipe would keep us waiting
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
        raise PhotoError("it is not an image of a known kind, or one without a whole header") from error
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
    except Exception:  # spoilt EXIF data do not spoil the photo
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
    """Deep greyscale in 8 bits: full scale is 65535, of fractions 1 or 255; what goes beyond is scaled as it is spread."""
    from PIL import Image

    values = np.nan_to_num(np.asarray(image, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    darkest, brightest = float(values.min()), float(values.max())
    scales = (1.0, 255.0, 65535.0) if image.mode.startswith("F") else (65535.0,)
    full = next((scale for scale in scales if brightest <= scale), None)
    if darkest < 0 or full is None:
        values, full = values - darkest, (brightest - darkest) or 1.0
    return Image.fromarray(np.rint(values * (255.0 / full)).astype(np.uint8))


class _SilentPillow:
    """Keeps Pillow's warnings to ourselves while any thread reads a photo; the filter goes when the last one is done.

    ``warnings.catch_warnings`` would not do: threads that overlap restore each other's filters.
    """

    rule = ("ignore", None, Warning, re.compile(r"PIL\."), 0)  # as warnings.filters holds it

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
