"""Figures of numbers along the way: the seen-unseen curve, confidence, training and self-training."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from sightunseen.analysis.answers import evenly
from sightunseen.core.metrics import Reliability, SeenUnseenCurve, harmonic_mean
from sightunseen.report.figures import BLUE, GREY, ORANGE, ROWS, Figure, Panel

MOST_POINTS = 300  # of a curve: more are not seen
ACCURACIES = ("T1", "U", "S", "H")
WHOLE = alt.Axis(tickMinStep=1, format=",d")  # of what is counted
COLOURS = alt.Scale(domain=list(ACCURACIES), range=["#3b7dc4", "#2c9c6e", "#e0831a", "#d24b5a"])


def seen_unseen(curve: SeenUnseenCurve, penalty: float) -> Figure:
    """S against U for every penalty on seen classes, with the model as it is used and without its penalty."""
    shown = evenly(len(curve.unseen), MOST_POINTS)
    points = [("every penalty", curve.unseen[k], curve.seen[k]) for k in shown]
    points += [("as used", *curve.at(0.0))] + ([("without penalty", *curve.at(-penalty))] if penalty else [])
    columns: dict[str, list[Any]] = {
        "point": [name for name, _, _ in points],
        "U": [100 * float(unseen) for _, unseen, _ in points],
        "S": [100 * float(seen) for _, _, seen in points],
        "H": [100 * harmonic_mean(float(unseen), float(seen)) for _, unseen, seen in points],
    }
    # stack=None: by default Vega-Lite stacks an area, that is, adds up S over the points that share one U.
    # order=False: the rows are in the order of the curve; a sort by U leaves the order of such points open.
    percent = alt.Scale(domain=[0, 100])
    base = alt.Chart(ROWS).encode(
        x=alt.X("U:Q", title="U: unseen classes, per-class accuracy (%)", scale=percent),
        y=alt.Y("S:Q", title="S: seen classes (%)", scale=percent, stack=None),
    )
    sweep = base.transform_filter(alt.datum.point == "every penalty")
    points_chart = base.transform_filter(alt.datum.point != "every penalty")
    tooltip = [alt.Tooltip("point:N"), *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("U", "S", "H"))]
    chart = alt.layer(
        sweep.mark_area(color=BLUE, opacity=0.15, interpolate="step-before", order=False),
        sweep.mark_line(color=BLUE, interpolate="step-before", order=False),
        points_chart.mark_point(size=140, filled=True, opacity=1).encode(
            color=alt.Color("point:N", scale=alt.Scale(domain=["as used", "without penalty"], range=[ORANGE, GREY])),
            shape=alt.Shape("point:N", scale=alt.Scale(domain=["as used", "without penalty"], range=["diamond", "circle"])),
            tooltip=tooltip,
        ),
    ).properties(width="container", height=340)
    unseen, seen = curve.at(0.0)
    see = (
        f"Up and to the right is better. The area under the curve, AUSUC, is {100 * curve.area:.1f} and does not depend on any "
        f"penalty; the diamond is the model as it is used (U {100 * unseen:.1f}, S {100 * seen:.1f})."
    )
    return Figure("seen-unseen-curve", "Seen against unseen classes", see, columns, [Panel(chart)])


def reliability_figure(asked: Mapping[str, Reliability]) -> Figure:
    """Accuracy against confidence; ``asked`` are reliabilities by what was asked for."""
    rows = [(name, part) for name, found in asked.items() for part in found.bins]
    columns: dict[str, list[Any]] = {
        "asked": [name for name, _ in rows],
        "confidence": [100 * part.confidence for _, part in rows],
        "accuracy": [100 * part.accuracy for _, part in rows],
        "images": [part.images for _, part in rows],
    }
    whole = alt.Scale(domain=[0, 100])
    ideal = alt.Chart(alt.InlineData(values=[{"confidence": 0, "accuracy": 0}, {"confidence": 100, "accuracy": 100}]))
    drawn = alt.Chart(ROWS).encode(
        x=alt.X("confidence:Q", title="confidence (%)", scale=whole),
        y=alt.Y("accuracy:Q", title="images that are right (%)", scale=whole),
        color=alt.Color("asked:N", scale=alt.Scale(domain=list(asked), range=[BLUE, ORANGE])),
    )
    tooltip = ["asked:N", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("confidence", "accuracy")), "images:Q"]
    chart = alt.layer(
        ideal.mark_line(strokeDash=[4, 4], color=GREY).encode(x="confidence:Q", y="accuracy:Q"),
        drawn.mark_line(),
        drawn.mark_circle(opacity=1).encode(
            size=alt.Size("images:Q", scale=alt.Scale(range=[30, 500]), legend=None), tooltip=tooltip
        ),
    ).properties(width="container", height=340)
    errors = "; ".join(f"{name}: {100 * found.error:.1f}" for name, found in asked.items())
    see = (
        "On the dashed line confidence is honest; below it the model is surer than it should be, above it more modest. "
        f"Larger dots are more images. Expected calibration error in points: {errors}."
    )
    return Figure("reliability", "How sure, and how right", see, columns, [Panel(chart)])


def confidence_figure(confidence: Any) -> Figure:
    """How sure a model is of images whose labels are not known."""
    counts, edges = np.histogram(100 * np.asarray(confidence), bins=20, range=(0, 100))
    columns = {"from": edges[:-1].tolist(), "to": edges[1:].tolist(), "images": counts.tolist()}
    chart = (
        alt.Chart(ROWS)
        .mark_bar(color=BLUE)
        .encode(
            x=alt.X("from:Q", title="confidence of the best class (%)", bin="binned"),
            x2="to:Q",
            y=alt.Y("images:Q", title="images"),
            tooltip=["from:Q", "to:Q", "images:Q"],
        )
        .properties(width="container", height=260)
    )
    see = "Many images far to the left are images that fit no class well: look at some of them before you trust the answers."
    return Figure("confidence", "How sure the model is", see, columns, [Panel(chart)])


def training_figure(name: str, title: str, see: str, curve: Sequence[Mapping[str, Any]], chosen: int | None = None) -> Figure:
    """Loss, and the accuracies, against tasks; ``chosen`` marks a number of tasks."""
    columns = {key: [point.get(key) for point in curve] for key in ("steps", "loss", *ACCURACIES)}
    return Figure(name, title, see, columns, _loss_and_accuracies("steps", "steps", columns, chosen))


def self_training_figure(rounds: Sequence[Mapping[str, Any]]) -> Figure:
    """The paper's Figure 2: what self-training does, round by round; of a method without a pool, how its labels settle."""
    names = [name for name in ("round", "loss", *ACCURACIES, "pool", "pool_accuracy") if name in rounds[-1]]
    columns = {name: [entry.get(name) for entry in rounds] for name in names}
    if "pool" not in columns:
        columns["changed_labels"] = [entry["changed_labels"] for entry in rounds]
        see = (
            "Images whose likeliest class is another than in the round before; in the first round all are new. Labels have "
            "settled where hardly any change."
        )
        panels = [_line("round", "round", "changed_labels", "labels that changed", BLUE)]
        return Figure("self-training", "Self-training (EM)", see, columns, panels)
    if "pool_accuracy" in columns:
        columns["pool_accuracy"] = [None if share is None else 100 * share for share in columns["pool_accuracy"]]
    panels = _loss_and_accuracies("round", "round", columns, None)
    panels.append(_line("round", "round", "pool", "trusted images", BLUE))
    see = "Round by round, the loss should fall and the trusted images grow in number"
    if "pool_accuracy" in columns:
        panels.append(_line("round", "round", "pool_accuracy", "trusted images labelled right (%)", ORANGE))
        began, ended = (
            f"{entry['pool']:,}, {100 * entry['pool_accuracy']:.1f}% of them right" for entry in (rounds[0], rounds[-1])
        )
        see += (
            f" without many more of them being wrong. Here they begin as {began}, and end as {ended}. True labels are used for "
            "this figure alone"
        )
    return Figure("self-training", "Self-training (Algorithm 2)", see + ".", columns, panels)


