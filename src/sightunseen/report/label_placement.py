"""Placement of names beside points in the plane, so that they overlap as little as possible."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

CHARACTER, LINE = 6.0, 13.0  # pixels: mean width of a character and height of a line of 11 pixels
MOST = 130  # pixels: longer names are cut
MARK, DOT = 8.0, 3.0  # pixels: half the size of a mark with a name, and of a point without one
OUTSIDE, COVERED = 20.0, 4.0  # costs per pixel of a name outside the chart, and on a mark or a name; 1 on a point
SWEEPS = 3

Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclass(frozen=True)
class Placement:
    """Position of a name relative to its point.

    Parameters
    ----------
    align : {"left", "right", "center"}
        Horizontal alignment.
    dx, dy : int
        Offset in pixels.
    """

    align: str
    dx: int
    dy: int

    def box(self, x: float, y: float, width: float) -> Box:
        """Left, top, right and bottom of a name of a given width at a point."""
        left = x + self.dx - width * {"left": 0.0, "right": 1.0, "center": 0.5}[self.align]
        return left, y + self.dy - LINE / 2, left + width, y + self.dy + LINE / 2


PLACEMENTS = (  # in the order of preference
    Placement("left", 10, 0),
    Placement("right", -10, 0),
    Placement("center", 0, -14),
    Placement("center", 0, 15),
    Placement("left", 7, -12),
    Placement("left", 7, 13),
    Placement("right", -7, -12),
    Placement("right", -7, 13),
)


def placed(
    points: ArrayLike, names: Sequence[str], extent: ArrayLike, width: int, height: int, others: ArrayLike = ()
) -> list[Placement]:
    """Choose a position for the name of each point.

    The names are placed one after the other, those with least space first; each takes the position that overlaps least with
    the edges, the marks and the other names. This is repeated. A placement without overlaps stays so in a wider chart.

    Parameters
    ----------
    points : array-like of shape (n, 2)
        The points.
    names : sequence of str
        Their names.
    extent : array-like of shape (2, 2)
        Smallest and largest x and y of all that is drawn.
    width, height : int
        Size of the chart in pixels.
    others : array-like of shape (m, 2), default=()
        Points without a name, which names should not cover, either.

    Returns
    -------
    list of Placement
        One position per point.

    Examples
    --------
    >>> [one.align for one in placed([[0, 0], [1, 0]], ["owl", "emu"], [[0, 0], [1, 1]], 300, 200)]
    ['left', 'right']
    """
    low, high = np.asarray(extent, dtype=np.float64)
    span = np.where(high > low, high - low, 1.0)

    def in_pixels(given: ArrayLike) -> NDArray[np.float64]:
        scaled = (np.asarray(given, dtype=np.float64).reshape(-1, 2) - low) / span
        return np.column_stack([scaled[:, 0] * width, (1 - scaled[:, 1]) * height])

    pixels = in_pixels(points)
    marks = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in pixels.tolist()]
    dots = [(x - DOT, y - DOT, x + DOT, y + DOT) for x, y in in_pixels(others).tolist()]
    widths = [min(MOST, CHARACTER * len(name)) for name in names]
    found: dict[int, Placement] = {}
    taken: dict[int, Box] = {}

    def cost(k: int, placement: Placement) -> float:
        box = placement.box(float(pixels[k, 0]), float(pixels[k, 1]), widths[k])
        outside = widths[k] * LINE - _overlap(box, (0.0, -LINE, float(width), height + LINE))
        covered = [mark for j, mark in enumerate(marks) if j != k] + [name for j, name in taken.items() if j != k]
        return OUTSIDE * outside + COVERED * _overlaps(box, covered) + _overlaps(box, dots)

    crowding = (np.square(pixels[:, None] - pixels).sum(axis=2) < (MOST / 2) ** 2).sum(axis=1)
    for k in SWEEPS * np.argsort(-crowding, kind="stable").tolist():
        found[k] = min(PLACEMENTS, key=partial(cost, k))
        taken[k] = found[k].box(float(pixels[k, 0]), float(pixels[k, 1]), widths[k])
    return [found[k] for k in range(len(names))]


def _overlap(one: Box, other: Box) -> float:
    """Common area of two boxes."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, wide) * max(0.0, high)


def _overlaps(box: Box, others: Sequence[Box]) -> float:
    return sum(_overlap(box, other) for other in others)
