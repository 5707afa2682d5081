"""Adapter that gives a scikit-learn pipeline the interface of a zero-shot method."""

from collections.abc import Callable
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from sightunseen.core.class_table import ClassTable
from sightunseen.core.errors import SettingsError
from sightunseen.methods import ZeroShotClassifier


def _attribute(name: str) -> Any:
    """Property that reads and sets an attribute of the pipeline's last step."""
    return property(lambda self: getattr(self.method, name), lambda self, value: setattr(self.method, name, value))


def _on_transformed(name: str) -> Callable[..., Any]:
    """Method that transforms the images and calls a method of the pipeline's last step."""

    def call(self: "PipelineMethod", X: ArrayLike, *args: Any, **options: Any) -> Any:
        transformed = self.pipeline[:-1].transform(X) if len(self.pipeline) > 1 else X
        return getattr(self.method, name)(transformed, *args, **options)

    return call


class PipelineMethod(BaseEstimator):  # type: ignore[misc]
    """Scikit-learn pipeline that ends in a zero-shot method, for selection and evaluation.

    A pipeline does not pass ``candidates`` to all methods of its last step. Therefore the transformers are applied here and
    the last step is called directly. ``predict``, ``predict_proba``, ``decision_function``, ``score`` and the fitted
    attributes are those of the last step. Hyperparameters have the names of the pipeline, such as ``eszsl__alpha``.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline
        Transformers, then a zero-shot method.

    Raises
    ------
    SettingsError
        At first use, if the last step is not a zero-shot method.
    """

    predict = _on_transformed("predict")
    predict_proba = _on_transformed("predict_proba")
    decision_function = _on_transformed("decision_function")
    score = _on_transformed("score")
    classes_ = _attribute("classes_")
    seen_classes_ = _attribute("seen_classes_")
    seen_penalty = _attribute("seen_penalty")
    temperature_ = _attribute("temperature_")
    calibration_ = _attribute("calibration_")
    calibration_for = _attribute("calibration_for")
    quick = _attribute("quick")

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    @property
    def method(self) -> ZeroShotClassifier:
        """The last step of the pipeline."""
        method = self.pipeline[-1]
        if not isinstance(method, ZeroShotClassifier):
            raise SettingsError(f"the pipeline must end in a zero-shot method; it ends in {type(method).__name__}.")
        return method

    @property
    def search_space(self) -> dict[str, Any]:
        """Search space of the method, with the parameter names of the pipeline."""
        name = self.pipeline.steps[-1][0]
        return {f"{name}__{parameter}": values for parameter, values in self.method.search_space.items()}

    def scorer(self, candidates: ArrayLike | str | None = None) -> Callable[[ArrayLike], Any]:
        """Return a function from images (n, d) to scores (n, c); see :meth:`ZeroShotClassifier.scorer`.

        Parameters
        ----------
        candidates : array-like of labels, "all", "seen", "unseen" or None, default=None
            Candidate classes.

        Returns
        -------
        callable
            The function.
        """
        score = self.method.scorer(candidates)
        return lambda X: score(self.pipeline[:-1].transform(X) if len(self.pipeline) > 1 else X)

    def set_params(self, **parameters: Any) -> Self:
        """Set hyperparameters.

        Parameters
        ----------
        **parameters
            Hyperparameters of the pipeline by its names, or ``seen_penalty`` of the method.

        Returns
        -------
        self
        """
        if "seen_penalty" in parameters:
            self.method.set_params(seen_penalty=parameters.pop("seen_penalty"))
        self.pipeline.set_params(**parameters)
        return self

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | None = None) -> Self:
        """Fit the transformers, then the method on the transformed images.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of images of the seen classes.
        y : array-like of shape (n,)
            Their labels.
        classes : ClassTable, default=None
            Seen and unseen classes.

        Returns
        -------
        self
        """
        transformed = self.pipeline[:-1].fit_transform(X, y) if len(self.pipeline) > 1 else X
        self.method.fit(transformed, y, classes)
        return self

    def fit_sharing(self, _shared: dict[str, Any], X: ArrayLike, y: ArrayLike, classes: ClassTable | None = None) -> Self:
        """Fit as :meth:`fit` does; nothing is shared between combinations, because the transformers may differ.

        Parameters
        ----------
        _shared : dict
            Intermediate results of earlier fits; not used.
        X, y, classes
            See :meth:`fit`.

        Returns
        -------
        self
        """
        return self.fit(X, y, classes)
