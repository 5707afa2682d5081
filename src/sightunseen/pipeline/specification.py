"""Specifications of runs: everything besides the data that determines the results."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sightunseen.core.checks import check_choice, check_whole
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.limits import COMBINATIONS, FOLDS, SEEDS
from sightunseen.methods import METHODS, AdaptableClassifier, ZeroShotClassifier
from sightunseen.methods.catalogue import CARDS
from sightunseen.selection.choice import Grid, combinations, search_space, with_scaling

PROTOCOLS = ("honest", "paper")
SELECTIONS = ("validation", "none")


@dataclass(frozen=True, kw_only=True)
class Selecting:
    """How hyperparameters are chosen; common to training and adaptation.

    Parameters
    ----------
    search : mapping of str to sequence, default=None
        The values to choose among. None: the search space of the method without the fixed hyperparameters.
    select : {"validation", "none"}, default="validation"
        Choose on validation classes, or take hyperparameters as given.
    protocol : {"honest", "paper"}, default="honest"
        ``paper`` chooses on the TEST data, as the authors' code does; the run record and every table name it.
    folds : int, default=None
        Number of class folds. None: see :func:`~sightunseen.selection.folds.class_folds`.

    Raises
    ------
    SettingsError
        If a value is not allowed, or if there is a search space although nothing is chosen.
    """

    search: Grid | None = None
    select: str = "validation"
    protocol: str = "honest"
    folds: int | None = None

    def __post_init__(self) -> None:
        check_choice("protocol", self.protocol, PROTOCOLS)
        check_choice("select", self.select, SELECTIONS)
        check_whole("folds", self.folds, 1, FOLDS, optional=True)
        size = math.prod(len(values) for values in (self.search or {}).values())
        if size > COMBINATIONS:
            raise SettingsError(
                f"the search space has {size:,} combinations of hyperparameters; at most {COMBINATIONS:,} are allowed. "
                "Search fewer values."
            )
        if self.search and self.select == "none":
            raise SettingsError(
                "a search space is given, but --select none chooses nothing. Leave out the search space or --select none."
            )

    @property
    def chooses(self) -> bool:
        """Whether hyperparameters, seen penalty or stopping point are chosen."""
        return self.select == "validation" or self.protocol == "paper"

    def check_data(self, data: ZeroShotDataset) -> None:
        """Check that the data have the test images that the protocol needs.

        Parameters
        ----------
        data : ZeroShotDataset
            The data.

        Raises
        ------
        DataError
            If protocol ``paper`` lacks test images of seen or of unseen classes.
        """
        if self.protocol == "paper" and not (len(data.test_seen) and len(data.test_unseen)):
            raise DataError(
                "protocol paper chooses on test images of seen and of unseen classes; the data have "
                f"{len(data.test_seen)} and {len(data.test_unseen)}. Add test images, or use protocol honest."
            )


@dataclass(frozen=True, kw_only=True)
class TrainingSpecification(Selecting):
    """How a model is trained.

    Parameters
    ----------
    method : type
        The estimator class.
    parameters : mapping, default={}
        Hyperparameters with fixed values.
    seed : int, default=0
        Seed of the model, the folds and the held-out images.
    n_seeds : int, default=1
        Number of models; the k-th has ``seed + k`` and its own selection.
    search_scaling : bool, default=False
        Whether the feature scaling is chosen, too, unless it is fixed; see
        :func:`~sightunseen.selection.choice.with_scaling`.
    search, select, protocol, folds
        See :class:`Selecting`.

    Raises
    ------
    SettingsError
        If a hyperparameter is unknown or has a value that is not allowed, or if all seeds would give the same model.

    Examples
    --------
    >>> from sightunseen.methods import ESZSL
    >>> specification = TrainingSpecification(method=ESZSL, search={"feature_penalty": [0.1, 10.0]}, seed=3)
    >>> specification.grid
    {'feature_penalty': [0.1, 10.0]}
    """

    method: type[ZeroShotClassifier]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    n_seeds: int = 1
    search_scaling: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.search_scaling and not self.chooses:
            raise SettingsError(
                "search_scaling=True (--search-scaling) needs select='validation'; got select='none' (--select none). "
                "Remove one of them."
            )
        check_whole("seed", self.seed, 0)
        check_whole("n_seeds", self.n_seeds, 1, SEEDS)
        check_names(self.method.__name__, {**self.parameters, **self.grid}, self.method._get_param_names())
        for combination in combinations(self.grid):
            self.method(**{**self.parameters, **combination}).check_settings()
        if self.n_seeds > 1 and not self.chooses and "seed" not in self.method._get_param_names():
            raise SettingsError(
                f"{self.method.__name__} draws nothing at random, and --select none chooses nothing: every seed gives the same "
                "model. Leave out --seeds."
            )

    def check_data(self, data: ZeroShotDataset) -> None:
        """Check that the data suit the protocol and the method.

        Parameters
        ----------
        data : ZeroShotDataset
            The data.

        Raises
        ------
        DataError
            If protocol ``paper`` lacks test images, or if the method needs features and class vectors of one dual encoder.
        """
        super().check_data(data)
        self.method.check_origin(data.backbone, data.classes.use)

    @property
    def grid(self) -> dict[str, list[Any]]:
        """Hyperparameters to choose, with their values; empty if nothing is chosen."""
        if not self.chooses:
            return {}
        grid = search_space(self.method.search_space, self.parameters, self.search)
        return with_scaling(self.method, grid) if self.search_scaling and "feature_scaling" not in self.parameters else grid

    def estimators(self) -> list[ZeroShotClassifier]:
        """Make an unfitted estimator for every seed.

        Returns
        -------
        list of ZeroShotClassifier
            The estimators.
        """
        estimators = [self.method(**self.parameters) for _ in range(self.n_seeds)]
        if "seed" in self.method._get_param_names():
            for k, estimator in enumerate(estimators):
                estimator.set_params(seed=self.seed + k)
        return estimators


@dataclass(frozen=True, kw_only=True)
class AutomaticSpecification(Selecting):
    """Training with a method that is itself chosen on class folds, among the inductive methods that are fitted in seconds.

    Parameters
    ----------
    seed : int, default=0
        Seed of the comparison, and of the training with the chosen method.
    n_seeds : int, default=1
        Number of models. The method is chosen once, with the first seed; its hyperparameters are chosen for each seed.
    folds : int, default=None
        Number of class folds on which the hyperparameters of each method are chosen. None: the default of the method.
    search, select, protocol
        Have to stay at their defaults: each method has its own search space, and nothing is chosen on test images.

    Raises
    ------
    SettingsError
        If a value is not allowed.

    Examples
    --------
    >>> sorted(AutomaticSpecification(seed=3).candidates())
    ['CONSE', 'DAP', 'ESZSL', 'EXEM', 'Foresight', 'GFZSL', 'SAE', 'SYNC']
    """

    seed: int = 0
    n_seeds: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("seed", self.seed, 0)
        check_whole("n_seeds", self.n_seeds, 1, SEEDS)
        if self.protocol != "honest" or self.select != "validation" or self.search:
            given = "protocol paper" if self.protocol != "honest" else "a search space" if self.search else "--select none"
            raise SettingsError(
                "a method is chosen automatically on validation classes, over its own search space; "
                f"{given} needs a named method. Give --method NAME."
            )

    def candidates(self) -> dict[str, ZeroShotClassifier]:
        """Make an unfitted estimator of each method to choose among.

        Returns
        -------
        dict of str to ZeroShotClassifier
            The estimators by name, with the first seed.
        """
        return {name: self.using(name).estimators()[0] for name, card in CARDS.items() if card.quick}

    def using(self, name: str) -> TrainingSpecification:
        """Specify the training with one of the methods.

        Parameters
        ----------
        name : str
            Name in the catalogue.

        Returns
        -------
        TrainingSpecification
            The same seeds and folds, with this method.
        """
        method = METHODS[CARDS[name].estimator]
        return TrainingSpecification(method=method, seed=self.seed, n_seeds=self.n_seeds, folds=self.folds)


@dataclass(frozen=True, kw_only=True)
class AdaptationSpecification(Selecting):
    """How a model is adapted to unlabelled images of its unseen classes.

    Parameters
    ----------
    parameters : mapping, default={}
        Hyperparameters of ``adapt`` with fixed values.
    hold_out : float, default=0.0
        Share of the test images of unseen classes that is not adapted to. The results are those of these images alone.
    search, select, protocol, folds
        See :class:`Selecting`.

    Raises
    ------
    SettingsError
        If a value is not allowed, or if images are held out under protocol ``paper``.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    hold_out: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hold_out and self.protocol == "paper":
            raise SettingsError("images can be held out under protocol honest only; got protocol paper. Leave out --hold-out.")

    def grid(self, method: type[AdaptableClassifier]) -> dict[str, list[Any]]:
        """Hyperparameters of ``adapt`` to choose, with their values.

        Parameters
        ----------
        method : type
            The estimator class.

        Returns
        -------
        dict of str to list
            The search space; empty if nothing is chosen.
        """
        return search_space(method.adaptation_space, self.parameters, self.search) if self.chooses else {}

    def check(self, model: AdaptableClassifier) -> None:
        """Check the hyperparameters of ``adapt``, fixed ones and those of the search space.

        Parameters
        ----------
        model : AdaptableClassifier
            The model to adapt.

        Raises
        ------
        SettingsError
            If a hyperparameter is unknown or has a value that is not allowed.
        """
        grid = self.grid(type(model))
        check_names(f"adapting {type(model).__name__}", {**self.parameters, **grid}, model.adaptation_defaults())
        for combination in combinations(grid):
            model.check_adaptation({**self.parameters, **combination})


def check_names(whose: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Check that hyperparameters exist.

    Parameters
    ----------
    whose : str
        The method, for the error message.
    given : iterable of str
        Names to check.
    known : iterable of str
        Names of the hyperparameters that exist.

    Raises
    ------
    SettingsError
        If a name is unknown.
    """
    unknown = sorted({*given} - {*known})
    if unknown:
        having = ", ".join(sorted(known)) or "none"
        raise SettingsError(f"{whose} has no hyperparameter '{quoted(unknown[0])}'; it has {having}.")
