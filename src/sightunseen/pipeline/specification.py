"""What decides the numbers of a run, besides the data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sightunseen.core.checks import check_choice, check_whole
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.methods import AdaptableClassifier, ZeroShotClassifier
from sightunseen.selection.choice import Grid, combinations, search_space

PROTOCOLS = ("honest", "paper")
SELECTIONS = ("validation", "none")


@dataclass(frozen=True, kw_only=True)
class Selecting:
    """How hyperparameters are chosen, in training and in adapting alike.

    Parameters
    ----------
    search : the values to choose among; None: the method's own search space, without what is fixed.
    select : ``validation``, on validation classes; ``none``: hyperparameters as given, nothing is chosen.
    protocol : ``honest``, or ``paper``: chosen on the TEST data, as the authors did; the record and every table say so.
    folds : class folds; None: the rule of :func:`~sightunseen.selection.folds.class_folds`.
    """

    search: Grid | None = None
    select: str = "validation"
    protocol: str = "honest"
    folds: int | None = None

    def __post_init__(self) -> None:
        check_choice("protocol", self.protocol, PROTOCOLS)
        check_choice("select", self.select, SELECTIONS)
        if self.folds is not None:
            check_whole("folds", self.folds, 1)
        if self.search and self.select == "none":
            raise SettingsError("hyperparameters are searched on validation classes: not with --select none.")

    @property
    def chooses(self) -> bool:
        """Whether anything is chosen."""
        return self.select == "validation" or self.protocol == "paper"

    def check_data(self, data: ZeroShotDataset) -> None:
        """Raise ``DataError`` if the protocol cannot be followed on these data."""
        if self.protocol == "paper" and not (len(data.test_seen) and len(data.test_unseen)):
            raise DataError("the paper's protocol chooses on test images of seen and unseen classes, and these data lack some.")


@dataclass(frozen=True, kw_only=True)
class TrainingSpecification(Selecting):
    """How a model is trained.

    Parameters
    ----------
    method : the estimator class.
    parameters : hyperparameters that are fixed; they are not searched.
    seed : all randomness follows from it, that of folds and held-out images included.
    n_seeds : models of this many seeds, from ``seed`` up, are chosen and trained, each for itself.
    search, select, protocol, folds : see :class:`Selecting`.
    """

    method: type[ZeroShotClassifier]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    n_seeds: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("seed", self.seed, 0)
        check_whole("n_seeds", self.n_seeds, 1)
        check_names(self.method.__name__, {**self.parameters, **self.grid}, self.method._get_param_names())
        for combination in combinations(self.grid):
            self.method(**{**self.parameters, **combination}).check_settings()
        if self.n_seeds > 1 and not self.chooses and "seed" not in self.method._get_param_names():
            raise SettingsError(
                f"{self.method.__name__} draws nothing at random, and nothing is chosen with --select none: every seed gives "
                "the same model. Leave --seeds out."
            )

    @property
    def grid(self) -> dict[str, list[Any]]:
        """The hyperparameters to choose, with their values."""
        if not self.chooses:
            return {}
        return search_space(self.method.search_space, self.parameters, self.search)

    def estimators(self) -> list[ZeroShotClassifier]:
        """An unfitted estimator for every seed."""
        estimators = [self.method(**self.parameters) for _ in range(self.n_seeds)]
        if "seed" in self.method._get_param_names():
            for number, estimator in enumerate(estimators):
                estimator.set_params(seed=self.seed + number)
        return estimators


@dataclass(frozen=True, kw_only=True)
class AdaptationSpecification(Selecting):
    """How a model is adapted to unlabelled images of its unseen classes.

    Parameters
    ----------
    parameters : hyperparameters of ``adapt`` that are fixed; they are not searched.
    hold_out : the share of the unseen classes' test images that is not adapted to; results are measured on it alone.
    search, select, protocol, folds : see :class:`Selecting`.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    hold_out: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hold_out and self.protocol == "paper":
            raise SettingsError("images are held out of the unseen classes' test images: not under protocol paper.")

    def grid(self, method: type[AdaptableClassifier]) -> dict[str, list[Any]]:
        """The hyperparameters to choose for this method, with their values."""
        return search_space(method.adaptation_space, self.parameters, self.search) if self.chooses else {}

    def check(self, model: AdaptableClassifier) -> None:
        """Raise ``SettingsError`` if the model's ``adapt`` does not take these hyperparameters."""
        grid = self.grid(type(model))
        check_names(f"adapting {type(model).__name__}", {**self.parameters, **grid}, model.adaptation_defaults())
        for combination in combinations(grid):
            model.check_adaptation({**self.parameters, **combination})


def check_names(whose: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ``SettingsError`` on a hyperparameter that does not exist."""
    unknown = sorted({*given} - {*known})
    if unknown:
        raise SettingsError(f"{whose} has no hyperparameter '{unknown[0]}'; it has {', '.join(sorted(known)) or 'none'}.")
