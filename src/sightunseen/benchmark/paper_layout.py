"""Results in the layout of the paper's Tables 3 and 4: T1, U, S and H of all data sets side by side, a table per setting."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sightunseen.benchmark.groups import newest
from sightunseen.benchmark.outcome import DONE, Outcome
from sightunseen.benchmark.rows import SHORT, SHORT_NOTE, mostly_short
from sightunseen.benchmark.significance import FEWEST, LEVEL, p_values_of
from sightunseen.benchmark.variant_names import kind_of_preset, variant_name
from sightunseen.core.metrics import ACCURACIES, definitions
from sightunseen.methods.catalogue import INDUCTIVE, TRANSDUCTIVE

DATA = ("SUN", "CUB", "AWA1", "AWA2", "APY")  # in the order of the paper
METHODS = (
    *("LATEM", "ALE", "DEVISE", "SJE", "ESZSL", "SYNC", "SAE", "GFZSL", "DEM", "RelationNetwork", "SP-AEN", "PSR"),
    *("f-CLSWGAN", "ALE-tran", "GFZSL-tran", "DSRL", "QFSL"),
)
OURS = ("CVC", "CVC-tran-XE", "CVC-tran-GXE")
TITLES = {INDUCTIVE: "Zero-shot learning accuracy", TRANSDUCTIVE: "Transductive zero-shot learning accuracy"}
AS_GOOD = "°"  # mark of a result that is not significantly worse than the best
UNTESTED = "?"  # mark of a result with too few seeds to be compared with the best

Seeds = Mapping[int, Outcome]


@dataclass(frozen=True)
class Cell:
    """A number of the table.

    Parameters
    ----------
    mean : float
        Mean over seeds, in percent.
    best : bool, default=False
        Whether it is the best of its column.
    marks : str, default=""
        Marks that the notes of the table explain.
    """

    mean: float
    best: bool = False
    marks: str = ""


Cells = dict[tuple[str, str], Cell]  # by data set and metric


@dataclass(frozen=True)
class PaperTable:
    """Results of one setting on all data sets.

    Parameters
    ----------
    setting : {"inductive", "transductive"}
        Setting of the methods.
    data : tuple of str
        Names of the data sets.
    groups : tuple of dict of str to dict
        Cells of each method by data set and metric. The groups are the methods of the paper, others, CVC, and those selected
        on test data.
    notes : tuple of str
        Sentences that explain numbers and marks.
    """

    setting: str
    data: tuple[str, ...]
    groups: tuple[dict[str, Cells], ...]
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """Title, that of the paper."""
        return TITLES[self.setting]


def paper_tables(outcomes: Iterable[Outcome]) -> list[PaperTable]:
    """Build the tables of the paper: inductive and transductive methods, all data sets side by side.

    Methods selected on test data are compared among themselves, all others together. A preset that differs between data sets
    makes one row; budgets make rows of their own.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs. Of several results under one name on one data set, that of
        :func:`~sightunseen.benchmark.groups.newest` is shown.

    Returns
    -------
    list of PaperTable
        One table per setting that has results.
    """
    done = [outcome for outcome in outcomes if outcome.state == DONE]
    settings = {kind: [one for one in done if one.shown["setting"] == kind] for kind in (INDUCTIVE, TRANSDUCTIVE)}
    return [_table(kind, found) for kind, found in settings.items() if found]


def _table(setting: str, outcomes: Sequence[Outcome]) -> PaperTable:
    names = _row_names(outcomes)
    shown = newest(outcomes, lambda outcome: names[outcome.id])
    found: dict[str, dict[str, dict[int, Outcome]]] = defaultdict(lambda: defaultdict(dict))
    for outcome in sorted(shown, key=_data_order):
        found[outcome.split_name][names[outcome.id]][outcome.shown["seed"]] = outcome
    rows: dict[str, Cells] = defaultdict(dict)
    tested = any(len(seeds) >= FEWEST for by_name in found.values() for seeds in by_name.values())
    for data, by_name in found.items():
        for metric in ACCURACIES:
            for name, cell in _column(by_name, metric, tested).items():
                rows[name][data, metric] = cell
    groups: dict[int, dict[str, Cells]] = defaultdict(dict)
    for order, name in sorted({(_method_order(outcome), names[outcome.id]) for outcome in shown}):
        groups[order[0]][name] = rows[name]
    return PaperTable(setting, tuple(found), tuple(groups.values()), _notes(found, rows))


def _row_names(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Name of the row of each outcome, by id; the budget is named if the method has several."""
    budgets: dict[str, set[str]] = defaultdict(set)
    for outcome in outcomes:
        budgets[outcome.shown["label"]].add(kind_of_preset(outcome.budget))
    return {
        outcome.id: variant_name(
            outcome.shown["label"],
            kind_of_preset(outcome.budget) if len(budgets[outcome.shown["label"]]) > 1 else "",
            outcome.scaling,
            outcome.shown["selection"],
        )
        for outcome in outcomes
    }


