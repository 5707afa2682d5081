"""``ZeroShotSearchCV``: ``GridSearchCV`` of scikit-learn on class folds."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from sightunseen.core.checks import check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.documents import quoted
from sightunseen.core.errors import DataError, SettingsError
from sightunseen.core.frames import as_targets
from sightunseen.core.warnings import AdaptationWarning, warn_user
from sightunseen.data.class_inputs import as_class_table
from sightunseen.methods import AdaptableClassifier, LeaveClassesOut
from sightunseen.selection.choice import Grid, Tried, best_point, search_space
from sightunseen.selection.folds import class_folds
from sightunseen.selection.left_out import choose_left_out
from sightunseen.selection.on_validation import best_on_validation, choose_adaptation_on_validation
from sightunseen.selection.pipelines import PipelineMethod
from sightunseen.selection.search import fit_chosen, search
from sightunseen.selection.search_predictions import SearchPredictions, as_model

FOLDS_OF_LABELS = "None, a number of folds, or pairs of two lists of labels: those to train on and those to validate on"


class ZeroShotSearchCV(SearchPredictions):
    """Choose hyperparameters on class folds, then fit on all images: ``GridSearchCV`` for zero-shot estimators.

    In every fold, validation classes stand in for unseen classes, and a fifth of the images of each other class is held out
    to measure the accuracy on seen classes. The harmonic mean H of the two accuracies selects the hyperparameters, the seen
    penalty (calibrated stacking; Chao et al., ECCV 2016) and the stopping point of gradient training. The temperature of the
    probabilities and the threshold of open-set rejection are fitted on the same folds. ``sightunseen train`` makes the same
    selection.

    A method that leaves classes out in closed form, such as Foresight, is not fitted once per fold. Its hyperparameters are
    selected by T1 + H on many folds, where T1 is the accuracy among the validation classes alone; see
    :func:`~sightunseen.selection.left_out.choose_left_out`. At the end of a pipeline, or on folds that are given, it is
    fitted once per fold like any other method.

    Parameters
    ----------
    estimator : ZeroShotClassifier or Pipeline
        An unfitted method, or a scikit-learn pipeline that ends in one.
    param_grid : mapping of str to sequence, default=None
        The values to choose among. None: the search space of the method; ``{}``: hyperparameters stay as they are.
    cv : int or iterable of (training labels, validation labels), default=None
        Number of folds to draw, or the folds themselves. None: one for a gradient-trained method; for a method that leaves
        classes out in closed form as many as give 200 validation classes in total, but 16 to 40; for any other method as many
        as give 50 validation classes in total, at most five.
    refit : bool, default=True
        Whether to fit ``best_estimator_`` on all images.
    seed : int, default=0
        Seed of the folds and of the held-out images.

    Attributes
    ----------
    best_params_ : dict
        The chosen values of ``param_grid``.
    best_score_ : float
        H on validation classes of the chosen combination, between 0 and 1: each fold has the seen penalty that is best on it,
        so it is higher than with the common penalty of ``choice_``.
    best_index_ : int
        Row of the chosen combination in ``cv_results_``.
    best_estimator_ : ZeroShotClassifier or Pipeline
        The estimator, fitted on all images with the chosen hyperparameters, and calibrated. Only if ``refit`` is True.
    choice_ : Choice
        Hyperparameters, seen penalty, stopping point and calibration, with the report for a run record.
    cv_results_ : dict of arrays
        One row per combination, as in scikit-learn; ``T1`` and ``H`` are measured on validation classes, between 0 and 1,
        H of each fold with the seen penalty that is best on it.
    n_folds_ : int or None
        Number of folds asked for; None: the default.
    classes_ : ndarray of shape (c,)
        All labels that can be predicted, sorted.

    Examples
    --------
    >>> from sightunseen import Foresight, ZeroShotSearchCV
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> data = make_world(World())
    >>> search = ZeroShotSearchCV(Foresight(), {"noise": [0.1, 1.0]}).fit(data.train.X, data.train.y, data.classes)
    >>> sorted(search.best_params_)
    ['noise']
    >>> search.predict(data.test_unseen.X, candidates=data.unseen).shape == data.test_unseen.y.shape
    True
    """

    def __init__(
        self,
        estimator: Any,
        param_grid: Mapping[str, Any] | None = None,
        *,
        cv: int | Iterable[tuple[ArrayLike, ArrayLike]] | None = None,
        refit: bool = True,
        seed: int = 0,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.refit = refit
        self.seed = seed

    def fit(self, X: ArrayLike, y: ArrayLike, classes: Any = None) -> Self:
        """Choose hyperparameters on class folds of these images, then fit on all of them.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, d)
            Features of images of the seen classes. At least 4 classes are needed.
        y : array-like of shape (n,)
            Their labels.
        classes : ClassTable, mapping of label to vector or text, DataFrame or array-like
            Seen and unseen classes, in any form of :func:`~sightunseen.as_class_table`. They cannot be left out.

        Returns
        -------
        self
            The fitted search.

        Raises
        ------
        SettingsError
            If the estimator is not a zero-shot method and not a pipeline that ends in one, or if ``cv`` is invalid.
        DataError
            If the data have too few seen classes or images for a fold, or if ``classes`` are left out.
        """
        if classes is None:
            raise DataError(
                "ZeroShotSearchCV needs descriptions of the classes, since it validates on classes without training images. "
                "Give classes: {label: vector}, {label: text} or a DataFrame."
            )
        labels = as_targets(y)
        n_folds, pairs = _folds(self.cv, labels)
        table = as_class_table(classes, labels)
        self._data = ZeroShotDataset.from_arrays(self._learn_features(X), labels, table, validation=pairs)
        self.n_folds_ = n_folds
        model = as_model(clone(self.estimator))
        grid = search_space(model.search_space, {}, self.param_grid)
        if isinstance(model, LeaveClassesOut) and not pairs:
            self.choice_ = choose_left_out(model, self._data, grid, n_folds, self.seed)
        else:
            folds = class_folds(model, self._data, n_folds, self.seed)
            self.choice_ = best_on_validation(search([model], [folds], grid)[0], folds)
        tried = self.choice_.report["tried"]
        self.cv_results_ = _results(tried)
        self.best_index_ = [entry["settings"] for entry in tried].index(self.choice_.settings)
        self.best_params_ = dict(self.choice_.settings)
        self.best_score_ = float(self.cv_results_["mean_test_H"][self.best_index_])
        if self.refit:
            fit_chosen([model], [self.choice_], [self._data], ["training"])
            self.best_estimator_ = model.pipeline if isinstance(model, PipelineMethod) else model
            self._pass_names()
        return self

    def adapt(
        self,
        X_unlabelled: ArrayLike,
        candidates: ArrayLike | str = "unseen",
        *,
        param_grid: Grid | None = None,
        hold_out: float = 0.0,
        **parameters: Any,
    ) -> Any:
        """Adapt the best estimator to unlabelled images of unseen classes, as ``sightunseen adapt`` does.

        The hyperparameters of ``adapt`` are chosen by rehearsing the adaptation on the class folds. The adapted model has its
        own seen penalty and calibration. This search is not changed. If adapting does not help on the class folds, an
        :class:`~sightunseen.AdaptationWarning` says so, and whether the model was left as it is.

        Parameters
        ----------
        X_unlabelled : array-like of shape (m, d)
            Features of images without labels.
        candidates : array-like of labels or "unseen", default="unseen"
            The classes that the images belong to.
        param_grid : mapping of str to sequence, default=None
            Hyperparameters of ``adapt`` to choose, with their values. None: the search space of the method.
        hold_out : float, default=0.0
            Share of the validation images that is evaluated on instead of adapted to. Use 0.5 if the model will predict
            other images than those it is adapted to.
        **parameters
            Hyperparameters of ``adapt`` with fixed values.

        Returns
        -------
        ZeroShotClassifier
            The adapted model.

        Raises
        ------
        SettingsError
            If the method cannot be adapted, or if this search is a copy without its training images.
        """
        check_is_fitted(self, "best_estimator_")
        model = self.best_estimator_
        if not isinstance(model, AdaptableClassifier):
            raise SettingsError(f"{type(model).__name__} has no transductive form, so it cannot be adapted.")
        grid = search_space(model.adaptation_space, parameters, param_grid)
        folds = (self.n_folds_, self.seed)
        choice = choose_adaptation_on_validation(model, self._training_data(), parameters, grid, *folds, hold_out=hold_out)
        for message in choice.report["warnings"]:
            warn_user(message, AdaptationWarning)
        adapted = model.adapt(X_unlabelled, candidates, **parameters, **choice.settings)
        adapted.set_params(seen_penalty=choice.seen_penalty)
        adapted.calibration_ = choice.calibration
        return adapted

    def _training_data(self) -> ZeroShotDataset:
        if self.__dict__.get("_data") is None:
            raise SettingsError("this copy of a search has no training images, and adapting needs them. Fit it again.")
        return self._data

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_data"}


def _folds(cv: Any, labels: Labels) -> tuple[int | None, tuple[tuple[Labels, Labels], ...]]:
    """Number of folds (None: the default), and the folds that are given."""
    if cv is None or isinstance(cv, (int, np.integer)):
        check_whole("cv", cv, 1, optional=True)
        return None if cv is None else int(cv), ()
    try:
        pairs = tuple((np.asarray(train), np.asarray(held)) for train, held in cv)
    except (TypeError, ValueError) as error:  # no iterable, or no pairs
        raise SettingsError(f"cv must be {FOLDS_OF_LABELS}; got {quoted(cv)}.") from error
    if not pairs or any(side.ndim != 1 for pair in pairs for side in pair):
        raise SettingsError(f"cv must be {FOLDS_OF_LABELS}; it {'has labels without a list' if pairs else 'is empty'}.")
    for k, (train, held) in enumerate(pairs):
        unknown = np.setdiff1d(np.concatenate([train, held]), labels)
        if not len(train) or not len(held) or len(unknown) or len(np.intersect1d(train, held)):
            raise SettingsError(
                f"fold {k + 1} of cv must be two lists of labels of y that have none in common, those to train on and those to "
                f"validate on; got {len(train)} and {len(held)} labels, {len(unknown)} of them not in y and "
                f"{len(np.intersect1d(train, held))} in both."
            )
    return len(pairs), pairs


def _results(tried: Tried) -> dict[str, Any]:
    """Format the combinations as ``cv_results_`` of scikit-learn, with accuracies between 0 and 1."""
    settings, points = [entry["settings"] for entry in tried], [best_point(entry) for entry in tried]
    by_fold = np.array([point["H_of_folds"] for point in points]) / 100  # (combinations, folds)
    mean = np.array([point["H_at_best_penalty"] for point in points]) / 100
    return {
        "params": settings,
        **{f"param_{name}": np.array([chosen[name] for chosen in settings], dtype=object) for name in settings[0]},
        **{f"split{k}_test_H": column for k, column in enumerate(by_fold.T)},
        "mean_test_H": mean,
        "std_test_H": by_fold.std(axis=1),
        "rank_test_H": rankdata(-mean, method="min").astype(int),
        "mean_test_T1": np.array([point["T1"] for point in points]) / 100,
        "seen_penalty": np.array([point["best_penalty"] for point in points]),
        **({"n_steps": np.array([point["steps"] for point in points])} if "steps" in points[0] else {}),
    }
