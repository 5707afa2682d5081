"""Benchmark plans: data sets x numbers of seen classes x methods x budgets x seeds x selections, read from TOML files."""

import math
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from sightunseen.benchmark.draws import Draw
from sightunseen.benchmark.entries import DataEntry, MethodEntry
from sightunseen.benchmark.plan_schema import PlanFile, check_scalars, parsed_plan, validated_plan
from sightunseen.benchmark.variant_names import OWN, SCALINGS
from sightunseen.benchmark.variants import Job, variants
from sightunseen.core.checks import check_choice, check_whole
from sightunseen.core.documents import quoted
from sightunseen.core.errors import SettingsError
from sightunseen.core.limits import FOLDS, JOBS, PLAN_BYTES, SEEDS
from sightunseen.data.gbu import FEATURES, is_gbu_folder
from sightunseen.methods.base.presets import BUDGETS, QUICK
from sightunseen.methods.catalogue import CARDS, INDUCTIVE, TRANSDUCTIVE, card_of

SELECTIONS = ("validation", "none", "oracle")
NETWORKS = {"res101": "ResNet-101"}  # by the name of the feature file, as tables call it
WORDS = ("methods", "selection", "budget", "feature_scaling")  # keys whose value is a list of words, or one word
# Accepted in place of a list of method names; as a group, "quick" are the inductive methods that are fitted in seconds.
GROUPS = ("all", INDUCTIVE, TRANSDUCTIVE, QUICK)