def _column(by_name: Mapping[str, Seeds], metric: str, tested: bool) -> dict[str, Cell]:
    """Cells of a column, with marks of tests; those selected on test data are compared among themselves."""
    cells: dict[str, Cell] = {}
    for oracle in (False, True):
        scores = {
            name: {seed: float(outcome.record["results"][metric]) for seed, outcome in seeds.items()}
            for name, seeds in by_name.items()
            if any(_is_oracle(outcome) for outcome in seeds.values()) == oracle
        }
        means = {name: statistics.fmean(values.values()) for name, values in scores.items()}
        best = max(means, key=lambda name: means[name], default="")
        p_values = p_values_of(scores, best) if best and tested else {}
        for name, mean in means.items():
            is_best = round(mean, 1) == round(means[best], 1)  # as shown: ties are all in bold
            marks = "" if is_best or name not in p_values else _mark(p_values[name])
            short = metric == ACCURACIES[0] and mostly_short(by_name[name].values())
            cells[name] = Cell(mean, is_best, marks + SHORT * short)
    return cells


def _mark(p_value: float | None) -> str:
    return UNTESTED if p_value is None else AS_GOOD if p_value >= LEVEL else ""


def _is_oracle(outcome: Outcome) -> bool:
    return bool(outcome.shown["selection"] == "oracle")


def _data_order(outcome: Outcome) -> tuple[int, str]:
    name = outcome.shown["published_name"]
    return DATA.index(name) if name in DATA else len(DATA), outcome.split_name


def _method_order(outcome: Outcome) -> tuple[int, int]:
    """Group of rows, and position in the group: the order of the paper, CVC last, then what was selected on test data."""
    method = outcome.shown["method"]
    group = 3 if _is_oracle(outcome) else 2 if method in OURS else 0 if method in METHODS else 1
    known = (*METHODS, *OURS)
    return group, known.index(method) if method in known else len(known)


def _notes(found: Mapping[str, Mapping[str, Seeds]], rows: Mapping[str, Cells]) -> tuple[str, ...]:
    counts = sorted({len(seeds) for by_name in found.values() for seeds in by_name.values()})
    outcomes = [outcome for by_name in found.values() for seeds in by_name.values() for outcome in seeds.values()]
    drawn = any(outcome.draw is not None for outcome in outcomes)
    over = "random class splits" if drawn else "seeds"
    marks = {mark for cells in rows.values() for cell in cells.values() for mark in cell.marks}
    runs = over.removesuffix("s") if counts == [1] else over
    notes = [f"Percent, mean over {'-'.join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))} {runs}."]
    notes.append(definitions(ACCURACIES))
    if counts[-1] < FEWEST:
        notes.append(f"Differences are not tested: that needs {FEWEST} {over}.")
    else:
        notes.append(
            f"{AS_GOOD} not significantly worse than the best (paired t-test over {over}, Holm's correction, {LEVEL:.0%})"
            + ("." if drawn else "; the test images are the same for all seeds.")
        )
    if any(UNTESTED in mark for mark in marks):
        notes.append(f"{UNTESTED} not tested: fewer than {FEWEST} {over} in common with the best.")
    if SHORT in marks:
        notes.append(SHORT_NOTE)
    if any(map(_is_oracle, outcomes)):
        notes.append("oracle: selected on the TEST data, and compared among themselves.")
    return tuple(notes)
