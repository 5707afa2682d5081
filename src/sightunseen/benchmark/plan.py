"""Benchmark plans: data sets x numbers of seen classes x methods x seeds x selections, read from TOML files."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from sightunseen.benchmark.draws import Draw
from sightunseen.core.checks import check_choice, check_whole
from sightunseen.core.errors import SettingsError
from sightunseen.data.source import DataSource
from sightunseen.methods.catalogue import CARDS, INDUCTIVE, TRANSDUCTIVE, card_of

SELECTIONS = ("validation", "none", "oracle")
QUICK = "quick"  # inductive methods that are fitted in seconds
GROUPS = ("all", INDUCTIVE, TRANSDUCTIVE, QUICK)  # accepted in place of a list of method names

KEYS = ("title", "seeds", "selection", "folds", "seen_classes", "unequal", "methods", "data", "method")  # of a plan


@dataclass(frozen=True)
class DataEntry:
    """A ``[[data]]`` entry of a plan.

    Parameters
    ----------
    path : str
        An xlsa17 folder, a folder of tables, a table of features or a folder of photos.
    features, splits, semantics, classes : str, optional
        Files of the data set, as in the options of ``sightunseen train``.
    published : str, optional
        Name of the data set in published tables. Default: the name of the folder.
    backbone : str, default=""
        For a folder of photos, the backbone that extracts features. For other data, the network that the features come from;
        tables mark published numbers that were obtained with another one.

    Raises
    ------
    SettingsError
        If a value is not a string.
    """

    path: str
    features: str | None = None
    splits: str | None = None
    semantics: str | None = None
    classes: str | None = None
    published: str | None = None
    backbone: str = ""

    def __post_init__(self) -> None:
        for known in fields(self):
            value = getattr(self, known.name)
            if value is not None and not isinstance(value, str):
                raise SettingsError(f"{known.name} of [[data]] must be a string; got {value!r}.")

    @property
    def source(self) -> DataSource:
        """The data source that the pipeline opens."""
        return DataSource(self.path, self.features, self.splits, self.semantics, self.classes, self.backbone or None)

    @property
    def name(self) -> str:
        """Name of the data set in result tables."""
        return " ".join([Path(self.path).name, *filter(None, (self.features, self.semantics))])

    @property
    def published_name(self) -> str:
        """Name of the data set in published tables."""
        return self.published or Path(self.path).name


@dataclass(frozen=True)
class MethodEntry:
    """A ``[[method]]`` entry of a plan: a method and its hyperparameters.

    Parameters
    ----------
    name : str
        Name of the method, as listed by ``sightunseen methods``.
    label : str, default=""
        Name of this variant in result tables. Default: the name of the method.
    settings : mapping, optional
        Hyperparameters that differ from the defaults of the method. They are not searched.
    search : mapping of str to list, optional
        Search space that replaces the default search space of the method.
    adaptation : mapping, optional
        Hyperparameters of ``adapt``, for transductive methods.
    adaptation_search : mapping of str to list, optional
        Search space that replaces the default search space of ``adapt``.

    Raises
    ------
    SettingsError
        If the method is unknown or a value has the wrong type.
    """

    name: str
    label: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    search: Mapping[str, Sequence[Any]] | None = None
    adaptation: Mapping[str, Any] = field(default_factory=dict)
    adaptation_search: Mapping[str, Sequence[Any]] | None = None

    def __post_init__(self) -> None:
        for what in ("settings", "adaptation"):
            _check_table(what, getattr(self, what))
        for what in ("search", "adaptation_search"):
            space = getattr(self, what)
            _check_table(what, {} if space is None else space)
            scalars = [name for name, values in (space or {}).items() if not isinstance(values, (list, tuple)) or not values]
            if scalars:
                raise SettingsError(f"{what} of the plan must give {scalars[0]} a list of values, such as [1, 10].")
        card_of(self.name)

    @property
    def shown(self) -> str:
        """Name of the variant in result tables."""
        return self.label or self.name


@dataclass(frozen=True)
class Job:
    """One run of a plan: one method on one data set with one seed and one selection.

    Parameters
    ----------
    data : DataEntry
        Data set.
    method : MethodEntry
        Method and its hyperparameters.
    seed : int
        Random seed.
    selection : {"validation", "none", "oracle"}
        How hyperparameters are selected.
    folds : int, optional
        Number of class folds for the selection. Default: that of the method.
    draw : Draw, optional
        How the class split is drawn, with ``seed``. Default: the split of the data set.
    """

    data: DataEntry
    method: MethodEntry
    seed: int
    selection: str
    folds: int | None = None
    draw: Draw | None = None

    def __str__(self) -> str:
        chosen = "" if self.selection == "validation" else f", {self.selection}"
        return f"{self.split_name}, {self.method.shown}, seed {self.seed}{chosen}"

    @property
    def split_name(self) -> str:
        """Name of the data set in result tables, and that of the draws."""
        return self.data.name if self.draw is None else f"{self.data.name}, {self.draw.name}"


@dataclass(frozen=True)
class Plan:
    """A set of jobs: the product of data sets, methods, seeds and selections.

    Parameters
    ----------
    data : tuple of DataEntry
        Data sets.
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

    Raises
    ------
    SettingsError
        If a value is not allowed, or two methods or draws are the same.
    """

    data: tuple[DataEntry, ...]
    methods: tuple[MethodEntry, ...]
    seeds: int = 1
    selections: tuple[str, ...] = ("validation",)
    folds: int | None = None
    title: str = ""
    draws: tuple[Draw, ...] = ()

    def __post_init__(self) -> None:
        check_whole("seeds", self.seeds, 1)
        if self.folds is not None:
            check_whole("folds", self.folds, 1)
        for selection in self.selections:
            check_choice("selection", selection, SELECTIONS)
        for what in ("data", "methods", "selections"):
            if not getattr(self, what):
                raise SettingsError(f"the plan has no {what}; expected at least one. Add them to the plan.")
        shown = [entry.shown for entry in self.methods]
        repeated = sorted({name for name in shown if shown.count(name) > 1})
        if repeated:
            raise SettingsError(f"the plan has '{repeated[0]}' more than once. Give each variant its own label.")
        drawn = [draw.seen for draw in self.draws]
        if len(set(drawn)) < len(drawn):
            raise SettingsError(f"seen_classes of the plan must differ; got {drawn}.")

    def jobs(self) -> list[Job]:
        """List the jobs, ordered by data set, then seed: an interrupted run has complete tables of the first seeds."""
        cells = product(self.data, range(self.seeds), self.draws or (None,), self.selections, self.methods)
        return [Job(data, method, seed, selection, self.folds, draw) for data, seed, draw, selection, method in cells]


def ready_plans() -> dict[str, str]:
    """List the plans that come with the package.

    Returns
    -------
    dict of str to str
        Title of each plan by name.

    Examples
    --------
    >>> list(ready_plans())
    ['foresight', 'paper-tables', 'robustness', 'two-cores']
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
        text = path.read_text(encoding="utf-8")
    elif str(source) in ready_plans():
        text = (files("sightunseen.benchmark") / "plans" / f"{source}.toml").read_text(encoding="utf-8")
    else:
        raise SettingsError(f"there is no plan {source}. Give a TOML file, or one of: {', '.join(ready_plans())}.")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{source} is not valid TOML: {error}.") from error
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
    _check_keys("the plan", content, KEYS)
    data = [_entry(DataEntry, "[[data]]", table) for table in _tables(content, "data")]
    data = [replace(entry, path=str(data_folder / entry.path)) for entry in data]
    methods = [MethodEntry(name) for word in _words(content, "methods", ()) for name in _names(word)]
    methods += [_entry(MethodEntry, "[[method]]", table) for table in _tables(content, "method")]
    return Plan(
        tuple(data),
        tuple(methods),
        content.get("seeds", 1),
        tuple(_words(content, "selection", ("validation",))),
        content.get("folds"),
        content.get("title", ""),
        _draws(content),
    )


