"""The model that is served: what it answers, and the classes that come and go while it does."""

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
from sightunseen.serve.image_answers import answers_of
from sightunseen.serve.limits import Limits, Refused
from sightunseen.serve.schemas import Answer, Changed, NewClass, Options


class ServedModel:
    """A model whose classes change as a whole: a changed copy takes its place, so no answer meets half a change.

    ``answer``, ``add`` and ``remove`` belong to one thread; ``model`` may be read by any. ``folder`` is where changes are
    saved, if they are.
    """

    def __init__(self, model: ZeroShotClassifier, limits: Limits, folder: Path | None = None) -> None:
        self.model = model
        self.limits = limits
        self.folder = folder
        self.added: frozenset[str] = frozenset()
        self._encoder: Encoder | None = None
        self._explainer = Explainer(model)

    def answer(self, features: Any, names: list[str], options: Options) -> Answer:
        """The answers of images (n, d)."""
        if len(options.also) > self.limits.described:
            raise Refused(422, f"also: {len(options.also)} classes; at most {self.limits.described} are described at once.")
        model, notes = self.model, []
        for new in options.also:
            model, said = self._with(model, new)
            notes += said
        wanted: Any = options.candidates
        if not isinstance(wanted, str):
            known = labels_of(model)
            unknown = next((name for name in wanted if name not in known), None)
            if unknown is not None:
                raise Refused(422, f"candidates: there is no class '{unknown[:200]}'.")
            wanted = np.array([known[name] for name in wanted])
        explainer = self._explainer if options.reasons else None
        answers = answers_of(model, features, names, options.top, wanted, explainer, options.none)
        if options.with_features:
            for answer, row in zip(answers, np.asarray(features), strict=True):
                answer.features = row.tolist()
        return Answer(answers=answers, notes=notes)

    def add(self, new: NewClass) -> Changed:
        """Make a class recognisable."""
        if len(self.added) >= self.limits.added_classes:
            raise Refused(422, f"{len(self.added)} classes were added, and no more are taken. Remove some first.")
        model, notes = self._with(self.model, new)
        self._take(model, self.added | {new.name})
        return Changed(name=new.name, classes=len(model.classes_), notes=notes)

    def remove(self, name: str) -> Changed:
        """Take an unseen class out."""
        known = labels_of(self.model)
        if name not in known:
            raise Refused(404, f"there is no class '{name[:200]}'.")
        if known[name] in self.model.seen_classes_:
            raise Refused(409, f"'{name}' was trained on, so it cannot be removed. Leave it out of the candidates instead.")
        model = copy.deepcopy(self.model).remove_classes([known[name]])
        self._take(model, self.added - {name})
        return Changed(name=name, classes=len(model.classes_))

    def _take(self, model: ZeroShotClassifier, added: frozenset[str]) -> None:
        if self.folder is not None:
            model.save(self.folder)
        self.model, self.added, self._explainer = model, added, Explainer(model)

    def _with(self, model: ZeroShotClassifier, new: NewClass) -> tuple[ZeroShotClassifier, list[str]]:
        """A copy of the model that knows one class more, and what is to be said about it."""
        self._check(new, model)
        attributes = new.attributes or {}
        table = model.table_
        kind, _, encoder = table.use.partition(":")
        if kind in ENCODED and self._encoder is None:
            self._encoder = open_encoder(encoder)
        said = ClassDescriptions(
            (new.name,),
            tuple(attributes) or None,
            np.array([list(attributes.values())]) if attributes else None,
            None if new.description is None else (new.description.strip(),),
        )
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            described = describe_like(table, said, self._encoder)
        if table.labels.dtype.kind != "U":
            described = ClassTable([_number(new.name)], {table.use: described.vectors}, table.attribute_names)
        return copy.deepcopy(model).add_classes(described), [str(note.message) for note in notes]

    def _check(self, new: NewClass, model: ZeroShotClassifier) -> None:
        name, text = new.name, new.description
        if len(name) > self.limits.name_length:
            raise Refused(422, f"the name has {len(name):,} characters; at most {self.limits.name_length} are taken.")
        if not name.isprintable() or name != name.strip() or not any(one.isalnum() for one in name):
            raise Refused(422, "a name needs a letter or a digit, no control characters, and no space around it.")
        if name in labels_of(model):
            raise Refused(409, f"there is a class '{name}' already. Give the new one another name.")
        if text is not None and not text.strip():
            raise Refused(422, "the description is empty. Describe the class in a sentence, or leave it out.")
        if len(text or "") > self.limits.description_length:
            most = self.limits.description_length
            raise Refused(422, f"the description has {len(text or ''):,} characters; at most {most:,} are taken.")


def labels_of(model: ZeroShotClassifier) -> dict[str, Any]:
    """The labels by the names they have over HTTP, sorted: labels may be numbers, names are text."""
    return {str(label): label for label in model.classes_.tolist()}


def _number(name: str) -> int:
    try:
        return int(name)
    except ValueError as error:
        raise Refused(422, f"the model's classes are numbers; '{name}' is none.") from error
