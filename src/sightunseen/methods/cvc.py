"""CVC: conditional visual classification (Li, Min & Fu, ICCV 2019), Algorithm 1 and, by ``adapt``, Algorithm 2."""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from sightunseen.checks import check_choice, check_number, check_whole
from sightunseen.classes import ClassTable, Labels
from sightunseen.errors import DataError, SettingsError
from sightunseen.generator import INITIALISATIONS, ClassifierGenerator
from sightunseen.methods._base import Floats, ZeroShotClassifier
from sightunseen.methods.inductive import TaskShape, TaskTraining
from sightunseen.methods.transductive import Adaptation, SelfTraining
from sightunseen.randomness import derive_seed
from sightunseen.scores import SIMILARITIES, Score
from sightunseen.semantics.attributes import scale_vectors
from sightunseen.training import Hook, Optimisation, Run, Training, train

OUTPUTS = ("auto", "relu", "linear")
DEVICES = ("auto", "cpu", "cuda")


class CVC(ZeroShotClassifier):
    """A network turns the description of a class into its classifier; trained on tasks drawn from the seen classes.

    The defaults are the ``fast`` preset, chosen on validation classes; ``CVC(**preset("paper-cub").settings)`` is the paper's.

    Parameters
    ----------
    hidden : width of the generator's hidden layer.
    output : ``relu`` (the paper), ``linear``, or ``auto``: relu unless the training features have negative values.
    similarity : what scores are made of: ``cosine`` or ``dot``.
    initial_scale : where the learnable scale of the cosine starts (sigma).
    semantic_norm : the length class vectors are scaled to: a number, ``sqrt`` (of their size), or None to leave them.
    initialisation : ``he`` or ``normal`` (the authors').
    n_tasks, classes_per_task, images_per_class : the number of tasks, M and N; M is at most the number of seen classes.
    episodic : False trains on plain mini-batches of M x N images over all seen classes, for the ablation.
    learning_rate, schedule, weight_decay, clip_norm : see :class:`~sightunseen.training.Optimisation`.
    seen_penalty : subtracted from the scores of seen classes; to be chosen on validation classes, never on test data.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    def __init__(
        self,
        hidden: int = 1600,
        output: str = "auto",
        similarity: str = "cosine",
        initial_scale: float = 20.0,
        semantic_norm: float | str | None = "sqrt",
        initialisation: str = "he",
        n_tasks: int = 2000,
        classes_per_task: int = 32,
        images_per_class: int = 4,
        episodic: bool = True,
        learning_rate: float = 1e-3,
        schedule: str = "cosine",
        weight_decay: float = 1e-4,
        clip_norm: float | None = 1.0,
        seen_penalty: float = 0.0,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.output = output
        self.similarity = similarity
        self.initial_scale = initial_scale
        self.semantic_norm = semantic_norm
        self.initialisation = initialisation
        self.n_tasks = n_tasks
        self.classes_per_task = classes_per_task
        self.images_per_class = images_per_class
        self.episodic = episodic
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.clip_norm = clip_norm
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    def fit(
        self,
        X: ArrayLike,  # noqa: N803
        y: ArrayLike,
        classes: ClassTable | Mapping[Any, ArrayLike] | None = None,
        *,
        hooks: Sequence[Hook] = (),
        stage: str = "training",
        stop_after: int | None = None,
    ) -> Self:
        """Algorithm 1.

        Parameters
        ----------
        X, y : (n, d) features and (n,) labels of the seen classes' images.
        classes : the class table, or ``{label: vector}``, of seen and unseen classes; None means one-hot vectors.
        hooks, stage : told how training goes, under this name.
        stop_after : end after this many tasks of the schedule.
        """
        train(self.fitting(X, y, classes, hooks=hooks, stage=stage, stop_after=stop_after))
        return self

    def fitting(
        self,
        X: ArrayLike,  # noqa: N803
        y: ArrayLike,
        classes: ClassTable | Mapping[Any, ArrayLike] | None = None,
        *,
        hooks: Sequence[Hook] = (),
        stage: str = "training",
        stop_after: int | None = None,
    ) -> Run:
        """What :meth:`fit` trains, ready to be trained; ``training.train_together`` takes many of them."""
        self.check_settings()
        X, y = images = self._begin_fit(X, y, classes)  # noqa: N806
        rectify = self.output == "relu" or (self.output == "auto" and bool((X >= 0).all()))
        self._build(rectify)
        objective = TaskTraining(
            self.generator_,
            self.score_,
            self._vectors_of(self.seen_classes_),
            self._on_device(X),
            self._places(self.seen_classes_, y),
            TaskShape(self.classes_per_task, self.images_per_class, self.episodic),
            self.seed,
        )

        def finish(training: Training) -> None:
            self.n_tasks_ = training.tasks_done
            self._training_images = images
            self._end_training(training)

        return Run(objective, self._optimisation(), hooks, stage, stop_after, model=self, finish=finish)

    def adapt(self, X_unlabelled: ArrayLike, candidates: ArrayLike | str = "unseen", **options: Any) -> Self:  # noqa: N803
        """Algorithm 2: a new model, adapted to unlabelled images of the candidate classes; this one is left as it is.

        It starts from the generator: what an earlier ``adapt`` learned of the seen classes' classifiers is learned anew.

        Parameters
        ----------
        X_unlabelled, candidates : (m, d) images, without labels, and the classes they are of.
        **options : those of :meth:`adapting`, that is:
        X_seen, y_seen : the seen classes' images; those of ``fit`` unless given. A model loaded from disk needs them.
        true_labels : (m,) for analysis only: the share of right pseudo labels in ``history_``. They never reach training.
        hooks, stage : told how adapting goes, under this name.
        settings : those of :class:`~sightunseen.methods.transductive.Adaptation`.
        """
        run = self.adapting(X_unlabelled, candidates, **options)
        train(run)
        adapted: Self = run.model
        return adapted

    def adapting(
        self,
        X_unlabelled: ArrayLike,  # noqa: N803
        candidates: ArrayLike | str = "unseen",
        *,
        X_seen: ArrayLike | None = None,  # noqa: N803
        y_seen: ArrayLike | None = None,
        true_labels: ArrayLike | None = None,
        hooks: Sequence[Hook] = (),
        stage: str = "adapting",
        **settings: Any,
    ) -> Run:
        """What :meth:`adapt` trains, ready to be trained; the adapted model is the run's ``model``."""
        unseen = self.candidates(candidates)
        if not set(unseen.tolist()).isdisjoint(self.seen_classes_.tolist()):
            raise DataError("adapt learns about unseen classes; some of the candidates are seen classes. Leave those out.")
        X_seen, y_seen = images = self._images_to_remember(X_seen, y_seen)  # noqa: N806
        unlabelled = self._checked(X_unlabelled)
        if true_labels is not None and len(np.asarray(true_labels)) != len(unlabelled):
            raise DataError(f"true_labels must be as many as the {len(unlabelled)} unlabelled images, or left out.")
        adapted = copy.deepcopy(self)
        # The penalty was chosen for classifiers that never met unseen images; these have.
        adapted.seen_penalty = 0.0
        objective = SelfTraining(
            adapted.generator_,
            adapted.score_,
            self._vectors_of(self.seen_classes_),
            self._vectors_of(unseen),
            self._on_device(X_seen),
            self._places(self.seen_classes_, y_seen),
            self._on_device(unlabelled),
            Adaptation(**{"seed": self.seed, **settings}),
            None if true_labels is None else _places_or_none(unseen, np.asarray(true_labels)),
        )
        adapted._known_classifiers, adapted.learned_classifiers_ = None, objective.seen_classifiers

        def finish(training: Training) -> None:
            adapted.history_, adapted.adaptation_ = objective.notes, objective.adaptation
            adapted.learned_classifiers_ = objective.seen_classifiers.detach()
            adapted._training_images = images
            adapted._end_training(training)

        return Run(objective, objective.adaptation.optimisation, hooks, stage, model=adapted, finish=finish)

    def classifiers_of(self, labels: ArrayLike) -> Floats:
        """The classifiers of these classes, (c, d): generated (Eq. 1), or learned for seen classes after ``adapt``."""
        return np.asarray(self._classifiers(self.candidates(labels)).cpu().numpy())

    # -- inside --------------------------------------------------------------------------------------------------------

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant; ``fit`` does so first."""
        check_choice("output", self.output, OUTPUTS)
        check_choice("device", self.device, DEVICES)
        check_choice("similarity", self.similarity, SIMILARITIES)
        check_choice("initialisation", self.initialisation, INITIALISATIONS)
        check_choice("episodic", self.episodic, (True, False))
        for name in ("hidden", "n_tasks", "classes_per_task", "images_per_class"):
            check_whole(name, getattr(self, name), 1)
        check_whole("seed", self.seed, 0)
        check_number("seen_penalty", self.seen_penalty)
        check_number("initial_scale", self.initial_scale, 0)
        if self.semantic_norm != "sqrt":
            check_number("semantic_norm ('sqrt', or a length)", self.semantic_norm, 0, optional=True)
        self._optimisation().learning_rate_at(0)  # an Optimisation checks itself
        if self.device == "cuda" and not torch.cuda.is_available():
            raise SettingsError("device='cuda' was asked for but torch finds no GPU here. Use device='auto' or 'cpu'.")

    def _optimisation(self) -> Optimisation:
        return Optimisation(self.n_tasks, self.learning_rate, self.schedule, self.weight_decay, self.clip_norm)

    def _build(self, rectify: bool) -> None:
        """An untrained generator and score, and none of what an earlier fit learned."""
        # A model trained on a GPU also loads where there is none.
        device = torch.device("cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu")
        rng = torch.Generator().manual_seed(derive_seed(self.seed, "first weights"))
        sizes = self.table_.vectors.shape[1], self.hidden, int(self.n_features_in_)
        self.generator_ = ClassifierGenerator(*sizes, rectify, self.initialisation, rng).to(device)
        self.score_ = Score(self.similarity, self.initial_scale).to(device)
        self.n_tasks_ = 0
        self.learned_classifiers_: Tensor | None = None  # (s, d), of seen classes, after adapt
        self._known_classifiers: Tensor | None = None  # (c, d), of all classes, once training is over

    def _end_training(self, training: Training) -> None:
        self.losses_, self.curve_, self.engine_ = training.loss_curve(), training.curve, training.engine.name
        self._remember_classifiers()

    def _places(self, labels: Labels, y: Labels) -> Tensor:
        """The place of each y among the sorted labels, (n,)."""
        return torch.as_tensor(np.searchsorted(labels, y), device=self.score_.scale.device)

    def _on_device(self, array: NDArray[Any]) -> Tensor:
        with warnings.catch_warnings():
            # Shared, not copied. torch warns of memory it must not write to, such as a mapped file's; nothing here writes.
            warnings.filterwarnings("ignore", message=".*not writable", category=UserWarning)
            return torch.as_tensor(np.asarray(array, dtype=np.float32), device=self.score_.scale.device)

    def _vectors_of(self, labels: Labels) -> Tensor:
        return self._on_device(scale_vectors(self.table_.vectors_of(labels), self.semantic_norm))

    @torch.no_grad()
    def _classifiers(self, labels: Labels) -> Tensor:
        if self._known_classifiers is not None:
            rows = np.searchsorted(self.classes_, labels)
            return self._known_classifiers[torch.as_tensor(rows, device=self._known_classifiers.device)]
        classifiers: Tensor = self.generator_(self._vectors_of(labels))
        if self.learned_classifiers_ is not None:
            learned = np.isin(labels, self.seen_classes_)
            rows = np.searchsorted(self.seen_classes_, labels[learned])
            classifiers[torch.as_tensor(learned)] = self.learned_classifiers_[torch.as_tensor(rows)]
        return classifiers

    def _remember_classifiers(self) -> None:
        self._known_classifiers = None
        self._known_classifiers = self._classifiers(self.classes_)

    def _scores(self, X: Floats, labels: Labels) -> Floats:  # noqa: N803
        return self._scorer(labels)(X)

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        with torch.no_grad():
            prepared = self.score_.prepared(self._classifiers(labels))

        @torch.no_grad()
        def scores(X: Floats) -> Floats:  # noqa: N803
            return np.asarray(self.score_.of_prepared(self._on_device(X), prepared).cpu().numpy())

        return scores

    def _forget(self) -> None:
        self._known_classifiers = None

    def _know(self, table: ClassTable) -> None:
        scale_vectors(table.vectors, self.semantic_norm)  # refuses vectors it cannot use, before anything changes
        super()._know(table)
        if getattr(self, "_known_classifiers", None) is not None:
            self._remember_classifiers()

    def _images_to_remember(self, X: ArrayLike | None, y: ArrayLike | None) -> tuple[Floats, Labels]:  # noqa: N803
        if (X is None) != (y is None):
            raise DataError("give X_seen and y_seen together, or neither.")
        if X is None:
            if self.__dict__.get("_training_images") is None:
                raise DataError(
                    "Algorithm 2 keeps the seen classes in memory by training on their images, and a loaded model does not "
                    "carry them. Call adapt(..., X_seen=data.train.X, y_seen=data.train.y)."
                )
            return self._training_images
        features, labels = self._checked(X, y)
        if not np.array_equal(np.unique(labels), self.seen_classes_):
            raise DataError("X_seen and y_seen must hold images of exactly the classes that the model was trained on.")
        return features, labels

    def _arrays(self) -> dict[str, NDArray[Any]]:
        modules = {"generator": self.generator_, "score": self.score_}
        arrays = {
            f"{prefix}.{name}": tensor.cpu().numpy()
            for prefix, module in modules.items()
            for name, tensor in module.state_dict().items()
        }
        arrays["generator.rectify"] = np.array(self.generator_.rectify)
        arrays["n_tasks"] = np.array(self.n_tasks_)
        if self.learned_classifiers_ is not None:
            arrays["learned_classifiers"] = self.learned_classifiers_.detach().cpu().numpy()
        return arrays

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._build(rectify=bool(arrays["generator.rectify"]))
        self.n_tasks_ = int(arrays["n_tasks"])
        for prefix, module in (("generator", self.generator_), ("score", self.score_)):
            module.load_state_dict({name: torch.from_numpy(arrays[f"{prefix}.{name}"]) for name in module.state_dict()})
        if "learned_classifiers" in arrays:
            self.learned_classifiers_ = self._on_device(arrays["learned_classifiers"])
        self._remember_classifiers()

    def __getstate__(self) -> dict[str, Any]:
        # Copies and pickles carry what was learned, not the images it was learned from.
        return {name: value for name, value in super().__getstate__().items() if name != "_training_images"}


def _places_or_none(labels: Labels, wanted: Labels) -> NDArray[np.int64]:
    """The place of each wanted label among ``labels``; -1 for one that is not there."""
    place = {label: k for k, label in enumerate(labels.tolist())}
    return np.array([place.get(label, -1) for label in wanted.tolist()], dtype=np.int64)
