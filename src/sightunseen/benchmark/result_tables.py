"""Outcomes as tables: mean ± standard deviation over seeds, ranks, and the published number beside the measured one."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightunseen.benchmark.published import Published, published_row
from sightunseen.benchmark.store import DONE, FAILED, SKIPPED, Outcome, job_id
from sightunseen.methods.catalogue import INDUCTIVE, TRANSDUCTIVE

SETTINGS = ("zsl", "gzsl")
OTHER_BACKBONE = "†"
COLUMNS = {"zsl": ("T1",), "gzsl": ("U", "S", "H", "AUSUC", "U_plain", "S_plain", "H_plain")}
HEADS = {"U_plain": "U plain", "S_plain": "S plain", "H_plain": "H plain"}
RANKED_BY = {"zsl": "T1", "gzsl": "H"}


@dataclass(frozen=True)
class Row:
    """One method on one data set, over its seeds; ``reasons`` are why some have no result."""

    label: str
    method: str
    selection: str
    results: Mapping[str, Sequence[float]]
    published: Published | None
    backbone: str
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()

    @property
    def seeds(self) -> int:
        """How many results there are."""
        return len(self.results.get("T1", ()))

    @property
    def name(self) -> str:
        """The method, and how its settings were chosen unless honestly."""
        return self.label if self.selection == "validation" else f"{self.label} ({self.selection})"

    @property
    def remarks(self) -> list[str]:
        """Why some of its seeds have no result."""
        return [f"{self.name}: {reason}" for reason in self.reasons]

    def mean(self, number: str) -> float | None:
        """The mean over seeds."""
        return statistics.fmean(self.results[number]) if self.results.get(number) else None

    def spread(self, number: str) -> float:
        """The standard deviation over seeds, of a sample; 0 where there is one seed."""
        return statistics.stdev(self.results[number]) if self.seeds > 1 else 0.0

    def shown(self, number: str) -> str:
        """Mean ± standard deviation; the mean alone where there is one seed."""
        mean = self.mean(number)
        if mean is None:
            return "-"
        return f"{mean:.1f} ± {self.spread(number):.1f}" if self.seeds > 1 else f"{mean:.1f}"


@dataclass(frozen=True)
class Table:
    """A table ready to be written in any format; ``notes`` say what its marks mean."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default_factory=tuple)


def tables(outcomes: Iterable[Outcome], setting: str | None = None) -> list[Table]:
    """A table for each data set, inductive and transductive methods apart, the best first.

    ``setting`` is ``zsl``, ``gzsl`` or None for both.
    """
    settings = SETTINGS if setting is None else (setting,)
    return [_table(data, kind, rows, settings) for (data, kind), rows in rows_by_data(outcomes).items()]


def rows_by_data(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[Row]]:
    """The rows of each data set, inductive and transductive methods apart; in the order of the tables."""
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for group in seeds_together(outcomes):
        rows[group[0].shown["data"], group[0].shown["setting"]].append(row_of(group))
    order = (INDUCTIVE, TRANSDUCTIVE)
    return {place: rows[place] for place in sorted(rows, key=lambda place: (place[0], order.index(place[1])))}


def seeds_together(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Outcomes grouped by all but their seed: what stands in one row of a table."""
    groups: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.shown["data"], _without_seed(outcome)].append(outcome)
    return list(groups.values())


def _without_seed(outcome: Outcome) -> str:
    """What outcomes of one method's seeds share; skipped ones have only their names."""
    if "skipped" in outcome.identity:
        return f"skipped {outcome.shown['label']} {outcome.shown['selection']}"
    return job_id({**outcome.identity, "seed": None, "method": _unseeded(outcome.identity["method"])})


def _unseeded(method: Mapping[str, Any]) -> dict[str, Any]:
    return {**method, "settings": {name: value for name, value in method["settings"].items() if name != "seed"}}


def row_of(outcomes: Sequence[Outcome]) -> Row:
    """The row of one method's seeds."""
    shown = outcomes[0].shown
    done = [outcome for outcome in outcomes if outcome.state == DONE]
    names = [*COLUMNS["zsl"], *COLUMNS["gzsl"]]
    results = {name: [outcome.record["results"][name] for outcome in done] for name in names}
    reasons = tuple(f"{outcome.state}: {outcome.reason}" for outcome in outcomes if outcome.state in (FAILED, SKIPPED))
    return Row(
        shown["label"],
        shown["method"],
        shown["selection"],
        results,
        published_row(shown["label"], shown["published_name"]),  # a variant's numbers were published under its own name
        shown["backbone"],
        statistics.fmean([outcome.seconds for outcome in done]) if done else 0.0,
        tuple(dict.fromkeys(reasons)),
    )


def _table(data: str, kind: str, rows: Sequence[Row], settings: Sequence[str]) -> Table:
    ranked_by = RANKED_BY[settings[-1]]
    # Honest rows first; what was chosen on test data stands apart and is ranked apart.
    ordered = sorted(rows, key=lambda row: (row.selection == "oracle", -(row.mean(ranked_by) or -1.0), row.name))
    numbers = [name for setting in settings for name in COLUMNS[setting] if len(settings) == 1 or not name.endswith("_plain")]
    numbers += ["H_plain"] if len(settings) > 1 else []
    published = [name for name in ("T1", "U", "S", "H") if name in numbers and (len(settings) == 1 or name in ("T1", "H"))]
    columns = ["method", "rank", *(HEADS.get(name, name) for name in numbers)]
    columns += [f"{name} pub." for name in published] + ["seeds", "s"]
    lines = []
    for row in ordered:
        line = [row.name, _rank(row, rows, ranked_by), *(row.shown(name) for name in numbers)]
        lines.append([*line, *(_published(row, name) for name in published), str(row.seeds), f"{row.seconds:.0f}"])
    return Table(f"{data}, {kind}", columns, lines, _notes(rows, ranked_by, numbers))


def _rank(row: Row, rows: Sequence[Row], number: str) -> str:
    """Its place among the rows chosen as honestly."""
    mean = row.mean(number)
    if mean is None:
        return "-"
    rivals = [other.mean(number) for other in rows if (other.selection == "oracle") == (row.selection == "oracle")]
    return str(1 + sum(rival is not None and rival > mean for rival in rivals))


def _published(row: Row, number: str) -> str:
    value = row.published.numbers[number] if row.published else None
    if row.published is None or value is None:
        return "-"
    return f"{value:.1f}{OTHER_BACKBONE if row.backbone != row.published.backbone else ''}"


def _notes(rows: Sequence[Row], ranked_by: str, numbers: Sequence[str]) -> list[str]:
    notes = [f"Percent, mean ± standard deviation over seeds; ranked by {ranked_by}; pub.: published; s: seconds a job."]
    if any(row.selection == "validation" for row in rows) and "H" in numbers:
        notes.append("U, S and H with the penalty on seen classes that was chosen on validation classes; plain: without it.")
    if any(row.selection == "oracle" for row in rows):
        notes.append("oracle: settings chosen on the TEST data.")
    others = {row.published.backbone for row in rows if row.published and row.backbone != row.published.backbone}
    if others:
        ours = " or ".join(sorted({row.backbone or "other features" for row in rows}))
        notes.append(f"{OTHER_BACKBONE} published with {', '.join(sorted(others))} features; measured with {ours}.")
    for row in rows:
        notes += row.remarks
    return notes
