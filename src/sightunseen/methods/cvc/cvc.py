"""CVC: conditional visual classification (Li, Min & Fu, ICCV 2019), Algorithm 1 and, by ``adapt``, Algorithm 2."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from sightunseen.core.checks import check_choice, check_number, check_whole
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.linear import ClassifierMap
from sightunseen.methods.base.classifier import Floats
from sightunseen.methods.base.gradient_adaptable import GradientAdaptableClassifier
from sightunseen.methods.cvc.generator import INITIALISATIONS, ClassifierGenerator
from sightunseen.methods.cvc.inductive import EpisodeShape, EpisodicTraining
from sightunseen.methods.cvc.panels import paper_panels
from sightunseen.methods.cvc.scores import SIMILARITIES, Score
from sightunseen.methods.cvc.transductive import Adaptation, SelfTraining
from sightunseen.methods.shared.networks import as_layers
from sightunseen.training import Optimisation, Training

OUTPUTS = ("auto", "relu", "linear")


class CVC(GradientAdaptableClassifier):
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
    n_steps, classes_per_episode, images_per_class : the number of tasks, M and N; M is at most the number of seen classes.
    episodic : False trains on plain mini-batches of M x N images over all seen classes, for the ablation.
    learning_rate, schedule, weight_decay, clip_norm : see :class:`~sightunseen.training.Optimisation`.
    seen_penalty : subtracted from the scores of seen classes; to be chosen on validation classes, never on test data.
    seed : the one number all randomness follows from.
    device : ``auto``, ``cpu`` or ``cuda``.
    """

    search_space = {"initial_scale": (20.0, 30.0)}
    adaptation_space = {"classes_per_episode": (32, 64)}

    learned_classifiers_: Tensor | None  # (s, d), of seen classes, after adapt
    _known_classifiers: Tensor | None  # (c, d), of all classes, once training is over

    def __init__(
        self,
        hidden: int = 1600,
        output: str = "auto",
        similarity: str = "cosine",
        initial_scale: float = 30.0,
        semantic_norm: float | str | None = "sqrt",
        initialisation: str = "he",
        n_steps: int = 2000,
        classes_per_episode: int = 32,
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
        self.n_steps = n_steps
        self.classes_per_episode = classes_per_episode
        self.images_per_class = images_per_class
        self.episodic = episodic
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.clip_norm = clip_norm
        self.seen_penalty = seen_penalty
        self.seed = seed
        self.device = device

    @classmethod
    def adaptation_defaults(cls) -> dict[str, Any]:
        """The hyperparameters of Algorithm 2; see :class:`~sightunseen.methods.cvc.transductive.Adaptation`."""
        return asdict(Adaptation())

    def check_adaptation(self, settings: Mapping[str, Any]) -> None:
        """Validate hyperparameters of Algorithm 2."""
        super().check_adaptation(settings)
        Adaptation(**settings)  # checks itself

    def classifiers_of(self, labels: ArrayLike) -> Floats:
        """The classifiers of these classes, (c, d): generated (Eq. 1), or learned for seen classes after ``adapt``."""
        return np.asarray(self._classifiers(self.candidates(labels)).cpu().numpy())

    def reference_panels(self) -> dict[str, Any]:
        """The methods of the paper's t-SNE figure."""
        return paper_panels(self, "CVC")

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Features and classifiers, as they are: (n, d), (c, d). By the cosine, only their directions matter."""
        return self._features(X), self.classifiers_of(self.candidates(labels))

    def classifier_map(self) -> ClassifierMap:
        """The generator, and after ``adapt`` the learned classifiers of the seen classes."""
        generator, learned = self.generator_, self.learned_classifiers_
        return ClassifierMap(
            as_layers(generator.first, generator.second, generator.rectify),
            self.similarity,
            float(self.score_.scale.detach()),
            None if learned is None else learned.detach().cpu().numpy(),
        )

    # -- inside --------------------------------------------------------------------------------------------------------

    def _note_adaptation(self, settings: Mapping[str, Any]) -> None:
        super()._note_adaptation({"seed": self.seed, **settings})

    def _adaptation(
        self,
        X: Floats,
        unseen: Labels,
        X_seen: Floats,
        y_seen: Labels,
        true_indices: NDArray[np.int64] | None,
        **settings: Any,
    ) -> tuple[SelfTraining, Optimisation]:
        """Algorithm 2, from the generator on: seen classifiers that an earlier ``adapt`` learned are learned anew."""
        objective = SelfTraining(
            self.generator_,
            self.score_,
            self._vectors_on_device(self.seen_classes_),
            self._vectors_on_device(unseen),
            self._on_device(X_seen),
            self._indices(self.seen_classes_, y_seen),
            self._on_device(X),
            Adaptation(**{"seed": self.seed, **settings}),
            true_indices,
        )
        self._known_classifiers, self.learned_classifiers_ = None, objective.seen_classifiers
        return objective, objective.adaptation.optimisation

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant; ``fit`` does so first."""
        super().check_settings()
        check_choice("output", self.output, OUTPUTS)
        check_choice("similarity", self.similarity, SIMILARITIES)
        check_choice("initialisation", self.initialisation, INITIALISATIONS)
        check_choice("episodic", self.episodic, (True, False))
        for name in ("hidden", "classes_per_episode", "images_per_class"):
            check_whole(name, getattr(self, name), 1)
        check_number("initial_scale", self.initial_scale, 0)

    def _build(self, X: Floats | None = None) -> None:
        """An untrained generator and score, and none of what an earlier fit learned."""
        if X is not None:
            self._rectify = self.output == "relu" or (self.output == "auto" and bool((X >= 0).all()))
        super()._build(X)
        self.learned_classifiers_ = self._known_classifiers = None

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        sizes = self.table_.vectors.shape[1], self.hidden, int(self.n_features_in_)
        self.generator_ = ClassifierGenerator(*sizes, self._rectify, self.initialisation, rng)
        self.score_ = Score(self.similarity, self.initial_scale)
        return {"generator": self.generator_, "score": self.score_}

    def _objective(self, X: Tensor, places: Tensor) -> EpisodicTraining:
        vectors = self._vectors_on_device(self.seen_classes_)
        shape = EpisodeShape(self.classes_per_episode, self.images_per_class, self.episodic)
        return EpisodicTraining(self.generator_, self.score_, vectors, X, places, shape, self.seed)

    def _after_fit(self, X: Floats, y: Labels) -> None:
        self._remember_images(X, y)

    def _end_training(self, training: Training) -> None:
        super()._end_training(training)
        if self.learned_classifiers_ is not None:  # adapted
            self.learned_classifiers_ = self.learned_classifiers_.detach()
        self._remember_classifiers()

    @torch.no_grad()
    def _classifiers(self, labels: Labels) -> Tensor:
        if self._known_classifiers is not None:
            rows = np.searchsorted(self.classes_, labels)
            return self._known_classifiers[torch.as_tensor(rows, device=self._known_classifiers.device)]
        classifiers: Tensor = self.generator_(self._vectors_on_device(labels))
        if self.learned_classifiers_ is not None:
            learned = np.isin(labels, self.seen_classes_)
            rows = np.searchsorted(self.seen_classes_, labels[learned])
            classifiers[torch.as_tensor(learned)] = self.learned_classifiers_[torch.as_tensor(rows)]
        return classifiers

    def _remember_classifiers(self) -> None:
        self._known_classifiers = None
        self._known_classifiers = self._classifiers(self.classes_)

    def _prepare(self, labels: Labels) -> Tensor:
        return self.score_.prepared(self._classifiers(labels))

    def _score_images(self, X: Tensor, prepared: Tensor) -> Tensor:
        return self.score_.of_prepared(X, prepared)

    def _forget(self) -> None:
        self._known_classifiers = None

    def _know(self, table: ClassTable) -> None:
        super()._know(table)
        if getattr(self, "_known_classifiers", None) is not None:
            self._remember_classifiers()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {**super()._arrays(), "generator.rectify": np.array(self.generator_.rectify)}
        if self.learned_classifiers_ is not None:
            arrays["learned_classifiers"] = self.learned_classifiers_.detach().cpu().numpy()
        return arrays

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._rectify = bool(arrays["generator.rectify"])
        super()._take_arrays(arrays)
        if "learned_classifiers" in arrays:
            self.learned_classifiers_ = self._on_device(arrays["learned_classifiers"])
        self._remember_classifiers()
