"""Figures of curves: seen-unseen curve, reliability diagram, histogram of confidence, training and self-training."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from sightunseen.analysis.answers import evenly_spaced
from sightunseen.core.metrics import ACCURACIES, harmonic_mean
from sightunseen.core.reliability import Reliability
from sightunseen.core.seen_unseen import SeenUnseenCurve
from sightunseen.report.figures import BLUE, GREEN, GREY, ORANGE, RED, ROWS, Figure, Panel, columns_of

MOST_POINTS = 300  # of a curve; more cannot be told apart
SQUARE = 340  # pixels: height of a chart of two percentages, at most twice as wide
TENS = alt.Axis(tickCount=10)
INTEGERS = alt.Axis(tickMinStep=1, format=",d")
COLOURS = alt.Scale(domain=list(ACCURACIES), range=[BLUE, GREEN, ORANGE, RED])


def seen_unseen(curve: SeenUnseenCurve, penalty: float) -> Figure:
    """Draw S against U for every seen-class bias of calibrated stacking.

    Parameters
    ----------
    curve : SeenUnseenCurve
        The curve of the model as used.
    penalty : float
        Seen-class bias of the model as used; if it is not 0, the point without bias is drawn as well.

    Returns
    -------
    Figure
        The figure.
    """
    used, plain = "as used", "without seen-class bias"
    points = [("curve", curve.unseen[k], curve.seen[k]) for k in evenly_spaced(len(curve.unseen), MOST_POINTS)]
    points += [(used, *curve.at(0.0))] + ([(plain, *curve.at(-penalty))] if penalty else [])
    rows = [(name, 100 * float(u), 100 * float(s), 100 * harmonic_mean(float(u), float(s))) for name, u, s in points]
    columns = columns_of(("point", "U", "S", "H"), rows)
    # stack=None: by default Vega-Lite stacks an area, that is, adds up S over the points that share one U.
    # order=False: the rows are in the order of the curve; sorting by U would leave the order of such points open.
    percent = alt.Scale(domain=[0, 100])
    base = alt.Chart(ROWS).encode(
        x=alt.X("U:Q", title="U: accuracy of unseen classes (%)", scale=percent, axis=TENS),
        y=alt.Y("S:Q", title="S: accuracy of seen classes (%)", scale=percent, axis=TENS, stack=None),
    )
    sweep = base.transform_filter(alt.datum.point == "curve")
    # The point without bias is a ring, so that both are visible if they are equal.
    chart = alt.layer(
        sweep.mark_area(color=BLUE, opacity=0.15, interpolate="step-before", order=False),
        sweep.mark_line(color=BLUE, interpolate="step-before", order=False),
        base.transform_filter(alt.datum.point != "curve")
        .mark_point(opacity=1, strokeWidth=2.5)
        .encode(
            color=alt.Color("point:N", scale=alt.Scale(domain=[used, plain], range=[ORANGE, GREY])),
            fill=alt.Fill("point:N", scale=alt.Scale(domain=[used, plain], range=[ORANGE, "transparent"])),
            shape=alt.Shape("point:N", scale=alt.Scale(domain=[used, plain], range=["diamond", "circle"])),
            size=alt.condition(alt.datum.point == used, alt.value(110), alt.value(260)),
            tooltip=[alt.Tooltip("point:N"), *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("U", "S", "H"))],
        ),
    )
    unseen, seen = curve.at(0.0)
    caption = (
        "S against U for every seen-class bias of calibrated stacking (Chao et al., 2016), which is subtracted from the "
        f"scores of seen classes; the diamond is the model as used (U {100 * unseen:.1f}, S {100 * seen:.1f}). The area under "
        f"the curve, AUSUC, is {100 * curve.area:.1f} and does not depend on the bias."
    )
    return Figure(
        "seen-unseen-curve", "Seen-unseen accuracy curve", caption, columns, [Panel(chart, height=SQUARE, most=2 * SQUARE)]
    )


def reliability_figure(found: Mapping[str, Reliability]) -> Figure:
    """Draw a reliability diagram: accuracy against confidence.

    Parameters
    ----------
    found : mapping of str to Reliability
        One curve per set of candidates.

    Returns
    -------
    Figure
        The figure.
    """
    bins = [(name, part) for name, one in found.items() for part in one.bins]
    rows = [(name, 100 * part.confidence, 100 * part.accuracy, part.images) for name, part in bins]
    columns = columns_of(("candidates", "confidence", "accuracy", "images"), rows)
    percent = alt.Scale(domain=[0, 100])
    ideal = alt.Chart(alt.InlineData(values=[{"confidence": 0, "accuracy": 0}, {"confidence": 100, "accuracy": 100}]))
    drawn = alt.Chart(ROWS).encode(
        x=alt.X("confidence:Q", title="mean confidence (%)", scale=percent, axis=TENS),
        y=alt.Y("accuracy:Q", title="accuracy (%)", scale=percent, axis=TENS),
        color=alt.Color("candidates:N", scale=alt.Scale(domain=list(found), range=[BLUE, ORANGE])),
    )
    tooltip = ["candidates:N", *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("confidence", "accuracy")), "images:Q"]
    chart = alt.layer(
        ideal.mark_line(strokeDash=[4, 4], color=GREY).encode(x="confidence:Q", y="accuracy:Q"),
        drawn.mark_line(),
        drawn.mark_circle(opacity=1).encode(
            size=alt.Size("images:Q", scale=alt.Scale(range=[30, 500]), legend=None), tooltip=tooltip
        ),
    )
    errors = "; ".join(f"{name} {100 * one.error:.1f}" for name, one in found.items())
    caption = (
        "Accuracy of the images in each of ten bins of confidence (larger dots: more images); below the dashed line the model "
        "is overconfident. The expected calibration error (ECE), the mean gap between confidence and accuracy weighted by "
        f"images, is in percentage points: {errors}."
    )
    return Figure("reliability", "Reliability diagram", caption, columns, [Panel(chart, height=SQUARE, most=2 * SQUARE)])


def confidence_figure(confidence: Any) -> Figure:
    """Draw a histogram of the confidence of predictions.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Probabilities of the predicted classes.

    Returns
    -------
    Figure
        The figure.
    """
    counts, edges = np.histogram(100 * np.asarray(confidence), bins=20, range=(0, 100))
    columns = {"from": edges[:-1].tolist(), "to": edges[1:].tolist(), "images": counts.tolist()}
    chart = (
        alt.Chart(ROWS)
        .mark_bar(color=BLUE)
        .encode(
            x=alt.X("from:Q", title="confidence (%)", bin="binned"),
            x2="to:Q",
            y=alt.Y("images:Q", title="images"),
            tooltip=["from:Q", "to:Q", "images:Q"],
        )
    )
    caption = (
        "Number of images by confidence, the probability of the predicted class. Images with low confidence may belong to none "
        "of the classes: inspect some of them before you use the predictions."
    )
    return Figure("confidence", "Confidence of the predictions", caption, columns, [Panel(chart, height=260)])


def training_figure(
    name: str, title: str, caption: str, curve: Sequence[Mapping[str, Any]], selected: int | None = None
) -> Figure:
    """Draw loss and accuracies against gradient steps.

    Parameters
    ----------
    name, title, caption : str
        Identifier, heading and description.
    curve : sequence of mapping
        Measurements with ``steps``, ``loss`` and some of T1, U, S and H.
    selected : int, default=None
        Number of steps to mark by a dashed line.

    Returns
    -------
    Figure
        The figure.
    """
    columns = {key: [point.get(key) for point in curve] for key in ("steps", "loss", *ACCURACIES)}
    return Figure(name, title, caption, columns, _loss_and_accuracies("steps", columns, selected))


def self_training_figure(rounds: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw self-training by round: Figure 2 of the paper or, for a method without a pool, the number of changed labels.

    Parameters
    ----------
    rounds : sequence of mapping
        History of an adaptation, one entry per round.

    Returns
    -------
    Figure
        The figure.
    """
    names = [name for name in ("round", "loss", *ACCURACIES, "pool", "pool_accuracy") if name in rounds[-1]]
    columns = {name: [entry.get(name) for entry in rounds] for name in names}
    if "pool" not in columns:
        columns["changed_labels"] = [entry["changed_labels"] for entry in rounds]
        caption = (
            "Number of unlabelled images whose most probable class differs from that of the previous round; in the first round "
            "all count as changed. EM has converged when hardly any label changes."
        )
        panels = [_line("round", "changed_labels", "changed labels", BLUE)]
        return Figure("self-training", "Self-training (EM)", caption, columns, panels)
    panels = [*_loss_and_accuracies("round", columns, None), _line("round", "pool", "pseudo-labelled images", BLUE)]
    measured = "Loss, accuracies on the test images and" if "T1" in columns else "Loss and"
    caption = f"{measured} number of pseudo-labelled images that are trained on, by round"
    if "pool_accuracy" in columns:
        columns["pool_accuracy"] = [None if share is None else 100 * share for share in columns["pool_accuracy"]]
        panels.append(_line("round", "pool_accuracy", "correct pseudo-labels (%)", ORANGE))
        first, last = (
            f"{entry['pool']:,} images, {100 * entry['pool_accuracy']:.1f}% correct" for entry in (rounds[0], rounds[-1])
        )
        caption += (
            f"; true labels are used for this figure only. Pseudo-labels: {first}, in the first round; {last}, in the last"
        )
    return Figure("self-training", "Self-training (Algorithm 2)", caption + ".", columns, panels)


