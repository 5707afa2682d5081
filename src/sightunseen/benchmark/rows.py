"""Rows of result tables: the outcomes of a method's seeds on one data set, summarised."""

import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightunseen.benchmark.comparison import draw_order
from sightunseen.benchmark.groups import seeds_together
from sightunseen.benchmark.outcome import DONE, FAILED, JOULES, SKIPPED, Outcome
from sightunseen.benchmark.published import ATTRIBUTES, OTHER, SENTENCES, Published, published_row
from sightunseen.benchmark.variant_names import OWN, variant_name
from sightunseen.core.limits import MAGNITUDE
from sightunseen.core.metrics import RECORDED, further
from sightunseen.methods.catalogue import INDUCTIVE, TRANSDUCTIVE

SHORT = "‡"  # mark of a row that may be undertrained
SHORT_NOTE = f"{SHORT} may be undertrained: for most seeds, the best stopping point is the last step of the whole training."


@dataclass(frozen=True)
class Row:
    """Results of one method on one data set over its seeds.

    Parameters
    ----------
    label : str
        Name of the variant.
    method : str
        Name of the method.
    selection : {"validation", "none", "oracle"}
        How hyperparameters were selected.
    results : mapping of str to sequence of float
        Values of each metric, in percent, one per seed.
    published : Published or None
        Published results of the same method and data set.
    backbone : str
        Network that the features come from.
    seconds : float, default=0.0
        Mean wall-clock time of a job.
    reasons : tuple of str, default=()
        Why some seeds have no result.
    drawn : bool, default=False
        Whether each seed is a random class split.
    intervals : mapping of str to sequence of float, default={}
        95% interval of each metric in percent, low and high: the means over seeds of the bounds of
        :func:`~sightunseen.core.intervals.bootstrap`. Several random class splits have none.
    budget : str, default=""
        Budget or preset. Empty: the method has one budget only.
    scaling : {"own", "searched"}, default="own"
        Feature scaling of the method, or chosen on validation classes.
    semantics : {"attributes", "sentences", "other class vectors"}, default="attributes"
        Kind of class vectors, as published results call it.
    short : bool, default=False
        Whether the method may be undertrained: :func:`mostly_short` of its seeds.
    cost : mapping of str to float, default={}
        Mean cost of a job as far as it was measured: ``joules_gpu``, ``joules_cpu`` and ``flops``.
    """

    label: str
    method: str
    selection: str
    results: Mapping[str, Sequence[float]]
    published: Published | None
    backbone: str
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()
    drawn: bool = False
    intervals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    budget: str = ""
    scaling: str = OWN
    semantics: str = ATTRIBUTES
    short: bool = False
    cost: Mapping[str, float] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        """Number of seeds with a result."""
        return len(self.results.get("T1", ()))

    @property
    def name(self) -> str:
        """Label, followed by the selection unless it was made on validation classes."""
        return variant_name(self.label, selection=self.selection)

    @property
    def variant(self) -> str:
        """Name with budget and feature scaling, which tells the rows of a table apart."""
        return variant_name(self.label, self.budget, self.scaling, self.selection)

    @property
    def marked(self) -> str:
        """Name, with a mark if the method may be undertrained."""
        return f"{self.name}{SHORT}" if self.short else self.name

    @property
    def joules(self) -> float | None:
        """Mean energy of a job in joules, over all devices that were measured; None if it was not."""
        found = [value for name, value in self.cost.items() if name.startswith(JOULES)]
        return sum(found) if found else None

    @property
    def same_conditions(self) -> bool:
        """Whether the published numbers were obtained with the same features and class vectors."""
        found = self.published
        return found is None or (found.backbone, found.origin.semantics) == (self.backbone, self.semantics)

    @property
    def remarks(self) -> list[str]:
        """One sentence per reason why seeds have no result."""
        return [f"{self.variant}: {reason}" for reason in self.reasons]

    def mean(self, number: str) -> float | None:
        """Mean of a metric over seeds; None if there is no result."""
        return statistics.fmean(self.results[number]) if self.results.get(number) else None

    def spread(self, number: str) -> float:
        """Sample standard deviation of a metric over seeds; 0 for one seed."""
        return statistics.stdev(self.results[number]) if len(self.results[number]) > 1 else 0.0

    def shown(self, number: str) -> str:
        """Format a metric as mean ± standard deviation, or as the value for one seed."""
        mean = self.mean(number)
        if mean is None:
            return "-"
        return f"{mean:.1f} ± {self.spread(number):.1f}" if len(self.results[number]) > 1 else f"{mean:.1f}"

    def interval(self, number: str) -> str:
        """Format the 95% interval of a metric; "-" if there is none."""
        return "{:.1f}-{:.1f}".format(*self.intervals[number]) if number in self.intervals else "-"


