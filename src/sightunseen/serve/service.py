"""Service of a model: predictions, and classes and examples that are added at run time."""

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from sightunseen.analysis.reasons import Explainer
from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ZeroShotClassifier
from sightunseen.semantics.additions import describe_like
from sightunseen.semantics.describe import ENCODED, ClassDescriptions
from sightunseen.semantics.text import Encoder, open_encoder
from sightunseen.serve.image_answers import predictions_of
from sightunseen.serve.limits import Limits, RequestError
from sightunseen.serve.schemas import ClassChange, ExampleChange, NewClass, Options, PredictResponse


class ModelService:
    """A model whose classes can change at run time.

    A change replaces the model by a changed copy, so other threads never read a partly changed model. ``predict``, ``add``,
    ``add_examples`` and ``remove`` must be called from one thread; ``model`` and ``added`` can be read from any.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted model; it is not modified.
    limits : Limits
        Limits on classes and their descriptions.
    folder : Path, optional
        Model folder to save changes to.

    Attributes
    ----------
    model : ZeroShotClassifier
        The current model.
    added : frozenset of str
        Names of classes that were added.
    """

    def __init__(self, model: ZeroShotClassifier, limits: Limits, folder: Path | None = None) -> None:
        self.model = model
        self.limits = limits
        self.folder = folder
        self.added: frozenset[str] = frozenset()
        self._encoder: Encoder | None = None
        self._explainer = Explainer(model)

    def predict(self, features: Any, names: list[str], options: Options) -> PredictResponse:
        """Predict the classes of images.

        Parameters
        ----------
        features : ndarray of shape (n, d)
            Features of the images.
        names : list of str
            Names of the images.
        options : Options
            Candidates, number of classes and further options.

        Returns
        -------
        PredictResponse
            One prediction per image.

        Raises
        ------
        RequestError
            If a candidate is unknown, or a temporary class is not valid.
        """
        if len(options.also) > self.limits.described:
            raise RequestError(422, f"also: found {len(options.also)} classes; at most {self.limits.described} are allowed.")
        model, notes = self.model, []
        for new in options.also:
            model, more = self._with(model, new)
            notes += more
        wanted: Any = options.candidates
        if not isinstance(wanted, str):
            known = labels_of(model)
            unknown = next((name for name in wanted if name not in known), None)
            if unknown is not None:
                raise RequestError(422, f"candidates: there is no class '{unknown[:200]}'. GET /classes lists the classes.")
            wanted = np.array([known[name] for name in wanted])
        explainer = self._explainer if options.reasons else None
        answers = predictions_of(model, features, names, options.top, wanted, explainer, options.none)
        if options.with_features:
            for answer, row in zip(answers, np.asarray(features), strict=True):
                answer.features = row.tolist()
        return PredictResponse(answers=answers, notes=notes)

    def add(self, new: NewClass) -> ClassChange:
        """Add a class.

        Parameters
        ----------
        new : NewClass
            Name and description of the class.

        Returns
        -------
        ClassChange
            Name, new number of classes, and notes.

        Raises
        ------
        RequestError
            If the class exists, the description is not valid, or too many classes were added.
        """
        if len(self.added) >= self.limits.added_classes:
            raise RequestError(422, f"{len(self.added)} classes were added; no more are allowed. Remove some first.")
        model, notes = self._with(self.model, new)
        self._replace(model, self.added | {new.name})
        return ClassChange(name=new.name, classes=len(model.classes_), notes=notes)

    def add_examples(self, name: str, features: Any) -> ExampleChange:
        """Add examples of a class.

        Parameters
        ----------
        name : str
            Name of the class.
        features : ndarray of shape (n, d)
            Features of the images.

        Returns
        -------
        ExampleChange
            Name of the class and its number of examples.

        Raises
        ------
        RequestError
            If there is no such class (404).
        SettingsError, ModelError
            If the model cannot use examples.
        """
        label = self._label(name)
        model = copy.deepcopy(self.model).add_examples(features, [label] * len(features))
        self._replace(model, self.added)
        return ExampleChange(name=name, examples=model.example_counts[label])

    def remove(self, name: str) -> ClassChange:
        """Remove an unseen class.

        Parameters
        ----------
        name : str
            Name of the class.

        Returns
        -------
        ClassChange
            Name and new number of classes.

        Raises
        ------
        RequestError
            If there is no such class (404), or it is a seen class (409).
        """
        label = self._label(name)
        if label in self.model.seen_classes_:
            raise RequestError(409, f"'{name}' was trained on and cannot be removed. Leave it out of the candidates instead.")
        model = copy.deepcopy(self.model).remove_classes([label])
        self._replace(model, self.added - {name})
        return ClassChange(name=name, classes=len(model.classes_))

    def _label(self, name: str) -> Any:
        known = labels_of(self.model)
        if name not in known:
            raise RequestError(404, f"there is no class '{name[:200]}'. GET /classes lists the classes.")
        return known[name]

    def _replace(self, model: ZeroShotClassifier, added: frozenset[str]) -> None:
        if self.folder is not None:
            model.save(self.folder)
        self.model, self.added, self._explainer = model, added, Explainer(model)

    def _with(self, model: ZeroShotClassifier, new: NewClass) -> tuple[ZeroShotClassifier, list[str]]:
        """Copy the model and add a class; returns the copy and warnings about the description."""
        self._check(new, model)
        attributes = new.attributes or {}
        table = model.table_
        kind, _, encoder = table.use.partition(":")
        if kind in ENCODED and self._encoder is None:
            self._encoder = open_encoder(encoder)
        description = ClassDescriptions(
            (new.name,),
            tuple(attributes) or None,
            np.array([list(attributes.values())]) if attributes else None,
            None if new.description is None else (new.description.strip(),),
        )
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            described = describe_like(table, description, self._encoder)
        if table.labels.dtype.kind != "U":
            described = ClassTable([_number(new.name)], {table.use: described.vectors}, table.attribute_names)
        return copy.deepcopy(model).add_classes(described), [str(note.message) for note in notes]

    def _check(self, new: NewClass, model: ZeroShotClassifier) -> None:
        name, text = new.name, new.description
        if len(name) > self.limits.name_length:
            raise RequestError(422, f"the name has {len(name):,} characters; at most {self.limits.name_length} are allowed.")
        if not name.isprintable() or name != name.strip() or not any(one.isalnum() for one in name):
            raise RequestError(422, "the name must have a letter or a digit, no control characters, and no space at its ends.")
        if name in labels_of(model):
            raise RequestError(409, f"class '{name}' already exists. Choose another name.")
        if text is not None and not text.strip():
            raise RequestError(422, "the description is empty. Describe the class in a sentence, or leave the description out.")
        if len(text or "") > self.limits.description_length:
            most = self.limits.description_length
            raise RequestError(422, f"the description has {len(text or ''):,} characters; at most {most:,} are allowed.")


def labels_of(model: ZeroShotClassifier) -> dict[str, Any]:
    """Map names in the HTTP API to labels, sorted by label; a label can be a number, a name is a string.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted model.

    Returns
    -------
    dict of str to label
        Labels by name.
    """
    return {str(label): label for label in model.classes_.tolist()}


def _number(name: str) -> int:
    try:
        return int(name)
    except ValueError as error:
        raise RequestError(422, f"'{name}' is not a number; the classes of this model are numbers.") from error
