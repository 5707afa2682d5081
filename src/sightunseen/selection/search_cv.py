"""``ZeroShotSearchCV``: scikit-learn's ``GridSearchCV`` over class folds."""

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.dataset import ZeroShotDataset
from sightunseen.core.errors import SettingsError
from sightunseen.methods import AdaptableClassifier, ZeroShotClassifier
from sightunseen.selection.choice import Grid, Tried, best_point, search_space
from sightunseen.selection.folds import class_folds
from sightunseen.selection.on_validation import best_on_validation, choose_adaptation_on_validation
from sightunseen.selection.pipelines import PipelineMethod
from sightunseen.selection.search import fit_chosen, search

Floats = NDArray[np.float32]


class ZeroShotSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Choose hyperparameters on class folds, then fit on all images: ``GridSearchCV`` for zero-shot estimators.

    In every fold some seen classes are held out and stand in for unseen ones, and a fifth of each other class's images is
    held out to measure the seen side. Chosen together, by the harmonic mean H of both sides: the hyperparameters, the seen
    penalty (calibrated stacking), the stopping point of gradient training, the temperature of the probabilities and the
    threshold of open-set rejection. It is the selection of ``sightunseen train``.

    Parameters
    ----------
    estimator : ZeroShotClassifier or Pipeline
        An unfitted method, or a scikit-learn pipeline that ends in one.
    param_grid : mapping of str to sequence, default=None
        The values to choose among. None: the method's own search space; ``{}``: the hyperparameters as they are.
    cv : int or iterable of (training labels, validation labels), default=None
        The number of folds to draw, or the folds themselves. None: one for a gradient-trained method; for any other as many
        as have 50 validation classes together, and five at most.
    refit : bool, default=True
        Fit ``best_estimator_`` on all images.
    seed : int, default=0
        Of the folds and the images held out.

    Attributes
    ----------
    best_params_ : dict
        The chosen values of ``param_grid``.
    best_score_ : float
        H on validation classes, between 0 and 1.
    best_index_ : int
        The row of ``cv_results_`` that was chosen.
    best_estimator_ : the estimator, fitted on all images with what was chosen, and calibrated.
    choice_ : Choice
        All that was chosen, with the report that a run record keeps.
    cv_results_ : dict of arrays
        A row a combination, as in scikit-learn; ``T1`` and ``H`` are on validation classes, between 0 and 1.

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

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | Mapping[Any, ArrayLike]) -> Self:
        """Choose on class folds of these images, then fit on all of them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of images of the seen classes, at least 4 of them.
        y : array-like of shape (n,)
            Their labels.
        classes : ClassTable or mapping of label to vector
            Of seen and unseen classes.

        Returns
        -------
        self
        """
        n_folds, pairs = _folds(self.cv)
        self._data = ZeroShotDataset.from_arrays(X, y, ClassTable.of(classes), validation=pairs)
        self.n_folds_ = n_folds
        model = _as_model(clone(self.estimator))
        folds = class_folds(model, self._data, n_folds, self.seed)
        tried = search([model], [folds], self._grid(model))[0]
        self.choice_ = best_on_validation(tried, folds)
        self.cv_results_ = _results(tried)
        self.best_index_ = [entry["settings"] for entry in tried].index(self.choice_.settings)
        self.best_params_ = dict(self.choice_.settings)
        self.best_score_ = float(self.cv_results_["mean_test_H"][self.best_index_])
        if self.refit:
            fit_chosen([model], [self.choice_], [self._data], ["training"])
            self.best_estimator_ = _as_estimator(model)
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

        How is chosen by a rehearsal on the class folds; the adapted model comes with a seen penalty and a calibration of its
        own. This search is left as it is.

        Parameters
        ----------
        X_unlabelled : array-like of shape (m, d)
            Images without labels.
        candidates : labels or "unseen", default="unseen"
            The classes they are of.
        param_grid : mapping, default=None
            The hyperparameters of ``adapt`` to choose among; None: the method's own.
        hold_out : float, default=0.0
            The share of validation images that the rehearsal measures on instead of adapting to. 0.5 where the model will
            be used on other images than these.
        **parameters
            Hyperparameters of ``adapt`` that are fixed.

        Returns
        -------
        ZeroShotClassifier
            The adapted model.
        """
        check_is_fitted(self, "best_estimator_")
        model = self.best_estimator_
        if not isinstance(model, AdaptableClassifier):
            raise SettingsError(f"{type(model).__name__} has no transductive form, so it cannot be adapted.")
        grid = search_space(model.adaptation_space, parameters, param_grid)
        folds = (self.n_folds_, self.seed)
        choice = choose_adaptation_on_validation(model, self._training_data(), parameters, grid, *folds, hold_out=hold_out)
        adapted = model.adapt(X_unlabelled, candidates, **parameters, **choice.settings)
        adapted.set_params(seen_penalty=choice.seen_penalty)
        adapted.calibration_ = choice.calibration
        return adapted

    # -- the best estimator's methods ----------------------------------------------------------------------------------

    @property
    def classes_(self) -> Labels:
        """All labels that can be predicted, sorted."""
        return self._model.classes_

    def predict(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Labels:
        """The best class of each image: (n, d) -> (n,); ``candidates`` as for every method."""
        return self._model.predict(X, candidates)

    def predict_proba(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Floats:
        """Calibrated probabilities of the candidates, (n, c)."""
        return self._model.predict_proba(X, candidates)

    def decision_function(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Floats:
        """Scores of the candidates, (n, c)."""
        return self._model.decision_function(X, candidates)

    def score(self, X: ArrayLike, y: ArrayLike, candidates: ArrayLike | str | None = None) -> float:
        """Per-class accuracy."""
        return self._model.score(X, y, candidates)

    # -- inside --------------------------------------------------------------------------------------------------------

    @property
    def _model(self) -> "ZeroShotClassifier | PipelineMethod":
        check_is_fitted(self, "best_estimator_")
        model: ZeroShotClassifier | PipelineMethod = _as_model(self.best_estimator_)
        return model

    def _grid(self, model: Any) -> dict[str, list[Any]]:
        return search_space(model.search_space, {}, self.param_grid)

    def _training_data(self) -> ZeroShotDataset:
        if self.__dict__.get("_data") is None:
            raise SettingsError("a copy of a search does not carry its training images, which adapting needs. Fit it again.")
        return self._data

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_data"}


def _folds(cv: Any) -> tuple[int | None, tuple[tuple[Labels, Labels], ...]]:
    """The number of folds, None for the default, and the folds that are given."""
    if cv is None or isinstance(cv, int):
        return cv, ()
    pairs = tuple((np.asarray(train), np.asarray(held)) for train, held in cv)
    if not pairs:
        raise SettingsError("cv is empty. Give pairs of training and validation labels, a number of folds, or None.")
    return len(pairs), pairs


def _as_model(estimator: Any) -> Any:
    if isinstance(estimator, Pipeline):
        return PipelineMethod(estimator)
    if not isinstance(estimator, ZeroShotClassifier):
        raise SettingsError(
            f"estimator must be a zero-shot method, or a pipeline that ends in one; got {type(estimator).__name__}."
        )
    return estimator


def _as_estimator(model: Any) -> Any:
    return model.pipeline if isinstance(model, PipelineMethod) else model


def _results(tried: Tried) -> dict[str, Any]:
    """What was tried as scikit-learn's ``cv_results_``, accuracies between 0 and 1."""
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
