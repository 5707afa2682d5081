"""Tables that compare methods over the random class splits of all data sets."""

from collections.abc import Iterable, Sequence

from sightunseen.benchmark.comparison import COMPARED, Comparison, comparisons
from sightunseen.benchmark.outcome import Outcome
from sightunseen.benchmark.result_tables import Table
from sightunseen.benchmark.significance import LEVEL
from sightunseen.core.metrics import ACCURACIES, definitions


def comparison_tables(outcomes: Iterable[Outcome], setting: str | None = None) -> list[Table]:
    """Build a table of mean ranks per number of drawn seen classes, over all data sets.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.
    setting : {"zsl", "gzsl"}, optional
        Show only T1 or only H. Default: both.

    Returns
    -------
    list of Table
        Tables by number of seen classes; empty if no class split was drawn.
    """
    return [comparison_table(comparison, setting) for comparison in comparisons(outcomes)]


def comparison_table(comparison: Comparison, setting: str | None = None) -> Table:
    """Build the table of one comparison, sorted by mean rank by H, or by T1 if only T1 is shown.

    Parameters
    ----------
    comparison : Comparison
        Results of methods on the same random class splits.
    setting : {"zsl", "gzsl"}, optional
        Show only T1 or only H. Default: both.

    Returns
    -------
    Table
        Mean ranks, and means with 95% confidence intervals.
    """
    metrics = {"zsl": ("T1",), "gzsl": ("H",)}.get(setting or "", COMPARED)
    ranks = {metric: comparison.ranks(metric) for metric in metrics}
    order = sorted(range(len(comparison.methods)), key=lambda k: (ranks[metrics[-1]][k], comparison.methods[k]))
    rows = [
        [
            comparison.methods[k],
            *(f"{ranks[metric][k]:.2f}" for metric in metrics),
            *(_interval(*comparison.interval(metric, k)) for metric in metrics),
        ]
        for k in order
    ]
    columns = ["method", *(f"rank {metric}" for metric in metrics), *metrics]
    title = f"{', '.join(comparison.data)}: {comparison.name}"
    return Table(title, columns, rows, _notes(comparison, metrics))


def _interval(mean: float, half: float | None) -> str:
    return f"{mean:.1f}" if half is None else f"{mean:.1f} [{mean - half:.1f}, {mean + half:.1f}]"


def _notes(comparison: Comparison, metrics: Sequence[str]) -> list[str]:
    found = {metric: comparison.p_value(metric) for metric in metrics}
    p_values = "; ".join(f"{metric}: p = {value:.2g}" for metric, value in found.items() if value is not None)
    notes = [
        f"rank: mean rank (1 is best, ties averaged); random class splits: {len(comparison.blocks)}; sorted by rank "
        f"{metrics[-1]}.",
        "Percent, mean over data sets with 95% t-interval over the splits (data sets fixed).",
        f"Mean ranks that differ by less than {comparison.critical_difference:.2f} are not significantly different (Nemenyi "
        f"test at {LEVEL:g}; Demšar, JMLR 2006).",
    ]
    if p_values:
        notes.append(
            f"Friedman test that all methods are equal: {p_values}. Splits of one data set share images; the tests treat them "
            "as independent."
        )
    notes.append(definitions(ACCURACIES if "H" in found else metrics))
    if comparison.missing:
        counts = ", ".join(f"{name} {count}" for name, count in comparison.missing.items())
        notes.append(f"Splits on which a method has no result are left out. Number without result: {counts}.")
    if comparison.repeated:
        names = ", ".join(comparison.repeated)
        notes.append(
            f"On one data set, {names} have several results, such as with other hyperparameters; the last one is shown. Use a "
            "results folder for each."
        )
    return notes
