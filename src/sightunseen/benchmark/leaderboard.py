"""Leaderboard: every method and budget on all data sets of a results folder, and how far Foresight is ahead of the others."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sightunseen.benchmark.comparison import COMPARED
from sightunseen.benchmark.groups import newest, seeds_together
from sightunseen.benchmark.outcome import Outcome
from sightunseen.benchmark.result_tables import (
    SCALING_NOTE,
    SECONDS,
    Table,
    cost_columns,
    rank_of,
    tables,
    variant_columns,
    variant_notes,
)
from sightunseen.benchmark.rows import SHORT, Row, row_of
from sightunseen.benchmark.variant_names import OWN, SEARCHED, kind_of_preset
from sightunseen.core.metrics import ACCURACIES, definitions
from sightunseen.methods.catalogue import CARDS, INDUCTIVE, TRANSDUCTIVE

LEADERS = {INDUCTIVE: "Foresight", TRANSDUCTIVE: "Foresight-tran"}
TITLE = "Leaderboard"
PARTIAL = "* mean over the data sets with a result only, and among all rows; unmarked ranks are among the rows without *."


@dataclass(frozen=True)
class Entry:
    """One variant of a method on all data sets.

    Parameters
    ----------
    name : str
        Name of the variant.
    rows : dict of str to Row
        Results by data set; those without a result are left out.
    ranks : dict of str to float
        Mean rank over these data sets by T1 and by H, of a complete variant among the complete ones; infinite without a result
        by that metric.
    complete : bool
        Whether there is a result on every data set.
    """

    name: str
    rows: dict[str, Row]
    ranks: dict[str, float]
    complete: bool

    @property
    def first(self) -> Row:
        """Row of the first data set, for what all rows have in common."""
        row = next(iter(self.rows.values()))
        return replace(row, budget=kind_of_preset(row.budget))

    @property
    def cost(self) -> dict[str, float]:
        """Mean of each cost over the data sets on which it was measured."""
        names = dict.fromkeys(name for row in self.rows.values() for name in row.cost)
        return {name: statistics.fmean(row.cost[name] for row in self.rows.values() if name in row.cost) for name in names}


def leaderboard_tables(outcomes: Iterable[Outcome]) -> list[Table]:
    """Build all tables of a leaderboard.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs. Random class splits and jobs that were selected on test data are left out; of a method with several
        versions on a data set, the newest counts.

    Returns
    -------
    list of Table
        The tables of :func:`overviews`, and one per data set and setting with intervals, costs and published numbers. Empty if
        no job is done.
    """
    outcomes = list(outcomes)
    found = overviews(outcomes)
    return [*found, *tables(_listed(outcomes), conditions=True)] if found else []


def overviews(outcomes: Iterable[Outcome]) -> list[Table]:
    """Build the tables over all data sets.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs; see :func:`leaderboard_tables`.

    Returns
    -------
    list of Table
        One table of all methods for each setting, and Foresight's lead. Empty if no job is done.
    """
    chosen = _listed(outcomes)
    by_setting = {setting: _rows(chosen, setting) for setting in (INDUCTIVE, TRANSDUCTIVE)}
    found = [_overview(setting, rows) for setting, rows in by_setting.items() if rows]
    lead = lead_table(chosen)
    return found if lead is None else [*found, lead]


def _listed(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Outcomes of a leaderboard: the newest on the splits of the data sets, none of them selected on test data."""
    return newest(one for one in outcomes if one.draw is None and one.shown["selection"] != "oracle")


def _rows(outcomes: Sequence[Outcome], setting: str) -> dict[str, dict[str, Row]]:
    """Rows with a result by data set, sorted, and variant."""
    found: dict[str, dict[str, Row]] = defaultdict(dict)
    for group in seeds_together(one for one in outcomes if one.shown["setting"] == setting):
        row = row_of(group)
        if row.seeds:
            found[group[0].split_name][group[0].row_name] = row
    return {data: found[data] for data in sorted(found)}


def entries(rows: dict[str, dict[str, Row]]) -> list[Entry]:
    """Collect the rows of each variant over data sets, the best mean rank by H first.

    Parameters
    ----------
    rows : dict of str to dict of str to Row
        Rows by data set and variant.

    Returns
    -------
    list of Entry
        Variants with results on all data sets, then the others.
    """
    found = []
    variants = dict.fromkeys(name for of_data in rows.values() for name in of_data)
    complete = {name for name in variants if all(name in of_data for of_data in rows.values())}
    rivals = {data: [row for name, row in of_data.items() if name in complete] for data, of_data in rows.items()}
    everyone = {data: list(of_data.values()) for data, of_data in rows.items()}
    for variant in variants:
        own = {data: of_data[variant] for data, of_data in rows.items() if variant in of_data}
        among = rivals if variant in complete else everyone
        ranks = {metric: _mean_rank(own, among, metric) for metric in COMPARED}
        found.append(Entry(variant, own, ranks, variant in complete))
    return sorted(found, key=lambda entry: (not entry.complete, entry.ranks["H"], entry.name))