def _names(word: str) -> list[str]:
    if word not in GROUPS:
        return [word]
    groups = {name: ("all", card.setting, *([QUICK] if card.quick else [])) for name, card in CARDS.items()}
    return [name for name, card in CARDS.items() if word in groups[name] and not card.ablation]


def _draws(content: Mapping[str, Any]) -> tuple[Draw, ...]:
    """Read the random class splits."""
    if "seen_classes" not in content:
        if "unequal" in content:
            raise SettingsError("unequal of the plan needs seen_classes, the numbers of seen classes to draw. Add them.")
        return ()
    found = content["seen_classes"]
    if not isinstance(found, (list, tuple)) or not found:
        raise SettingsError(f'seen_classes of the plan must be a list of numbers, such as [8, 20, "all"]; got {found!r}.')
    return tuple(Draw(seen, content.get("unequal", 1.0)) for seen in found)


def _words(content: Mapping[str, Any], name: str, default: Sequence[str]) -> Sequence[str]:
    """Read a string or a list of strings."""
    found = content.get(name, default)
    words = [found] if isinstance(found, str) else found
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise SettingsError(f"{name} of the plan must be a name or a list of names; got {found!r}.")
    return words


def _tables(content: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = content.get(name, ())
    if not isinstance(found, (list, tuple)) or not all(isinstance(table, Mapping) for table in found):
        raise SettingsError(f"{name} of the plan must be an array of tables; start each with [[{name}]].")
    return found


def _check_table(what: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{what} of the plan must be a table, such as {{ n_steps = 500 }}; got {value!r}.")


def _entry(kind: type[Any], where: str, table: Mapping[str, Any]) -> Any:
    needed = "path" if kind is DataEntry else "name"
    _check_keys(where, table, tuple(known.name for known in fields(kind)))
    if needed not in table:
        raise SettingsError(f"{where} of the plan lacks '{needed}'. Add it.")
    return kind(**table)


def _check_keys(where: str, table: Mapping[str, Any], allowed: Sequence[str]) -> None:
    unknown = sorted(set(table) - set(allowed))
    if unknown:
        raise SettingsError(f"{where} has no key '{unknown[0]}'; allowed are {', '.join(allowed)}.")
