"""Page on the results of a benchmark: all methods ranked, with standard deviations and published numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from sightunseen.benchmark.comparison import COMPARED, Comparison, comparisons
from sightunseen.benchmark.comparison_tables import comparison_table
from sightunseen.benchmark.ingredients import studies
from sightunseen.benchmark.leaderboard import overviews
from sightunseen.benchmark.outcome import DONE, FAILED, SKIPPED, Outcome
from sightunseen.benchmark.paper_ablation import ablations
from sightunseen.benchmark.result_tables import Table, tables
from sightunseen.benchmark.rows import Row, rows_by_data
from sightunseen.report.ablation_figures import HEADS, PANELS, ablation_figures, interval
from sightunseen.report.figures import BLUE, DEFINITIONS, GREY, ORANGE, PURPLE, ROWS, Figure, Panel, columns_of, slug
from sightunseen.report.ingredient_figures import study_figures
from sightunseen.report.page import Block, DataTable, Page, Section, Tile
from sightunseen.report.rank_figures import rank_figures
from sightunseen.report.tradeoff_figures import balance_figure, time_figure

BOARD = "Leaderboard"
STEP = 20  # pixels per row
UNITS = {3600: "h", 60: "min"}  # by seconds
SELECTED = {
    "validation": "selected on validation classes",
    "none": "hyperparameters as given",
    "oracle": "selected on TEST data",
}
MARKS = {  # colour and shape by kind of selection
    SELECTED["validation"]: (BLUE, "circle"),
    SELECTED["none"]: (PURPLE, "square"),
    SELECTED["oracle"]: (ORANGE, "triangle-up"),
    "published": (GREY, "diamond"),
}


def benchmark_page(outcomes: Iterable[Outcome], title: str) -> Page:
    """Create the page on the results of a benchmark.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of the jobs.
    title : str
        Title of the page.

    Returns
    -------
    Page
        A section with the leaderboard or one per ablation study, one on the ranks over random class splits, and one per data
        set, number of drawn seen classes and setting.
    """
    outcomes = list(outcomes)
    listed = [outcome for outcome in outcomes if outcome.draw is None]  # splits that come with the data
    states = [outcome.state for outcome in outcomes]
    by_title = {table.title: table for table in tables(outcomes, conditions=True)}
    special: dict[str, tuple[str, Any, Any]] = {
        **{f"ablation, {one.name}": (f"Ablation on {one.name}", one, ablation_figures) for one in ablations(listed)},
        **{f"study, {one.name}": (f"Study of Foresight on {one.name}", one, study_figures) for one in studies(listed)},
    }
    compared = _grouped(comparisons(outcomes))
    anchors = _anchors([BOARD, *special, *compared, *by_title])
    board = [] if special else overviews(outcomes)  # the variants of a study are no rivals
    overall = [_table(f"{anchors[BOARD]}-{number}", table) for number, table in enumerate(board, start=1)]
    sections = [Section(anchors[BOARD], BOARD, overall)] if board else []
    for name, (heading, study, figures_of) in special.items():
        anchor = anchors[name]
        found = [_table(f"{anchor}-{number}", table) for number, table in enumerate(study.tables(), start=1)]
        sections.append(Section(anchor, heading, [*figures_of(anchor, study), *found]))
    for name, group in compared.items():
        anchor = anchors[name]
        found = [_table(f"{anchor}-{number}", comparison_table(one)) for number, one in enumerate(group, start=1)]
        sections.append(Section(anchor, name, [*rank_figures(anchor, group), *found]))
    for (data, kind), rows in rows_by_data(outcomes).items():
        name = f"{data}, {kind}"
        anchor, done = anchors[name], [row for row in rows if row.seeds]
        table = _table(anchor, replace(by_title[name], title="All results"))
        blocks: list[Block] = [table]
        if done and done[0].drawn:
            blocks = [_ranking(anchor, done), table]
        elif done:
            blocks = [_ranking(anchor, done), table, balance_figure(anchor, done), time_figure(anchor, done)]
        sections.append(Section(anchor, name, blocks))
    datasets = sorted({outcome.shown["data"] for outcome in outcomes})
    methods = len({outcome.shown["label"] for outcome in outcomes})
    tiles = [Tile(state, str(states.count(state)), "jobs") for state in (DONE, FAILED, SKIPPED)]
    seconds = sum(outcome.seconds for outcome in outcomes)
    tiles.append(Tile("computing time", _duration(seconds), "sum over all jobs"))
    return Page(title, f"{methods} methods on {'; '.join(datasets)}. {DEFINITIONS}", tiles, sections)


def _duration(seconds: float) -> str:
    """Time in the largest unit of which there are at least two."""
    count, unit = next(((seconds / size, name) for size, name in UNITS.items() if seconds >= 2 * size), (seconds, "s"))
    return f"{count:,.0f} {unit}"


def _grouped(found: Sequence[Comparison]) -> dict[str, list[Comparison]]:
    """Comparisons that differ only in the number of seen classes, by heading."""
    groups: dict[str, list[Comparison]] = {}
    for comparison in found:
        sizes = "" if comparison.draw.unequal == 1 else f", class sizes 1:{comparison.draw.unequal:g}"
        groups.setdefault(f"Random class splits{sizes}, {comparison.setting}", []).append(comparison)
    return groups


def _anchors(names: Sequence[str]) -> dict[str, str]:
    """HTML id of each name, with a number if two would be equal."""
    found = [slug(name) for name in names]
    numbered = enumerate(zip(names, found, strict=True), start=1)
    return {name: anchor if found.count(anchor) == 1 else f"{anchor}-{number}" for number, (name, anchor) in numbered}


def _table(anchor: str, table: Table) -> DataTable:
    return DataTable(f"table-{anchor}", table.title, "", columns_of(table.columns, table.rows), table.notes)


def _ranking(anchor: str, rows: Sequence[Row]) -> Figure:
    """T1 and H of every method with standard deviations, and published numbers."""
    found: list[tuple[Any, ...]] = []
    for metric in COMPARED:
        for row in rows:
            found.append((metric, row.variant, SELECTED[row.selection], *interval(row, metric), ""))
            published = row.published.numbers[metric] if row.published else None
            if row.published is not None and published is not None:
                source = f"{row.published.origin.source}, {row.published.backbone}"
                found.append((metric, row.variant, "published", published, published, published, source))
    columns = columns_of(("panel", "method", "kind", *HEADS, "source"), found)
    panels = [Panel(_ranked(metric, rows), PANELS[metric], STEP * len(rows)) for metric in COMPARED]
    caption = (
        "Mean and one standard deviation over seeds of each method, best first. Diamonds are published numbers, for "
        "orientation only: most use other features, and many were selected on test data."
    )
    if rows[0].drawn:
        caption = "Mean and one standard deviation over random class splits of each method, best first."
    return Figure(f"ranking-{anchor}", "Ranking", caption, columns, panels)


def _ranked(metric: str, rows: Sequence[Row]) -> alt.TopLevelMixin:
    order = [row.variant for row in sorted(rows, key=lambda row: -(row.mean(metric) or 0.0))]
    present = {SELECTED[row.selection] for row in rows} | {"published" for row in rows if row.published}
    marks = {kind: mark for kind, mark in MARKS.items() if kind in present}
    kinds = alt.Scale(domain=list(marks), range=[colour for colour, _ in marks.values()])
    shapes = alt.Scale(domain=list(marks), range=[shape for _, shape in marks.values()])
    base = alt.Chart(ROWS).transform_filter(alt.datum.panel == metric)
    base = base.encode(y=alt.Y("method:N", sort=order, title=None), color=alt.Color("kind:N", scale=kinds))
    return alt.layer(
        base.transform_filter(alt.datum.kind != "published").mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q"),
        base.mark_point(filled=True, size=75, opacity=1).encode(
            x=alt.X("percent:Q", title=f"{metric} (%)", scale=alt.Scale(zero=False)),
            shape=alt.Shape("kind:N", scale=shapes),
            tooltip=["method:N", "kind:N", alt.Tooltip("percent:Q", format=".1f"), "source:N"],
        ),
    )