def rows_by_data(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], list[Row]]:
    """Group outcomes into rows, one per method and selection, by data set, number of drawn seen classes and setting.

    Parameters
    ----------
    outcomes : iterable of Outcome
        Outcomes of jobs.

    Returns
    -------
    dict of (str, str) to list of Row
        Rows by data set (with the draws of random class splits) and "inductive" or "transductive", in the order of the
        tables.
    """
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    order: dict[tuple[str, str], tuple[Any, ...]] = {}
    outcomes = list(outcomes)
    done = {(one.split_name, one.variant) for one in outcomes if one.state == DONE}
    for group in seeds_together(outcomes):
        shown, draw = group[0].shown, group[0].draw
        if group[0].state == SKIPPED and (group[0].split_name, group[0].variant) in done:
            continue  # the data were there in an earlier run
        key = group[0].split_name, shown["setting"]
        rows[key].append(row_of(group))
        order[key] = (shown["data"], *draw_order(draw), key[0], (INDUCTIVE, TRANSDUCTIVE).index(shown["setting"]))
    return {key: rows[key] for key in sorted(rows, key=order.__getitem__)}


def row_of(outcomes: Sequence[Outcome]) -> Row:
    """Summarise the outcomes of one method's seeds.

    Parameters
    ----------
    outcomes : sequence of Outcome
        A group of :func:`seeds_together`.

    Returns
    -------
    Row
        Results of all metrics over the seeds that are done.
    """
    shown, drawn = outcomes[0].shown, outcomes[0].draw is not None
    semantics = _semantics_of(outcomes[0])
    done = [outcome for outcome in outcomes if outcome.state == DONE]
    found = [outcome.record["results"] for outcome in done]
    names = (*RECORDED, *further(name for results in found for name in results))
    results = {name: [one[name] for one in found if _is_number(one.get(name))] for name in names}
    reasons = tuple(f"{outcome.state}: {outcome.reason}" for outcome in outcomes if outcome.state in (FAILED, SKIPPED))
    return Row(
        label=shown["label"],
        method=shown["method"],
        selection=shown["selection"],
        results=results,
        # Variants have published numbers of their own. Published numbers do not apply to drawn splits.
        published=None if drawn else published_row(shown["label"], shown["published_name"], semantics),
        backbone=shown["backbone"],
        seconds=statistics.fmean([outcome.seconds for outcome in done]) if done else 0.0,
        reasons=tuple(dict.fromkeys(reasons)),
        drawn=drawn,
        intervals={} if drawn and len(done) > 1 else _mean_intervals(done),
        budget=next(filter(None, (outcome.budget for outcome in outcomes)), ""),
        scaling=outcomes[0].scaling,
        semantics=semantics,
        short=mostly_short(done),
        cost=_mean_cost(done),
    )


def mostly_short(outcomes: Collection[Outcome]) -> bool:
    """Whether :func:`short_of_training` is true for more than half of the outcomes.

    Parameters
    ----------
    outcomes : collection of Outcome
        Outcomes of a method's seeds that are done.

    Returns
    -------
    bool
        False for no outcome.
    """
    return 2 * sum(short_of_training(outcome.record) for outcome in outcomes) > len(outcomes)


def short_of_training(record: Mapping[str, Any]) -> bool:
    """Whether the best stopping point of a run is the last one of the whole training, so that more steps may be better.

    Training that ended early on a class fold has no such point: it did not improve any more.

    Parameters
    ----------
    record : mapping
        Run record. That of an adapted model counts with the record of the model that was adapted.

    Returns
    -------
    bool
        False for methods without stopping points.

    Examples
    --------
    >>> short_of_training({"settings": {"n_steps": 200}, "selection": {"chosen": {"steps": 200, "seen_penalty": 0.1}}})
    True
    >>> short_of_training({"settings": {"n_steps": 200}, "selection": {"chosen": {"steps": 180, "seen_penalty": 0.1}}})
    False
    """
    # The schema of outcomes does not cover these parts of a record; a file can have anything there.
    if isinstance(parent := record.get("parent"), Mapping):
        return short_of_training(parent)
    settings, selection = record.get("settings"), record.get("selection")
    chosen = selection.get("chosen") if isinstance(selection, Mapping) else None
    if not isinstance(settings, Mapping) or not isinstance(chosen, Mapping):
        return False
    return "steps" in chosen and chosen["steps"] == settings.get("n_steps")


def _mean_intervals(done: Sequence[Outcome]) -> dict[str, list[float]]:
    """Means over seeds of the bounds of intervals that every seed has."""
    found = [outcome.record.get("intervals", {}) for outcome in done]
    names = [name for name in found[0] if all(name in one for one in found)] if found else []
    return {name: [statistics.fmean(one[name][end] for one in found) for end in (0, 1)] for name in names}


def _mean_cost(done: Sequence[Outcome]) -> dict[str, float]:
    """Mean of each cost over the jobs in which it was measured."""
    names = dict.fromkeys(name for outcome in done for name in outcome.cost if outcome.cost[name] is not None)
    return {
        name: statistics.fmean(outcome.cost[name] for outcome in done if outcome.cost.get(name) is not None) for name in names
    }


def _semantics_of(outcome: Outcome) -> str:
    """Kind of class vectors of an outcome, as published results call it; several may be joined, with weights."""
    used = str(outcome.identity.get("data", {}).get("semantics", "att"))  # the identity of a skipped job has no data
    parts = {part.partition("*")[0].strip() for part in used.split("+")}
    if parts <= {"att", "original_att", "attributes"}:
        return ATTRIBUTES
    return SENTENCES if all(part.startswith("sent") for part in parts) else OTHER


def _is_number(value: Any) -> bool:
    """Whether a result is a finite number; that of a metric plug-in can be anything in a file."""
    return isinstance(value, (int, float)) and abs(value) <= MAGNITUDE
