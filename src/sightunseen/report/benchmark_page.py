"""The page of a benchmark: every method ranked, with intervals and the published numbers."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from sightunseen.benchmark.ingredients import Study, studies
from sightunseen.benchmark.paper_ablation import Ablation, ablations
from sightunseen.benchmark.result_tables import Row, Table, rows_by_data, tables
from sightunseen.benchmark.store import DONE, FAILED, SKIPPED, Outcome
from sightunseen.report.ablation_figures import ablation_figures, interval
from sightunseen.report.figures import BLUE, GREY, ORANGE, PURPLE, ROWS, Figure, Panel, columns_of, slug
from sightunseen.report.ingredient_figures import study_figures
from sightunseen.report.page import Block, DataTable, Page, Section, Tile

STEP = 20
CHOSEN = {"validation": "chosen on validation classes", "none": "hyperparameters as given", "oracle": "chosen on TEST data"}
LOOKS = {  # colour and shape of what was chosen how, and of what was published
    CHOSEN["validation"]: (BLUE, "circle"),
    CHOSEN["none"]: (PURPLE, "square"),
    CHOSEN["oracle"]: (ORANGE, "triangle-up"),
    "published": (GREY, "diamond"),
}


def benchmark_page(outcomes: Iterable[Outcome], title: str) -> Page:
    """Make the page of a benchmark's outcomes."""
    outcomes = list(outcomes)
    states = [outcome.state for outcome in outcomes]
    whole = {table.title: table for table in tables(outcomes)}
    ablated = {f"ablation, {found.name}": found for found in ablations(outcomes)}
    studied = {f"study, {found.name}": found for found in studies(outcomes)}
    places = _indices([*ablated, *studied, *whole])
    sections = [_ablation(places[name], found) for name, found in ablated.items()]
    sections += [_study(places[name], found) for name, found in studied.items()]
    for (data, kind), rows in rows_by_data(outcomes).items():
        name = f"{data}, {kind}"
        place, done = places[name], [row for row in rows if row.seeds]
        table = _table(place, replace(whole[name], title="All numbers"))
        blocks: list[Block] = [table]
        if done:
            blocks = [_ranking(place, done), table, _balance(place, done), _cost(place, done)]
        sections.append(Section(place, name, blocks))
    datasets = sorted({outcome.shown["data"] for outcome in outcomes})
    subtitle = f"{len({outcome.shown['label'] for outcome in outcomes})} methods on {', '.join(datasets)}."
    tiles = [Tile(state, str(states.count(state)), "jobs") for state in (DONE, FAILED, SKIPPED)]
    seconds = sum(outcome.seconds for outcome in outcomes)
    tiles.append(
        Tile("computing time", f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s", "all jobs together")
    )
    return Page(title, subtitle, tiles, sections)


def _indices(names: Sequence[str]) -> dict[str, str]:
    """Each name as part of an address, with a number where two would be the same."""
    found = [slug(name) for name in names]
    numbered = enumerate(zip(names, found, strict=True), start=1)
    return {name: place if found.count(place) == 1 else f"{place}-{number}" for number, (name, place) in numbered}


def _ablation(place: str, ablation: Ablation) -> Section:
    found = [_table(f"{place}-{number}", table) for number, table in enumerate(ablation.tables(), start=1)]
    return Section(place, f"Ablation on {ablation.name}", [*ablation_figures(place, ablation), *found])


def _study(place: str, study: Study) -> Section:
    found = [_table(f"{place}-{number}", table) for number, table in enumerate(study.tables(), start=1)]
    return Section(place, f"Study of Foresight on {study.name}", [*study_figures(place, study), *found])


def _table(place: str, table: Table) -> DataTable:
    columns = {head: [row[k] for row in table.rows] for k, head in enumerate(table.columns)}
    return DataTable(f"table-{place}", table.title, "", columns, table.notes)


def _ranking(name: str, rows: Sequence[Row]) -> Figure:
    """T1 and H of every method with their standard deviations, and what was published."""
    found: list[tuple[Any, ...]] = []
    for number in ("T1", "H"):
        for row in rows:
            found.append((number, row.name, CHOSEN[row.selection], *interval(row, number), ""))
            published = row.published.numbers[number] if row.published else None
            if row.published is not None and published is not None:
                source = f"{row.published.source}, {row.published.backbone}"
                found.append((number, row.name, "published", published, published, published, source))
    heads = ("panel", "method", "kind", "percent", "low", "high", "source")
    columns = columns_of(heads, found)
    panels = [
        Panel(_ranked(number, rows), {"T1": "T1: among unseen classes", "H": "H: among all classes"}[number])
        for number in ("T1", "H")
    ]
    see = (
        "Best first; bars are one standard deviation over seeds, so methods whose bars overlap are not told apart. Diamonds "
        "are published numbers: other features and often chosen on test data, for orientation only."
    )
    return Figure(f"ranking-{name}", "Ranking", see, columns, panels)


def _ranked(number: str, rows: Sequence[Row]) -> alt.TopLevelMixin:
    order = [row.name for row in sorted(rows, key=lambda row: -(row.mean(number) or 0.0))]
    base = alt.Chart(ROWS).transform_filter(alt.datum.panel == number)
    place = alt.Y("method:N", sort=order, title=None)
    present = {CHOSEN[row.selection] for row in rows} | {"published" for row in rows if row.published}
    shown = {kind: look for kind, look in LOOKS.items() if kind in present}
    kinds = alt.Scale(domain=list(shown), range=[colour for colour, _ in shown.values()])
    shapes = alt.Scale(domain=list(shown), range=[shape for _, shape in shown.values()])
    return alt.layer(
        base.transform_filter(alt.datum.kind != "published")
        .mark_rule(strokeWidth=2)
        .encode(y=place, x="low:Q", x2="high:Q", color=alt.Color("kind:N", scale=kinds)),
        base.mark_point(filled=True, size=75, opacity=1).encode(
            y=place,
            x=alt.X("percent:Q", title=f"{number} (%)", scale=alt.Scale(zero=False)),
            color=alt.Color("kind:N", scale=kinds),
            shape=alt.Shape("kind:N", scale=shapes),
            tooltip=["method:N", "kind:N", alt.Tooltip("percent:Q", format=".1f"), "source:N"],
        ),
    ).properties(width="container", height=STEP * len(rows))


def _balance(name: str, rows: Sequence[Row]) -> Figure:
    """S against U, with and without the penalty on seen classes."""
    found = [
        (row.name, kind, row.mean(f"U{ending}"), row.mean(f"S{ending}"), row.mean(f"H{ending}"))
        for row in rows
        for kind, ending in (("as used", ""), ("without penalty", "_plain"))
    ]
    columns = columns_of(("method", "kind", "U", "S", "H"), found)
    base = alt.Chart(ROWS).encode(x=alt.X("U:Q", title="U: unseen classes (%)"), y=alt.Y("S:Q", title="S: seen classes (%)"))
    chart = alt.layer(
        base.mark_line(color=GREY, opacity=0.4).encode(detail="method:N"),
        base.mark_circle(size=80, opacity=0.9).encode(
            color=alt.Color("kind:N", scale=alt.Scale(domain=["as used", "without penalty"], range=[BLUE, GREY])),
            tooltip=["method:N", "kind:N", *(alt.Tooltip(f"{number}:Q", format=".1f") for number in ("U", "S", "H"))],
        ),
        base.transform_filter(alt.datum.kind == "as used").mark_text(dy=-9, fontSize=9).encode(text="method:N"),
    ).properties(width="container", height=380)
    see = (
        "A line joins a method without any penalty on seen classes, where most prefer seen classes, to the method as used, "
        "with the penalty chosen on validation classes. Up and to the right is better."
    )
    return Figure(f"balance-{name}", "Seen against unseen classes", see, columns, [Panel(chart)])


def _cost(name: str, rows: Sequence[Row]) -> Figure:
    """H against the time that choosing, training and testing took."""
    columns: dict[str, list[Any]] = {
        "method": [row.name for row in rows],
        "seconds": [max(row.seconds, 0.1) for row in rows],
        "H": [row.mean("H") for row in rows],
    }
    base = alt.Chart(ROWS).encode(
        x=alt.X("seconds:Q", title="seconds a job, choosing included", scale=alt.Scale(type="log")),
        y=alt.Y("H:Q", title="H (%)", scale=alt.Scale(zero=False)),
    )
    tooltip = ["method:N", alt.Tooltip("seconds:Q", format=".0f"), alt.Tooltip("H:Q", format=".1f")]
    chart = alt.layer(
        base.mark_circle(size=80, color=BLUE, opacity=0.9).encode(tooltip=tooltip),
        base.mark_text(dy=-9, fontSize=9).encode(text="method:N"),
    ).properties(width="container", height=320)
    see = "Up and to the left is better: more accurate in less time."
    return Figure(f"cost-{name}", "Accuracy against cost", see, columns, [Panel(chart)])
