"""Service of a model: predictions, and classes and examples that are added at run time."""

import copy
import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sightunseen.analysis.reasons import Explainer
from sightunseen.core.errors import ModelError, StorageError
from sightunseen.core.locks import locked
from sightunseen.methods import ZeroShotClassifier, load_model
from sightunseen.serve.describing import Describer, labels_of
from sightunseen.serve.image_answers import attribute_ranges, predictions_of
from sightunseen.serve.limits import Limits, RequestError
from sightunseen.serve.schemas import ClassChange, ClassList, ExampleChange, KnownClass, NewClass, Options, PredictResponse

LOCK_SECONDS = 20.0  # less than the time to process a request

Changed = TypeVar("Changed", ClassChange, ExampleChange)


@dataclass(frozen=True)
class _State:
    """The model at one time; replaced as a whole, so that other threads never see a partly changed one."""

    model: ZeroShotClassifier
    added: frozenset[str]
    explainer: Explainer
    fingerprint: str | None  # of the model.json that was read or written last; None before the first change


class ModelService:
    """A model whose classes can change at run time.

    ``predict`` and ``class_list`` are called from one thread, and ``add``, ``add_examples`` and ``remove`` from another: a
    change that waits for the lock of the model folder delays no prediction.

    Parameters
    ----------
    model : ZeroShotClassifier
        Fitted model; it is not modified.
    limits : Limits
        Limits on classes and their descriptions.
    folder : Path, optional
        Model folder to save changes to. If another process has changed the model there, changes are applied to that model.
    photos, guarded : bool, default=False
        Whether photos are accepted, and whether changes need a token; reported by ``class_list``.
    """

    def __init__(
        self,
        model: ZeroShotClassifier,
        limits: Limits,
        folder: Path | None = None,
        photos: bool = False,
        guarded: bool = False,
    ) -> None:
        self.limits = limits
        self.folder = folder
        self._photos, self._guarded = photos, guarded
        self._describer = Describer(limits)
        self._lists: dict[bool, tuple[_State, bytes]] = {}  # the encoded class list, without and with vectors
        self._state = _State(model, frozenset(), self._explainer(model), None)

    @property
    def model(self) -> ZeroShotClassifier:
        """The current model."""
        return self._state.model

    @property
    def added(self) -> frozenset[str]:
        """Names of the classes that clients added."""
        return self._state.added

    def class_list(self, vectors: bool) -> bytes:
        """List the classes and attributes.

        Parameters
        ----------
        vectors : bool
            Whether to include the class vectors.

        Returns
        -------
        bytes
            :class:`~sightunseen.serve.schemas.ClassList` as JSON.
        """
        state = self._state
        if vectors not in self._lists or self._lists[vectors][0] is not state:
            self._lists[vectors] = (state, self._listed(state, vectors).model_dump_json().encode())
        return self._lists[vectors][1]

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
        state, notes = self._state, []
        model = state.model
        for new in options.also:
            model, more = self._describer.extend(model, new)
            notes += more
        wanted: Any = options.candidates
        if not isinstance(wanted, str):
            known = labels_of(model)
            unknown = next((name for name in wanted if name not in known), None)
            if unknown is not None:
                raise RequestError(422, f"candidates: there is no class '{unknown[:200]}'. GET /classes lists the classes.")
            wanted = np.array([known[name] for name in wanted])
        explainer = state.explainer if options.reasons else None
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

        def change(state: _State) -> tuple[ZeroShotClassifier, frozenset[str], ClassChange]:
            if len(state.added) >= self.limits.added_classes:
                raise RequestError(422, f"{len(state.added)} classes were added; no more are allowed. Remove some first.")
            model, notes = self._describer.extend(state.model, new)
            return model, state.added | {new.name}, ClassChange(name=new.name, classes=len(model.classes_), notes=notes)

        return self._change(change)

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

        def change(state: _State) -> tuple[ZeroShotClassifier, frozenset[str], ExampleChange]:
            label = _label(state.model, name)
            model = copy.deepcopy(state.model).add_examples(features, [label] * len(features))
            return model, state.added, ExampleChange(name=name, examples=model.example_counts[label])

        return self._change(change)

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

        def change(state: _State) -> tuple[ZeroShotClassifier, frozenset[str], ClassChange]:
            label = _label(state.model, name)
            if label in state.model.seen_classes_:
                raise RequestError(
                    409, f"'{name}' was trained on and cannot be removed. Leave it out of the candidates instead."
                )
            model = copy.deepcopy(state.model).remove_classes([label])
            return model, state.added - {name}, ClassChange(name=name, classes=len(model.classes_))

        return self._change(change)

    def _change(self, change: Callable[[_State], tuple[ZeroShotClassifier, frozenset[str], Changed]]) -> Changed:
        """Apply a change to the current model, or to the one in the folder if another process has changed it, and save it."""
        with ExitStack() as stack:
            state, fingerprint = self._state, None
            if self.folder is not None:
                try:
                    stack.enter_context(locked(self.folder, LOCK_SECONDS))
                except StorageError as error:
                    reason = "another process is changing the model. Try again later."
                    raise RequestError(409, reason, {"Retry-After": "1"}, "lock") from error
                state = self._reread(state)
            model, added, answer = change(state)
            if self.folder is not None:
                model.save(self.folder)
                fingerprint = _fingerprint(self.folder)
            self._state = _State(model, added, self._explainer(model), fingerprint)
        return answer

    def _reread(self, state: _State) -> _State:
        assert self.folder is not None
        found = _fingerprint(self.folder)
        if found == state.fingerprint:
            return state
        try:
            model = load_model(self.folder)
        except ModelError as error:
            raise StorageError(f"the model in {self.folder} cannot be read any more: {error}") from error
        if model.n_features_in_ != state.model.n_features_in_:
            raise RequestError(409, "the model folder was replaced by a model of other features. Restart the server.")
        self._state = _State(model, state.added & set(labels_of(model)), self._explainer(model), found)
        return self._state

    def _listed(self, state: _State, vectors: bool) -> ClassList:
        model, added = state.model, state.added
        seen, labels, examples = set(model.seen_classes_.tolist()), labels_of(model), model.example_counts
        rows = model.table_.vectors_of(list(labels.values())).tolist() if vectors else [None] * len(labels)
        return ClassList(
            semantics=model.table_.use,
            attributes=attribute_ranges(model.table_),
            classes=[
                KnownClass(name=name, seen=label in seen, added=name in added, examples=examples.get(label, 0), vector=row)
                for (name, label), row in zip(labels.items(), rows, strict=True)
            ],
            photos=self._photos,
            guarded=self._guarded,
            takes_examples=model.takes_examples,
            no_reasons=state.explainer.silence,
            verdict=[] if model.record_ is None else list(model.record_.verdict),
        )

    def _explainer(self, model: ZeroShotClassifier) -> Explainer:
        return Explainer(model, most_texts=self.limits.explained_texts)


def _label(model: ZeroShotClassifier, name: str) -> Any:
    known = labels_of(model)
    if name not in known:
        raise RequestError(404, f"there is no class '{name[:200]}'. GET /classes lists the classes.")
    return known[name]


def _fingerprint(folder: Path) -> str:
    """Fingerprint of the model in a folder: ``model.json`` has the checksums of the other files."""
    try:
        return hashlib.sha256((folder / "model.json").read_bytes()).hexdigest()
    except OSError as error:
        raise StorageError(f"{folder} has no readable model.json: {error.strerror}.") from error
