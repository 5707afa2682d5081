"""CVC: conditional visual classification (Li, Min & Fu, ICCV 2019). ``fit`` is Algorithm 1, ``adapt`` is Algorithm 2."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_choice
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.linear import ClassifierMap
from sightunseen.methods.base.gradient_adaptable import GradientAdaptableClassifier
from sightunseen.methods.cvc.generator import INITIALISATIONS, ClassifierGenerator
from sightunseen.methods.cvc.inductive import EpisodeShape, EpisodicTraining, check_episodic_settings
from sightunseen.methods.cvc.panels import paper_panels
from sightunseen.methods.cvc.presets import PRESETS
from sightunseen.methods.cvc.scores import Score
from sightunseen.methods.cvc.transductive import Adaptation, SelfTraining
from sightunseen.methods.shared.networks import as_layers
from sightunseen.training import Optimisation, Training

OUTPUTS = ("auto", "relu", "linear")


class CVC(GradientAdaptableClassifier):
    """Conditional visual classification: a network generates the classifier of a class from its class vector.

    The network is trained on episodes, each of M seen classes and N images per class. The defaults were selected on validation
    classes; ``CVC(**preset("paper-cub").settings)`` has the hyperparameters of the paper.

    Differs from the paper: losses are means, λ is Adam's weight decay and T_u has all classes of the confident set, as in the
    authors' code; classes with fewer than N images are drawn with replacement; no output ReLU if features are negative; by
    default 500 times shorter, with other initial weights, scale and learning rate.

    Parameters
    ----------
    hidden : int, default=1600
        Width of the generator's hidden layer.
    output : {"auto", "relu", "linear"}, default="auto"
        Activation of the generator's output. ``"relu"`` is that of the paper; ``"auto"`` is ``"relu"`` unless the training
        features have negative values.
    similarity : {"cosine", "dot"}, default="cosine"
        Similarity of features and classifiers.
    initial_scale : float, default=30.0
        Initial value of the learnable scale of the cosine (σ).
    feature_scaling : {"none", "unit", "standard", "range", "centred", "root", "whitened-0.1", ...}, default="none"
        Scaling of the features, learned from the training images; see
        :class:`~sightunseen.methods.base.feature_scaling.FeatureScaling`.
    semantic_norm : float, "sqrt" or None, default="sqrt"
        Norm that class vectors are scaled to; ``"sqrt"`` is the square root of their dimension, None leaves them unscaled.
    initialisation : {"he", "normal"}, default="he"
        Distribution of the initial weights; ``"normal"`` is that of the authors' code.
    n_steps : int, default=2000
        Number of gradient steps, that is of episodes.
    classes_per_episode : int, default=32
        Classes per episode (M); all seen classes if there are fewer.
    images_per_class : int, default=4
        Images per class of an episode (N).
    episodic : bool, default=True
        False trains on mini-batches of M * N images over all seen classes, for the ablation.
    learning_rate : float, default=1e-3
        Initial learning rate of Adam.
    schedule : {"constant", "cosine", "halve every K"}, default="cosine"
        Learning rate schedule; see :class:`~sightunseen.training.Optimisation`.
    weight_decay : float, default=1e-4
        L2 penalty.
    clip_norm : float, default=1.0
        Largest norm of the gradient; None: no clipping.
    seen_penalty : float, default=0.0
        Seen-class bias γ of calibrated stacking (Chao et al., 2016), subtracted from the scores of seen classes. Select it on
        validation classes, never on test data.
    seed : int, default=0
        Seed of all random numbers.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Device of training and prediction.

    Attributes
    ----------
    generator_ : ClassifierGenerator
        Generator network (Eq. 1).
    score_ : Score
        Score function with its learned scale (Eq. 2).
    learned_classifiers_ : Tensor of shape (s, d) or None
        Classifiers of the seen classes, trained directly by ``adapt``.
    history_ : list of dict
        Rounds of self-training, after ``adapt``.

    Examples
    --------
    >>> from sightunseen.data.synthetic_features import World, make_world
    >>> data = make_world(World(n_seen=8, n_unseen=3, images_per_class=5))
    >>> model = CVC(hidden=16, n_steps=20, device="cpu").fit(data.train.X, data.train.y, data.classes)
    >>> model.predict(data.test_unseen.X, "unseen").shape == data.test_unseen.y.shape
    True
    """

    search_space = {"initial_scale": (20.0, 30.0)}
    presets = PRESETS
    adaptation_space = {"classes_per_episode": (32, 64)}

    learned_classifiers_: Tensor | None
    _known_classifiers: Tensor | None  # (c, d), of all classes, after training

    def __init__(
        self,
        hidden: int = 1600,
        output: str = "auto",
        similarity: str = "cosine",
        initial_scale: float = 30.0,
        feature_scaling: str = "none",
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
        self.feature_scaling = feature_scaling
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
        """Return the hyperparameters of ``adapt``, those of :class:`~sightunseen.methods.cvc.transductive.Adaptation`."""
        return asdict(Adaptation())

    def check_adaptation(self, settings: Mapping[str, Any]) -> None:
        """Validate the hyperparameters of ``adapt``; see :meth:`AdaptableClassifier.check_adaptation`."""
        super().check_adaptation(settings)
        Adaptation(**settings)  # validates its hyperparameters

    def classifiers_of(self, labels: ArrayLike) -> Floats:
        """Return the classifiers of classes: generated (Eq. 1) or, for seen classes after ``adapt``, trained directly.

        Parameters
        ----------
        labels : array-like of labels, "all", "seen" or "unseen"
            The classes.

        Returns
        -------
        ndarray of shape (c, d)
            Classifiers.
        """
        return np.asarray(self._classifiers(self.candidates(labels)).cpu().numpy())

    def reference_panels(self) -> dict[str, Any]:
        """Return the methods of the paper's t-SNE figure, by title."""
        return paper_panels(self, "CVC")

    def compared(self, X: ArrayLike, labels: ArrayLike | str | None) -> tuple[Floats, Floats]:
        """Return features (n, d) and classifiers (c, d): the joint embedding space is that of the features.

        See :meth:`ZeroShotClassifier.compared`.
        """
        return self._features(X), self.classifiers_of(self.candidates(labels))

    def classifier_map(self) -> ClassifierMap:
        """Return the generator and, after ``adapt``, the classifiers of the seen classes, for export."""
        generator, learned = self.generator_, self.learned_classifiers_
        return ClassifierMap(
            as_layers(generator.first, generator.second, generator.rectify),
            self.similarity,
            float(self.score_.scale.detach()),
            None if learned is None else learned.detach().cpu().numpy(),
        )

    def check_settings(self) -> None:
        """Validate the hyperparameters; see :meth:`ZeroShotClassifier.check_settings`."""
        super().check_settings()
        check_choice("output", self.output, OUTPUTS)
        check_choice("initialisation", self.initialisation, INITIALISATIONS)
        check_episodic_settings(self)

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
        """Prepare Algorithm 2. Classifiers of seen classes start from the generator, also after an earlier ``adapt``."""
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

    def _build(self, X: Floats | None = None) -> None:
        """Create an untrained generator and score, and drop the classifiers of an earlier fit."""
        if X is not None:
            self._rectify = self.output == "relu" or (self.output == "auto" and bool((X >= 0).all()))
        super()._build(X)
        self.learned_classifiers_ = self._known_classifiers = None

    def _make_networks(self, rng: torch.Generator) -> dict[str, nn.Module]:
        sizes = self.table_.vectors.shape[1], self.hidden, int(self.n_features_in_)
        self.generator_ = ClassifierGenerator(*sizes, self._rectify, self.initialisation, rng)
        self.score_ = Score(self.similarity, self.initial_scale)
        return {"generator": self.generator_, "score": self.score_}

    def _objective(self, X: Tensor, targets: Tensor) -> EpisodicTraining:
        vectors = self._vectors_on_device(self.seen_classes_)
        shape = EpisodeShape(self.classes_per_episode, self.images_per_class, self.episodic)
        return EpisodicTraining(self.generator_, self.score_, vectors, X, targets, shape, self.seed)

    def _end_training(self, training: Training) -> None:
        super()._end_training(training)
        if self.learned_classifiers_ is not None:
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
        super()._forget()
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

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        self._rectify = bool(np.any(arrays.get("generator.rectify", False)))
        further = {"generator.rectify": Expected(kind="b"), "learned_classifiers": Expected("s d", optional=True)}
        return {**super()._expected_arrays(arrays), **further}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        super()._take_arrays(arrays)
        if "learned_classifiers" in arrays:
            self.learned_classifiers_ = self._on_device(arrays["learned_classifiers"])
        self._remember_classifiers()
