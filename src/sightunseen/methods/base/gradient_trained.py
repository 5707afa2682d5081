"""Methods that the training loop learns: networks, a loss over tasks, and scores."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from sightunseen.core.checks import check_choice, check_whole
from sightunseen.core.class_table import ClassTable, Labels
from sightunseen.core.errors import SettingsError
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.classifier import Floats, ZeroShotClassifier
from sightunseen.training import Hook, Objective, Optimisation, Run, Training, train
from sightunseen.training.optimisation import MOMENTUM

DEVICES = ("auto", "cpu", "cuda")


class GradientTrainedClassifier(ZeroShotClassifier):
    """A method fills in :meth:`_make_networks`, :meth:`_objective` and :meth:`_score_images`.

    It has the settings ``n_steps``, ``learning_rate``, ``seed`` and ``device``, and may have ``schedule``, ``weight_decay``,
    ``clip_norm`` and ``momentum``; a task is whatever one step of its training looks at. After ``fit``: ``networks_`` by
    name, ``n_steps_`` trained, ``losses_``, ``curve_`` (what hooks measured) and ``engine_``.
    """

    n_steps: int
    learning_rate: float
    seed: int
    device: str
    networks_: Mapping[str, nn.Module]

    @abstractmethod
    def _make_networks(self, rng: torch.Generator) -> Mapping[str, nn.Module]:
        """Untrained networks by name, their sizes taken from ``table_``, ``n_features_in_`` and the settings.

        All randomness of the first weights comes from ``rng``; what else a network must remember is a buffer of it.
        """

    @abstractmethod
    def _objective(self, X: Tensor, places: Tensor) -> Objective:
        """The loss of ``networks_`` on features (n, d) whose classes stand at ``places`` (n,) of ``seen_classes_``."""

    @abstractmethod
    def _score_images(self, X: Tensor, prepared: Any) -> Tensor:
        """Scores (n, c) of features (n, d), with what :meth:`_prepare` made of the candidates."""

    def _prepare(self, labels: Labels) -> Any:
        """What of the scores depends on the candidates alone; their vectors (c, a), unless a method does more."""
        return self._vectors_on_device(labels)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ClassTable | Mapping[Any, ArrayLike] | None = None,
        *,
        hooks: Sequence[Hook] = (),
        stage: str = "training",
        stop_after: int | None = None,
    ) -> Self:
        """Train.

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
        X: ArrayLike,
        y: ArrayLike,
        classes: ClassTable | Mapping[Any, ArrayLike] | None = None,
        *,
        hooks: Sequence[Hook] = (),
        stage: str = "training",
        stop_after: int | None = None,
    ) -> Run:
        """What :meth:`fit` trains, ready to be trained; ``training.train_together`` takes many of them."""
        images = self._begin_fit(X, y, classes)
        self._build(images[0])
        objective = self._objective(self._on_device(images[0]), self._indices(self.seen_classes_, images[1]))

        def finish(training: Training) -> None:
            self.n_steps_ = training.steps_done
            self._end_training(training)
            self._after_fit(*images)

        return Run(objective, self._optimisation(), hooks, stage, stop_after, model=self, finish=finish)

    @property
    def any_device(self) -> str:
        """``device`` for training like this model where its GPU may be missing."""
        return "auto" if self.device == "cuda" else self.device

    def check_settings(self) -> None:
        """Refuse settings that cannot be meant; ``fit`` does so first."""
        super().check_settings()
        check_whole("seed", self.seed, 0)
        check_choice("device", self.device, DEVICES)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise SettingsError("device='cuda' was asked for but torch finds no GPU here. Use device='auto' or 'cpu'.")
        self._optimisation()  # an Optimisation checks itself

    # -- inside --------------------------------------------------------------------------------------------------------

    def _after_fit(self, X: Floats, y: Labels) -> None:
        """For a method that does more once training is over, with scaled features."""

    def _optimisation(self) -> Optimisation:
        return Optimisation(
            self.n_steps,
            self.learning_rate,
            getattr(self, "schedule", "constant"),
            getattr(self, "weight_decay", 0.0),
            getattr(self, "clip_norm", None),
            getattr(self, "momentum", MOMENTUM),
        )

    def _build(self, X: Floats | None = None) -> None:
        """Fresh networks; ``X`` are the training features, None where what was learned follows."""
        # A model trained on a GPU also loads where there is none.
        self._device = torch.device("cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu")
        rng = torch.Generator().manual_seed(derive_seed(self.seed, "first weights"))
        networks = self._make_networks(rng)
        self.networks_ = {name: network.to(self._device) for name, network in networks.items()}
        self.n_steps_ = 0

    def _trained_parameters(self) -> list[nn.Parameter]:
        """Every parameter of the networks, in order."""
        parameters = [parameter for network in self.networks_.values() for parameter in network.parameters()]
        return [parameter for parameter in parameters if parameter.requires_grad]

    def _end_training(self, training: Training) -> None:
        self.losses_, self.curve_, self.engine_ = training.loss_curve(), training.curve, training.engine.name

    def _indices(self, labels: Labels, y: Labels) -> Tensor:
        """The place of each y among the sorted labels, (n,)."""
        return torch.as_tensor(np.searchsorted(labels, y), device=self._device)

    def _on_device(self, array: NDArray[Any]) -> Tensor:
        with warnings.catch_warnings():
            # Shared, not copied. torch warns of memory it must not write to, such as a mapped file's; nothing here writes.
            warnings.filterwarnings("ignore", message=".*not writable", category=UserWarning)
            return torch.as_tensor(np.asarray(array, dtype=np.float32), device=self._device)

    def _vectors_on_device(self, labels: Labels) -> Tensor:
        return self._on_device(self._vectors_of(labels))

    def _scorer(self, labels: Labels) -> Callable[[Floats], Floats]:
        with torch.no_grad():
            prepared = self._prepare(labels)

        @torch.no_grad()
        def scores(X: Floats) -> Floats:
            return np.asarray(self._score_images(self._on_device(X), prepared).cpu().numpy())

        return scores

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = {
            f"{prefix}.{name}": tensor.cpu().numpy()
            for prefix, network in self.networks_.items()
            for name, tensor in network.state_dict().items()
        }
        return {**arrays, "n_steps": np.array(self.n_steps_)}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._build()
        self.n_steps_ = int(arrays["n_steps"])
        for prefix, network in self.networks_.items():
            network.load_state_dict({name: torch.from_numpy(arrays[f"{prefix}.{name}"]) for name in network.state_dict()})