@dataclass(frozen=True)
class Plan:
    """A set of jobs: the product of data sets, methods, budgets, feature scalings, seeds and selections.

    Parameters
    ----------
    data : tuple of DataEntry
        Data sets; their names in tables must differ.
    methods : tuple of MethodEntry
        Methods; their names in tables must differ.
    seeds : int, default=1
        Number of seeds; jobs have the seeds 0 to ``seeds - 1``.
    selections : tuple of {"validation", "none", "oracle"}, default=("validation",)
        How hyperparameters are selected.
    folds : int, optional
        Number of class folds for the selection. Default: that of each method.
    title : str, default=""
        Title of the plan.
    draws : tuple of Draw, default=()
        Random class splits, one per seed. Empty: the splits of the data sets.
    budgets : tuple of {"quick", "full"}, default=("quick",)
        Budgets of gradient-trained methods. Methods without a budget run as they are, once.
    scalings : tuple of {"own", "searched"}, default=("own",)
        Feature scalings: that of each method, or one chosen on validation classes. Methods that cannot choose run once.

    Raises
    ------
    SettingsError
        If a value is not allowed, two methods, data sets or draws have the same name, or there are too many jobs.
    """

    data: tuple[DataEntry, ...]
    methods: tuple[MethodEntry, ...]
    seeds: int = 1
    selections: tuple[str, ...] = ("validation",)
    folds: int | None = None
    title: str = ""
    draws: tuple[Draw, ...] = ()
    budgets: tuple[str, ...] = (QUICK,)
    scalings: tuple[str, ...] = (OWN,)

    def __post_init__(self) -> None:
        _check_number("seeds", self.seeds, SEEDS)
        if self.folds is not None:
            _check_number("folds", self.folds, FOLDS)
        for selection in self.selections:
            check_choice("selection", selection, SELECTIONS)
        for budget in self.budgets:
            check_choice("budget", budget, BUDGETS)
        for scaling in self.scalings:
            check_choice("feature_scaling", scaling, SCALINGS)
        for what in ("data", "methods", "selections", "budgets", "scalings"):
            if not getattr(self, what):
                raise SettingsError(f"the plan has no {what}; expected at least one. Add them to the plan.")
        for entry in self.methods:
            card_of(entry.name)
            empty = [name for name, values in {**(entry.search or {}), **(entry.adaptation_search or {})}.items() if not values]
            if empty:
                raise SettingsError(f"the search space of {entry.shown} must give {empty[0]} a list of values: [1, 10].")
            self._check_preset(entry)
        named = Counter(entry.shown for entry in self.methods), Counter(entry.name for entry in self.data)
        for what, counts in zip(("method", "data set"), named, strict=True):
            repeated = [name for name, count in counts.items() if count > 1]
            if repeated:
                raise SettingsError(f"the plan has the {what} '{min(repeated)}' more than once. Give each entry its own label.")
        drawn = [draw.seen for draw in self.draws]
        if len(set(drawn)) < len(drawn):
            raise SettingsError(f"seen_classes of the plan must differ; got {drawn}.")
        axes = (self.data, range(self.seeds), self.draws or (None,), self.selections, self.methods, self.budgets, self.scalings)
        count = math.prod(len(axis) for axis in axes)  # at most: not every method has every budget
        if count > JOBS:
            raise SettingsError(f"the plan has {count:,} jobs; the limit is {JOBS:,}. Split it into several plans.")

    def _check_preset(self, entry: MethodEntry) -> None:
        """Check names of data sets in a preset: a misspelt one would let its data set run at the budgets instead."""
        named = set(entry.preset) if isinstance(entry.preset, Mapping) else set()
        folders = {data.folder for data in self.data}
        unknown, without = sorted(named - folders), sorted(folders - named)
        if unknown and without:
            raise SettingsError(
                f"the preset of {entry.shown} names the folder '{quoted(unknown[0])}', which the plan does not have; folders "
                f"of the plan without a preset: {quoted(', '.join(without))}. Correct the name or remove it."
            )

    def using_features(self, name: str) -> "Plan":
        """Use another feature file in all xlsa17 folders of the plan.

        Parameters
        ----------
        name : str
            Name of the feature file.

        Returns
        -------
        Plan
            The plan; other data sets are unchanged, and entries that differed in their features only are one. Labels of changed
            entries name the features.

        Raises
        ------
        SettingsError
            If the plan has no xlsa17 folder.
        """
        folders = [entry for entry in self.data if is_gbu_folder(Path(entry.path))]
        if not folders:
            raise SettingsError(f"--features {quoted(name)} is for xlsa17 folders; the plan has none that can be read.")
        found: dict[DataEntry, DataEntry] = {}
        for entry in self.data:
            same = entry
            if entry in folders:
                same = replace(entry, features=name, backbone="", label="")
                if (entry.features or FEATURES) != name:
                    label = f"{entry.label}, {name}" if entry.label else ""
                    entry = replace(entry, features=name, backbone=NETWORKS.get(name, name), label=label)
            found.setdefault(same, entry)
        return replace(self, data=tuple(found.values()))

    def only(self, labels: Sequence[str]) -> "Plan":
        """Keep some of the methods.

        Parameters
        ----------
        labels : sequence of str
            Names of the methods in tables.

        Returns
        -------
        Plan
            The plan with these methods.

        Raises
        ------
        SettingsError
            If the plan has no method of a name.
        """
        known = {entry.shown: entry for entry in self.methods}
        missing = [label for label in labels if label not in known]
        if missing:
            raise SettingsError(f"the plan has no method '{quoted(missing[0])}'; it has {', '.join(known)}.")
        return replace(self, methods=tuple(known[label] for label in dict.fromkeys(labels)))

    def jobs(self) -> list[Job]:
        """List the jobs by seed, the cheapest methods first: an interrupted run has complete tables of the first seeds."""
        listed: list[Job] = []
        for data, selection in product(self.data, self.selections):
            found = [job for entry in self.methods for job in variants(entry, data, selection, self.budgets, self.scalings)]
            listed += sorted(found, key=lambda job: job.expense)
        cells = product(range(self.seeds), self.draws or (None,), listed)
        jobs = [replace(job, seed=seed, folds=self.folds, draw=draw) for seed, draw, job in cells]
        return sorted(jobs, key=lambda job: (job.seed, job.expense[0]))


