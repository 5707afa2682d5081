"""Synthetic photos of one class: coloured, patterned shapes in front of a background, with random variation."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sightunseen.core.errors import MissingDependencyError

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.float64]  # (h, w, 3) from 0 to 255
Points = list[tuple[float, float]]

FINER = 2  # oversampling, for smooth edges
INK, PAINT = (25.0, 25.0, 30.0), (245.0, 243.0, 238.0)  # colours of outlines, and between the stripes or dots of a pattern


@dataclass(frozen=True)
class Thing:
    """A class of synthetic photos, defined by one value per attribute.

    Parameters
    ----------
    shape, colour, pattern, number, size, background : str
        Keys of ``SHAPES``, ``COLOURS``, ``PATTERNS``, ``NUMBERS``, ``SIZES`` and ``BACKGROUNDS``.

    Examples
    --------
    >>> thing = Thing("star", "red", "striped", "two", "large", "wooden")
    >>> thing.name
    'red-striped-star'
    >>> thing.description
    'two large red striped stars on a wooden background'
    """

    shape: str
    colour: str
    pattern: str
    number: str
    size: str
    background: str

    @property
    def name(self) -> str:
        """Label, such as ``red-striped-star``."""
        return f"{self.colour}-{self.pattern}-{self.shape}"

    @property
    def description(self) -> str:
        """Sentence, such as ``two large red striped stars on a wooden background``."""
        plural = "" if self.number == "one" else "es" if self.shape.endswith("s") else "s"
        of_what = f"{self.number} {self.size} {self.colour} {self.pattern} {self.shape}{plural}"
        return f"{of_what} on a {self.background} background"

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes, such as ``("shape: star", "colour: red", ...)``."""
        return tuple(f"{field.name}: {getattr(self, field.name)}" for field in fields(self))


def paint(thing: Thing, rng: np.random.Generator, size: int) -> "Image":
    """Draw a synthetic photo of a class.

    Parameters
    ----------
    thing : Thing
        The class.
    rng : numpy.random.Generator
        Source of the random position, angle, shade, light, sharpness and noise.
    size : int
        Width and height in pixels.

    Returns
    -------
    PIL.Image.Image
        The photo, in RGB.

    Raises
    ------
    MissingDependencyError
        If Pillow is not installed.
    """
    try:
        from PIL import Image, ImageDraw, ImageFilter
    except ImportError as error:
        raise MissingDependencyError("drawing photos needs Pillow: pip install 'sightunseen[photos]'") from error
    side = size * FINER
    picture = Image.fromarray(_bytes(BACKGROUNDS[thing.background](size, rng))).resize((side, side))
    radius = SIZES[thing.size] * side
    shade = np.array(COLOURS[thing.colour]) * rng.uniform(0.85, 1.1) + rng.normal(0, 10, 3)
    for x, y in _centres(NUMBERS[thing.number], radius / side, rng) * side:
        reach = math.ceil(radius * 1.2)
        angle, own = rng.uniform(-0.5, 0.5), radius * rng.uniform(0.85, 1.1)
        ink, mask = Image.new("L", (2 * reach, 2 * reach)), Image.new("L", (2 * reach, 2 * reach))
        for k, outline in enumerate(SHAPES[thing.shape]):  # the second outline of a shape is a hole in it
            corners = _turned(outline, angle, own, reach)
            ImageDraw.Draw(mask).polygon(corners, fill=0 if k else 255)
            ImageDraw.Draw(ink).line([*corners, *corners[:2]], fill=255, width=max(2, round(side / 90)), joint="curve")
        filled = Image.fromarray(_bytes(_filling(thing.pattern, shade, angle, own, reach)))
        corner = (round(x) - reach, round(y) - reach)
        picture.paste(filled, corner, mask)
        picture.paste(tuple(map(int, INK)), corner, ink)
    small = picture.reduce(FINER).filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.8)))
    return Image.fromarray(_bytes(_lit(np.asarray(small, dtype=np.float64), rng)))


def _centres(number: int, radius: float, rng: np.random.Generator) -> Pixels:
    """Centres of shapes, (number, 2) between 0 and 1, such that the shapes are inside the photo and do not overlap."""
    while True:
        centres = rng.uniform(0.08 + radius, 0.92 - radius, (number, 2))
        distances = np.linalg.norm(centres[:, None] - centres, axis=2) + 9 * np.eye(number)
        if distances.min() > 2.1 * radius:
            return np.asarray(centres)


def _turned(outline: Points, angle: float, radius: float, reach: int) -> Points:
    cos, sin = math.cos(angle) * radius, math.sin(angle) * radius
    return [(reach + cos * x - sin * y, reach + sin * x + cos * y) for x, y in outline]


def _filling(pattern: str, shade: Pixels, angle: float, radius: float, reach: int) -> Pixels:
    """The shade, interrupted by white according to the pattern: (2 reach, 2 reach, 3)."""
    y, x = (np.mgrid[: 2 * reach, : 2 * reach] - reach) / radius
    cos, sin = math.cos(angle), math.sin(angle)
    coloured = PATTERNS[pattern](cos * x + sin * y, cos * y - sin * x)
    return np.where(coloured[..., None], shade, PAINT)


