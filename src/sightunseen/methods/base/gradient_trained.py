"""Base class of methods that are trained by gradient descent in the training loop."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sightunseen.core.array_checks import Expected
from sightunseen.core.arrays import Floats
from sightunseen.core.checks import check_choice, check_whole
from sightunseen.core.class_table import Labels
from sightunseen.core.errors import SettingsError
from sightunseen.core.lazy import LazyTorch
from sightunseen.core.limits import SEED
from sightunseen.core.randomness import derive_seed
from sightunseen.methods.base.classifier import ZeroShotClassifier
from sightunseen.training import Hook, Objective, Optimisation, Run, Training, train
from sightunseen.training.optimisation import MOMENTUM

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
else:
    torch = LazyTorch()

DEVICES = ("auto", "cpu", "cuda")


class GradientTrainedClassifier(ZeroShotClassifier):
    """Abstract base class of gradient-trained methods.

    A subclass implements :meth:`_make_networks`, :meth:`_objective` and :meth:`_score_images`. It has the hyperparameters
    ``n_steps``, ``learning_rate``, ``seed`` and ``device``, and optionally ``schedule``, ``weight_decay``, ``clip_norm`` and
    ``momentum``; see :class:`~sightunseen.training.Optimisation`.

    Attributes
    ----------
    networks_ : mapping of str to nn.Module
        Trained networks by name.
    n_steps_ : int
        Number of gradient steps taken.
    losses_ : list of dict
        Training loss: points with ``steps`` and ``loss``.
    curve_ : list of dict
        Measurements of hooks during training.
    engine_ : str
        Name of the training engine.
    """

    quick = False

    n_steps: int
    learning_rate: float
    seed: int
    device: str
    networks_: Mapping[str, nn.Module]

    @abstractmethod
    def _make_networks(self, rng: torch.Generator) -> Mapping[str, nn.Module]:
        """Create untrained networks by name, sized by ``table_``, ``n_features_in_`` and the hyperparameters.

        The initial weights are drawn from ``rng``. Other state of a network that must be saved is a buffer.
        """

    @abstractmethod
    def _objective(self, X: Tensor, targets: Tensor) -> Objective:
        """Create the objective for features (n, d) and targets (n,), the indices of their classes in ``seen_classes_``."""

    @abstractmethod
    def _score_images(self, X: Tensor, prepared: Any) -> Tensor:
        """Compute scores (n, c) of features (n, d) for candidates prepared by :meth:`_prepare`."""

    def _prepare(self, labels: Labels) -> Any:
        """Compute what depends only on the candidates; by default their class vectors (c, a)."""
        return self._vectors_on_device(labels)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: Any = None,
        *,
        hooks: Sequence[Hook] = (),
        stage: str = "training",
        stop_after: int | None = None,
    ) -> Self:
        """Fit the model to images of seen classes.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Features of the images.
        y : array-like of shape (n,)
            Labels of the images.
        classes : ClassTable, mapping of label to vector or text, DataFrame or array-like, default=None
            Seen and unseen classes, in any form of :func:`~sightunseen.as_class_table`. None: one-hot vectors of the labels;
            then no unseen class can be recognised.
        hooks : sequence of Hook, default=()
            Callbacks of the training loop.
        stage : str, default="training"
            Name of the run in checkpoints and progress bars.
        stop_after : int, default=None
            Number of steps after which training ends, without changing the learning rate schedule. None: ``n_steps``.

        Returns
        -------
        self
            The fitted model.

        Raises
        ------
        SettingsError
            If a hyperparameter is invalid.
        DataError
            If features, labels or class vectors are invalid.
        """
        train(self.fitting(X, y, classes, hooks=hooks, stage=stage, stop_after=stop_after))
        return self

    def fitting(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: Any = None,
        *,
        hooks: Sequence[Hook] = (),
        stage: str = "training",
        stop_after: int | None = None,
    ) -> Run:
        """Prepare the training run of :meth:`fit`, for :func:`~sightunseen.training.train_together`.

        Parameters are those of :meth:`fit`.

        Returns
        -------
        Run
            Run whose ``model`` is this model; it is fitted when the run has finished.
        """
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
        """Value of ``device`` for training a similar model on a machine that may have no GPU."""
        return "auto" if self.device == "cuda" else self.device

    def check_restored_settings(self) -> None:
        """Validate the hyperparameters of a model that is loaded; ``device="cuda"`` needs no GPU then."""
        device, self.device = self.device, self.any_device
        try:
            self.check_settings()
        finally:
            self.device = device

    def check_settings(self) -> None:
        """Validate the hyperparameters; ``fit`` calls this first.

        Raises
        ------
        SettingsError
            If a hyperparameter has a wrong type or value, or the device is not available.
        """
        super().check_settings()
        check_whole("seed", self.seed, 0, SEED)
        check_choice("device", self.device, DEVICES)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise SettingsError("device='cuda', but torch finds no GPU on this machine. Use device='auto' or 'cpu'.")
        self._optimisation()  # validates its hyperparameters

    # -- inside --------------------------------------------------------------------------------------------------------

    def _after_fit(self, X: Floats, y: Labels) -> None:
        """Finish the fit after training, given scaled features (n, d) and labels (n,)."""

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
        """Create untrained networks; ``X`` are the scaled training features, or None before loading weights.

        Before loading, networks have shapes but no memory: the sizes in a model folder are not yet checked.
        """
        # A model trained on a GPU can be loaded on a machine without one.
        self._device = torch.device("cuda" if self.device != "cpu" and torch.cuda.is_available() else "cpu")
        rng = torch.Generator().manual_seed(derive_seed(self.seed, "first weights"))
        if X is None:
            with torch.device("meta"):
                self.networks_ = self._make_networks(rng)
        else:
            self.networks_ = {name: network.to(self._device) for name, network in self._make_networks(rng).items()}
        self.n_steps_ = 0

    def _trained_parameters(self) -> list[nn.Parameter]:
        """All trainable parameters of the networks, in order."""
        parameters = [parameter for network in self.networks_.values() for parameter in network.parameters()]
        return [parameter for parameter in parameters if parameter.requires_grad]

    def _end_training(self, training: Training) -> None:
        self.losses_, self.curve_, self.engine_ = training.loss_curve(), training.curve, training.engine.name

    def _indices(self, labels: Labels, y: Labels) -> Tensor:
        """Indices (n,) of labels y in the sorted ``labels``."""
        return torch.as_tensor(np.searchsorted(labels, y), device=self._device)

    def _on_device(self, array: NDArray[Any]) -> Tensor:
        with warnings.catch_warnings():
            # The tensor shares the array's memory. torch warns if that is read-only (a mapped file); nothing writes to it.
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

    def _expected_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Expected]:
        self._build()
        expected = {
            f"{prefix}.{name}": Expected(" ".join(map(str, tensor.shape)), "f" if tensor.is_floating_point() else "i")
            for prefix, network in self.networks_.items()
            for name, tensor in network.state_dict().items()
        }
        return {**expected, "n_steps": Expected(kind="i", least=0)}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.n_steps_ = int(arrays["n_steps"])
        for prefix, network in self.networks_.items():
            weights = {
                name: torch.tensor(arrays[f"{prefix}.{name}"], dtype=tensor.dtype, device=self._device)
                for name, tensor in network.state_dict().items()
            }
            network.load_state_dict(weights, assign=True)  # in place of tensors without memory