def _mean_rank(own: dict[str, Row], among: dict[str, list[Row]], metric: str) -> float:
    """Mean rank of a variant over the data sets on which it has a result, among rows by data set."""
    ranks = [rank_of(row, among[data], metric) for data, row in own.items()]
    known = [rank for rank in ranks if rank is not None]
    return statistics.fmean(known) if known else math.inf


def _rank(entry: Entry, metric: str) -> str:
    """Mean rank; of an incomplete row with a mark."""
    rank = entry.ranks[metric]
    return f"{rank:.1f}{'' if entry.complete else '*'}" if math.isfinite(rank) else "-"


def _overview(setting: str, rows: dict[str, dict[str, Row]]) -> Table:
    """Table of one setting: mean ranks, T1 and H on every data set, and the mean cost of a job."""
    found = entries(rows)
    every = [row for entry in found for row in entry.rows.values()]
    variant, cost = variant_columns(every), cost_columns(every)
    columns = ["method", "year", *(name for name, _ in variant), *(f"rank {metric}" for metric in COMPARED)]
    columns += [f"{data}: {metric}" for data in rows for metric in COMPARED] + ["s", *(name for name, _ in cost)]
    lines = []
    for entry in found:
        line = [entry.first.name, _year(entry.first), *(cell(entry.first) for _, cell in variant)]
        line += [_rank(entry, metric) for metric in COMPARED]
        line += [_result(entry.rows.get(data), metric) for data in rows for metric in COMPARED]
        line += [f"{statistics.fmean(row.seconds for row in entry.rows.values()):.0f}"]
        lines.append([*line, *(cell(replace(entry.first, cost=entry.cost)) for _, cell in cost)])
    notes = [
        f"Percent, mean ± standard deviation over seeds; rank: mean over data sets, 1 is best; s: mean {SECONDS[setting]}.",
        *([] if all(entry.complete for entry in found) else [PARTIAL]),
        definitions(ACCURACIES),
        *variant_notes(every),
    ]
    return Table(f"{TITLE}, {setting}", columns, lines, notes)


def _year(row: Row) -> str:
    card = CARDS.get(row.method)
    return "-" if card is None or card.year is None else str(card.year)


def _result(row: Row | None, metric: str) -> str:
    """Mean and standard deviation; the ranked metric has the mark of a method that may be undertrained."""
    return "-" if row is None else f"{row.shown(metric)}{SHORT if row.short and metric == COMPARED[-1] else ''}"


def lead_table(outcomes: Iterable[Outcome]) -> Table | None:
    """Compare Foresight with the best other method, with the methods' own feature scalings and with searched ones.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.

    Returns
    -------
    Table or None
        A row per data set, setting and scaling; None if Foresight or all others have no result.
    """
    outcomes = list(outcomes)
    lines = []
    for setting, leader in LEADERS.items():
        for data, of_data in _rows(outcomes, setting).items():
            rows = list(of_data.values())
            scalings = (OWN, SEARCHED) if any(row.scaling == SEARCHED for row in rows) else (OWN,)
            for scaling in scalings:
                line = _lead([row for row in rows if _counts(row, rows, scaling)], leader)
                if line:
                    lines.append([data, setting, scaling, *line])
    if not lines:
        return None
    columns = ["data", "setting", "scaling"]
    for metric in COMPARED:
        columns += [f"{metric} Foresight", f"{metric} best other", f"{metric} lead"]
    notes = [
        "Percent, means over seeds. Best other: the best result of any other method and budget.",
        SCALING_NOTE,
        definitions(ACCURACIES),
    ]
    return Table("Foresight's lead", columns, lines, notes)


def _counts(row: Row, rows: Sequence[Row], scaling: str) -> bool:
    """Whether a row is the result of its method and budget with a scaling, or the method cannot choose it."""
    if row.scaling == scaling:
        return True
    chosen = {(other.label, other.budget) for other in rows if other.scaling == SEARCHED}
    return scaling == SEARCHED and (row.label, row.budget) not in chosen


def _lead(rows: Sequence[Row], leader: str) -> list[str]:
    """Cells of Foresight, the best other method and the difference, by T1 and by H; empty if one of them is missing."""
    cells: list[str] = []
    for metric in COMPARED:
        means = {row.variant: row.mean(metric) or 0.0 for row in rows if row.selection == "validation"}
        variants = {row.variant for row in rows if row.method == leader}  # with other hyperparameters
        own, others = means.get(leader), {name: mean for name, mean in means.items() if name not in variants}
        if own is None or not others:
            return []
        best = max(others, key=others.__getitem__)
        cells += [f"{own:.1f}", f"{others[best]:.1f} {best}", f"{own - others[best]:+.1f}"]
    return cells
