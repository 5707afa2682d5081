"""Predictions of an estimator as DataFrames."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import get_config

from sightunseen.core.blocks import row_blocks
from sightunseen.core.checks import check_choice, check_whole
from sightunseen.core.frames import FRAMES, as_features, frame_kind, index_of, make_frame
from sightunseen.methods.base.scoring import CandidateScoring
from sightunseen.methods.base.top_classes import ClassRanking


class ConfiguredFrames:
    """Mixin with scikit-learn's ``set_output``: the library of the frames that ``predict_frame`` returns."""

    def set_output(self, *, transform: str | None = None) -> Self:
        """Set the library of the frames that :meth:`predict_frame` returns, as in scikit-learn.

        ``predict``, ``predict_proba`` and ``decision_function`` always return arrays.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"}, default=None
            Library of the frames. ``"default"``: that of the input, else pandas. None: unchanged.

        Returns
        -------
        self
            The model itself.

        Raises
        ------
        SettingsError
            If the library is another one.
        """
        check_choice("transform", transform, ("default", *FRAMES, None))
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # the name under which ``clone`` copies it
        return self

    def _frames_for(self, X: Any) -> str:
        """Library of the frames that are returned for an input."""
        configured = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        return str(configured) if configured in FRAMES else frame_kind(X)


class FrameOutput(ConfiguredFrames, CandidateScoring):
    """Base class that predicts DataFrames of pandas or polars."""

    def predict_frame(
        self, X: ArrayLike, candidates: ArrayLike | str | None = None, *, top: int = 1, output: str | None = None
    ) -> Any:
        """Predict the best classes of each image as a DataFrame, one row per image.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n, d)
            Features of the images.
        candidates : array-like of labels, "all", "seen", "unseen" or None, default=None
            Candidate classes, as for :meth:`predict`.
        top : int, default=1
            Number of classes per image.
        output : {"pandas", "polars"}, default=None
            Library of the frame. None: that of :meth:`set_output` or of ``sklearn.set_config(transform_output=...)``, else
            that of ``X``, else pandas.

        Returns
        -------
        DataFrame of n rows
            ``class``, the predicted label; ``probability`` among the candidates, called ``uncalibrated_probability`` if the
            model is not calibrated; ``seen``, whether the class has training images; ``none_of_these``, whether the image is
            rejected, if the model has a rejection threshold; then ``class_2``, ``probability_2`` and so on up to ``top``.
            A frame of pandas has the index of ``X``.

        Raises
        ------
        SettingsError
            If ``top`` is not a positive whole number, or ``output`` is another library.
        DataError
            If the features are invalid, or columns differ from those of the fit.
        MissingDependencyError
            If the library is not installed.

        Examples
        --------
        >>> from sightunseen.methods import ESZSL
        >>> model = ESZSL().fit([[1, 0], [0, 1]] * 3, ["cat", "dog"] * 3, {"cat": [1, 0], "dog": [0, 1], "fox": [1, 1]})
        >>> list(model.predict_frame([[1, 0]], top=2))
        ['class', 'uncalibrated_probability', 'seen', 'class_2', 'uncalibrated_probability_2']
        """
        return self.frame_like(X, as_features(X), candidates, top, output or self._frames_for(X))

    def frame_like(self, X: Any, features: Any, candidates: ArrayLike | str | None, top: int, output: str) -> Any:
        """Predict a frame of transformed features (n, d) with the index of the input ``X``; see :meth:`predict_frame`."""
        check_whole("top", top, 1)
        check_choice("output", output, FRAMES)
        ranking = ClassRanking(self, self.candidates(candidates))
        blocks = ((block, None) for block in row_blocks(features))
        found = [best for _, _, best in ranking.over(blocks, top, ranking.temperature)]
        indices = np.concatenate([best.columns for best in found])  # (n, k)
        shares = np.concatenate([best.confidences(ranking.temperature) for best in found])
        probability = "uncalibrated_probability" if ranking.calibration is None else "probability"
        columns = {"class": ranking.labels[indices[:, 0]], probability: shares[:, 0], "seen": ranking.seen[indices[:, 0]]}
        if ranking.calibration is not None and ranking.calibration.none_below is not None:
            columns["none_of_these"] = np.concatenate([ranking.is_none(best) for best in found])
        for k in range(1, indices.shape[1]):
            columns |= {f"class_{k + 1}": ranking.labels[indices[:, k]], f"{probability}_{k + 1}": shares[:, k]}
        return make_frame(columns, output, index_of(X))