def ready_plans() -> dict[str, str]:
    """List the plans that come with the package.

    Returns
    -------
    dict of str to str
        Title of each plan by name.

    Examples
    --------
    >>> list(ready_plans())
    ['foresight', 'leaderboard', 'paper-tables', 'robustness', 'scalings', 'two-cores']
    """
    folder = files("sightunseen.benchmark") / "plans"
    found = {file.name.removesuffix(".toml"): file.read_text(encoding="utf-8") for file in folder.iterdir()}
    return {name: str(tomllib.loads(text).get("title", "")) for name, text in sorted(found.items())}


def read_plan(source: str | Path, data_folder: str | Path | None = None) -> Plan:
    """Read a plan from a TOML file.

    Parameters
    ----------
    source : str or Path
        A TOML file, or the name of a plan that comes with the package.
    data_folder : str or Path, optional
        Folder that paths of data sets are relative to. Default: the folder of the TOML file. Plans that come with the package
        need it.

    Returns
    -------
    Plan
        The plan.

    Raises
    ------
    SettingsError
        If there is no such plan, the file is not valid TOML, or the plan has unknown keys or values.

    Examples
    --------
    >>> plan = read_plan("paper-tables", "xlsa17/data")
    >>> [entry.name for entry in plan.data]
    ['SUN', 'CUB', 'AWA1', 'AWA2', 'APY']
    """
    path = Path(source)
    ready = not path.is_file()
    if not ready:
        with open(path, "rb") as file:
            content = parsed_plan(source, file.read(PLAN_BYTES + 1))
    elif str(source) in ready_plans():
        content = parsed_plan(source, (files("sightunseen.benchmark") / "plans" / f"{source}.toml").read_bytes())
    else:
        raise SettingsError(f"there is no plan {quoted(source)}. Give a TOML file, or one of: {', '.join(ready_plans())}.")
    if ready and data_folder is None:
        paths = ", ".join(dict.fromkeys(table["path"] for table in content["data"]))
        raise SettingsError(f"the plan '{source}' needs the folder that contains its data sets ({paths}): give --data FOLDER.")
    return plan_of(content, Path(data_folder) if data_folder is not None else path.parent)


def plan_of(content: Mapping[str, Any], data_folder: Path) -> Plan:
    """Build a plan from the content of a TOML file.

    Parameters
    ----------
    content : mapping
        Parsed TOML content.
    data_folder : Path
        Folder that paths of data sets are relative to.

    Returns
    -------
    Plan
        The plan.

    Raises
    ------
    SettingsError
        If a key is unknown or a value is not allowed.
    """
    check_scalars(content)
    words = {name: [content[name]] for name in WORDS if isinstance(content.get(name), str)}
    found = validated_plan({**content, **words})
    groups = dict.fromkeys(name for word in found.methods if word in GROUPS for name in _names(word))
    methods = [MethodEntry(name) for name in (*groups, *(word for word in found.methods if word not in GROUPS))]
    return Plan(
        tuple(entry.located(data_folder) for entry in found.data),
        (*methods, *found.method),
        found.seeds,
        tuple(dict.fromkeys(found.selection)),
        found.folds,
        found.title,
        _draws(found),
        tuple(dict.fromkeys(found.budget)),
        tuple(dict.fromkeys(found.feature_scaling)),
    )


def _check_number(name: str, value: int, most: int) -> None:
    check_whole(name, value, 1)
    if value > most:
        raise SettingsError(f"{name} must be at most {most:,}; got {value}.")


def _names(word: str) -> list[str]:
    """Names of the methods of a group."""
    groups = {name: ("all", card.setting, *([QUICK] if card.quick else [])) for name, card in CARDS.items()}
    return [name for name, card in CARDS.items() if word in groups[name] and not card.ablation]


def _draws(found: PlanFile) -> tuple[Draw, ...]:
    """Make the random class splits."""
    if found.seen_classes is None:
        if found.unequal is not None:
            raise SettingsError("unequal of the plan needs seen_classes, the numbers of seen classes to draw. Add them.")
        return ()
    if not found.seen_classes:
        raise SettingsError('seen_classes of the plan is empty; expected a list of numbers, such as [8, 20, "all"].')
    return tuple(Draw(seen, 1.0 if found.unequal is None else found.unequal) for seen in found.seen_classes)
