"""New classes of requests: checks of names and values, and class vectors."""

import copy
import threading
import warnings
from typing import Any

import numpy as np

from sightunseen.core.class_table import ClassTable
from sightunseen.methods import ZeroShotClassifier
from sightunseen.semantics.additions import describe_like
from sightunseen.semantics.describe import ENCODED, ClassDescriptions
from sightunseen.semantics.text import Encoder, open_recorded_encoder
from sightunseen.serve.limits import Limits, RequestError
from sightunseen.serve.schemas import NewClass


class Describer:
    """Adds described classes to copies of a model; can be used from several threads.

    Parameters
    ----------
    limits : Limits
        Limits on attribute values.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._encoder: Encoder | None = None
        self._describing = threading.Lock()  # warnings are recorded for the whole process

    def extend(self, model: ZeroShotClassifier, new: NewClass) -> tuple[ZeroShotClassifier, list[str]]:
        """Copy a model and add a class.

        Parameters
        ----------
        model : ZeroShotClassifier
            Fitted model; it is not modified.
        new : NewClass
            Name and description of the class.

        Returns
        -------
        model : ZeroShotClassifier
            The copy.
        notes : list of str
            Warnings about the description.

        Raises
        ------
        RequestError
            If the class exists (409), or its name or description is not valid (422).
        DataError
            If the description does not fit the class vectors of the model.
        """
        self._check(new, model)
        attributes = new.attributes or {}
        table = model.table_
        description = ClassDescriptions(
            (new.name,),
            tuple(attributes) or None,
            np.array([list(attributes.values())]) if attributes else None,
            None if new.description is None else (new.description.strip(),),
        )
        with self._describing, warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            described = describe_like(table, description, self._encoder_of(table))
        if table.labels.dtype.kind != "U":
            label = _number(new.name)
            texts = {label: new.description.strip()} if new.description else None
            described = ClassTable([label], {table.use: described.vectors}, table.attribute_names, texts=texts)
        return copy.deepcopy(model).add_classes(described), [str(note.message) for note in notes]

    def _encoder_of(self, table: ClassTable) -> Encoder | None:
        kind, _, name = table.use.partition(":")
        if kind in ENCODED and self._encoder is None:
            self._encoder = open_recorded_encoder(name)
        return self._encoder

    def _check(self, new: NewClass, model: ZeroShotClassifier) -> None:
        name = new.name
        if not name.isprintable() or name != name.strip() or not any(one.isalnum() for one in name):
            raise RequestError(422, "the name must have a letter or a digit, no control characters, and no space at its ends.")
        if name in labels_of(model):
            raise RequestError(409, f"class '{name}' already exists. Choose another name.")
        if new.description is not None and not new.description.strip():
            raise RequestError(422, "the description is empty. Describe the class in a sentence, or leave the description out.")
        if new.attributes:
            self._check_values(new.attributes, model.table_)

    def _check_values(self, attributes: dict[str, float], table: ClassTable) -> None:
        """Reject values far outside those of the model, which would overflow or push all other classes aside."""
        largest = np.abs(table.vectors).max(axis=0).tolist()
        index = {name: k for k, name in enumerate(table.attribute_names or ())}
        for name, value in attributes.items():
            most = self.limits.attribute_factor * max(largest[index[name]] if name in index else 0.0, 1.0)
            if abs(value) > most:
                raise RequestError(422, f"attributes.{name[:200]}: {value:g} is out of range; expected {-most:g} to {most:g}.")


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
        return int(np.int64(int(name)))
    except (ValueError, OverflowError) as error:
        raise RequestError(422, f"'{name}' is not a whole number; the classes of this model are whole numbers.") from error