def _lit(pixels: Pixels, rng: np.random.Generator) -> Pixels:
    """Add light from one side, and noise."""
    side = len(pixels)
    y, x = np.mgrid[:side, :side] / side - 0.5
    direction = rng.uniform(0, 2 * np.pi)
    light = rng.uniform(0.8, 1.1) + rng.uniform(0, 0.5) * (np.cos(direction) * x + np.sin(direction) * y)
    return np.asarray(pixels * light[..., None] + rng.normal(0, rng.uniform(2, 12), pixels.shape))


def _bytes(pixels: Pixels) -> NDArray[np.uint8]:
    return np.clip(pixels, 0, 255).astype(np.uint8)


def _star(corners: int, inner: float) -> Points:
    """Outline of a star; a polygon if ``inner`` is 1, which approximates a circle with many corners."""
    angles = np.arange(2 * corners) * np.pi / corners - np.pi / 2
    radii = np.where(np.arange(2 * corners) % 2, inner, 1.0)
    return list(zip((radii * np.cos(angles)).tolist(), (radii * np.sin(angles)).tolist(), strict=True))


def _heart() -> Points:
    t = np.linspace(0, 2 * np.pi, 60)
    x = 16 * np.sin(t) ** 3
    y = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
    return list(zip((x / 16).tolist(), (y / 16).tolist(), strict=True))


def _plain_ground(*shade: float) -> Callable[[int, np.random.Generator], Pixels]:
    return lambda side, rng: np.full((side, side, 3), shade) + rng.normal(0, 5, 3)


def _bricks(side: int, rng: np.random.Generator) -> Pixels:
    y, x = np.mgrid[:side, :side] / side * rng.uniform(7, 9) + rng.uniform(0, 2, (2, 1, 1))
    row = np.floor(y)
    along = x / 2 + row % 2 / 2
    mortar = (y % 1 < 0.12) | (along % 1 < 0.06)
    each = rng.normal(0, 14, (32, 32))[row.astype(int) % 32, np.floor(along).astype(int) % 32]
    return np.where(mortar[..., None], 205.0, np.array([140.0, 128.0, 122.0]) + each[..., None])


def _planks(side: int, rng: np.random.Generator) -> Pixels:
    y, x = np.mgrid[:side, :side] / side + rng.uniform(0, 1, (2, 1, 1))
    plank = y * rng.uniform(3, 4)
    grain = 14 * np.sin(60 * y + 4 * np.sin(5 * x + 3 * np.floor(plank)))
    joint = np.where(plank % 1 < 0.05, -70, 0)
    return np.asarray(np.array([172.0, 122.0, 74.0]) + (grain + joint)[..., None])


CROSS = "-0.3 -1 0.3 -1 0.3 -0.3 1 -0.3 1 0.3 0.3 0.3 0.3 1 -0.3 1 -0.3 0.3 -1 0.3 -1 -0.3 -0.3 -0.3"

SHAPES: dict[str, list[Points]] = {  # outlines within the unit circle; y points down
    "circle": [_star(24, 1.0)],
    "square": [[(-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)]],
    "triangle": [_star(3, 0.5)],
    "star": [_star(5, 0.45)],
    "heart": [_heart()],
    "cross": [[(x, y) for x, y in zip(*[map(float, CROSS.split())] * 2, strict=True)]],
    "ring": [_star(24, 1.0), [(x / 2, y / 2) for x, y in _star(24, 1.0)]],
}
COLOURS = {
    "red": (215, 40, 40),
    "orange": (245, 130, 25),
    "yellow": (245, 215, 40),
    "green": (45, 160, 70),
    "blue": (40, 90, 215),
    "purple": (140, 60, 180),
}
PATTERNS: dict[str, Callable[[Pixels, Pixels], NDArray[np.bool_]]] = {  # where the shape is coloured; coordinates in radii
    "plain": lambda x, y: np.full(x.shape, True),
    "striped": lambda x, y: np.asarray(x / 0.5 % 1 < 0.55),
    "dotted": lambda x, y: np.asarray((x / 0.5 % 1 - 0.5) ** 2 + (y / 0.5 % 1 - 0.5) ** 2 > 0.3**2),
    "checked": lambda x, y: np.asarray((np.floor(x / 0.35) + np.floor(y / 0.35)) % 2 == 0),
}
NUMBERS = {"one": 1, "two": 2, "three": 3}
SIZES = {"small": 0.11, "large": 0.19}  # radius, as a fraction of the photo's width
BACKGROUNDS: dict[str, Callable[[int, np.random.Generator], Pixels]] = {
    "white": _plain_ground(232, 230, 222),
    "black": _plain_ground(38, 38, 44),
    "brick": _bricks,
    "wooden": _planks,
}