def _loss_and_accuracies(along: str, columns: Mapping[str, Sequence[Any]], selected: int | None) -> list[Panel]:
    measured: list[Any] = [name for name in ACCURACIES if any(value is not None for value in columns.get(name, ()))]
    panels = [_line(along, "loss", "loss", GREY)]
    if not measured:
        return panels
    drawn = (
        alt.Chart(ROWS)
        .transform_fold(measured, as_=["metric", "percent"])
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{along}:Q", title=along, axis=INTEGERS),
            y=alt.Y("percent:Q", title="percent", scale=alt.Scale(zero=False)),
            color=alt.Color("metric:N", scale=COLOURS, sort=measured),
            tooltip=[alt.Tooltip(f"{along}:Q"), "metric:N", alt.Tooltip("percent:Q", format=".1f")],
        )
    )
    mark = alt.Chart(alt.InlineData(values=[{"at": selected}])).mark_rule(strokeDash=[4, 4], color=GREY).encode(x="at:Q")
    return [*panels, Panel(drawn if selected is None else alt.layer(drawn, mark), "accuracy", height=240)]


def _line(along: str, column: str, title: str, colour: str) -> Panel:
    chart = (
        alt.Chart(ROWS)
        .mark_line(point={"color": colour}, color=colour)
        .encode(
            x=alt.X(f"{along}:Q", title=along, axis=INTEGERS),
            y=alt.Y(f"{column}:Q", title=title, scale=alt.Scale(zero=False)),
            tooltip=[alt.Tooltip(f"{along}:Q"), alt.Tooltip(f"{column}:Q", format=",.4~f")],
        )
    )
    return Panel(chart, title, height=240)
