"""A plan: data sets x methods x seeds x ways of choosing, read from TOML."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from sightunseen.core.checks import check_choice, check_whole
from sightunseen.core.errors import SettingsError
from sightunseen.data.source import DataSource
from sightunseen.methods.catalogue import CARDS, INDUCTIVE, TRANSDUCTIVE, card_of

SELECTIONS = ("validation", "none", "oracle")
GROUPS = ("all", INDUCTIVE, TRANSDUCTIVE)  # words that stand for many methods


@dataclass(frozen=True)
class DataEntry:
    """A data set of the plan: where it is, which of its files to use, and what to compare it with.

    ``published`` is the data set's name in published tables (default: the folder's). ``backbone`` is what its features come
    from: of a folder of photos the backbone to extract them with; of any other data a name that tables mark where it is not
    the published one.
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
                raise SettingsError(f"{known.name} of [[data]] must be text; got {value!r}.")

    @property
    def source(self) -> DataSource:
        """Where the pipeline opens it."""
        return DataSource(self.path, self.features, self.splits, self.semantics, self.classes, self.backbone or None)

    @property
    def name(self) -> str:
        """The name of its rows in tables."""
        return " ".join([Path(self.path).name, *filter(None, (self.features, self.semantics))])

    @property
    def published_name(self) -> str:
        """Its name in published tables."""
        return self.published or Path(self.path).name


@dataclass(frozen=True)
class MethodEntry:
    """A method of the plan: a name of the catalogue, and what differs from its defaults.

    ``search`` replaces the method's own search space; ``adaptation`` and ``adaptation_search`` are those of a transductive
    method's ``adapt``. ``label`` tells variants of one method apart.
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
        """What tables call it."""
        return self.label or self.name


@dataclass(frozen=True)
class Job:
    """One cell of a plan: fit one method on one data set with one seed, chosen in one way."""

    data: DataEntry
    method: MethodEntry
    seed: int
    selection: str
    folds: int | None = None

    def __str__(self) -> str:
        chosen = "" if self.selection == "validation" else f", {self.selection}"
        return f"{self.data.name}, {self.method.shown}, seed {self.seed}{chosen}"


@dataclass(frozen=True)
class Plan:
    """What is to be run."""

    data: tuple[DataEntry, ...]
    methods: tuple[MethodEntry, ...]
    seeds: int = 1
    selections: tuple[str, ...] = ("validation",)
    folds: int | None = None
    title: str = ""

    def __post_init__(self) -> None:
        check_whole("seeds", self.seeds, 1)
        if self.folds is not None:
            check_whole("folds", self.folds, 1)
        for selection in self.selections:
            check_choice("selection", selection, SELECTIONS)
        for what in ("data", "methods", "selections"):
            if not getattr(self, what):
                raise SettingsError(f"the plan names no {what}; it needs at least one.")
        shown = [entry.shown for entry in self.methods]
        repeated = sorted({name for name in shown if shown.count(name) > 1})
        if repeated:
            raise SettingsError(f"the plan has '{repeated[0]}' more than once. Give each variant a label of its own.")

    def jobs(self) -> list[Job]:
        """Every cell: data set by data set, seed by seed, so that a broken-off run has whole tables of the first seeds."""
        cells = product(self.data, range(self.seeds), self.selections, self.methods)
        return [Job(data, method, seed, selection, self.folds) for data, seed, selection, method in cells]


def ready_plans() -> dict[str, str]:
    """The plans that come with the package: name -> title."""
    folder = files("sightunseen.benchmark") / "plans"
    found = {file.name.removesuffix(".toml"): file.read_text(encoding="utf-8") for file in folder.iterdir()}
    return {name: str(tomllib.loads(text).get("title", "")) for name, text in sorted(found.items())}


def read_plan(source: str | Path, data_folder: str | Path | None = None) -> Plan:
    """The plan of a TOML file, or the ready plan of that name.

    Paths of data sets are relative to ``data_folder``; without it to the file's own folder.
    """
    path = Path(source)
    if path.is_file():
        text, beside = path.read_text(encoding="utf-8"), path.parent
    elif str(source) in ready_plans():
        text, beside = (files("sightunseen.benchmark") / "plans" / f"{source}.toml").read_text(encoding="utf-8"), Path()
        if data_folder is None:
            raise SettingsError(
                f"the ready plan '{source}' needs --data FOLDER: the folder that holds CUB, AWA1 and the others."
            )
    else:
        raise SettingsError(
            f"there is no plan {source}. Give a TOML file, or one of the ready plans: {', '.join(ready_plans())}."
        )
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{source} is not TOML: {error}.") from error
    return plan_of(content, Path(data_folder) if data_folder is not None else beside)


def plan_of(content: Mapping[str, Any], data_folder: Path) -> Plan:
    """The plan that a TOML file's content stands for."""
    _check_keys("the plan", content, ("title", "seeds", "selection", "folds", "methods", "data", "method"))
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
    )


def _names(word: str) -> list[str]:
    if word not in GROUPS:
        return [word]
    return [name for name, card in CARDS.items() if word in ("all", card.setting) and not card.ablation]


def _words(content: Mapping[str, Any], name: str, default: Sequence[str]) -> Sequence[str]:
    """A word or a list of them."""
    found = content.get(name, default)
    words = [found] if isinstance(found, str) else found
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise SettingsError(f"{name} of the plan must be a name or a list of names; got {found!r}.")
    return words


def _tables(content: Mapping[str, Any], name: str) -> Sequence[Mapping[str, Any]]:
    found = content.get(name, ())
    if not isinstance(found, (list, tuple)) or not all(isinstance(table, Mapping) for table in found):
        raise SettingsError(f"{name} of the plan must be tables, each beginning with [[{name}]].")
    return found


def _check_table(what: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{what} of the plan must be a table, such as {{ n_steps = 500 }}; got {value!r}.")


def _entry(kind: type[Any], where: str, table: Mapping[str, Any]) -> Any:
    needed = "path" if kind is DataEntry else "name"
    _check_keys(where, table, tuple(known.name for known in fields(kind)))
    if needed not in table:
        raise SettingsError(f"{where} of the plan lacks '{needed}'.")
    return kind(**table)


def _check_keys(where: str, table: Mapping[str, Any], allowed: Sequence[str]) -> None:
    unknown = sorted(set(table) - set(allowed))
    if unknown:
        raise SettingsError(f"{where} has no '{unknown[0]}'; it may have {', '.join(allowed)}.")
