"""Jobs of a plan, and the variants of a method that they run: budgets, presets and searched feature scalings."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sightunseen.benchmark.draws import Draw
from sightunseen.benchmark.entries import DataEntry, MethodEntry
from sightunseen.benchmark.variant_names import OWN, SEARCHED, variant_name
from sightunseen.methods.base.presets import QUICK, Preset, preset_of
from sightunseen.methods.catalogue import card_of

if TYPE_CHECKING:
    from sightunseen.methods import ZeroShotClassifier
    from sightunseen.selection.choice import Grid


@dataclass(frozen=True)
class Job:
    """One run of a plan: one method on one data set with one seed and one selection.

    Parameters
    ----------
    data : DataEntry
        Data set.
    method : MethodEntry
        Method and its hyperparameters, those of a preset included.
    seed : int
        Random seed.
    selection : {"validation", "none", "oracle"}
        How hyperparameters are selected.
    folds : int, optional
        Number of class folds for the selection. Default: that of the method.
    draw : Draw, optional
        How the class split is drawn, with ``seed``. Default: the split of the data set.
    budget : str, default=""
        Name of the budget or preset, for tables. Empty: the method has one budget only.
    scaling : {"own", "searched"}, default="own"
        Feature scaling: that of the method, or chosen on validation classes.
    trained : bool, default=False
        Whether the method is trained by gradient steps, on a GPU if there is one.
    """

    data: DataEntry
    method: MethodEntry
    seed: int
    selection: str
    folds: int | None = None
    draw: Draw | None = None
    budget: str = ""
    scaling: str = OWN
    trained: bool = False

    def __str__(self) -> str:
        name = variant_name(self.method.shown, self.budget, self.scaling, self.selection)
        return f"{self.split_name}, {name}, seed {self.seed}"

    @property
    def split_name(self) -> str:
        """Name of the data set in result tables, and that of the draws."""
        return self.data.name if self.draw is None else f"{self.data.name}, {self.draw.name}"

    @property
    def expense(self) -> tuple[int, int]:
        """Sort key: closed-form methods, then gradient-trained ones by budget; each by the magnitude of the time of a fit."""
        rank = 0 if not self.trained else 1 if self.budget in ("", QUICK) else 2
        return rank, len(str(card_of(self.method.name).cost or 0))


def variants(entry: MethodEntry, data: DataEntry, selection: str, budgets: Sequence[str], scalings: Sequence[str]) -> list[Job]:
    """List the jobs of a method on a data set that differ in budget and feature scaling, with seed 0.

    A method that has no budgets, or whose feature scaling cannot be chosen, runs once, even if the plan has several.

    Parameters
    ----------
    entry : MethodEntry
        Method of the plan. A preset that it names is used in place of the budgets.
    data : DataEntry
        Data set of the plan.
    selection : {"validation", "none", "oracle"}
        How hyperparameters are selected.
    budgets : sequence of {"quick", "full"}
        Budgets of the plan.
    scalings : sequence of {"own", "searched"}
        Feature scalings of the plan.

    Returns
    -------
    list of Job
        At least one job.

    Raises
    ------
    SettingsError
        If the method is not installed, or does not have the preset that the entry names.
    """
    from sightunseen.methods import GradientTrainedClassifier, method_class

    method = method_class(card_of(entry.name).estimator)
    trained = issubclass(method, GradientTrainedClassifier)
    named = entry.preset_on(data)
    presets = [named] if named else [budget for budget in budgets if budget in (QUICK, *method.presets)] or [QUICK]
    found = []
    for name in presets:
        preset = preset_of(method, name)
        budget = name if named or method.presets else ""
        source = data if data.semantics or not preset.semantics else replace(data, semantics=preset.semantics, label=data.name)
        filled = with_preset(entry, preset, selection)
        free = SEARCHED in scalings and selection != "none" and _scaling_is_free(method, entry, filled.search)
        for scaling in scalings if free else (OWN,):
            settings = {key: filled.settings[key] for key in filled.settings if scaling == OWN or key != "feature_scaling"}
            made = replace(filled, settings=settings)
            job = Job(source, made, seed=0, selection=selection, budget=budget, scaling=scaling, trained=trained)
            found.append(job)
    return found


def with_preset(entry: MethodEntry, preset: Preset, selection: str = "validation") -> MethodEntry:
    """Complete a method of a plan by the hyperparameters of a preset.

    Parameters
    ----------
    entry : MethodEntry
        Method of the plan; its hyperparameters and those of the catalogue take precedence.
    preset : Preset
        The preset.
    selection : {"validation", "none", "oracle"}, default="validation"
        How hyperparameters are selected. "none": the entry has no search spaces.

    Returns
    -------
    MethodEntry
        The method without a preset.
    """
    card = card_of(entry.name)
    search, adaptation_search = (None, None) if selection == "none" else (entry.search, entry.adaptation_search)
    if search is None and selection != "none":
        search = preset.search_without({**card.settings, **entry.settings})
    adaptation = {**preset.adaptation, **card.adaptation} if card.setting == "transductive" else {}
    return replace(
        entry,
        preset="",
        settings={**preset.settings, **card.settings, **entry.settings},
        search=search,
        adaptation_search=adaptation_search,
        adaptation={**adaptation, **entry.adaptation},
    )


def _scaling_is_free(method: "type[ZeroShotClassifier]", entry: MethodEntry, search: "Grid | None") -> bool:
    """Whether a method has a feature scaling to choose that neither the plan nor the search space gives."""
    from sightunseen.selection.choice import with_scaling

    grid = method.search_space if search is None else search
    given = {**card_of(entry.name).settings, **entry.settings, **grid}
    return "feature_scaling" not in given and "feature_scaling" in with_scaling(method, grid)
