"""Figures of mean ranks over random class splits, from synthetic comparisons."""

from typing import Any

import numpy as np
import pytest
import vl_convert

from sightunseen.benchmark.comparison import Comparison
from sightunseen.benchmark.draws import Draw
from sightunseen.report.figures import CONFIG, Figure, rows_of
from sightunseen.report.rank_figures import rank_figures

METHODS = ("CONSE", "ESZSL", "Foresight", "GFZSL", "SAE")


def comparison(seen: int | str, order: tuple[int, ...] = (5, 4, 1, 2, 3), blocks: int = 20) -> Comparison:
    """Methods with the same ranks in every block."""
    scores = {"T1": -np.tile(np.array(order, float), (blocks, 1)), "H": np.tile(np.array(order, float), (blocks, 1))}
    return Comparison(Draw(seen, 20), "inductive", METHODS, tuple(("CUB", k) for k in range(blocks)), scores, {})


def rows(figure: Figure, **wanted: Any) -> list[dict[str, Any]]:
    return [row for row in rows_of(figure.columns) if all(row[name] == value for name, value in wanted.items())]


@pytest.fixture
def figures() -> list[Figure]:
    return rank_figures("inductive", [comparison(8), comparison("all", (1, 2, 3, 4, 5))])


def test_every_number_of_seen_classes_has_a_diagram(figures: list[Figure]) -> None:
    assert [figure.name for figure in figures] == ["ranks-inductive", "ranks-inductive-8", "ranks-inductive-all"]
    assert len(rank_figures("inductive", [comparison(8)])) == 1


def test_lines_have_the_mean_ranks_of_both_metrics(figures: list[Figure]) -> None:
    ranks = {row["method"]: row["rank"] for row in rows(figures[0], panel="T1", classes="8")}
    assert ranks == {"Foresight": 1, "GFZSL": 2, "SAE": 3, "ESZSL": 4, "CONSE": 5}
    assert {row["method"]: row["rank"] for row in rows(figures[0], panel="H", classes="all")}["SAE"] == 1


def test_diagram_has_methods_at_their_ranks_with_names_on_both_sides(figures: list[Figure]) -> None:
    diagram = figures[1]
    assert {row["x"] for row in rows(diagram, panel="T1", kind="drop")} == {1, 2, 3, 4, 5}
    assert [row["method"] for row in rows(diagram, panel="T1", kind="left")] == ["Foresight 1.00", "GFZSL 2.00", "SAE 3.00"]
    assert [row["method"] for row in rows(diagram, panel="T1", kind="right")] == ["4.00 ESZSL", "5.00 CONSE"]
    for side in ("left", "right"):
        heights = [row["y"] for row in rows(diagram, panel="T1", kind=side)]
        assert len(set(heights)) == len(heights)
    bars = rows(diagram, panel="T1", kind="bar")
    assert min(row["y"] for row in rows(diagram, panel="T1", kind="left")) > max(row["y"] for row in bars)


def test_bars_join_methods_within_the_critical_difference() -> None:
    # Of five methods on 20 blocks the critical difference is 1.36: only neighbours are joined.
    (diagram,) = rank_figures("x", [comparison(8)])
    bars = rows(diagram, panel="T1", kind="bar")
    assert [(round(row["x"]), round(row["x2"])) for row in bars] == [(1, 2), (2, 3), (3, 4), (4, 5)]
    (mark,) = rows(diagram, panel="T1", kind="CD")
    assert mark["x2"] - mark["x"] == pytest.approx(2.728 * np.sqrt(5 * 6 / (6 * 20)), abs=1e-3)
    assert mark["method"] == "CD 1.36"
    (certain,) = rank_figures("x", [comparison(8, blocks=200)])
    assert rows(certain, panel="T1", kind="bar") == []
    (unsure,) = rank_figures("x", [comparison(8, blocks=2)])
    assert len(rows(unsure, panel="T1", kind="bar")) == 1


def test_every_chart_compiles(figures: list[Figure]) -> None:
    for figure in figures:
        for panel in figure.panels:
            spec = {**panel.spec(), "datasets": {"rows": rows_of(figure.columns)}, "config": CONFIG}
            assert vl_convert.vegalite_to_vega(spec)["marks"], figure.name
            assert not {"NaN", "undefined"} & set(vl_convert.vegalite_to_svg({**spec, "width": 400}).split())
