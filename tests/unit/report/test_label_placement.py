"""Names beside points: inside the chart, and without overlaps where there is space."""

from itertools import combinations

import numpy as np
import pytest

from sightunseen.report.label_placement import CHARACTER, LINE, MOST, placed

WIDTH, HEIGHT = 330, 320
EXTENT = [[0, 0], [1, 1]]
Box = tuple[float, float, float, float]


def boxes(points: np.ndarray, names: list[str], width: int = WIDTH) -> list[Box]:
    """Left, top, right and bottom of the names in a chart of a width, placed for WIDTH."""
    found = placed(points, names, EXTENT, WIDTH, HEIGHT)
    sizes = [min(MOST, CHARACTER * len(name)) for name in names]
    return [one.box(x * width, (1 - y) * HEIGHT, size) for one, (x, y), size in zip(found, points.tolist(), sizes, strict=True)]


def overlapping(found: list[Box]) -> int:
    return sum(
        one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
        for one, other in combinations(found, 2)
    )


def covered(found: list[Box]) -> float:
    """Common area of all pairs."""
    sides = [
        (min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1]))
        for one, other in combinations(found, 2)
    ]
    return sum(max(0.0, wide) * max(0.0, high) for wide, high in sides)


@pytest.mark.parametrize("corner", [(0, 0), (0, 1), (1, 0), (1, 1), (0.5, 0), (0.5, 1)])
def test_a_long_name_stays_inside_the_chart(corner: tuple[float, float]) -> None:
    ((left, top, right, bottom),) = boxes(np.array([corner], dtype=float), ["Northern rough-winged swallow in winter"])
    assert left >= 0
    assert right <= WIDTH
    assert top >= -LINE
    assert bottom <= HEIGHT + LINE


def test_names_of_six_classes_do_not_overlap_at_any_width() -> None:
    for seed in range(20):
        points = np.random.default_rng(seed).random((6, 2))
        names = [f"a rather long name {k}" for k in range(6)]
        assert overlapping(boxes(points, names)) <= overlapping([(x, y, x + MOST, y + LINE) for x, y in points * WIDTH])
    apart = np.array([[k / 5, (k % 3) / 2] for k in range(6)])
    for width in (WIDTH, 540, 1100):
        assert overlapping(boxes(apart, names, width)) == 0


def test_thirty_names_cover_each_other_less_than_names_to_the_right() -> None:
    names = [f"class number {k}" for k in range(30)]
    width = CHARACTER * len(names[0])
    chosen, plain = 0.0, 0.0
    for seed in range(5):
        points = np.random.default_rng(seed).random((30, 2))
        chosen += covered(boxes(points, names))
        plain += covered([(x + 10, y, x + 10 + width, y + LINE) for x, y in (points * [WIDTH, HEIGHT]).tolist()])
    assert chosen < plain / 2


def test_names_avoid_other_points() -> None:
    point, right = np.array([[0.5, 0.5]]), np.array([[0.5 + step / WIDTH, 0.5] for step in range(12, 60, 6)])
    assert [one.align for one in placed(point, ["an owl"], EXTENT, WIDTH, HEIGHT)] == ["left"]
    assert [one.align for one in placed(point, ["an owl"], EXTENT, WIDTH, HEIGHT, right)] == ["right"]


def test_points_at_one_place_get_different_positions() -> None:
    found = placed(np.zeros((4, 2)), ["owl", "emu", "kea", "auk"], [[-1, -1], [1, 1]], WIDTH, HEIGHT)
    assert len(set(found)) == 4
    assert placed(np.empty((0, 2)), [], EXTENT, WIDTH, HEIGHT) == []
    assert len(placed([[2, 2]], ["owl"], [[2, 2], [2, 2]], WIDTH, HEIGHT)) == 1  # a single point has no extent
