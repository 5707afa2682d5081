"""A scikit-learn pipeline that ends in a zero-shot method, under the contract that selection and evaluation rely on."""

from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from sightunseen.core.calibration import Calibration
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.errors import SettingsError
from sightunseen.methods import ZeroShotClassifier


class PipelineMethod(BaseEstimator):  # type: ignore[misc]
    """Transformers and a method as one method.

    A pipeline would drop ``candidates`` on the way to some methods of its last step, so the transformers are applied here and
    the last step is called directly. Hyperparameters have a pipeline's names, such as ``eszsl__alpha``.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    @property
    def method(self) -> ZeroShotClassifier:
        """The last step."""
        method = self.pipeline[-1]
        if not isinstance(method, ZeroShotClassifier):
            raise SettingsError(f"the pipeline must end in a zero-shot method; it ends in {type(method).__name__}.")
        return method

    @property
    def search_space(self) -> dict[str, Any]:
        """The method's own search space, by the names of the pipeline."""
        name = self.pipeline.steps[-1][0]
        return {f"{name}__{parameter}": values for parameter, values in self.method.search_space.items()}

    def set_params(self, **parameters: Any) -> Self:
        """Set hyperparameters of the pipeline, and ``seen_penalty`` of its method."""
        if "seen_penalty" in parameters:
            self.method.set_params(seen_penalty=parameters.pop("seen_penalty"))
        self.pipeline.set_params(**parameters)
        return self

    def fit(self, X: ArrayLike, y: ArrayLike, classes: ClassTable | None = None) -> Self:
        """Fit the transformers, then the method on what they make of the images."""
        transformed = self.pipeline[:-1].fit_transform(X, y) if len(self.pipeline) > 1 else X
        self.method.fit(transformed, y, classes)
        return self

    def fit_sharing(self, _shared: dict[str, Any], X: ArrayLike, y: ArrayLike, classes: ClassTable | None = None) -> Self:
        """Fit; nothing is shared, since the transformers may differ."""
        return self.fit(X, y, classes)

    def predict(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Labels:
        """The best class of each image, (n,)."""
        return self.method.predict(self._transformed(X), candidates)

    def predict_proba(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Any:
        """Probabilities of the candidates, (n, c)."""
        return self.method.predict_proba(self._transformed(X), candidates)

    def decision_function(self, X: ArrayLike, candidates: ArrayLike | str | None = None) -> Any:
        """Scores of the candidates, (n, c)."""
        return self.method.decision_function(self._transformed(X), candidates)

    def score(self, X: ArrayLike, y: ArrayLike, candidates: ArrayLike | str | None = None) -> float:
        """Per-class accuracy."""
        return self.method.score(self._transformed(X), y, candidates)

    @property
    def classes_(self) -> Labels:
        """All labels that can be predicted."""
        return self.method.classes_

    @property
    def seen_classes_(self) -> Labels:
        """The labels with training images."""
        return self.method.seen_classes_

    @property
    def seen_penalty(self) -> float:
        """Of the method."""
        return self.method.seen_penalty

    @property
    def temperature_(self) -> float:
        """Of the method's probabilities."""
        return self.method.temperature_

    @property
    def calibration_(self) -> Calibration | None:
        """Of the method."""
        return self.method.calibration_

    @calibration_.setter
    def calibration_(self, calibration: Calibration | None) -> None:
        self.method.calibration_ = calibration

    def _transformed(self, X: ArrayLike) -> Any:
        return self.pipeline[:-1].transform(X) if len(self.pipeline) > 1 else X