def _loss_and_accuracies(along: str, title: str, columns: Mapping[str, Sequence[Any]], chosen: int | None) -> list[Panel]:
    measured: list[Any] = [name for name in ACCURACIES if any(value is not None for value in columns.get(name, ()))]
    panels = [_line(along, title, "loss", "loss", GREY)]
    if not measured:
        return panels
    drawn = (
        alt.Chart(ROWS)
        .transform_fold(measured, as_=["number", "percent"])
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{along}:Q", title=title, axis=WHOLE),
            y=alt.Y("percent:Q", title="percent", scale=alt.Scale(zero=False)),
            color=alt.Color("number:N", scale=COLOURS, sort=measured),
            tooltip=[alt.Tooltip(f"{along}:Q"), "number:N", alt.Tooltip("percent:Q", format=".1f")],
        )
    )
    mark = alt.Chart(alt.InlineData(values=[{"at": chosen}])).mark_rule(strokeDash=[4, 4], color=GREY).encode(x="at:Q")
    chart = alt.layer(drawn, mark) if chosen is not None else drawn
    panels.append(Panel(chart.properties(width="container", height=240), "accuracy"))
    return panels


def _line(along: str, title: str, number: str, axis: str, colour: str) -> Panel:
    chart = (
        alt.Chart(ROWS)
        .mark_line(point={"color": colour}, color=colour)
        .encode(
            x=alt.X(f"{along}:Q", title=title, axis=WHOLE),
            y=alt.Y(f"{number}:Q", title=axis, scale=alt.Scale(zero=False)),
            tooltip=[alt.Tooltip(f"{along}:Q"), alt.Tooltip(f"{number}:Q", format=",.4~f")],
        )
        .properties(width="container", height=240)
    )
    return Panel(chart, axis)
